"""Inputs with additional columns since their rows were stored, and the conversion of these rows to the present columns.

In: a pipeline, the stored relations. Out: the inputs (with their late rows and histories) that only have new nullable
columns or wider types; for other changed inputs, why their rows are no longer valid. Rows keep their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from belvedere.engine.change.fingerprints import definition_fingerprints
from belvedere.engine.pipeline import Pipeline
from belvedere.functions.widening import misfit
from belvedere.schema import Schema


@dataclass(frozen=True)
class SchemaEvolution:
    """Result for changed inputs: those that have `evolved`, with their former columns, and `misfits` with the
    reason.
    """

    evolved: Mapping[str, Schema]
    misfits: Mapping[str, str]


def evolution_of(
    pipeline: Pipeline, filled: Mapping[str, str], now: Mapping[str, str], stored: Mapping[str, Schema]
) -> SchemaEvolution:
    """Compare inputs with the stored ones.

    `filled` and `now` are the former and present definition fingerprints, `stored` the former columns.
    """
    inputs = {s.output for s in pipeline.stages if s.is_input}
    above = {s.output: s.slots[0].relation for s in pipeline.stages if s.rule == "history"}
    found: dict[str, Schema] = {}
    misfits: dict[str, str] = {}
    for name in (*inputs, *above):
        schema, before = pipeline.relations[name].schema, stored.get(name)
        if (
            before is None
            or name not in filled
            or filled[name] == now[name]
            or (name in above and above[name] not in inputs)
        ):
            continue
        why = misfit(before, schema, schema.key or ())
        if why is None:
            found[name] = Schema(before.columns, schema.key)
        else:
            misfits[name] = why
    found = {n: s for n, s in found.items() if n in inputs or above[n] in found}
    as_if = definition_fingerprints(pipeline, found) if found else {}
    return SchemaEvolution({n: s for n, s in found.items() if as_if[n] == filled[n]}, misfits)


def evolved_rows(rows: pa.RecordBatchReader, requested: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield stored rows with the requested columns: NULL in new ones, and values in their wider types.

    Other columns, such as `_key`, stay.
    """
    for batch in rows:
        columns = [_evolved(batch, field) for field in requested]
        yield pa.RecordBatch.from_arrays(columns, schema=requested)


def _evolved(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    if column.type == field.type:
        return column
    # a BIGINT beyond 2^53 is rounded, as when it is read as a DOUBLE
    return column.cast(field.type, safe=not pa.types.is_floating(field.type))
