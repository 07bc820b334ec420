"""How values lie in the columns of Arrow batches, for the Python workers.

In: `Value`s of `native` whose texts are plain columns, and Arrow tables. Out: rows as Python environments, and Python results
as Arrow columns with their MISSING flags. A duration is an int64 of microseconds inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from belvedere.functions.window_by import DURATION
from belvedere.kernels.values import EXACT, MISSING, instant, whole
from belvedere.spark.window_by.sql_values import Object, SqlValue, Value


@dataclass(frozen=True)
class Leaf:
    """A column and, where the value may be MISSING, the column that says so."""

    column: str
    missing: str | None
    duration: bool


@dataclass(frozen=True)
class ObjectColumns:
    """An object, field by field."""

    fields: tuple[tuple[str, Leaf | ObjectColumns], ...]
    missing: str | None


ValueLayout = Leaf | ObjectColumns


def layout_of(value: Value) -> ValueLayout:
    """The layout of a pinned value: its texts are quoted column names."""
    missing = None if value.missing is None else value.missing.strip("`")
    if isinstance(value, Object):
        return ObjectColumns(tuple((n, layout_of(f)) for n, f in value.fields.items()), missing)
    return Leaf(value.sql.strip("`"), missing, value.type == DURATION)


def columns_of(layout: ValueLayout) -> Iterator[str]:
    """The names of all columns of a layout."""
    if layout.missing is not None:
        yield layout.missing
    if isinstance(layout, Leaf):
        yield layout.column
    else:
        for _, inner in layout.fields:
            yield from columns_of(inner)


def read_values(layout: ValueLayout, table: pa.Table) -> list[Any]:
    """The Python value of every row."""
    flags = table[layout.missing].to_pylist() if layout.missing is not None else None
    found: list[Any]
    if isinstance(layout, Leaf):
        found = table[layout.column].to_pylist()
        if layout.duration:
            found = [None if x is None else timedelta(microseconds=x) for x in found]
        elif pa.types.is_nested(table.schema.field(layout.column).type):
            found = [plain(x) for x in found]
    else:
        parts = [(n, read_values(inner, table)) for n, inner in layout.fields]
        names = [n for n, _ in parts]
        found = [
            {n: x for n, x in zip(names, row, strict=True) if x is not MISSING}
            for row in (zip(*(p for _, p in parts), strict=True) if parts else ((),) * table.num_rows)
        ]
    if flags is None:
        return found
    return [MISSING if flag else x for flag, x in zip(flags, found, strict=True)]


def plain(value: Any) -> Any:
    """A nested value as `to_pylist` gives it, maps as objects."""
    if isinstance(value, dict):
        return {k: plain(x) for k, x in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(x, tuple) for x in value):
            return {str(k): plain(x) for k, x in value}
        return [plain(x) for x in value]
    return value


def read_rows(layouts: Mapping[str, ValueLayout], table: pa.Table) -> Iterator[dict[str, Any]]:
    """One environment per row."""
    columns = {n: read_values(layout, table) for n, layout in layouts.items()}
    if not columns:
        return iter({} for _ in range(table.num_rows))
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def conform(value: Any, type_: pa.DataType) -> Any:
    """The value as one of the Arrow type: MISSING is NULL, and so is what does not fit."""
    if value is MISSING or value is None or pa.types.is_null(type_):
        return None
    if type_ == DURATION:
        return value // timedelta(microseconds=1) if isinstance(value, timedelta) else None
    for test, convert in CONVERSIONS:
        if test(type_):
            return convert(value, type_)
    return value


def _whole(value: Any, type_: pa.DataType) -> Any:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    found = whole(value)
    if found is None and math.isfinite(value):
        raise OverflowError("a whole number has more than 64 bits")
    return found


def _real(value: Any, type_: pa.DataType) -> Any:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _decimal(value: Any, type_: pa.DataType) -> Any:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    if not math.isfinite(value):
        return None
    found = Decimal(str(value)).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, EXACT)
    if found.adjusted() >= type_.precision - type_.scale and found:
        raise OverflowError(f"a decimal has more than {type_.precision - type_.scale} digits before its point")
    return found


def _list(value: Any, type_: pa.DataType) -> Any:
    return [conform(x, type_.value_type) for x in value] if isinstance(value, list) else None


def _struct(value: Any, type_: pa.DataType) -> Any:
    return {f.name: conform(value.get(f.name), f.type) for f in type_} if isinstance(value, dict) else None


CONVERSIONS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = (
    (pa.types.is_boolean, lambda x, t: x if isinstance(x, bool) else None),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _real),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, lambda x, t: x if isinstance(x, str) else None),
    (pa.types.is_date, lambda x, t: x if isinstance(x, date) and not isinstance(x, datetime) else None),
    (pa.types.is_timestamp, lambda x, t: instant(x) if isinstance(x, date) else None),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)


def stored_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column that holds values of `type_`: durations as int64, nothing as text."""
    if type_ == DURATION:
        return pa.int64()
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(stored_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, stored_type(f.type)) for f in type_])
    return type_


def write_column(values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The Arrow column of Python values and the column that flags MISSING."""
    flags = pa.array([x is MISSING for x in values], pa.bool_())
    return pa.array([conform(x, type_) for x in values], stored_type(type_)), flags


def leaf_value(column: str, type_: pa.DataType, missing: str | None) -> SqlValue:
    """The `Value` of a stored column."""
    return SqlValue(f"`{column}`", type_, None if missing is None else f"`{missing}`")
