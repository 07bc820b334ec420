"""Aggregates of a column over the rows of a group, in the store's SQL, with Spark's results.

In: a dialect, an aggregation, the column's SQL and type. Out: the aggregates of the database, and the result computed
from them, in stored form. This module defines which columns have an aggregation, for both databases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from belvedere.store.dialects.dialect import DIGITS_MOST, MEAN_DIGITS, Dialect, is_binary
from belvedere.store.read.query import Aggregation, is_ordered

types = pa.types


def has_aggregation(function: Aggregation, type_: pa.DataType) -> bool:
    """Return whether values of a type have an aggregation."""
    match function:
        case Aggregation.ROWS:
            return False
        case Aggregation.VALUES:
            return True
        case Aggregation.DISTINCT:
            return is_grouped(type_)
        case Aggregation.SUM | Aggregation.AVG:
            return bool(
                types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or _is_length(type_)
            )
        case Aggregation.MIN | Aggregation.MAX:
            return is_grouped(type_) and not is_binary(type_)


def is_grouped(type_: pa.DataType) -> bool:
    """Return whether values of a type can be compared, so that they can form groups."""
    return is_ordered(type_) and not types.is_null(type_)


def aggregated_type(function: Aggregation, type_: pa.DataType) -> pa.DataType:
    """Return the type of an aggregated value, as in Spark."""
    match function:
        case Aggregation.ROWS | Aggregation.VALUES | Aggregation.DISTINCT:
            return pa.int64()
        case Aggregation.MIN | Aggregation.MAX:
            return type_
    if types.is_decimal(type_):
        digits, behind = (10, 0) if function is Aggregation.SUM else (MEAN_DIGITS, MEAN_DIGITS)
        return pa.decimal128(min(DIGITS_MOST, type_.precision + digits), min(DIGITS_MOST, type_.scale + behind))
    if _is_length(type_):
        return type_
    return pa.int64() if types.is_integer(type_) and function is Aggregation.SUM else pa.float64()


def _is_length(type_: pa.DataType) -> bool:
    return bool(types.is_duration(type_))


@dataclass(frozen=True)
class Computed:
    """An aggregated value.

    `pieces` are aggregates of the database; `value` is the SQL of the value, over SQL that reads the pieces.
    """

    pieces: tuple[str, ...]
    value: Callable[[tuple[str, ...]], str]


def computed(dialect: Dialect, function: Aggregation, sql: str, type_: pa.DataType) -> Computed:
    """Return the computation of an aggregated value of a column (of no column for ROWS)."""
    match function:
        case Aggregation.ROWS:
            return _one("count(*)")
        case Aggregation.VALUES:
            return _one(f"count({sql})")
        case Aggregation.DISTINCT:
            return _one(f"count(DISTINCT {sql})")
        case Aggregation.MIN | Aggregation.MAX:
            return _one(dialect.extreme(function.value, sql, type_))
    if types.is_decimal(type_):
        made = dialect.decimal_sum(sql, type_) if function is Aggregation.SUM else dialect.decimal_mean(sql, type_)
        return Computed(*made)
    if not _is_length(type_):
        return _one(dialect.total(function.value, sql, type_))
    total = dialect.total("sum", sql, pa.int64())
    return _one(total) if function is Aggregation.SUM else Computed((total, f"count({sql})"), _mean_length)


def _one(sql: str) -> Computed:
    return Computed((sql,), lambda pieces: pieces[0])


def _mean_length(pieces: tuple[str, ...]) -> str:
    """Return the mean of lengths, rounded half away from zero as Spark rounds intervals.

    Both databases divide integers towards zero.
    """
    total, n = pieces
    rest = f"(abs({total}%{n})*2+{n})/(2*{n})"
    return f"({total}/{n}+CASE WHEN {total}<0 THEN -{rest} ELSE {rest} END)"


def grouped(sql: str, type_: pa.DataType) -> str:
    """Return a column as a grouping key: the two zeros of doubles are equal."""
    return f"CASE WHEN {sql}=0 THEN 0.0 ELSE {sql} END" if types.is_floating(type_) else sql
