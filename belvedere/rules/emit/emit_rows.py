"""Rows of an EMIT: the time of each change, the net change of the emitted table, and the order of the changelog.

In: changes, in the driver or in files. Out: the changes with their time of emission, netted by key, or sorted and
numbered. Rows in the driver are processed there; others are processed by Spark or batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.engine.rows.ordered_rows import in_order, stream, whole_runs
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.rules.emit.emission import Emission, orderable
from belvedere.schema import KEY, WEIGHT

GROUP = "_group"
AT = "_ptime"
KIND = "_kind"
"""Column with the kind of change of a row. 0: deleted, 1: changed, 2: new."""
CHANGE = "_change"
"""Column with the number of the change within an epoch to which a row belongs."""
COMPARED = 1_000
"""Maximum number of rows held as Python values at once; they take about ten times the memory."""


def timed(changes: Rows, path: str, at: Mapping[int, int], work: Work) -> Rows:
    """Return the changes with their time of emission. Their group is in the column `path`."""
    fields = (pa.field(GROUP, pa.int64()), pa.field(AT, pa.int64()))
    schema = changes.schema
    for field in fields:
        schema = schema.append(field)

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            groups = batch.column(path)
            times = pa.array([at[g] for g in groups.to_pylist()], pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, groups, times], schema=schema)

    return work.mapped(changes, schema, made)


def net_change(changes: Sequence[Rows], view: str, work: Work) -> Rows:
    """Return the net change of the emitted table: per row the first retraction and the last insertion."""
    compute, names = work.compute, [n for n in changes[0].schema.names if n not in (GROUP, AT)]
    if len(changes) == 1:
        return work.where(changes[0], _all, names)
    if all(c.is_collected for c in changes):
        table = pa.concat_tables([c.table.select(names) for c in changes])
        return Rows(_net(table))
    schema = pa.schema([changes[0].schema.field(n) for n in names])
    number = pa.field(CHANGE, pa.int64())
    numbered = (
        t.select(names).append_column(number, pa.repeat(pa.scalar(n, pa.int64()), t.num_rows))
        for n, c in enumerate(changes)
        for t in c.tables()
    )
    rows = compute.keep(stream(schema.append(number), numbered))
    ordered = in_order(rows, [quote(n) for n in (KEY, CHANGE, WEIGHT)], view, compute)
    pieces = whole_runs(ordered.batches(), KEY, compute.memory.chunk)
    return compute.keep(stream(schema, (_net(t.select(names)) for t in pieces)))


def _all(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(True), batch.num_rows)


def _net(table: pa.Table) -> pa.Table:
    """Return per `_key` the first retraction and the last insertion, or nothing if both are equal."""
    codes = combined(table[KEY]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    comes = combined(table[WEIGHT]).to_numpy(zero_copy_only=False) > 0
    _, first = np.unique(codes, return_index=True)
    _, behind = np.unique(codes[::-1], return_index=True)
    last = table.num_rows - 1 - behind
    # a row inserted before any retraction was new; a row retracted last is gone
    goes, stays = ~comes[first], comes[last]
    both = np.flatnonzero(goes & stays)
    same = [
        n for part in np.split(both, range(COMPARED, len(both), COMPARED)) for n in _equal(table, first, last, part)
    ]
    goes[same] = stays[same] = False
    return table.take(pa.array(np.sort(np.concatenate([first[goes], last[stays]])), pa.int64()))


def _equal(table: pa.Table, first: Any, last: Any, keys: Any) -> list[int]:
    """Return the keys whose two rows are equal."""
    old, new = (
        table.drop_columns([WEIGHT]).take(pa.array(rows[keys], pa.int64())).to_pylist() for rows in (first, last)
    )
    return [int(n) for n, a, b in zip(keys, old, new, strict=True) if repr(a) == repr(b)]


def emission_order(
    changes: Sequence[Rows], emission: Emission, key: tuple[str, ...], view: str, compute: Compute
) -> Rows:
    """Return the changes in the order of the changelog: by time of emission, group and row; an undo before its
    replacement.

    Within a group, deleted rows come first, then changed rows, then new rows.
    """
    if all(c.is_collected for c in changes) and sum(c.num_rows for c in changes) <= compute.small:
        table = pa.concat_tables([c.table for c in changes])
        return Rows(table.take(pa.array(_order(table, emission, key), pa.int64())))
    rows = compute.keep(stream(changes[0].schema, chain.from_iterable(c.tables() for c in changes)))
    compute.put(view, rows)
    names = ", ".join(quote(n) for n in rows.schema.names)
    same = f"OVER (PARTITION BY {quote(AT)}, {quote(GROUP)}, {quote(KEY)})"
    went, came = (f"max(CAST({quote(WEIGHT)} {sign} 0 AS INT)) {same}" for sign in "<>")
    kind = f"CASE WHEN {went} = 0 THEN 2 WHEN {came} = 0 THEN 0 ELSE 1 END AS {quote(KIND)}"
    return compute.compute(
        f"SELECT {names} FROM (SELECT *, {kind} FROM {quote(compute.view_name(view))}) AS r ORDER BY "
        f"{_words(emission, key, rows.schema)}",
        rows.schema,
        ordered=True,
    )


def _words(emission: Emission, key: tuple[str, ...], schema: pa.Schema) -> str:
    """Return the order of `_order` as Spark SQL.

    Spark does not order maps, so nested values are ordered by their text.
    """

    def word(name: str) -> str:
        nested = pa.types.is_nested(schema.field(name).type)
        return f"CAST({quote(name)} AS STRING) NULLS LAST" if nested else f"{quote(name)} NULLS LAST"

    times, rows = map(word, emission.group), map(word, key)
    return ", ".join((quote(AT), *times, quote(GROUP), quote(KIND), *rows, quote(KEY), quote(WEIGHT)))


def _order(table: pa.Table, emission: Emission, key: tuple[str, ...]) -> list[int]:
    rows = [tuple(map(orderable, r)) for r in zip(*(table[n].to_pylist() for n in key), strict=True)] or [
        ()
    ] * table.num_rows
    times = list(zip(*(table[n].to_pylist() for n in emission.group), strict=True)) or [()] * table.num_rows
    at, groups, weights = table[AT].to_pylist(), table[GROUP].to_pylist(), table[WEIGHT].to_pylist()
    keys = table[KEY].to_pylist()
    marks = list(zip(at, groups, keys, strict=True))
    went = {m for m, w in zip(marks, weights, strict=True) if w < 0}
    came = {m for m, w in zip(marks, weights, strict=True) if w > 0}

    def place(index: int) -> tuple[Any, ...]:
        mark = marks[index]
        kind = 1 if mark in went and mark in came else (0 if mark in went else 2)
        group = tuple(map(orderable, times[index]))
        return at[index], group, groups[index], kind, rows[index], keys[index], weights[index]

    return sorted(range(table.num_rows), key=place)


def before_epoch(rows: Rows, delta: Rows, path: str, groups: pa.Array, view: Sequence[str], compute: Compute) -> Rows:
    """Return the rows of some groups before a change, from their rows after it. `view`: free view names."""
    for name, found in zip(view, (rows, delta, Rows(pa.table({GROUP: groups}))), strict=True):
        compute.put(name, found)
    stored, changed, requested = (quote(compute.view_name(v)) for v in view)
    columns = ", ".join(quote(n) for n in rows.schema.names)
    touched = f"SELECT 1 FROM {changed} AS c WHERE c.{quote(KEY)} = r.{quote(KEY)}"
    return compute.compute(
        f"SELECT {columns} FROM {stored} AS r WHERE NOT EXISTS ({touched}) UNION ALL "
        f"SELECT {columns} FROM {changed} WHERE {quote(WEIGHT)} < 0 AND {quote(path)} IN (SELECT {quote(GROUP)} "
        f"FROM {requested})",
        rows.schema,
    )
