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

from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.graphql.scalars import SORT_ORDERS
from belvedere.api.graphql.selections import Selection
from belvedere.api.limits import Limits
from belvedere.api.reads.aggregate_planning import groups_of
from belvedere.api.reads.argument_values import Fixed, Given, Scalar, ValueSource
from belvedere.api.reads.bound_values import AskedCursor, BoundValues
from belvedere.api.reads.conditions import FilterReader, as_list, is_keyed
from belvedere.api.reads.costs import Cost, asked_costs
from belvedere.api.reads.entities import Entity, Model, RelationshipField, Template
from belvedere.api.reads.page_planning import page_of
from belvedere.api.reads.structs import StructType
from belvedere.schema import TIMESTAMP, Column
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
    MemberField,
    Nested,
    Operator,
    Read,
    Role,
    Shape,
    Sort,
    StoreQuery,
)


@dataclass(frozen=True)
class PlannedRead:
    """A read, the sources of its values by number, cursors to decode, and its cost."""

    read: Read
    sources: tuple[ValueSource, ...]
    names: tuple[str, ...]
    """For messages: what each value is called."""
    cursors: tuple[AskedCursor, ...]
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
        """Queries as a read of the rows that the model's callers may see."""
        read = Read(tuple(fields), self.values.guards(self.model.grant))
        return PlannedRead(
            read,
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
                found[entity.page] = partial(page_of, self, entity, depth=1)
            if entity.aggregate is not None:
                found[entity.aggregate] = partial(groups_of, self, entity, depth=1)
        for name, template in self.model.templates.items():
            found[name] = partial(self.template, template)
        return found

    def fields_of(self, entity: Entity, asked: Selection, depth: int) -> tuple[tuple[Field, ...], list[Cost]]:
        """The selected fields of an entity's rows."""
        self.check_depth(depth, asked.node)
        fields: list[Field] = []
        costs: list[Cost] = []
        for found in asked.fields:
            alias, name = found.alias, found.name
            if name == "__typename":
                fields.append(ConstantField(alias, entity.type_name))
            elif name in entity.structs and name in entity.columns and found.fields:
                fields.append(self.members_of(entity.columns[name], entity.structs[name], found, depth + 1))
            elif name in entity.columns:
                fields.append(ColumnField(alias, entity.columns[name].name))
            elif (related := self._related_field(entity, name)) is not None:
                query, cost = related(found, depth + 1)
                fields.append(Nested(alias, query))
                costs.append(cost)
            else:
                raise RequestError(BAD_VALUE, f"`{entity.type_name}` has no column to show", "add a column", node=found.node)
        return tuple(fields), costs

    def members_of(
        self, column: Column, struct: StructType, asked: Selection, depth: int, path: tuple[str, ...] = ()
    ) -> MemberField:
        """The selected members of an object that a column holds."""
        self.check_depth(depth, asked.node)
        fields: list[MemberField | ConstantField] = []
        for found in asked.fields:
            if found.name == "__typename":
                fields.append(ConstantField(found.alias, struct.type_name))
                continue
            member = struct.members[found.name]
            inner = (*path, member.name)
            if member.struct is not None:
                fields.append(self.members_of(column, member.struct, found, depth + 1, inner))
            else:
                fields.append(MemberField(found.alias, column.name, inner, member.type))
        return MemberField(asked.alias, column.name, path, column.type, tuple(fields))

    def check_depth(self, depth: int, node: Any) -> None:
        """Raise where a request is nested too deeply."""
        if depth > self.limits.depth:
            hint = f"at most {self.limits.depth} levels may be nested in each other"
            raise RequestError(LIMIT_EXCEEDED, f"the request is nested {depth} levels deep", hint, node=node)

    def _related_field(self, entity: Entity, name: str) -> Callable[[Selection, int], tuple[StoreQuery, Cost]] | None:
        """What a field that shows related rows asks for."""
        if name in entity.relations:
            return partial(self.relation, entity.relations[name])
        if name in entity.pages:
            return partial(self._of_many, page_of, entity.pages[name])
        return partial(self._of_many, groups_of, entity.aggregates[name]) if name in entity.aggregates else None

    def _of_many(self, make: MakeQuery, relation: RelationshipField, asked: Selection, depth: int) -> tuple[StoreQuery, Cost]:
        return make(self, self.model.entities[relation.target], asked, depth, self.given(relation, asked.arguments))

    # queries

    def list_of(
        self, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Rows of an entity with the arguments of a field."""
        arguments = _others(asked, relation)
        as_of = self.then(entity, asked.node, arguments, relation)
        fields, costs = self.fields_of(entity, asked, depth)
        condition = self.condition(entity, arguments, depth)
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
        rows = 1 if is_keyed(entity, condition) else source
        return query, Cost(len(fields), rows, (*costs, *asked_costs(condition, self.limits)))

    def given(self, relation: RelationshipField, arguments: Mapping[str, Given]) -> RelationshipField:
        """The relationship with the values of its parameters."""
        if not relation.parameters:
            return relation
        bound = self.values.arguments(relation.name, relation.parameters, arguments)
        return replace(relation, link=replace(relation.link, arguments=bound))

    def relation(self, relation: RelationshipField, asked: Selection, depth: int) -> tuple[StoreQuery, Cost]:
        """Related rows, or the one related row."""
        entity = self.model.entities[relation.target]
        relation = self.given(relation, asked.arguments)
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

    def template(self, template: Template, asked: Selection) -> tuple[StoreQuery, Cost]:
        """The rows of a query template."""
        if template.rows is not None:
            self.as_of = None
            query, cost = self.relation(template.rows, asked, 1)
            return replace(query, template=template.template.name), cost
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

    def condition(self, entity: Entity, arguments: Mapping[str, Given], depth: int) -> Condition | None:
        """What a field's arguments ask of its rows: those that hints gave it, and `filter`."""
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

    def _asked_rows(self, relation: RelationshipField, arguments: Mapping[str, Given], given: Given, depth: int) -> StoreQuery:
        """The related rows that a filter asks about."""
        self.check_depth(depth, None)
        entity = self.model.entities[relation.target]
        link = self.given(relation, arguments).link
        as_of = self.then(entity, None, {}, relation)
        where = self._filters.read(entity, given, depth)
        most = 1 if relation.to_one else self.limits.rows
        return StoreQuery(entity.id, entity.schema, (), Shape.ANY, where=where, limit=most, link=link, as_of=as_of)

    def order(self, entity: Entity, given: Given | None) -> tuple[Sort, ...]:
        """`[{a: DESC}, {b: ASC}]`; the first mention of a column counts."""
        result: dict[str, Sort] = {}
        for name, given_direction in (pair for part in as_list(given) if isinstance(part, dict) for pair in part.items()):
            found = self.direction(given_direction)
            if found is not None:
                column = entity.columns[name].name
                result.setdefault(column, Sort(column, *found))
        return tuple(result.values())

    def direction(self, given: Given) -> tuple[bool, bool] | None:
        """A direction of an order: whether it is descending, and whether NULLs come first; None for null."""
        # an enum that came in a variable is a string there, and part of the plan's shape
        value = self.scalar(given) if isinstance(given, Scalar) else getattr(given, "value", None)
        return None if value is None else SORT_ORDERS[str(value)]


MakeQuery = Callable[[ReadPlanner, Entity, Selection, int, RelationshipField | None], tuple[StoreQuery, Cost]]


def _others(asked: Selection, relation: RelationshipField | None) -> dict[str, Given]:
    """A field's arguments but for those that a relationship's parameters take."""
    own = () if relation is None else relation.parameters
    return {n: a for n, a in asked.arguments.items() if n not in own}
