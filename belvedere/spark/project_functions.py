"""Functions of a project in Spark SQL, as Arrow UDFs.

In: a session and the functions of a catalog. Out: nothing; Spark knows them by their registered names. The code is sent
to executors by value, so nothing has to be installed there. Results of a function are checked, and errors name the row.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from belvedere.errors import counted
from belvedere.functions.project_functions import OwnFunction, signature
from belvedere.functions.spark_types import type_text

MAX_ROWS = 10_000
"""Maximum number of rows in which a row is searched."""
MAX_VALUE_LENGTH = 60
"""Maximum number of characters of a value that are shown."""


class OwnFunctionError(Exception):
    """A function of the project failed, or returned an invalid result."""


def register_functions(spark: SparkSession, functions: Iterable[OwnFunction]) -> None:
    """Register functions with a session.

    A function's name contains a hash of its code, so it does not clash with another project's.
    """
    for made in functions:
        if made.call is not None:
            udf = arrow_udf(checked(made), from_arrow_type(made.result))  # type: ignore[call-overload]
            spark.udf.register(made.registered, udf)


def checked(made: OwnFunction) -> Callable[..., pa.Array]:
    """Return the Python function with arguments of the declared types.

    It raises `OwnFunctionError` in one line.
    """
    call, shown, result, file = made.call, signature(made, type_text), made.result, made.file
    names, types = [n for n, _ in made.parameters], [t for _, t in made.parameters]

    def run(*given: pa.Array) -> pa.Array:  # the type hints define its type for Spark
        columns = [c if c.type == t else c.cast(t) for c, t in zip(given, types, strict=True)]
        try:
            found = call(*columns)  # type: ignore[misc]
        except Exception as error:  # report any exception of the project's code
            at = failing_row(call, columns)
            row = (
                ""
                if at is None
                else "; at " + ", ".join(f"{n} = {_text(c[at])}" for n, c in zip(names, columns, strict=True))
            )
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise OwnFunctionError(f"{shown}: {text}{_line_of(error, file)}{row}") from None
        return fitting(found, len(columns[0]), result, shown)

    return run


def fitting(found: Any, rows: int, result: pa.DataType, shown: str) -> pa.Array:
    """Return a function's result if it is an array of the declared type with a value for each row."""
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array):
        raise OwnFunctionError(f"{shown} returned {type(found).__name__}, not a pyarrow.Array")
    if len(found) != rows:
        raise OwnFunctionError(f"{shown} returned {counted(len(found), 'value')} for {counted(rows, 'row')}")
    if found.type != result and not pa.types.is_null(found.type):
        raise OwnFunctionError(f"{shown} returned {found.type}, and {type_text(result)} is {result}: cast it")
    return found if found.type == result else pa.nulls(rows, result)


def failing_row(call: Any, columns: list[pa.Array]) -> int | None:
    """Return the first row that fails alone, or None if none does or there are too many to try."""
    if len(columns[0]) > MAX_ROWS:
        return None
    for index in range(len(columns[0])):
        try:
            call(*(c.slice(index, 1) for c in columns))
        except Exception:
            return index
    return None


def _text(value: pa.Scalar) -> str:
    found = value.as_py()
    text = "NULL" if found is None else repr(found) if isinstance(found, str) else str(found)
    text = " ".join(text.split())
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + "..."


def _line_of(error: Exception, file: str) -> str:
    """Return for example ` (pricing.py, line 12)`: the last executed line of the project's own module."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" ({file.rpartition('/')[2]}, line {lines[-1]})" if lines else ""
