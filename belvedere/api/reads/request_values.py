"""Values of the arguments of a request's fields: conditions, orders, parameters, the former state.

In: the arguments of a field, for a list, a page or groups. Out: parts of queries, in which values are bound and not
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.graphql.scalars import SORT_ORDERS
from belvedere.api.limits import Limits
from belvedere.api.reads.argument_values import Fixed, Given, Scalar
from belvedere.api.reads.bound_values import BoundValues
from belvedere.api.reads.entities import Entity, Model, RelationshipField
from belvedere.api.reads.filters import FilterReader, as_list
from belvedere.schema import TIMESTAMP
from belvedere.store.read.query import (
    BoundValue,
    Comparison,
    Condition,
    Every,
    Instant,
    Operator,
    Role,
    Shape,
    Sort,
    StoreQuery,
)


@dataclass
class RequestValues:
    """The values of one request. `scalar` returns the value of a scalar that is part of the plan."""

    model: Model
    limits: Limits
    scalar: Callable[[Scalar], Any]
    values: BoundValues = field(init=False)
    instants: list[tuple[str, int, bool]] = field(default_factory=list)
    as_of: Instant | None = None
    """Former state that the current root field requests; related rows are read from the same state."""

    def __post_init__(self) -> None:
        self.values = BoundValues(self.limits)

    def check_depth(self, depth: int, node: Any) -> None:
        """Raise if a request is nested too deeply."""
        if depth > self.limits.depth:
            hint = f"at most {self.limits.depth} levels may be nested in each other"
            raise RequestError(LIMIT_EXCEEDED, f"the request is nested {depth} levels deep", hint, node=node)

    def given(self, relation: RelationshipField, arguments: Mapping[str, Given]) -> RelationshipField:
        """Return the relationship with values for its parameters."""
        if not relation.parameters:
            return relation
        bound = self.values.arguments(relation.name, relation.parameters, arguments)
        return replace(relation, link=replace(relation.link, arguments=bound))

    def then(
        self, entity: Entity, node: Any, arguments: Mapping[str, Given], relation: RelationshipField | None = None
    ) -> Instant | None:
        """Return the state from which a field's rows are read. A root field sets it; related rows use the same
        state."""
        if relation is None:
            self.as_of = self.instant(arguments.get("asOf"), node)
        if self.as_of is not None:
            if not entity.history:
                hint = "end its definition in the script by WITH HISTORY, or do not select it"
                raise RequestError(BAD_VALUE, f"`{entity.name}` has no history", hint, node=node)
            self.instants.append((entity.id, self.as_of.value.number, self.as_of.by_time))
        return self.as_of

    def instant(self, given: Given | None, node: Any) -> Instant | None:
        """Return the instant of `{epoch: 5}` or `{time: "..."}`."""
        if not isinstance(given, dict):
            return None
        said = {n: v for n, v in given.items() if isinstance(v, Scalar)}
        if len(said) != 1 or len(given) != 1:
            raise RequestError(BAD_VALUE, "`asOf` takes an epoch or a time", "write `asOf: {epoch: 5}`", node=node)
        ((name, value),) = said.items()
        by_time = name == "time"
        type_ = TIMESTAMP if by_time else pa.int64()
        return Instant(BoundValue(self.values.register(value.source, f"asOf.{name}"), type_), by_time)

    def condition(self, entity: Entity, arguments: Mapping[str, Given], depth: int) -> Condition | None:
        """Return the condition of a field's arguments: the arguments that hints define, and `filter`."""
        given = {n: arguments[n] for n in entity.arguments if n in arguments and arguments[n] != Fixed(None)}
        equal = [
            Comparison(column.name, Operator.EQ, self.values.parameter(given[n], column, Role.EXACT, n))
            for n, (column, _) in entity.arguments.items()
            if n in given
        ]
        asked = self._filters.read(entity, arguments.get("filter"), depth)
        if not equal:
            return asked
        return Every((*equal, *(asked.parts if isinstance(asked, Every) else [asked] if asked is not None else [])))

    @property
    def _filters(self) -> FilterReader:
        return FilterReader(self.values.parameter, self._asked_rows)

    def _asked_rows(
        self, relation: RelationshipField, arguments: Mapping[str, Given], given: Given, depth: int
    ) -> StoreQuery:
        """Return the related rows that a filter tests."""
        self.check_depth(depth, None)
        entity = self.model.entities[relation.target]
        link = self.given(relation, arguments).link
        as_of = self.then(entity, None, {}, relation)
        where = self._filters.read(entity, given, depth)
        most = 1 if relation.to_one else self.limits.rows
        return StoreQuery(entity.id, entity.schema, (), Shape.ANY, where=where, limit=most, link=link, as_of=as_of)

    def order(self, entity: Entity, given: Given | None) -> tuple[Sort, ...]:
        """Return the order of `[{a: DESC}, {b: ASC}]`; the first use of a column counts."""
        result: dict[str, Sort] = {}
        for name, given_direction in (
            pair for part in as_list(given) if isinstance(part, dict) for pair in part.items()
        ):
            found = self.direction(given_direction)
            if found is not None:
                column = entity.columns[name].name
                result.setdefault(column, Sort(column, *found))
        return tuple(result.values())

    def direction(self, given: Given) -> tuple[bool, bool] | None:
        """Return whether a sort direction is descending, and whether NULLs come first; None for null."""
        # an enum that came in a variable is a string there, and part of the plan's shape
        value = self.scalar(given) if isinstance(given, Scalar) else getattr(given, "value", None)
        return None if value is None else SORT_ORDERS[str(value)]
