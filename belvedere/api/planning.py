"""What a request asks for as a `Read`: which rows and columns of which relations, under which names.

In: `Selection`s, of whatever syntax, and a `Model`. Out: a `PlannedRead`: the read, where each bound value comes from, and its cost.
Everything that a client names is looked up in the model here; nothing it wrote reaches SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from belvedere.api.bound_values import BoundValues
from belvedere.api.conditions import as_list, is_keyed, where
from belvedere.api.entities import Entity, Model, RelationshipField, Template
from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.limits import Limits
from belvedere.api.selections import Selection
from belvedere.api.types import SORT_ORDERS
from belvedere.api.values import Fixed, Given, Scalar, ValueSource
from belvedere.schema import TIMESTAMP
from belvedere.store.read.plans import plan_order
from belvedere.store.read.query import (
    BoundValue,
    ColumnField,
    Comparison,
    Condition,
    ConstantField,
    Every,
    Field,
    Instant,
    Nested,
    Operator,
    PageNames,
    Read,
    Role,
    Shape,
    Sort,
    StoreQuery,
)


@dataclass(frozen=True)
class Cost:
    """What one query may read: so many fields for each of so many rows. `limit` None: as many as its default assumes."""

    fields: int
    limit: ValueSource | int
    nested: tuple[Cost, ...] = ()


@dataclass(frozen=True)
class PlannedRead:
    """A read, the sources of its values by number, cursors to decode (`after`, number of values, the order's mark), and its cost."""

    read: Read
    sources: tuple[ValueSource, ...]
    names: tuple[str, ...]
    """For messages: what each value is called."""
    cursors: tuple[tuple[ValueSource, int, str], ...]
    costs: tuple[Cost, ...]
    bounded: tuple[int, ...] = ()
    """The values that are numbers of rows."""
    instants: tuple[tuple[str, int, bool], ...] = ()
    """The former states that are read: relation, value, whether it is a time."""


@dataclass
class ReadPlanner:
    """Turns the selections of one request into queries. `scalar` gives the value of a scalar that is part of the plan."""

    model: Model
    limits: Limits
    scalar: Callable[[Scalar], Any]
    values: BoundValues = field(init=False)
    instants: list[tuple[str, int, bool]] = field(default_factory=list)
    as_of: Instant | None = None
    """The former state that the present root field asks for; related rows are those of the same state."""

    def __post_init__(self) -> None:
        self.values = BoundValues(self.limits)

    def plan(self, selections: Iterable[Selection]) -> PlannedRead:
        """The read for a request's root selections (introspection aside)."""
        fields: list[Field] = []
        costs: list[Cost] = []
        by_field = self._root_fields()
        for asked in selections:
            alias, name = asked.alias, asked.name
            if name.startswith("__"):
                fields += [ConstantField(alias, "Query")] if name == "__typename" else []
            elif name == "nothing" and name not in by_field:
                fields.append(ConstantField(alias, ""))
            else:
                query, cost = by_field[name](asked)
                fields.append(Nested(alias, query))
                costs.append(cost)
        return self.planned(fields, costs)

    def planned(self, fields: Iterable[Field], costs: Iterable[Cost]) -> PlannedRead:
        """The read of these fields."""
        return PlannedRead(
            Read(tuple(fields)),
            tuple(self.values.sources),
            tuple(self.values.names),
            tuple(self.values.cursors),
            tuple(costs),
            tuple(self.values.bounded),
            tuple(dict.fromkeys(self.instants)),
        )

    def _root_fields(self) -> dict[str, Callable[[Selection], tuple[StoreQuery, Cost]]]:
        found: dict[str, Callable[[Selection], tuple[StoreQuery, Cost]]] = {}
        for entity in (e for e in self.model.entities.values() if e.field):
            found[entity.field] = partial(self.list_of, entity, depth=1)
            if entity.by_key is not None:
                found[entity.by_key] = partial(self.by_key, entity)
            if entity.page is not None:
                found[entity.page] = partial(self.page, entity)
        for name, template in self.model.templates.items():
            found[name] = partial(self.template, template)
        return found

    def fields_of(self, entity: Entity, asked: Selection, depth: int) -> tuple[tuple[Field, ...], list[Cost]]:
        """The selected fields of an entity's rows."""
        if depth > self.limits.depth:
            hint = f"at most {self.limits.depth} levels may be nested in each other"
            raise RequestError(LIMIT_EXCEEDED, f"the request is nested {depth} levels deep", hint, node=asked.node)
        fields: list[Field] = []
        costs: list[Cost] = []
        for found in asked.fields:
            alias, name = found.alias, found.name
            if name == "__typename":
                fields.append(ConstantField(alias, entity.type_name))
            elif name in entity.columns:
                fields.append(ColumnField(alias, entity.columns[name].name))
            elif name in entity.relations:
                query, cost = self.relation(entity.relations[name], found, depth + 1)
                fields.append(Nested(alias, query))
                costs.append(cost)
            else:
                raise RequestError(BAD_VALUE, f"`{entity.type_name}` has no column to show", "add a column", node=found.node)
        return tuple(fields), costs

    # queries

    def list_of(
        self, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Rows of an entity with the arguments of a field."""
        own = () if relation is None else relation.parameters
        arguments = {n: a for n, a in asked.arguments.items() if n not in own}
        as_of = self.then(entity, asked.node, arguments, relation)
        fields, costs = self.fields_of(entity, asked, depth)
        condition = self.condition(entity, arguments)
        limit, source = self.values.limit(arguments.get("limit"), "limit")
        default = () if relation is not None and relation.link.order else entity.order
        query = StoreQuery(
            entity.id,
            entity.schema,
            fields,
            where=condition,
            order=self.order(entity, arguments.get("order")) or default,
            limit=limit,
            offset=self.values.offset(arguments.get("offset")),
            link=None if relation is None else relation.link,
            as_of=as_of,
        )
        return query, Cost(len(fields), 1 if is_keyed(entity, condition) else source, tuple(costs))

    def relation(self, relation: RelationshipField, asked: Selection, depth: int) -> tuple[StoreQuery, Cost]:
        """Related rows, or the one related row."""
        entity = self.model.entities[relation.target]
        if relation.parameters:
            bound = self.values.arguments(relation.name, relation.parameters, asked.arguments)
            relation = replace(relation, link=replace(relation.link, arguments=bound))
        if not relation.to_one:
            return self.list_of(entity, asked, depth, relation)
        as_of = self.then(entity, asked.node, {}, relation)
        return self._one(entity, asked, depth, link=relation.link, as_of=as_of)

    def _one(self, entity: Entity, asked: Selection, depth: int, **query: Any) -> tuple[StoreQuery, Cost]:
        fields, costs = self.fields_of(entity, asked, depth)
        found = StoreQuery(entity.id, entity.schema, fields, Shape.ONE, limit=1, **query)
        return found, Cost(len(fields), 1, tuple(costs))

    def by_key(self, entity: Entity, asked: Selection) -> tuple[StoreQuery, Cost]:
        """The row with a key."""
        arguments = asked.arguments
        conditions = tuple(
            Comparison(column.name, Operator.EQ, self.values.parameter(arguments[name], column, Role.EXACT, name))
            for name, column in entity.key.items()
        )
        as_of = self.then(entity, asked.node, {k: v for k, v in arguments.items() if k not in entity.key})
        return self._one(entity, asked, 1, where=Every(conditions), as_of=as_of)

    def page(self, entity: Entity, asked: Selection) -> tuple[StoreQuery, Cost]:
        """One page of an entity's rows in a total order."""
        arguments = asked.arguments
        as_of = self.then(entity, asked.node, arguments)
        names, costs = self.page_names(entity, asked)
        limit, source = self.values.limit(arguments.get("first"), "first")
        query = StoreQuery(
            entity.id,
            entity.schema,
            (),
            Shape.PAGE,
            where=self.condition(entity, arguments),
            order=self.order(entity, arguments.get("order")) or entity.order,
            limit=limit,
            page=names,
            as_of=as_of,
        )
        query = replace(query, after=self.values.after(query, arguments.get("after")))
        return query, Cost(3 + sum(len(f) for _, f in names.nodes), source, tuple(costs))

    def page_names(self, entity: Entity, asked: Selection) -> tuple[PageNames, list[Cost]]:
        lists: list[tuple[str, tuple[Field, ...]]] = []
        costs: list[Cost] = []
        by_name: dict[str, list[str]] = {}
        for found in asked.fields:
            alias, name = found.alias, found.name
            by_name.setdefault(name, []).append(alias)
            if name == "nodes":
                fields, nested = self.fields_of(entity, found, 1)
                lists.append((alias, fields))
                costs += nested
        constants = tuple(ConstantField(a, entity.page_type) for a in by_name.get("__typename", ()))
        cursors, more = tuple(by_name.get("endCursor", ())), tuple(by_name.get("hasNextPage", ()))
        return PageNames(tuple(lists), cursors, more, constants, tuple(f.alias for f in asked.fields)), costs

    def template(self, template: Template, asked: Selection) -> tuple[StoreQuery, Cost]:
        """The rows of a query template."""
        arguments = asked.arguments
        fields = tuple(
            ConstantField(f.alias, template.type_name)
            if f.name == "__typename"
            else ColumnField(f.alias, template.columns[f.name].name)
            for f in asked.fields
        )
        limit, source = self.values.limit(arguments.get("limit"), "limit")
        query = StoreQuery(
            template.template.name,
            template.template.schema,
            fields,
            order=plan_order(template.template.plan),
            limit=limit,
            offset=self.values.offset(arguments.get("offset")),
            plan=template.template.plan,
            arguments=self.values.arguments(template.template.name, template.parameters, arguments),
        )
        return query, Cost(len(fields), source)

    def then(
        self, entity: Entity, node: Any, arguments: Mapping[str, Given], relation: RelationshipField | None = None
    ) -> Instant | None:
        """The state of which a field's rows are read: a root field says it, related rows follow theirs."""
        if relation is None:
            self.as_of = self.instant(arguments.get("asOf"), node)
        if self.as_of is not None:
            if not entity.history:
                hint = "end its definition in the script by WITH HISTORY, or leave it out of what is asked"
                raise RequestError(BAD_VALUE, f"`{entity.name}` has no history", hint, node=node)
            self.instants.append((entity.id, self.as_of.value.number, self.as_of.by_time))
        return self.as_of

    def instant(self, given: Given | None, node: Any) -> Instant | None:
        """`{epoch: 5}` or `{time: "..."}`."""
        if not isinstance(given, dict):
            return None
        said = {n: v for n, v in given.items() if isinstance(v, Scalar)}
        if len(said) != 1 or len(given) != 1:
            raise RequestError(BAD_VALUE, "`asOf` takes an epoch or a time", "write `asOf: {epoch: 5}`", node=node)
        ((name, value),) = said.items()
        by_time = name == "time"
        type_ = TIMESTAMP if by_time else pa.int64()
        return Instant(BoundValue(self.values.register(value.source, f"asOf.{name}"), type_), by_time)

    # arguments

    def condition(self, entity: Entity, arguments: Mapping[str, Given]) -> Condition | None:
        """What a root field's arguments ask of its rows: those that hints gave it, and `filter`."""
        given = {n: arguments[n] for n in entity.arguments if n in arguments and arguments[n] != Fixed(None)}
        equal = [
            Comparison(column.name, Operator.EQ, self.values.parameter(given[n], column, Role.EXACT, n))
            for n, (column, _) in entity.arguments.items()
            if n in given
        ]
        asked = where(entity, arguments.get("filter"), self.values.parameter)
        if not equal:
            return asked
        return Every((*equal, *(asked.parts if isinstance(asked, Every) else [asked] if asked is not None else [])))

    def order(self, entity: Entity, given: Given | None) -> tuple[Sort, ...]:
        """`[{a: DESC}, {b: ASC}]`; the first mention of a column counts."""
        result: dict[str, Sort] = {}
        for name, direction in (pair for part in as_list(given) if isinstance(part, dict) for pair in part.items()):
            # an enum that came in a variable is a string there, and part of the plan's shape
            value = self.scalar(direction) if isinstance(direction, Scalar) else getattr(direction, "value", None)
            if value is not None:
                column = entity.columns[name].name
                result.setdefault(column, Sort(column, *SORT_ORDERS[str(value)]))
        return tuple(result.values())
