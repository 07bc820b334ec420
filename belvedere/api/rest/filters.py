"""Tests of PostgREST's dialect as the equivalent GraphQL `filter`, so that both become the same conditions.

In: `Test`s and `ConditionGroup`s on an entity. Out: a `Given` tree whose values are numbers of literals. It looks up
columns and operators, and raises `RequestError` for unknown ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.limits import Limits
from belvedere.api.reads.argument_values import Fixed, Given, Scalar
from belvedere.api.reads.entities import Entity
from belvedere.api.reads.filters import FILTER_OPERATORS, Compared
from belvedere.api.rest.grammar import ConditionGroup, Test, unreadable
from belvedere.api.rest.query_values import number_of_rows, value_of
from belvedere.schema import Column
from belvedere.store.dialects.stored_form import is_text
from belvedere.store.read.query import is_ordered
from belvedere.syntax.wording import did_you_mean
from belvedere.values.type_names import type_text

COMPARING = ("eq", "neq", "gt", "gte", "lt", "lte")
MATCHING = ("like", "ilike")
OPERATORS = (*COMPARING, *MATCHING, "in", "is", "isdistinct")
IS = ("null", "not_null", "true", "false", "unknown")


class FilterValues:
    """The values of one request in reading order; the request's plan contains only their numbers."""

    def __init__(self, limits: Limits):
        self.values: list[Any] = []
        self._limits = limits

    def add(self, text: str, type_: pa.DataType, name: str) -> Scalar:
        """Add a value of a column's type."""
        return self._add(name, lambda: value_of(text, type_))

    def rows(self, text: str, name: str) -> Scalar:
        """Add a number of rows."""
        return self._add(name, lambda: number_of_rows(text))

    def text(self, text: str) -> Scalar:
        """Add a string."""
        return self._add("", lambda: text)

    def _add(self, name: str, read: Callable[[], Any]) -> Scalar:
        if len(self.values) >= self._limits.values:
            raise RequestError(
                LIMIT_EXCEEDED, f"more than {self._limits.values} values in one request", "ask in several requests"
            )
        try:
            self.values.append(read())
        except ValueError as error:
            raise RequestError(BAD_VALUE, f"`{name}`: {error}") from None
        return Scalar(("literal", len(self.values) - 1))


def find_column(entity: Entity, name: str, what: str) -> Column:
    """Return the column with that name."""
    column = entity.columns.get(name)
    if column is None:
        hint = did_you_mean(name, sorted(entity.columns)) or f"its columns: {', '.join(entity.columns)}"
        raise unreadable(what, f'{entity.name} has no column "{name}"', hint)
    return column


def filter_of(entity: Entity, terms: Iterable[Test | ConditionGroup], literals: FilterValues) -> Given | None:
    """Return all terms as one filter; None without terms."""
    merged: dict[str, Any] = {}
    others: list[Given] = []
    for term in terms:
        found = _term(entity, term, literals)
        plain = isinstance(term, Test) and list(found) == [term.column] and term.column in entity.columns
        ((name, said),) = found.items()
        if plain and not merged.get(name, {}).keys() & said.keys():
            merged.setdefault(name, {}).update(said)
        else:
            others.append(found)
    if not others:
        return merged or None
    if len(others) == 1 and not merged:
        return others[0]
    return _combined(entity, "and", [*([merged] if merged else []), *others])


def _term(entity: Entity, term: Test | ConditionGroup, literals: FilterValues) -> dict[str, Any]:
    if isinstance(term, ConditionGroup):
        found = _combined(entity, term.word, [_term(entity, p, literals) for p in term.parts])
    else:
        found = _test(entity, term, literals)
    return _combined(entity, "not", found) if term.negated else found


def _combined(entity: Entity, word: str, parts: Any) -> dict[str, Any]:
    if word in entity.columns:
        raise unreadable(
            word, f"{entity.name} has a column of that name, so conditions cannot be combined", "rename the column"
        )
    return {word: parts}


def _test(entity: Entity, test: Test, literals: FilterValues) -> dict[str, Any]:
    column, name = find_column(entity, test.column, test.column), f"{test.column}={test.operator}"
    if test.operator == "is":
        return _is(entity, test, column)
    _check_operator(test, column)
    if test.operator == "in":
        return {test.column: {"in": [literals.add(v, column.type, name) for v in test.value]}}
    assert isinstance(test.value, str)
    if test.operator == "isdistinct":
        unequal = {test.column: {"neq": literals.add(test.value, column.type, name)}}
        return _combined(entity, "or", [unequal, {test.column: {"isNull": Fixed(True)}}])
    if test.operator in MATCHING:
        return {test.column: {test.operator: literals.add(test.value.replace("*", "%"), column.type, name)}}
    return {test.column: {test.operator: literals.add(test.value, column.type, name)}}


def _is(entity: Entity, test: Test, column: Column) -> dict[str, Any]:
    """Return the filter of `is`: `is.true` is false for NULL, never unknown."""
    if test.value in ("null", "unknown", "not_null"):
        return {test.column: {"isNull": Fixed(test.value != "not_null")}}
    if test.value not in IS or not pa.types.is_boolean(column.type):
        raise unreadable(
            test.column, f"`is` takes no `{test.value}` here", "write `is.null`, for booleans also `is.true`"
        )
    there, equal = {test.column: {"isNull": Fixed(False)}}, {test.column: {"eq": Fixed(test.value == "true")}}
    return _combined(entity, "and", [there, equal])


def operators_of(column: Column) -> tuple[str, ...]:
    """Return the operators of a column."""
    if not is_ordered(column.type):
        return ("is",)
    kinds = {Compared.ANY}
    kinds |= set() if pa.types.is_boolean(column.type) else {Compared.ORDERED}
    kinds |= {Compared.TEXT} if is_text(column.type) else set()
    compared = (o for o in (*COMPARING, *MATCHING) if FILTER_OPERATORS[o].of in kinds)
    return (*compared, "in", "is", "isdistinct")


def _check_operator(test: Test, column: Column) -> None:
    own = operators_of(column)
    if test.operator not in own:
        known = test.operator in OPERATORS
        why = f"a column of the type {type_text(column.type)} has no operator" if known else "the type has no operator"
        raise unreadable(test.column, f"{why} `{test.operator}`", f"its operators: {', '.join(own)}")
