"""One page of a list as a JSON object: rows between cursors, the cursors around them, whether there are more, and the
total number.

In: a query of the shape PAGE, the rows in which it is nested, the JSON of its rows. Out: SQL of one text. A cursor is a
position in the total order, not a row, so it stays valid when rows are inserted or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from belvedere.store.dialects.dialect import concatenation, joined, literal
from belvedere.store.read.cursors import order_mark
from belvedere.store.read.query import BoundValue, PageNames, Sort, StoreQuery
from belvedere.store.read.sources import SourceRows, Sources, order_text, ordered


def page_text(
    sources: Sources,
    query: StoreQuery,
    rows: SourceRows,
    outer: SourceRows | None,
    objects: Sequence[str],
    columns: Sequence[str],
) -> str:
    """Return the page.

    `objects` are the JSON of a row for each list of nodes, over `columns`. The query reads one row more than it shows.
    """
    assert query.page is not None
    limit = str(query.limit) if isinstance(query.limit, int) else sources.value(query.limit)
    sorts = ordered(query)
    between = sources.rows_of(query, rows, outer, _between(sources, query, rows))
    cursors = bool(query.page.start_cursor or query.page.end_cursor)
    if cursors or query.backward or query.after is not None or query.before is not None:
        order = order_text(sources.sort_keys(_turned(sorts) if query.backward else sorts, rows))
    else:
        order = sources.order_by(query, rows, outer)
    inner = ",".join(f"{rows.column(n)} AS {rows.name(n)}" for n in columns) or "1 AS one"
    shown = [f"{o} AS o{i}" for i, o in enumerate(objects)]
    shown += [f"{cursor_text(sources, query, rows) if cursors else '1'} AS c", "row_number() OVER () AS n"]
    bounds = f" LIMIT {limit}+1" + ("" if query.offset is None else f" OFFSET {sources.value(query.offset)}")
    text = f"SELECT {','.join(shown)} FROM (SELECT {inner} {between}{order}{bounds}) AS {rows.alias}"
    if query.backward:
        text = f"SELECT * FROM ({text}) AS p ORDER BY n DESC"
    if not _reads_rows(query, query.page):
        text = f"SELECT count(*) FROM ({text}) AS r"  # no part converts the rows to one type
    return f"(SELECT {_object(sources, query, query.page, outer, limit)} FROM ({text}) AS q)"


def _reads_rows(query: StoreQuery, names: PageNames) -> bool:
    more = names.has_previous_page if query.backward else names.has_next_page
    return bool(names.nodes or names.start_cursor or names.end_cursor or more)


def _between(sources: Sources, query: StoreQuery, rows: SourceRows) -> list[str]:
    sorts = ordered(query)
    ends = ((sorts, query.after), (_turned(sorts), query.before))
    return [after_place(sources, s, place, rows) for s, place in ends if place is not None]


def _object(sources: Sources, query: StoreQuery, names: PageNames, outer: SourceRows | None, limit: str) -> str:
    within = f"CASE WHEN n<={limit} THEN "
    parts = {alias: sources.dialect.array(f"{within}o{i} END") for i, (alias, _) in enumerate(names.nodes)}
    numbered = f"{within}{sources.dialect.six_digits('n')}||c END"
    ends = [f"""coalesce('\"'||substr({end}({numbered}),7)||'\"','null')""" for end in ("min", "max")]
    first, last = reversed(ends) if query.backward else ends
    parts |= dict.fromkeys(names.start_cursor, first) | dict.fromkeys(names.end_cursor, last)
    sorts, more = ordered(query), f"count(*)>{limit}"
    if names.has_next_page:
        after = _boolean("" if query.backward else more, _others(sources, query, _turned(sorts), query.before, outer))
        parts |= dict.fromkeys(names.has_next_page, after)
    if names.has_previous_page:
        before = _boolean(more if query.backward else "", _others(sources, query, sorts, query.after, outer))
        parts |= dict.fromkeys(names.has_previous_page, before)
    if names.total_count:
        parts |= dict.fromkeys(names.total_count, _count(sources, query, outer))
    parts |= {c.alias: literal(json.dumps(c.text)) for c in names.constants}
    pieces = [
        p for i, alias in enumerate(names.parts) for p in (literal(("," if i else "{") + f'"{alias}":'), parts[alias])
    ]
    return concatenation([*pieces, "'}'"])


def _boolean(*conditions: str) -> str:
    said = [c for c in conditions if c]
    return f"CASE WHEN {' OR '.join(said)} THEN 'true' ELSE 'false' END" if said else "'false'"


def _others(
    sources: Sources,
    query: StoreQuery,
    sorts: Sequence[Sort],
    place: Sequence[BoundValue] | None,
    outer: SourceRows | None,
) -> str:
    """Return a test for rows at or before a position, or an empty text without a position."""
    if place is None:
        return ""
    rows = SourceRows(sources.alias(), query)
    at_or_before = f"({after_place(sources, sorts, place, rows)}) IS NOT TRUE"
    return f"EXISTS (SELECT 1 {sources.rows_of(query, rows, outer, [at_or_before])})"


def _count(sources: Sources, query: StoreQuery, outer: SourceRows | None) -> str:
    return f"(SELECT CAST(count(*) AS text) {sources.rows_of(query, SourceRows(sources.alias(), query), outer)})"


def cursor_text(sources: Sources, query: StoreQuery, rows: SourceRows) -> str:
    """Return the row's position in the total order: a JSON array of the order's mark and stored values, in
    hexadecimal.
    """
    sorts = ordered(query)
    pieces = [literal(f'["{order_mark(query, sorts)}"')]
    for sort in sorts:
        pieces.append("','")
        pieces.append(sources.dialect.stored_text(rows.column(sort.column), rows.type(sort.column)))
    return sources.dialect.hexadecimal(concatenation([*pieces, "']'"]))


def after_place(sources: Sources, sorts: Sequence[Sort], place: Sequence[BoundValue], rows: SourceRows) -> str:
    """Return the condition for rows after a position: greater in the first key, or equal in it and after it in the
    others."""
    alternatives = []
    equal: list[str] = []
    for sort, parameter in zip(sorts, place, strict=True):
        column, value = sources.compared(rows, sort.column), sources.value(parameter)
        greater = f"{column}{'<' if sort.descending else '>'}{value}"
        if not rows.nullable(sort.column):
            alternatives.append(joined(" AND ", [*equal, greater], ""))
            equal.append(f"{column}={value}")
            continue
        null, given = f"{rows.column(sort.column)} IS NULL", f"{value} IS NULL"
        step = f"{given} AND NOT {null}" if sort.nulls_first else f"{null} AND NOT {given}"
        alternatives.append(joined(" AND ", [*equal, f"({greater} OR ({step}))"], ""))
        equal.append(sources.dialect.same(column, value))
    return f"({joined(' OR ', alternatives, '1=0')})"


def _turned(sorts: Sequence[Sort]) -> tuple[Sort, ...]:
    """Return the reverse of an order."""
    return tuple(replace(s, descending=not s.descending, nulls_first=not s.nulls_first) for s in sorts)
