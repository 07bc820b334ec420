"""A client's filter as a condition on stored rows.

In: the `filter` of a request, its entity, and functions that create parameters and queries for related rows. Out: a
`Condition`. Names are looked up among the entity's columns and relationships, and values become parameters. So no text
of the client reaches SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.reads.argument_values import Fixed, Given
from belvedere.api.reads.entities import Entity, RelationshipField
from belvedere.api.reads.structs import StructType
from belvedere.schema import Column
from belvedere.store.read.query import (
    LIMIT_MOST,
    BoundValue,
    Comparison,
    Condition,
    Every,
    Exists,
    Membership,
    Negation,
    NullTest,
    Operator,
    Role,
    Some,
    StoreQuery,
)


class Compared(StrEnum):
    """Sets of columns that an operator of a filter applies to."""

    ANY = "any"
    ORDERED = "ordered"
    TEXT = "text"


@dataclass(frozen=True)
class FilterOperator:
    """An operator of filters: the store's operator, its kind of value, and its columns."""

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
"""All operators except `isNull`, `in` and `notIn`, by name."""


def operators_for(*kinds: Compared) -> tuple[str, ...]:
    """Return the names of the operators for these sets of columns."""
    return tuple(name for name, o in FILTER_OPERATORS.items() if o.of in kinds)


MakeParameter = Callable[[Given, Column, Role, str], BoundValue]
"""Function that returns a value as a parameter of a column's type, in a role; its last argument names it in messages.
"""
AskRelated = Callable[[RelationshipField, Mapping[str, Given], Given, int], StoreQuery]
"""Function that returns the rows of a relationship with these arguments that match a filter, at a nesting depth."""


@dataclass(frozen=True)
class FilterReader:
    """Reads the filters of one request."""

    parameter: MakeParameter
    related: AskRelated

    def read(self, entity: Entity, given: Given | None, depth: int) -> Condition | None:
        """Return a filter as a condition; None if there is no filter."""
        if not isinstance(given, dict) or not given:
            return None
        parts = self._conditions(entity, given, depth)
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _conditions(self, entity: Entity, given: dict[str, Given], depth: int) -> list[Condition]:
        parts: list[Condition] = []
        for name, value in given.items():
            if name in entity.structs and name in entity.columns:
                parts += self._members(entity.columns[name], entity.structs[name], name, value)
            elif name in entity.columns:
                parts += _column_conditions(entity.columns[name], name, value, self.parameter)
            elif name in entity.relations:
                parts += self._related(entity.relations[name], value, depth)
            elif not (isinstance(value, Fixed) and value.value is None):
                parts.append(self._combined(entity, name, value, depth))
        return parts

    def _members(
        self, column: Column, struct: StructType, name: str, given: Given, path: tuple[str, ...] = ()
    ) -> list[Condition]:
        """Return the conditions on an object's members, which all must hold."""
        parts: list[Condition] = []
        for asked, value in given.items() if isinstance(given, dict) else ():
            member, reported = struct.members.get(asked), f"{name}.{asked}"
            if member is None:
                parts.append(_null_test(column, reported, value, path))
            elif member.struct is not None:
                parts += self._members(column, member.struct, reported, value, (*path, member.name))
            else:
                of = Column(column.name, member.type)
                parts += _column_conditions(of, reported, value, self.parameter, (*path, member.name))
        return parts

    def _combined(self, entity: Entity, name: str, value: Given, depth: int) -> Condition:
        parts = tuple(Every(tuple(self._conditions(entity, p, depth))) for p in as_list(value) if isinstance(p, dict))
        if name == "not":
            return Negation(parts[0])
        return Every(parts) if name == "and" else Some(parts)

    def _related(self, relation: RelationshipField, given: Given, depth: int) -> list[Condition]:
        """Return the conditions of `{some: {...}}`, `{none: {...}}`, or both, with the relationship's own arguments."""
        if not isinstance(given, dict):
            return []
        arguments = {n: v for n, v in given.items() if n in relation.parameters}
        asked = {n: v for n, v in given.items() if n in (SOME, NONE) and isinstance(v, dict)}
        found = [(n, Exists(self.related(relation, arguments, v, depth + 1))) for n, v in asked.items()]
        return [Negation(there) if n == NONE else there for n, there in found]


SOME, NONE = "some", "none"
"""Quantifiers of filters on related rows."""


Path = tuple[str, ...]


def _column_conditions(
    column: Column, name: str, given: Given, parameter: MakeParameter, path: Path = ()
) -> list[Condition]:
    """Return the conditions on a column, or on the member of an object at `path`."""
    if not isinstance(given, dict):
        return []
    return [_column_condition(column, f"{name}.{o}", o, value, parameter, path) for o, value in given.items()]


def _null_test(column: Column, name: str, value: Given, path: Path) -> Condition:
    if not isinstance(value, Fixed) or value.value is None:
        raise RequestError(BAD_VALUE, f"`{name}` takes true or false")
    return NullTest(column.name, bool(value.value), path)


def _column_condition(
    column: Column, name: str, operator: str, value: Given, parameter: MakeParameter, path: Path = ()
) -> Condition:
    if operator == "isNull":
        return _null_test(column, name, value, path)
    if operator in ("in", "notIn"):
        if isinstance(value, Fixed) and value.value is None:
            raise RequestError(BAD_VALUE, f"`{name}` must not be null", "write `isNull: true` to find missing values")
        given = as_list(value)
        if len(given) > LIMIT_MOST:
            raise RequestError(LIMIT_EXCEEDED, f"`{name}` takes at most {LIMIT_MOST} values")
        role = Role.MEMBER if path else Role.EXACT
        values = tuple(parameter(v, column, role, name) for v in given)
        among = Membership(column.name, values, path)
        return among if operator == "in" else Negation(among)
    found = FILTER_OPERATORS[operator]
    role = Role.MEMBER if path else found.role
    return Comparison(column.name, found.operator, parameter(value, column, role, name), path)


def as_list(given: Given | None) -> list[Any]:
    """Return a list for an argument that takes a list: GraphQL accepts one value as a list of one."""
    if given is None or (isinstance(given, Fixed) and given.value is None):
        return []
    return given if isinstance(given, list) else [given]


def is_keyed(entity: Entity, where: Condition | None) -> bool:
    """Return whether a condition fixes the whole key, so that at most one row has it."""
    parts = where.parts if isinstance(where, Every) else (where,)
    fixed = {p.column for p in parts if isinstance(p, Comparison) and p.operator is Operator.EQ and not p.path}
    return bool(entity.key) and all(c.name in fixed for c in entity.key.values())
