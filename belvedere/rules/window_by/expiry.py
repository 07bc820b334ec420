"""Drops rows of WINDOW BY's state that no later window needs, partition by partition.

In: the rows of the changed partitions, the reach of their windows, the bound on their time. Out: fewer stored rows. Few
rows are processed in the driver. For many rows, Spark sorts the windows by partition, and the driver reads one
partition at a time. If windows look back (PREV, LABEL), rows of final windows stay for the next ones; the stage's state
holds the time from which windows are not final.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Relation, delta_schema
from belvedere.engine.rows.epoch_rows import Rows, combined, keys_of
from belvedere.engine.rows.ordered_rows import stream
from belvedere.engine.sql.row_identity import key_text
from belvedere.engine.sql.stage_sql import ROWS
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.kernels.search import GREATEST as LAST
from belvedere.kernels.search import LEAST as FIRST
from belvedere.plan.bound_rules import Known
from belvedere.plan.bounds import bounds_of
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.predicate_window import (
    AFTER,
    FROM,
    LABEL,
    TO,
    Neighbour,
    PredicateWindow,
    Resume,
    WindowEnd,
    WindowForm,
)
from belvedere.rules.window_by.affected_windows import reach_rows
from belvedere.schema import KEY, TIMESTAMP, Column, Schema

ROW, SINCE = "row", "since"
"""Columns, beside PARTITION BY, of the relation that stores from which row and time on windows are not final."""
WindowTimes = tuple[int, int, int, int]
"""The times of a window's label (or start), of its start, of its end, and of the row after it; LAST if there is none.
"""
SPANS = pa.schema(
    [
        (n, pa.string() if n == "part" else pa.int64())
        for n in ("part", "below", "settled", "at", "first", "last", "after")
    ]
)
KEPT = pa.schema([("part", pa.string()), ("since", pa.int64()), ("kept", pa.int64())])
GONE = pa.schema([pa.field(KEY, pa.string(), nullable=False)])
PIECE = 10_000
FINAL = "settled"
"""Name of the view of the stage's state: the times from which windows are not final."""


@dataclass(frozen=True)
class Settling:
    """The data for dropping final rows.

    `source` is the input's plan down to the catalog's inputs: it gives the bound on the time column.
    """

    block: PredicateWindow
    resume: Resume
    source: Node

    def bound(self, inputs: Known) -> int:
        """Return the bound in microseconds: no later row has a time below it."""
        return bounds_of(self.source, inputs).get(self.resume.column, NEVER)


@dataclass(frozen=True)
class WindowBounds:
    """Windows with labels (or starts) from `since` on are not final; rows from `rows` on stay."""

    since: int
    rows: int


def forget_final(work: Work, settling: Settling, rows: Rows, bound: int) -> None:
    """Delete the stored rows that no later row can bring into a window. The rows are the view of the stage's slot."""
    times = (
        pc.min(micros(pa.chunked_array([b.column(0)]))).as_py()
        for b in rows.batches([settling.resume.column])
        if b.num_rows
    )
    if min(times, default=LAST) >= bound:
        return
    few = rows.is_collected and rows.num_rows <= work.compute.small and not settling.resume.looks_back
    gone = (_few if few else _many)(work, settling, rows, bound)
    if not gone.is_empty:
        work.overwrite(work.slots[0][0].relation, KEY, keys_of([(gone, KEY)]), ())


def _state(work: Work) -> Relation | None:
    """Return the relation with the time from which windows are not final, if windows look back."""
    return next(iter(work.prepared.states.values()), None)


def open_rows(work: Work, settling: Settling) -> Rows:
    """Return the keys of the rows, in the view of the stage's slot, at which windows are not final."""
    final = work.view(work.slots[0][0].name, FINAL)
    own = _own(work, settling, [KEY])
    text = f"SELECT r.{quote(KEY)} FROM {own} AS r LEFT JOIN {final} AS s ON r.part = s.{quote(ROW)}"
    return work.compute.compute(f"{text} WHERE s.{quote(SINCE)} IS NULL OR r.at >= s.{quote(SINCE)}", GONE)


def _few(work: Work, settling: Settling, rows: Rows, bound: int) -> Rows:
    reach = _reach(work, settling, rows).table
    by = settling.block.spec.keys
    spans: dict[Any, list[WindowTimes]] = defaultdict(list)
    nothing = [LAST] * reach.num_rows
    found = {n: micros(reach[n]).to_pylist() for n in (LABEL, FROM, TO, AFTER) if n in reach.column_names}
    bounds = zip(
        found.get(LABEL, found[FROM]), found[FROM], found.get(TO, nothing), found.get(AFTER, nothing), strict=True
    )
    for key, span in zip(_partitions(reach, settling.block.partition), bounds, strict=True):
        spans[key].append(span)
    members: dict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(_partitions(rows.table, by)):
        members[key].append(place)
    times = micros(rows.table[settling.resume.column]).to_numpy()
    gone = [
        p
        for key, places in members.items()
        for p in final_places(times[places], spans[key], settling.resume, bound, places)
    ]
    return Rows(rows.table.select([KEY]).take(pa.array(gone, pa.int64())))


def _many(work: Work, settling: Settling, rows: Rows, bound: int) -> Rows:
    compute, scan, resume = work.compute, work.slots[0][0].name, settling.resume
    state = _state(work)
    own = _own(work, settling, [KEY])
    reach = _put_times(work, settling, _reach(work, settling, rows))
    before = f"SELECT {quote(ROW)} AS part, {quote(SINCE)} AS settled FROM {work.view(scan, FINAL)}"
    if state is None:
        before = "SELECT '' AS part, 0L AS settled WHERE FALSE"
    spans = compute.compute(
        f"SELECT p.part, p.below, s.settled, w.at, w.`first`, w.`last`, w.`after` "
        f"FROM (SELECT part, max(CASE WHEN at < {bound} THEN at END) AS below FROM {own} AS r GROUP BY part) AS p "
        f"LEFT JOIN ({before}) AS s ON p.part = s.part LEFT JOIN {reach} AS w ON p.part = w.part "
        "ORDER BY p.part, w.at DESC, w.`first` DESC, w.`last` DESC, w.`after` DESC",
        SPANS,
        ordered=True,
    )
    kept = work.view(scan, "kept")
    work.put(scan, "kept", compute.keep(stream(KEPT, _retained(spans, resume, is_pinned(settling), bound))))
    if (
        Neighbour.PREVIOUS in resume.neighbours and resume.form is not WindowForm.LABELLED
    ):  # the last tuple before stays too
        longer = compute.compute(
            f"SELECT k.part, k.since, coalesce(max(t.at), k.kept) AS kept FROM {kept} AS k "
            f"LEFT JOIN {own} AS t ON k.part = t.part AND t.at < k.since GROUP BY k.part, k.since, k.kept",
            KEPT,
        )
        work.put(scan, "kept", longer)
    if state is not None:
        _settle(work, settling, state, kept)
    text = f"SELECT r.{quote(KEY)} FROM {own} AS r JOIN {kept} AS k ON r.part = k.part WHERE r.at < k.kept"
    return compute.compute(text, GONE)


def is_pinned(settling: Settling) -> bool:
    """Return whether a label without an end stays without one."""
    return (
        settling.resume.form is WindowForm.LABELLED
        and settling.block.ranges is not None
        and settling.block.ranges.end is WindowEnd.BEFORE_LABEL
    )


def _settle(work: Work, settling: Settling, state: Relation, kept: str) -> None:
    """Store the time from which the windows of the partitions are not final."""
    path = work.slots[0][0].path
    assert path is not None
    by = settling.block.spec.keys
    columns = {ROW: "k.part", SINCE: "k.since", KEY: "k.part", state.paths[0].name: "r.hash"}
    columns |= {f"by{n}": f"r.{quote(f'by{n}')}" for n in range(len(by))}
    schema = delta_schema(state)
    named = ", ".join(f"{columns[n]} AS {quote(n)}" for n in schema.names)
    given = _own(work, settling, [path, *by])
    firsts = ", ".join(f"first({quote(c)}) AS {quote(f'by{n}')}" for n, c in enumerate(by))
    parts = f"(SELECT part, first({quote(path)}) AS hash{', ' * bool(by)}{firsts} FROM {given} AS o GROUP BY part)"
    found = work.compute.compute(f"SELECT {named} FROM {kept} AS k JOIN {parts} AS r ON k.part = r.part", schema)
    work.overwrite(state.name, KEY, keys_of([(found, KEY)]), found)


def _own(work: Work, settling: Settling, columns: Iterable[str]) -> str:
    """Return a query for the rows of the stage's slot: `part`, their partition, `at`, their time, and some columns."""
    slot, relation = work.slots[0]
    by = settling.block.spec.keys
    view = work.view(slot.name, ROWS)
    part = _part(by, [relation.schema[n].type for n in by])
    return (
        f"(SELECT {part} AS part, {_micros_sql(settling.resume.column)} AS at, "
        f"{', '.join(map(quote, columns))} FROM {view})"
    )


def _reach(work: Work, settling: Settling, rows: Rows) -> Rows:
    """Return the reach of the windows over the rows."""
    ranges = settling.block.ranges if settling.resume.form is WindowForm.LABELLED else None
    return reach_rows(work, ranges, settling.resume.column, rows.num_rows)


def _put_times(work: Work, settling: Settling, found: Rows) -> str:
    """Create a view of the reach of windows, with times as numbers and their partition as `part`."""
    scan, node = work.slots[0][0].name, settling.block
    work.put(scan, "extents", found)
    part = _part(node.partition, [node.schema[n].type for n in node.partition])
    there = set(found.schema.names)
    named = (("at", LABEL if LABEL in there else FROM), ("first", FROM), ("last", TO), ("after", AFTER))
    times = ", ".join(f"{_micros_sql(n) if n in there else f'{LAST}L'} AS {quote(word)}" for word, n in named)
    return f"(SELECT {part} AS part, {times} FROM {work.view(scan, 'extents')})"


def _retained(sorted_spans: Rows, resume: Resume, pinned: bool, bound: int) -> Iterator[pa.Table]:
    """Yield per partition the times from which windows are not final, and from which rows stay."""
    values = (r for b in sorted_spans.batches() for r in zip(*(c.to_pylist() for c in b.columns), strict=True))
    found: list[tuple[str, int, int]] = []
    for part, group in groupby(values, key=lambda r: r[0]):
        rows = iter(group)
        head = next(rows)  # a partition without windows has one row without times
        spans = (row[3:] for row in chain((head,), rows) if row[3] is not None)
        kept = first_retained(head[1], spans, resume, bound, FIRST if head[2] is None else head[2], pinned)
        found.append((part, kept.since, kept.rows))
        if len(found) >= PIECE:
            yield _table(found)
            found = []
    yield _table(found)


def _table(found: list[tuple[str, int, int]]) -> pa.Table:
    return pa.table([list(c) for c in zip(*found, strict=True)] if found else [[], [], []], schema=KEPT)


def final_places(times: Any, spans: list[WindowTimes], resume: Resume, bound: int, places: list[int]) -> list[int]:
    """Return the positions of rows in one partition that no later row can bring into a window, from their times and the
    reach of its windows.
    """
    below = times[times < bound]
    kept = first_retained(int(below.max()) if len(below) else None, sorted(spans, reverse=True), resume, bound)
    return [place for place, time in zip(places, times, strict=True) if time < kept.rows]


def first_retained(
    below: int | None,
    spans: Iterable[WindowTimes],
    resume: Resume,
    bound: int,
    final_before: int = FIRST,
    pinned: bool = False,
) -> WindowBounds:
    """Return the times from which the windows of a partition are not final, and from which its rows stay.

    `below` is the partition's last time below the bound, `spans` are its windows from the last final one on. Windows
    before `final_before` are final. `pinned`: windows without an end stay without one. No later row has a time below
    `bound`. A row at or after the start of an open window stays. The last row stays if windows look ahead, since it is
    not known yet what it starts or ends. Windows with LABEL stay from the first open one on. Their starts move on with
    the labels, so the rows from the start of the last final window on stay, with PREV the tuple before it too.
    """
    edge = below if Neighbour.NEXT in resume.neighbours and below is not None else bound
    since = max(final_before, edge)
    # whether a tuple starts the next window may depend on the one after it
    limit = edge if resume.end is WindowEnd.NEXT_START else bound
    following, label, rows = LAST, LAST, LAST
    for span in spans:
        at, first, last, after = span
        if resume.end is WindowEnd.NEXT_START:
            last = after = following
            following = at
        elif pinned and last == LAST:
            last = after = at
        # a missing time is LAST; a tumbling window that reaches into kept rows (by rows of equal time) stays whole
        reaches = resume.form is WindowForm.TUMBLING and resume.end is not WindowEnd.NEXT_START and last >= since
        if at >= final_before and ((after if Neighbour.NEXT in resume.neighbours else last) >= limit or reaches):
            since = min(since, at)
        elif resume.form is WindowForm.LABELLED and at < since:
            if at >= label or label == LAST:  # the last final label and its ties
                label, rows = at, min(rows, FIRST if first == LAST else first)
            elif Neighbour.PREVIOUS not in resume.neighbours:
                break
            elif at < rows:
                rows = at
                break
    return WindowBounds(since, min(rows, since))


def micros(column: pa.ChunkedArray) -> pa.Array:
    """Return times as microseconds since 1970, and the greatest number for NULL."""
    instants = (
        column.cast(TIMESTAMP)
        if pa.types.is_timestamp(column.type)
        else column.cast(pa.timestamp("us")).cast(TIMESTAMP)
    )
    return combined(pc.fill_null(instants.cast(pa.int64()), LAST))


def _micros_sql(name: str) -> str:
    """Return the Spark SQL of `micros`."""
    return f"coalesce(unix_micros(CAST({quote(name)} AS TIMESTAMP)), {LAST})"


def _part(names: Iterable[str], types: Iterable[pa.DataType]) -> str:
    """Return a Spark SQL expression for a text that identifies each partition."""
    columns = tuple(Column(n, t) for n, t in zip(names, types, strict=True))
    return key_text(Schema(columns, tuple(c.name for c in columns)))


def _partitions(table: pa.Table, names: tuple[str, ...]) -> list[Any]:
    """Return the partition of every row, as a value to look up by."""
    columns = [[repr(v) for v in table[n].to_pylist()] for n in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
