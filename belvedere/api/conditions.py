"""A client's filter as a condition on stored rows.

In: what a request said in its `filter`, the entity it is about, and how a value becomes a parameter. Out: a `Condition`. Names are
looked up among the entity's columns; values become parameters, so nothing a client wrote reaches SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from belvedere.api.entities import Entity
from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.values import Fixed, Given
from belvedere.schema import Column
from belvedere.store.read.query import (
    LIMIT_MOST,
    BoundValue,
    Comparison,
    Condition,
    Every,
    Membership,
    Negation,
    NullTest,
    Operator,
    Role,
    Some,
)


class Compared(StrEnum):
    """What columns an operator of a filter is for."""

    ANY = "any"
    ORDERED = "ordered"
    TEXT = "text"


@dataclass(frozen=True)
class FilterOperator:
    """What a name in a filter means: the store's operator, what the value is for, and the columns that have it."""

    operator: Operator
    role: Role
    of: Compared


FILTER_OPERATORS = {
    "eq": FilterOperator(Operator.EQ, Role.EXACT, Compared.ANY),
    "neq": FilterOperator(Operator.NEQ, Role.EXACT, Compared.ANY),
    "gt": FilterOperator(Operator.GT, Role.FLOOR, Compared.ORDERED),
    "gte": FilterOperator(Operator.GTE, Role.CEILING, Compared.ORDERED),
    "lt": FilterOperator(Operator.LT, Role.CEILING, Compared.ORDERED),
    "lte": FilterOperator(Operator.LTE, Role.FLOOR, Compared.ORDERED),
    "like": FilterOperator(Operator.LIKE, Role.LIKE, Compared.TEXT),
    "ilike": FilterOperator(Operator.ILIKE, Role.ILIKE, Compared.TEXT),
    "startsWith": FilterOperator(Operator.STARTS_WITH, Role.PREFIX, Compared.TEXT),
    "contains": FilterOperator(Operator.CONTAINS, Role.PREFIX, Compared.TEXT),
}
"""All but `isNull`, `in` and `notIn`, by their names."""


def operators_for(*kinds: Compared) -> tuple[str, ...]:
    """The names of these operators."""
    return tuple(name for name, o in FILTER_OPERATORS.items() if o.of in kinds)


MakeParameter = Callable[[Given, Column, Role, str], BoundValue]
"""A value as a parameter of a column's type, in a role; the text names it in messages."""


def where(entity: Entity, given: Given | None, parameter: MakeParameter) -> Condition | None:
    """A filter as a condition; None for none."""
    if not isinstance(given, dict) or not given:
        return None
    parts = _conditions(entity, given, parameter)
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _conditions(entity: Entity, given: dict[str, Given], parameter: MakeParameter) -> list[Condition]:
    parts: list[Condition] = []
    for name, value in given.items():
        if name in entity.columns:
            parts += _column_conditions(entity.columns[name], name, value, parameter)
        elif not (isinstance(value, Fixed) and value.value is None):
            parts.append(_combined(entity, name, value, parameter))
    return parts


def _combined(entity: Entity, name: str, value: Given, parameter: MakeParameter) -> Condition:
    parts = tuple(Every(tuple(_conditions(entity, p, parameter))) for p in as_list(value) if isinstance(p, dict))
    if name == "not":
        return Negation(parts[0])
    return Every(parts) if name == "and" else Some(parts)


def _column_conditions(column: Column, name: str, given: Given, parameter: MakeParameter) -> list[Condition]:
    if not isinstance(given, dict):
        return []
    return [_column_condition(column, f"{name}.{operator}", operator, value, parameter) for operator, value in given.items()]


def _column_condition(column: Column, name: str, operator: str, value: Given, parameter: MakeParameter) -> Condition:
    if operator == "isNull":
        if not isinstance(value, Fixed) or value.value is None:
            raise RequestError(BAD_VALUE, f"`{name}` takes true or false")
        return NullTest(column.name, bool(value.value))
    if operator in ("in", "notIn"):
        if isinstance(value, Fixed) and value.value is None:
            raise RequestError(BAD_VALUE, f"`{name}` must not be null", "write `isNull: true` to ask for missing values")
        given = as_list(value)
        if len(given) > LIMIT_MOST:
            raise RequestError(LIMIT_EXCEEDED, f"`{name}` takes at most {LIMIT_MOST} values")
        values = tuple(parameter(v, column, Role.EXACT, name) for v in given)
        among = Membership(column.name, values)
        return among if operator == "in" else Negation(among)
    found = FILTER_OPERATORS[operator]
    return Comparison(column.name, found.operator, parameter(value, column, found.role, name))


def as_list(given: Given | None) -> list[Any]:
    """A value where a list may stand: GraphQL takes one value for a list of one."""
    if given is None or (isinstance(given, Fixed) and given.value is None):
        return []
    return given if isinstance(given, list) else [given]


def is_keyed(entity: Entity, where: Condition | None) -> bool:
    """Whether a condition fixes the whole key, so that at most one row has it."""
    parts = where.parts if isinstance(where, Every) else (where,)
    fixed = {p.column for p in parts if isinstance(p, Comparison) and p.operator is Operator.EQ}
    return bool(entity.key) and all(c.name in fixed for c in entity.key.values())
