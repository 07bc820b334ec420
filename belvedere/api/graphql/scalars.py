"""Scalars of the GraphQL schema, and its enum of sort directions.

In: Arrow types. Out: graphql-core's scalars, which validate the values that clients send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from graphql import (
    FloatValueNode,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLField,
    GraphQLFloat,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLNonNull,
    GraphQLScalarType,
    GraphQLString,
    ListValueNode,
    ObjectValueNode,
    ValueNode,
)
from graphql.utilities import value_from_ast_untyped

from belvedere.schema import MONTHS, Column
from belvedere.store.read.stored_values import decimal, interval, is_long, long_number, microseconds, months
from belvedere.values.json_numbers import exact

types = pa.types


def _long(value: Any) -> int:
    try:
        return long_number(value)
    except ValueError:
        raise ValueError(f"Long cannot represent {str(value)[:50]!r}: it is not a whole number of 64 bits") from None


def _checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        check(value)
        return value

    return parse


def _text(name: str) -> Callable[[Any], Any]:
    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{name} cannot represent {value!r}: it is not a string")
        return value

    return parse


def literal_value(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
    """Return the value of a literal; numbers keep all digits."""
    match node:
        case FloatValueNode(value=text):
            return exact(text)
        case ListValueNode(values=values):
            return [literal_value(v, variables) for v in values]
        case ObjectValueNode(fields=fields):
            return {f.name.value: literal_value(f.value, variables) for f in fields}
        case _:
            return value_from_ast_untyped(node, variables)


def _scalar(name: str, description: str, parse: Callable[[Any], Any], rfc: str | None = None) -> GraphQLScalarType:
    """Return a scalar; `rfc` is the section of the standard that defines its form, like `rfc3339#section-5.6`."""

    def literal(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
        return parse(literal_value(node, variables))

    url = None if rfc is None else f"https://www.rfc-editor.org/rfc/{rfc}"
    return GraphQLScalarType(
        name, description=description, parse_value=parse, parse_literal=literal, specified_by_url=url
    )


LONG = _scalar("Long", "A whole number of 64 bits.", _long)
DECIMAL = _scalar("Decimal", 'An exact decimal number, as a string: "12.30".', _checked(decimal))
DATE_TIME = _scalar(
    "DateTime",
    "An instant, RFC 3339 with an offset: 2020-01-01T08:07:00Z.",
    _checked(microseconds),
    "rfc3339#section-5.6",
)
DATE = _scalar("Date", "A day: 2020-01-31.", _text("Date"), "rfc3339#section-5.6")
DURATION = _scalar(
    "Duration", "A length of time, as ISO 8601 writes it: P1DT2H30M0S. A day has 24 hours.", _checked(interval)
)
YEAR_MONTH_DURATION = _scalar(
    "YearMonthDuration", "Years and months, as ISO 8601 writes them: P1Y2M.", _checked(months)
)
JSON = _scalar("JSON", "A nested value.", lambda value: value, "rfc8259")
CURSOR = _scalar("Cursor", "A position in a list, as returned by `endCursor`.", _text("Cursor"))
BYTES = _scalar("Bytes", "Bytes in hexadecimal.", _text("Bytes"))

AS_OF = GraphQLInputObjectType(
    "AsOf",
    {"epoch": GraphQLInputField(LONG), "time": GraphQLInputField(DATE_TIME)},
    description="A former state: after an epoch, or after the last epoch whose clock is at or before a time. Give "
    "one of them.",
)

STRUCT = "An object in a column."
"""Description of object types in columns; the console and agents recognize these types by it."""

SORT_ORDERS = {
    "ASC": (False, True),
    "DESC": (True, False),
    "ASC_NULLS_FIRST": (False, True),
    "ASC_NULLS_LAST": (False, False),
    "DESC_NULLS_FIRST": (True, True),
    "DESC_NULLS_LAST": (True, False),
}
"""Sort directions as (descending, NULLs first); ASC and DESC place NULLs like Spark."""

SORT_ORDER = GraphQLEnumType(
    "SortOrder",
    {n: GraphQLEnumValue(n) for n in SORT_ORDERS},
    description="A direction. ASC puts NULLs first, DESC last, unless the name says otherwise.",
)


def scalar_of(type_: pa.DataType) -> GraphQLScalarType:
    """Return the GraphQL scalar for values of an Arrow type."""
    if types.is_boolean(type_):
        return GraphQLBoolean
    if types.is_integer(type_):
        return LONG if is_long(type_) else GraphQLInt
    if types.is_floating(type_):
        return GraphQLFloat
    if types.is_decimal(type_):
        return DECIMAL
    if types.is_timestamp(type_):
        return DATE_TIME
    if types.is_date(type_):
        return DATE
    if types.is_binary(type_) or types.is_large_binary(type_):
        return BYTES
    if type_ == MONTHS:
        return YEAR_MONTH_DURATION
    if types.is_duration(type_):
        return DURATION
    if types.is_time(type_):
        return LONG
    return JSON if types.is_nested(type_) or types.is_interval(type_) else GraphQLString


def output_field(column: Column) -> GraphQLField:
    """Return the field of a column in an answer."""
    scalar = scalar_of(column.type)
    not_a_number = types.is_floating(column.type)  # NaN is shown as null
    nullable = column.nullable or not_a_number
    return GraphQLField(scalar if nullable else GraphQLNonNull(scalar), description=column.doc)
