"""The reason that a value is not of its column's type, the same for all readers.

In: a column, the value as text. Out: reasons. Runs in Spark's tasks too: nothing here imports PySpark.
"""

from __future__ import annotations

from belvedere.functions.spark_types import type_text
from belvedere.schema import Column
from belvedere.values.rejections import Reason, RejectionKind


def misfit_of(column: Column, shown: str) -> Reason:
    """Return the reason for rejecting a row with this value."""
    return Reason(f'column "{column.name}": {shown} {is_none(column)}', RejectionKind.MISFIT, general_misfit(column))


def general_misfit(column: Column) -> str:
    """Return the same reason without the value."""
    return f'column "{column.name}" {is_none(column)}'


def is_none(column: Column) -> str:
    """Return the text for a value that is missing."""
    return f"is not of type {type_text(column.type)}"


def null_in(column: Column) -> Reason:
    """Return the reason for rejecting a row without a value for a NOT NULL column."""
    return Reason(f'column "{column.name}" is NULL', RejectionKind.NULL)
