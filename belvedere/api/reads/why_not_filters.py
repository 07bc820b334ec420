"""A client's filter as tests of a relation's columns, for questions about missing rows.

In: an entity and a GraphQL filter with values. Out: the predicate that `belvedere.provenance` searches for. Raises
`RequestError` if the filter is not one of the entity's own columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.limits import NESTED_MOST
from belvedere.api.reads.argument_values import Fixed, Given, Scalar, look_up
from belvedere.api.reads.entities import Entity
from belvedere.api.reads.filters import FILTER_OPERATORS, Compared, as_list
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Expr
from belvedere.provenance.constants import constant
from belvedere.provenance.key_tests import typed_value
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.schema import Column
from belvedere.store.dialects.stored_form import is_text
from belvedere.store.read.query import LIMIT_MOST, Operator, is_ordered
from belvedere.syntax.wording import did_you_mean
from belvedere.values.type_names import type_text

MAX_TESTS = 50
"""Maximum number of comparisons of one question: each operator on the path evaluates all of them."""
_BINARY: dict[Operator, type[exp.Binary]] = {
    Operator.EQ: exp.EQ,
    Operator.NEQ: exp.NEQ,
    Operator.GT: exp.GT,
    Operator.GTE: exp.GTE,
    Operator.LT: exp.LT,
    Operator.LTE: exp.LTE,
    Operator.LIKE: exp.Like,
    Operator.ILIKE: exp.ILike,
}
_CALLS: dict[Operator, type[exp.Func]] = {Operator.STARTS_WITH: exp.StartsWith, Operator.CONTAINS: exp.Contains}


def with_values(given: Given | None, literals: list[Any]) -> Any:
    """Return a filter with values in place of its scalars' sources."""
    if isinstance(given, dict):
        return {name: with_values(value, literals) for name, value in given.items()}
    if isinstance(given, list):
        return [with_values(value, literals) for value in given]
    if isinstance(given, Scalar):
        return look_up(given.source, literals, {})
    return given.value if isinstance(given, Fixed) else given


def predicate_of_filter(entity: Entity, asked: Mapping[str, Any]) -> RowPredicate:
    """Return the predicate of a filter."""
    tests = tuple(_tests(entity, asked, 1))
    if sum(1 for t in tests for _ in t.find_all(exp.Column)) > MAX_TESTS:
        raise RequestError(
            LIMIT_EXCEEDED, f"more than {MAX_TESTS} comparisons in one question", "use fewer comparisons"
        )
    return RowPredicate(tests)


def _tests(entity: Entity, asked: Any, depth: int) -> Iterator[Expr]:
    if not isinstance(asked, Mapping):
        raise RequestError(BAD_VALUE, "a filter must be an object", 'write {"column": {"eq": "value"}}')
    if depth > NESTED_MOST:
        raise RequestError(LIMIT_EXCEEDED, f"a filter is nested more than {NESTED_MOST} deep", "nest less")
    for name, said in asked.items():
        known = entity.columns.get(name)
        if known is not None:
            yield from _of_column(known, name, said)
        elif name in entity.relations:
            raise RequestError(
                BAD_VALUE, f"`{name}`: filters on related rows are not supported here", "filter by values of columns"
            )
        elif name in ("and", "or", "not"):
            parts = [conjunction(_tests(entity, part, depth + 1)) or exp.true() for part in as_list(said)]
            yield from _combined(name, parts)
        else:
            hint = did_you_mean(name, sorted(entity.columns)) or f"its columns: {', '.join(entity.columns)}"
            raise RequestError(BAD_VALUE, f'{entity.name} has no column "{name[:100]}"', hint)


def _combined(word: str, parts: list[Expr]) -> Iterator[Expr]:
    if word == "and":
        yield from parts
    elif word == "not":
        yield exp.Not(this=exp.paren(conjunction(parts) or exp.true()))
    else:
        yield exp.paren(exp.or_(*parts)) if parts else exp.false()


def _of_column(known: Column, name: str, said: Any) -> Iterator[Expr]:
    if not isinstance(said, Mapping):
        raise RequestError(
            BAD_VALUE,
            f"`{name}`: the operator is missing: write it before the value",
            f'write {{"{name}": {{"eq": "value"}}}}',
        )
    for operator, value in said.items():
        yield _comparison(known, f"{name}.{operator}"[:100], operator, value)


def _comparison(known: Column, name: str, operator: str, value: Any) -> Expr:
    if operator == "isNull":
        if not isinstance(value, bool):
            raise RequestError(BAD_VALUE, f"`{name}` takes true or false")
        there: Expr = exp.Is(this=column(known.name), expression=exp.Null())
        return there if value else exp.Not(this=exp.paren(there))
    own = operators_of(known)
    if operator not in own:
        raise RequestError(BAD_VALUE, f"`{name}`: there is no such operator", f"its operators: {', '.join(own)}")
    if operator in ("in", "notIn"):
        values = as_list(value)
        if len(values) > LIMIT_MOST:
            raise RequestError(LIMIT_EXCEEDED, f"`{name}` takes at most {LIMIT_MOST} values")
        among: Expr = exp.In(this=column(known.name), expressions=[_value(known, name, v) for v in values])
        among = among if values else exp.false()
        return among if operator == "in" else exp.Not(this=exp.paren(among))
    found = FILTER_OPERATORS[operator].operator
    made: type[Expr] = _BINARY.get(found) or _CALLS[found]
    return made(this=column(known.name), expression=_value(known, name, value))


def operators_of(known: Column) -> tuple[str, ...]:
    """Return the filter operators of a column."""
    kinds = {Compared.ANY} | (set() if pa.types.is_boolean(known.type) else {Compared.ORDERED})
    kinds |= {Compared.TEXT} if is_text(known.type) else set()
    compared = [n for n, o in FILTER_OPERATORS.items() if o.of in kinds]
    return (*compared, "in", "notIn", "isNull") if is_ordered(known.type) else ("isNull",)


def _value(known: Column, name: str, value: Any) -> Expr:
    if value is None:
        raise RequestError(BAD_VALUE, f"`{name}` must not be null", "use `isNull` to find missing values")
    found = constant(typed_value(known, value), known.type)
    if found is None:
        raise RequestError(BAD_VALUE, f"`{name}`: filters on the type {type_text(known.type)} are not supported here")
    return found
