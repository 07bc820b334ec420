"""Plan of a request as a `Read`: which rows and columns of which relations, under which names.

In: `Selection`s, of any syntax, and a `Model`. Out: a `PlannedRead`: the read, the source of each bound value, and its
cost. Every name of the client is looked up in the model; no text of the client reaches SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from belvedere.api.failures import BAD_VALUE, RequestError
from belvedere.api.graphql.selections import Selection
from belvedere.api.reads.aggregate_planning import groups_of
from belvedere.api.reads.argument_values import Given, ValueSource
from belvedere.api.reads.bound_values import CursorToDecode
from belvedere.api.reads.costs import Cost, asked_costs
from belvedere.api.reads.entities import Entity, RelationshipField, Template
from belvedere.api.reads.filters import is_keyed
from belvedere.api.reads.page_planning import page_of
from belvedere.api.reads.request_values import RequestValues
from belvedere.api.reads.structs import StructType
from belvedere.schema import Column
from belvedere.store.read.plans import plan_order
from belvedere.store.read.query import (
    ColumnField,
    Comparison,
    ConstantField,
    Every,
    Field,
    MemberField,
    Nested,
    Operator,
    Read,
    Role,
    Shape,
    StoreQuery,
)

MakeQuery = Callable[[Entity, Selection, int, RelationshipField | None], tuple[StoreQuery, Cost]]


@dataclass(frozen=True)
class PlannedRead:
    """A read, the sources of its values by number, cursors to decode, and its cost."""

    read: Read
    sources: tuple[ValueSource, ...]
    names: tuple[str, ...]
    """Name of each value in messages."""
    cursors: tuple[CursorToDecode, ...]
    costs: tuple[Cost, ...]
    bounded: tuple[int, ...] = ()
    """Values that are numbers of rows."""
    instants: tuple[tuple[str, int, bool], ...] = ()
    """Former states that it reads: relation, value, and whether the value is a time."""


class ReadPlanner(RequestValues):
    """Converts the selections of one request to queries."""

    def plan(self, selections: Iterable[Selection]) -> PlannedRead:
        """Return the read for a request's root selections, without introspection."""
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
        """Return queries as a read of the rows that the model's callers may see."""
        read = Read(tuple(fields), self.values.row_conditions(self.model.grant))
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
                found[entity.page] = partial(self.page, entity, depth=1)
            if entity.aggregate is not None:
                found[entity.aggregate] = partial(self.groups, entity, depth=1)
        for name, template in self.model.templates.items():
            found[name] = partial(self.template, template)
        return found

    def fields_of(self, entity: Entity, asked: Selection, depth: int) -> tuple[tuple[Field, ...], list[Cost]]:
        """Return the selected fields of an entity's rows."""
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
                raise RequestError(
                    BAD_VALUE, f"`{entity.type_name}` has no column to select", "add a column", node=found.node
                )
        return tuple(fields), costs

    def members_of(
        self, column: Column, struct: StructType, asked: Selection, depth: int, path: tuple[str, ...] = ()
    ) -> MemberField:
        """Return the selected members of an object that a column holds."""
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

    def _related_field(self, entity: Entity, name: str) -> Callable[[Selection, int], tuple[StoreQuery, Cost]] | None:
        """Return the planner of a field with related rows."""
        if name in entity.relations:
            return partial(self.relation, entity.relations[name])
        if name in entity.pages:
            return partial(self._of_many, self.page, entity.pages[name])
        return partial(self._of_many, self.groups, entity.aggregates[name]) if name in entity.aggregates else None

    def _of_many(
        self, make: MakeQuery, relation: RelationshipField, asked: Selection, depth: int
    ) -> tuple[StoreQuery, Cost]:
        return make(self.model.entities[relation.target], asked, depth, self.given(relation, asked.arguments))

    # queries

    def page(
        self, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Return the query for one page of an entity's rows, or of related rows."""
        return page_of(self, self.fields_of, entity, asked, depth, relation)

    def groups(
        self, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Return the query for groups of an entity's rows, or of related rows."""
        return groups_of(self, entity, asked, depth, relation)

    def list_of(
        self, entity: Entity, asked: Selection, depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Return the query for rows of an entity with the arguments of a field."""
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

    def relation(self, relation: RelationshipField, asked: Selection, depth: int) -> tuple[StoreQuery, Cost]:
        """Return the query for related rows, or for the one related row."""
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
        """Return the query for the row with a key."""
        arguments = asked.arguments
        conditions = tuple(
            Comparison(column.name, Operator.EQ, self.values.parameter(arguments[name], column, Role.EXACT, name))
            for name, column in entity.key.items()
        )
        as_of = self.then(entity, asked.node, {k: v for k, v in arguments.items() if k not in entity.key})
        return self._one(entity, asked, 1, where=Every(conditions), as_of=as_of)

    def template(self, template: Template, asked: Selection) -> tuple[StoreQuery, Cost]:
        """Return the query for the rows of a query template."""
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


def _others(asked: Selection, relation: RelationshipField | None) -> dict[str, Given]:
    """Return a field's arguments without those for a relationship's parameters."""
    own = () if relation is None else relation.parameters
    return {n: a for n, a in asked.arguments.items() if n not in own}
