"""Rows of an answer: dicts for programs, frames of pandas, Polars and Arrow, and an HTML table in a notebook.

In: Arrow rows. Out: `RowList`, a list with the Arrow rows behind it, and `QueryRows`, which creates dicts on demand.
Months are texts (`P1Y2M`), as in all answers. The methods for pandas and Polars import them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar, overload

import pyarrow as pa

from belvedere.errors import fail
from belvedere.values.months import with_month_texts
from belvedere.values.row_texts import as_html, as_table, rows_text

T = TypeVar("T")
SHOWN = 50
"""Maximum number of rows that a notebook shows."""


class AsFrames:
    """Rows that convert to frames of other libraries."""

    _table: pa.Table

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, in the types of the script's columns."""
        return self._table

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Integers and booleans with NULLs have pandas' nullable types, so no digit is lost; a NULL in other columns is
        NaN, NaT or None. Raises BelvedereError B9140 if pandas is not installed.
        """
        pandas = _library("pandas")
        nullable = {pa.bool_(): pandas.BooleanDtype()}
        nullable |= {
            t: getattr(pandas, f"Int{t.bit_width}Dtype")() for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
        }
        frame = self._table.to_pandas(maps_as_pydicts="strict")
        for place, column in enumerate(self._table.columns):
            if column.null_count and column.type in nullable:
                frame.isetitem(place, column.to_pandas(types_mapper=nullable.get))
        return frame

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame; a map is a list of keys with their values.

        Raises BelvedereError B9140 if Polars is not installed.
        """
        return _library("polars").from_arrow(self._table)

    def _repr_html_(self) -> str:
        return as_html(self._table, SHOWN)


class RowList(list[T], AsFrames):
    """A list of rows as Python values. `to_arrow`, `to_pandas` and `to_polars` return the rows at its creation."""

    def __init__(self, items: Iterable[T], table: pa.Table):
        super().__init__(items)
        self._table = with_month_texts(table)


class QueryRows(Sequence[dict[str, Any]], AsFrames):
    """The rows of a query in its order: a sequence of dicts that are created on demand."""

    def __init__(self, table: pa.Table):
        self._table = with_month_texts(table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> QueryRows: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | QueryRows:
        if isinstance(place, slice):
            return QueryRows(self._table.take(pa.array(range(*place.indices(len(self))), pa.int64())))
        number = range(len(self))[place]
        row: dict[str, Any] = self._table.slice(number, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryRows | list) and list(self) == list(other)

    def __repr__(self) -> str:
        more = f"... of {rows_text(self._table)}\n" if len(self) > SHOWN else ""
        return as_table(self._table.slice(0, SHOWN)) + more


def row_list(table: pa.Table) -> RowList[dict[str, Any]]:
    """Return Arrow rows as a list of dicts."""
    return RowList(with_month_texts(table).to_pylist(), table)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise fail("B9140", f"{name} is not installed", hint=f"pip install {name}, or use .to_arrow()") from None
