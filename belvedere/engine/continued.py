"""Events of relations that a changed script computes anew: what was told is not told again, only what differs.

In: the pipeline, what is stored, the relations that tell of changes. Out: those that go on, and the rows of which they told. The difference
is made where views heal (`belvedere.engine.healing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.rows import Rows
from belvedere.schema import Schema
from belvedere.store.protocol import Transaction

if TYPE_CHECKING:
    from belvedere.engine.tables import StoredRelations, TablePlan


def continued_tellers(pipeline: Pipeline, now: StoredRelations, tellers: frozenset[str]) -> frozenset[str]:
    """Return those of `tellers` that go on: what they tell has the same columns, of rows that have the same key, and are stored."""
    stored = {t.name: t.schema for t in now.tables if t.name in now.filled_tables}
    read = {s.relation for stage in pipeline.stages for s in stage.slots}
    found = set()
    for stage in pipeline.stages:
        if stage.output in tellers - read:
            observed, schema = stage.slots[0].relation, pipeline.relations[stage.output].schema
            is_same = observed in stored and _keys(stored[observed]) == _keys(pipeline.relations[observed].schema)
            if is_same and _types(stored[stage.output]) == _types(schema):
                found.add(stage.output)
    return frozenset(found)


def _keys(schema: Schema) -> list[tuple[str, pa.DataType]] | None:
    return None if schema.key is None else [(n, schema[n].type) for n in schema.key]


def _types(schema: Schema) -> list[tuple[str, pa.DataType]]:
    return [(c.name, c.type) for c in schema]


def former_results(plan: TablePlan, pipeline: Pipeline, transaction: Transaction, compute: Compute) -> dict[str, Rows]:
    """The rows, before anything changes, of relations that are computed anew and of whose changes somebody goes on to tell."""
    told = {s.relation for stage in pipeline.stages if stage.output in plan.continued for s in stage.slots}
    return {n: compute.keep(transaction.lookup(n)) for n in told & plan.fresh}
