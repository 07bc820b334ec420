"""Groups of rows with aggregated values, as a JSON array.

In: a query of the shape GROUPS, the rows in which it is nested. Out: SQL of one text, in three layers: the database
aggregates; values are computed from the results and groups are sorted by them; the shown groups become JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from belvedere.store.read.aggregates import aggregated_type, computed, grouped
from belvedere.store.read.query import (
    Aggregated,
    AggregateField,
    Aggregation,
    Field,
    GroupSort,
    ObjectField,
    Sort,
    StoreQuery,
)
from belvedere.store.read.sources import SourceRows, Sources, order_text


@dataclass(frozen=True)
class Cell:
    """A column of a group or a value, in the shown layer."""

    sql: str
    type: pa.DataType


Cells = Mapping[str | Aggregated, Cell]


def groups_source(
    sources: Sources, query: StoreQuery, rows: SourceRows, outer: SourceRows | None, bounds: str
) -> tuple[str, Cells]:
    """Return FROM text with the groups of the answer in order, and the positions of their columns and values in it."""
    cells: dict[str | Aggregated, Cell] = {}
    inner, made = [], []
    for number, name in enumerate(query.by):
        type_ = rows.type(name)
        inner.append(f"{grouped(rows.column(name), type_)} AS g{number}")
        made.append(f"g{number}")
        cells[name] = Cell(f"{rows.alias}.g{number}", type_)
    for number, value in enumerate(_values(query)):
        type_ = pa.int64() if value.function is Aggregation.ROWS else rows.type(value.column)
        how = computed(sources.dialect, value.function, rows.column(value.column) if value.column else "", type_)
        names = tuple(f"a{number}_{piece}" for piece in range(len(how.pieces)))
        inner += [f"{sql} AS {name}" for sql, name in zip(how.pieces, names, strict=True)]
        made.append(f"{how.value(names)} AS v{number}")
        cells[value] = Cell(f"{rows.alias}.v{number}", aggregated_type(value.function, type_))
    places = ",".join(str(n + 1) for n in range(len(query.by)))
    text = f"SELECT {','.join(inner)} {sources.rows_of(query, rows, outer)}{f' GROUP BY {places}' if places else ''}"
    text = f"SELECT {','.join(made)} FROM ({text}) AS p"
    keys = [_key(sources, sort, cells) for sort in _order(query)]
    return f"FROM (SELECT * FROM ({text}) AS {rows.alias}{order_text(keys)}{bounds}) AS {rows.alias}", cells


def _key(sources: Sources, sort: GroupSort, cells: Cells) -> str:
    cell = cells[sort.by]
    return sources.dialect.order(
        sources.dialect.column(cell.sql, cell.type), Sort("", sort.descending, sort.nulls_first)
    )


def _order(query: StoreQuery) -> Iterator[GroupSort]:
    """Yield the requested order, followed by all columns of the groups, which makes the order total."""
    yield from query.group_order
    said = {s.by for s in query.group_order}
    yield from (GroupSort(name, descending=False, nulls_first=True) for name in query.by if name not in said)


def _values(query: StoreQuery) -> Iterable[Aggregated]:
    """Return the values that are shown or that order the groups, each once.

    If there are none, return the number of rows.
    """
    asked = [s.by for s in query.group_order if isinstance(s.by, Aggregated)]
    return dict.fromkeys([*_shown(query.fields), *asked]) or (Aggregated(Aggregation.ROWS),)


def _shown(fields: Iterable[Field]) -> Iterator[Aggregated]:
    for item in fields:
        if isinstance(item, AggregateField):
            yield item.value
        elif isinstance(item, ObjectField):
            yield from _shown(item.fields)
