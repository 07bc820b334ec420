"""Drop the rows of WINDOW BY's state before the first that may still matter, partition by partition.

In: the rows of the changed partitions, how far their windows reach, the bound on their time. Out: fewer stored rows. Few rows are looked at
in the driver; of many Spark sorts the windows by partition, and one of them at a time comes to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.settling import Settling
from belvedere.lang.window_by_resume import AFTER, FROM, TO
from belvedere.plan.window_by import Resume
from belvedere.schema import KEY, TIMESTAMP, Column, Schema
from belvedere.spark.exchange import Rows, combined, keys_of
from belvedere.spark.identity import key_text
from belvedere.spark.ordered import stream
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.render import quote
from belvedere.spark.stages import Context
from belvedere.spark.window_by.maintain import window_extents

LAST = int(np.iinfo(np.int64).max)
Span = tuple[int, int, int]
"""The times of a window's start, of its end, and of the row after it; LAST where there is none."""
SPANS = pa.schema(
    [("part", pa.string()), ("below", pa.int64()), ("first", pa.int64()), ("last", pa.int64()), ("after", pa.int64())]
)
KEPT = pa.schema([("part", pa.string()), ("kept", pa.int64())])
GONE = pa.schema([pa.field(KEY, pa.string(), nullable=False)])
PIECE = 10_000


def forget_settled(prepared: PreparedStage, context: Context, settling: Settling, rows: Rows, bound: int) -> None:
    """Take the rows out that no later row can bring into a window. The rows are the view of the stage's slot."""
    times = (
        pc.min(micros(pa.chunked_array([b.column(0)]))).as_py() for b in rows.batches([settling.resume.column]) if b.num_rows
    )
    if min(times, default=LAST) >= bound:
        return
    few = rows.is_collected and rows.num_rows <= context.exchange.small
    gone = (_few if few else _many)(prepared, context, settling, rows, bound)
    if not gone.is_empty:
        nothing = rows.schema.empty_table().to_reader()
        context.overwrite(prepared.slots[0][0].relation, KEY, keys_of([(gone, KEY)]), nothing)


def _few(prepared: PreparedStage, context: Context, settling: Settling, rows: Rows, bound: int) -> Rows:
    spark, operator = context.exchange.spark, prepared.windows[0]
    reach = window_extents(spark, operator.block, operator.frames(spark), settling.resume).toArrow()
    by = settling.block.partition
    spans: dict[Any, list[Span]] = defaultdict(list)
    bounds = zip(*(micros(reach[n]).to_pylist() for n in (FROM, TO, AFTER)), strict=True)
    for key, span in zip(_partitions(reach, tuple(f"$by{n}" for n in range(len(by)))), bounds, strict=True):
        spans[key].append(span)
    members: dict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(_partitions(rows.table, by)):
        members[key].append(place)
    times = micros(rows.table[settling.resume.column]).to_numpy()
    gone = [p for key, places in members.items() for p in settled(times[places], spans[key], settling.resume, bound, places)]
    return Rows(rows.table.select([KEY]).take(pa.array(gone, pa.int64())))


def _many(prepared: PreparedStage, context: Context, settling: Settling, rows: Rows, bound: int) -> Rows:
    exchange, slot = context.exchange, prepared.slots[0][0]
    spark, operator = exchange.spark, prepared.windows[0]
    by = settling.block.partition
    names = [f"$by{n}" for n in range(len(by))]
    frame = window_extents(spark, operator.block, operator.frames(spark), settling.resume)
    windows, kept = (prepared.view(slot, name) for name in ("extents", "kept"))
    reach = pa.schema([*((n, pa.int64()) for n in (FROM, TO, AFTER)), *((n, pa.string()) for n in names)])
    exchange.put(windows, Rows(frame=frame, schema=reach, count=rows.num_rows))  # about as many
    types = [rows.schema.field(n).type for n in by]
    time = _micros_sql(settling.resume.column)
    own = f"(SELECT {_part(by, types)} AS part, {time} AS at, {quote(KEY)} FROM {quote(exchange.view_name(prepared.view(slot, 'rows')))})"
    reaches = ", ".join(f"{_micros_sql(n)} AS {quote(w)}" for n, w in ((FROM, "first"), (TO, "last"), (AFTER, "after")))
    spans = exchange.compute(
        f"SELECT p.part, p.below, w.`first`, w.`last`, w.`after` "
        f"FROM (SELECT part, max(CASE WHEN at < {bound} THEN at END) AS below FROM {own} AS r GROUP BY part) AS p "
        f"LEFT JOIN (SELECT {_part(names, types)} AS part, {reaches} FROM {quote(exchange.view_name(windows))}) AS w "
        "ON p.part = w.part ORDER BY p.part, w.`first` DESC, w.`last` DESC, w.`after` DESC",
        SPANS,
    )
    exchange.put(kept, exchange.keep(stream(KEPT, _kept(spans, settling.resume, bound))))
    return exchange.compute(
        f"SELECT r.{quote(KEY)} FROM {own} AS r JOIN {quote(exchange.view_name(kept))} AS k ON r.part = k.part WHERE r.at < k.kept",
        GONE,
    )


def _kept(sorted_spans: Rows, resume: Resume, bound: int) -> Iterator[pa.Table]:
    """Per partition the time from which on rows stay."""
    values = (r for b in sorted_spans.batches() for r in zip(*(c.to_pylist() for c in b.columns), strict=True))
    found: list[tuple[str, int]] = []
    for part, group in groupby(values, key=lambda r: r[0]):
        rows = iter(group)
        head = next(rows)  # a partition without windows has one row without times
        spans = ((first, last, after) for _, _, first, last, after in chain((head,), rows) if first is not None)
        found.append((part, first_kept(head[1], spans, resume, bound)))
        if len(found) >= PIECE:
            yield _table(found)
            found = []
    yield _table(found)


def _table(found: list[tuple[str, int]]) -> pa.Table:
    return pa.table([[p for p, _ in found], [k for _, k in found]], schema=KEPT)


def settled(times: Any, spans: list[Span], resume: Resume, bound: int, places: list[int]) -> list[int]:
    """Of the rows of one partition, with their times and the reach of its windows, those that no later row can bring into a window."""
    below = times[times < bound]
    kept = first_kept(int(below.max()) if len(below) else None, sorted(spans, reverse=True), resume, bound)
    return [place for place, time in zip(places, times, strict=True) if time < kept]


def first_kept(below: int | None, spans: Iterable[Span], resume: Resume, bound: int) -> int:
    """The time from which on the rows of a partition stay. `below`: its last time below the bound; `spans`: from the last one on.

    No later row has a time below `bound`. A row at or after the start of an open window stays, and so does the last one where windows look
    ahead: what it starts or ends is not known yet.
    """
    kept = below if resume.ahead and below is not None else bound
    for first, last, after in spans:
        # a missing time is LAST; a tumbling window that reaches into what is kept (by rows of equal time) stays whole
        if (after if resume.ahead else last) >= bound or (resume.tumbling and last >= kept):
            kept = min(kept, first)
    return kept


def micros(column: pa.ChunkedArray) -> pa.Array:
    """Times as microseconds since 1970; the greatest number where there is none."""
    instants = column.cast(TIMESTAMP) if pa.types.is_timestamp(column.type) else column.cast(pa.timestamp("us")).cast(TIMESTAMP)
    return combined(pc.fill_null(instants.cast(pa.int64()), LAST))


def _micros_sql(name: str) -> str:
    """The same in Spark."""
    return f"coalesce(unix_micros(CAST({quote(name)} AS TIMESTAMP)), {LAST})"


def _part(names: Iterable[str], types: Iterable[pa.DataType]) -> str:
    """A text for each partition, in Spark."""
    columns = tuple(Column(n, t) for n, t in zip(names, types, strict=True))
    return key_text(Schema(columns, tuple(c.name for c in columns)))


def _partitions(table: pa.Table, names: tuple[str, ...]) -> list[Any]:
    """The partition of every row, as a value to look up by."""
    columns = [[repr(v) for v in table[n].to_pylist()] for n in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
