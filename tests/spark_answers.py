"""Spark's answers to many queries in few jobs: each query is a branch of a `UNION ALL` with its number and JSON rows.

In: queries, over tables that the session has. Out: for each query its columns (by analysis alone) and its rows as
values that compare, or the error with which Spark refuses it or fails on its rows. A job that fails is cut in halves
until the queries that fail are alone. A query with a column that JSON does not give back (an interval, a map whose keys
are no text) is a job of its own.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

TOGETHER = 8
"""Maximum number of queries in a job. Of 40 queries each costs 222 ms of processor time alone, 115 in jobs of 8, 144 in
jobs of 25."""
MICROSECONDS = "yyyy-MM-dd HH:mm:ss.SSSSSS"
JSON = f"map('ignoreNullFields', 'false', 'timestampFormat', '{MICROSECONDS}', 'timestampNTZFormat', '{MICROSECONDS}')"


@dataclass(frozen=True)
class Answer:
    """The columns of a query as Spark types them, and its rows in no order.

    Structs and arrays are tuples, maps are dicts, times are in UTC and have no zone.
    """

    columns: Any
    rows: list[tuple[Any, ...]]

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def bag(self, first: int | None = None) -> Counter[Any]:
        """The rows, or their `first` columns, with doubles to nine digits."""
        return Counter(rounded(row[:first]) for row in self.rows)


def answers(spark: Any, queries: Mapping[str, str]) -> dict[str, Answer | Exception]:
    """The answer to each query by its name, or the error of Spark."""
    found: dict[str, Answer | Exception] = {}
    columns: dict[str, Any] = {}
    for name, query in queries.items():
        try:
            columns[name] = spark.sql(query).schema
        except _failures() as error:
            found[name] = error
    together = [name for name, schema in columns.items() if _is_json(schema)]
    for start in range(0, len(together), TOGETHER):
        found |= _answered(spark, queries, columns, together[start : start + TOGETHER])
    for name in columns.keys() - set(together):
        found[name] = _alone(spark, queries[name], columns[name])
    return {name: found[name] for name in queries}


def _answered(
    spark: Any, queries: Mapping[str, str], columns: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Answer | Exception]:
    text = "\nUNION ALL\n".join(
        f"SELECT {n} AS query, to_json(struct(*), {JSON}) AS row FROM (\n{queries[name]}\n)"
        for n, name in enumerate(names)
    )
    try:
        rows = spark.sql(text).collect()
    except _failures():
        if len(names) == 1:
            return {names[0]: _alone(spark, queries[names[0]], columns[names[0]])}
        middle = len(names) // 2
        first = _answered(spark, queries, columns, names[:middle])
        return first | _answered(spark, queries, columns, names[middle:])
    found = {name: Answer(columns[name], []) for name in names}
    for number, row in rows:
        name = names[number]
        pairs = json.loads(row, object_pairs_hook=list, parse_float=Decimal)
        found[name].rows.append(_of_json(pairs, columns[name]))
    return dict(found)


def _alone(spark: Any, query: str, columns: Any) -> Answer | Exception:
    """The answer without JSON."""
    try:
        rows = spark.sql(query).collect()
    except _failures() as error:
        return error
    return Answer(columns, [_of_row(row, columns) for row in rows])


def _failures() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def _is_json(type_: Any) -> bool:
    """Whether a value of this type can be read from JSON as what it was."""
    from pyspark.sql import types as t

    match type_:
        case t.StructType():
            return all(_is_json(field.dataType) for field in type_)
        case t.ArrayType():
            return _is_json(type_.elementType)
        case t.MapType():
            return isinstance(type_.keyType, t.StringType) and _is_json(type_.valueType)
    texts = (t.StringType, t.BinaryType, t.DateType, t.TimestampType, t.TimestampNTZType)
    return isinstance(type_, (t.NumericType, t.BooleanType, t.NullType, *texts))


def _of_json(value: Any, type_: Any) -> Any:
    """A value of JSON, whose objects are lists of pairs."""
    from pyspark.sql import types as t

    if value is None:
        return None
    match type_:
        case t.StructType():
            return tuple(_of_json(v, field.dataType) for (_, v), field in zip(value, type_, strict=True))
        case t.ArrayType():
            return tuple(_of_json(v, type_.elementType) for v in value)
        case t.MapType():
            return {k: _of_json(v, type_.valueType) for k, v in value}
        case t.FloatType():
            return float(np.float32(value))
        case t.DoubleType():
            return float(value)
        case t.DecimalType():
            return Decimal(value)
        case t.BinaryType():
            return base64.b64decode(value)
        case t.DateType():
            return date.fromisoformat(value)
        case t.TimestampType() | t.TimestampNTZType():
            return datetime.fromisoformat(value)
    return value


def _of_row(value: Any, type_: Any) -> Any:
    """The same of a value as PySpark gives it."""
    from pyspark.sql import types as t

    if value is None:
        return None
    match type_:
        case t.StructType():
            return tuple(_of_row(v, field.dataType) for v, field in zip(value, type_, strict=True))
        case t.ArrayType():
            return tuple(_of_row(v, type_.elementType) for v in value)
        case t.MapType():
            return {_of_row(k, type_.keyType): _of_row(v, type_.valueType) for k, v in value.items()}
        case t.TimestampType():
            return value.astimezone(UTC).replace(tzinfo=None)
        case t.BinaryType():
            return bytes(value)
    return value


def rounded(value: Any) -> Any:
    """A value with its doubles to nine digits; NaN equals itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, dict):
        return tuple(sorted(((rounded(k), rounded(v)) for k, v in value.items()), key=repr))
    return tuple(map(rounded, value)) if isinstance(value, tuple) else value
