"""Take in an epoch's rows of a table without a key: deletions take out equal rows, one for one, the oldest first.

In: rows with their hash and `_weight`. Out: the table's delta. However many rows come and go, and however many rows are equal, what
is looked at in the driver is a piece of the deletions, and one batch of the stored rows at a time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog import Input
from belvedere.errors import fail
from belvedere.schema import KEY, UID, WEIGHT
from belvedere.spark.exchange import Rows, combined, keys_of
from belvedere.spark.merge_sql import view_name
from belvedere.spark.ordered import in_order, stream, whole_runs
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.render import quote
from belvedere.spark.stages import Context, coming, weighted_stream, without


def ingest_bag(prepared: PreparedStage, table: Input, rows: Rows, context: Context) -> Rows:
    """Store what came, take out what goes. Raises B6010 where there is no row to take out."""
    names = without(rows, WEIGHT)
    context.transaction.append(table.id, rows.where(coming, names))
    going = context.exchange.keep(rows.where(lambda b: pc.less(b.column(WEIGHT), 0), names))
    if going.is_empty:
        return rows
    came = context.exchange.keep(rows.where(coming, names))
    gone = context.exchange.keep(stream(context.tables[table.id].arrow, _found(prepared, table, going, context)))
    context.overwrite(table.id, KEY, keys_of([(gone, KEY)]), gone.schema.empty_table().to_reader())
    if came.is_empty:
        return context.exchange.keep(weighted_stream(gone, -1))
    # a row that came and went in the same epoch is no change; rows of this epoch have the greatest numbers
    first = min(pc.min(b.column(0)).as_py() for b in came.batches([UID]) if b.num_rows)
    brief = context.exchange.keep(gone.where(lambda b: pc.greater_equal(b.column(UID), first), [KEY]))
    gone = context.exchange.keep(gone.where(lambda b: pc.less(b.column(UID), first)))
    stays = came if brief.is_empty else _without_keys(came, brief, prepared, context)
    both = chain(weighted_stream(gone, -1), weighted_stream(stays, 1))
    return context.exchange.keep(pa.RecordBatchReader.from_batches(weighted_stream(stays, 1).schema, both))


def _found(prepared: PreparedStage, table: Input, going: Rows, context: Context) -> Iterator[pa.Table]:
    """The stored rows that are taken out."""
    path = prepared.output.paths[0].name
    pieces: Iterator[pa.Table] = iter((going.table,)) if going.is_collected else iter(())
    if not going.is_collected:
        ordered = in_order(going, [quote(path)], view_name(prepared.number, "s0", "going"), context.exchange)
        pieces = whole_runs(ordered.batches(), path, context.exchange.memory.chunk)
    for piece in pieces:
        stored = context.look_up(table.id, path, combined(pc.unique(piece[path])))
        keys = _matches(table, stored, piece)
        for found in stored.tables():
            yield found.filter(pc.is_in(found[KEY], value_set=keys))


def _matches(table: Input, stored: Rows, going: pa.Table) -> pa.Array:
    """For each row to take out the key of one equal stored row, the oldest first."""
    names = [c.name for c in table.schema if not c.hidden]
    rows = going.select(names).to_pylist()
    wanted = Counter(map(_content, rows))
    oldest: dict[Hashable, list[tuple[int, str]]] = {}
    for batch in stored.tables():
        numbers, keys = batch[UID].to_pylist(), batch[KEY].to_pylist()
        for row, number, key in zip(batch.select(names).to_pylist(), numbers, keys, strict=True):
            content = _content(row)
            if not wanted[content]:
                continue  # the hash alone is the same
            heap = oldest.setdefault(content, [])
            if len(heap) < wanted[content]:
                heapq.heappush(heap, (-number, key))
            else:
                heapq.heappushpop(heap, (-number, key))
    for row in rows:
        if len(oldest.get(_content(row), ())) < wanted[_content(row)]:
            raise fail(
                "B6010",
                f'table "{table.name}" has no row {row} to delete',
                hint="a row of a table without a primary key is deleted by giving all its columns",
            )
    return pa.array([key for heap in oldest.values() for _, key in heap], pa.string())


def _without_keys(rows: Rows, brief: Rows, prepared: PreparedStage, context: Context) -> Rows:
    """The rows whose key is not among these."""
    exchange = context.exchange
    if brief.is_collected:
        keys = combined(brief.table[KEY])
        return exchange.keep(rows.where(lambda b: pc.invert(pc.is_in(b.column(KEY), value_set=keys))))
    views = [view_name(prepared.number, "s0", name) for name in ("came", "brief")]
    for view, found in zip(views, (rows, brief), strict=True):
        exchange.put(view, found)
    came, gone = (quote(exchange.view_name(v)) for v in views)
    names = ", ".join(f"c.{quote(n)}" for n in rows.schema.names)
    return exchange.compute(
        f"SELECT {names} FROM {came} AS c LEFT ANTI JOIN {gone} AS g ON c.{quote(KEY)} = g.{quote(KEY)}", rows.schema
    )


def _content(row: dict[str, Any]) -> Hashable:
    # NaN has one text, though it does not equal itself; 0.0 and -0.0 are equal and have two
    return repr([0.0 if isinstance(v, float) and v == 0.0 else v for v in row.values()])
