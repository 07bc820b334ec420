"""A DataFrame and what its columns mean to a SQL++ query.

In: DataFrames, `Value`s. Out: `Bindings` (variables over columns) and `Result` (what a query gives); loading of tables and
the final DataFrame. Columns have fresh names inside, so that joins never clash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from belvedere.errors import fail
from belvedere.functions.window_by import DURATION, holds_duration
from belvedere.lang.window_by.tree import OrderKey
from belvedere.schema import TIMESTAMP, Column, Schema
from belvedere.spark.window_by.sql_values import Object, SqlValue, Value, merge, name

_numbers = count()
INTERVAL_MICROS = (
    "(extract(DAY FROM {0}) * 86400000000 + extract(HOUR FROM {0}) * 3600000000L + extract(MINUTE FROM {0}) * 60000000L"
    " + CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT))"
)


@dataclass(frozen=True)
class Bindings:
    """The binding tuples of a block: a DataFrame and the value of each variable; `order` sorts the rows (rule 10).

    `sorted`: they lie in that order already, from the first partition of the DataFrame to the last. `identity` are columns beside the
    variables that tell the tuples apart, where the tables were loaded with such.
    """

    frame: DataFrame
    variables: Mapping[str, Value]
    order: tuple[str, ...] = ()
    sorted: bool = False
    identity: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The results of a query: one row each. `order`, `sorted`, `identity` as in `Bindings`."""

    frame: DataFrame
    value: Value
    order: tuple[str, ...] = ()
    sorted: bool = False
    identity: tuple[str, ...] = ()


def fresh(prefix: str = "c") -> str:
    """A column name that nothing else has."""
    return f"_{prefix}{next(_numbers)}"


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow types of a DataFrame's columns; timestamps with a zone are instants in UTC."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def schema_of(frame: DataFrame) -> Schema:
    """The columns of a DataFrame in Arrow types; zoned timestamps are UTC instants, intervals durations."""
    columns = []
    for field in arrow_schema(frame):
        type_ = field.type
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            type_ = TIMESTAMP
        columns.append(Column(field.name, type_, field.nullable))
    return Schema(tuple(columns))


def spark_schema(schema: pa.Schema) -> Any:
    """The Spark schema of an Arrow schema; times without zone stay so."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


@dataclass(frozen=True)
class Table:
    """A table of a query: `hidden` columns of the DataFrame are not part of its rows, but stay beside them."""

    frame: DataFrame
    hidden: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""
        return Schema(tuple(c for c in schema_of(self.frame) if c.name not in self.hidden))


def load(table: Table) -> Result:
    """A table under fresh column names: rows are objects (rule 0: its columns are there in every row)."""
    frame = table.frame
    utc = (frame.sparkSession.conf.get("spark.sql.session.timeZone") or "") in ("UTC", "Etc/UTC", "GMT", "Z")
    fields: dict[str, Value] = {}
    identity = [fresh("i") for _ in table.hidden]
    selected = [f"{name(column)} AS {name(inner)}" for column, inner in zip(table.hidden, identity, strict=True)]
    for column in table.schema:
        inner, type_, text = fresh(), column.type, name(column.name)
        if type_ == DURATION:
            text = INTERVAL_MICROS.format(f"CAST({text} AS INTERVAL DAY TO SECOND)")
        elif pa.types.is_timestamp(type_) and type_.tz is None and utc:
            text, type_ = f"CAST({text} AS TIMESTAMP)", TIMESTAMP
        elif holds_duration(type_):
            hint = "select the parts that the query needs into columns of their own"
            raise fail("B3620", f'column "{column.name}" has durations inside objects or arrays: not supported', hint=hint)
        selected.append(f"{text} AS {name(inner)}")
        fields[column.name] = SqlValue(name(inner), type_)
    return Result(frame.selectExpr(*selected), Object(fields), identity=tuple(identity))


def is_column(text: str) -> bool:
    """Whether SQL text is one column of fresh name."""
    return text.startswith("`_") and text.endswith("`") and "`" not in text[1:-1]


def pin(frame: DataFrame, values: Sequence[Value]) -> tuple[DataFrame, list[Value]]:
    """The values with a column for every text in them."""
    added: list[str] = []
    made: dict[str, str] = {}

    def column(text: str) -> str:
        if is_column(text):
            return text
        if text not in made:
            made[text] = name(fresh())
            added.append(f"{text} AS {made[text]}")
        return made[text]

    def walk(value: Value) -> Value:
        missing = None if value.missing is None else column(value.missing)
        if isinstance(value, Object):
            return Object({n: walk(f) for n, f in value.fields.items()}, missing)
        if pa.types.is_null(value.type):
            return SqlValue(column("CAST(NULL AS STRING)"), value.type, missing)
        return replace(value, sql=column(value.sql), missing=missing)

    pinned = [walk(v) for v in values]
    return (frame.selectExpr("*", *added) if added else frame), pinned


def sort_texts(key: OrderKey, value: SqlValue) -> list[str]:
    """ORDER BY texts for a key: MISSING < NULL < values ascending; NULLS FIRST|LAST moves both."""
    way = "DESC" if key.descending else "ASC"
    nulls = "NULLS FIRST" if key.nulls_come_first else "NULLS LAST"
    if value.missing is None:
        return [f"{value.sql} {way} {nulls}"]
    unknown = "0" if key.nulls_come_first else "1"
    other = "1" if key.nulls_come_first else "0"
    return [
        f"IF({value.sql} IS NULL, {unknown}, {other}) ASC",
        f"IF({value.missing}, 0, 1) {way}",
        f"{value.sql} {way} {nulls}",
    ]


def output(result: Result) -> DataFrame:
    """The DataFrame for the user: rows in order, fields as columns, else one column `value`."""
    frame, value = result.frame, result.value
    if result.order and not result.sorted:
        frame = frame.orderBy(*sort_columns(result.order))
    return frame.selectExpr(*(f"{text} AS {name(label)}" for label, text in _output_texts(value)))


def output_columns(value: Value) -> list[Any]:
    """The user's columns of a result."""
    return [F.expr(text).alias(label) for label, text in _output_texts(value)]


def _output_texts(value: Value) -> list[tuple[str, str]]:
    """The user's columns of a result, with their names."""
    if isinstance(value, Object):
        fields = value.fields
    elif pa.types.is_struct(value.type):
        fields = {f.name: SqlValue(f"{value.sql}.{name(f.name)}", f.type) for f in value.type}
    else:
        fields = {"value": value}
    return [(n, _output_text(n, merge(v))) for n, v in fields.items()]


def sort_columns(order: Sequence[str]) -> list[Any]:
    """The texts of an order as columns for `orderBy`."""
    return [_sort_column(o) for o in order]


def _sort_column(text: str) -> Any:
    body, *rest = text.rsplit(" NULLS ", 1)
    body, way = body.rsplit(" ", 1)
    column = F.expr(body)
    first = rest[0] == "FIRST" if rest else way == "ASC"
    if way == "ASC":
        return column.asc_nulls_first() if first else column.asc_nulls_last()
    return column.desc_nulls_first() if first else column.desc_nulls_last()


def _output_text(label: str, value: SqlValue) -> str:
    if holds_duration(value.type):
        hint = "select the parts of the objects that you need, as columns"
        raise fail("B3620", f'column "{label}" would have durations inside objects or arrays: not supported', hint=hint)
    text = value.sql
    if value.type == DURATION:
        text = f"CAST(INTERVAL '0.000001' SECOND * {text} AS INTERVAL DAY TO SECOND)"
    return text
