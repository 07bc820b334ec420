"""An operation as a `Read`: which rows and columns of which relations, under which names.

In: a validated operation, its fragments and variables, a `Model`. Out: a `PlannedRead`: the read, where each bound value comes
from, and the operation's cost. Everything that a client names is looked up in the model here; nothing it wrote reaches SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from graphql import FieldNode, FragmentDefinitionNode, FragmentSpreadNode, InlineFragmentNode, SelectionNode, SelectionSetNode

from belvedere.api.conditions import as_list, is_keyed, where
from belvedere.api.entities import Entity, Model, RelationshipField, Template
from belvedere.api.failures import BAD_VALUE, LIMIT_EXCEEDED, RequestError
from belvedere.api.limits import Limits
from belvedere.api.types import SORT_ORDERS
from belvedere.api.values import ArgumentValues, Fixed, Given, Scalar, ValueSource
from belvedere.catalog import Parameter
from belvedere.schema import TIMESTAMP, Column
from belvedere.store.read.cursors import order_mark
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
from belvedere.store.read.statements import ordered


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
class SelectionPlanner:
    """Turns the selections of one operation into queries."""

    model: Model
    limits: Limits
    values: ArgumentValues
    fragments: Mapping[str, FragmentDefinitionNode]
    sources: list[ValueSource] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    cursors: list[tuple[ValueSource, int, str]] = field(default_factory=list)
    bounded: list[int] = field(default_factory=list)
    instants: list[tuple[str, int, bool]] = field(default_factory=list)
    as_of: Instant | None = None
    """The former state that the present root field asks for; related rows are those of the same state."""

    def plan(self, selections: SelectionSetNode) -> PlannedRead:
        """The read for an operation's root selections (introspection aside)."""
        fields: list[Field] = []
        costs: list[Cost] = []
        by_field = self._root_fields()
        for alias, nodes in self.collect((selections,)).items():
            name = nodes[0].name.value
            if name.startswith("__"):
                fields += [ConstantField(alias, "Query")] if name == "__typename" else []
            elif name == "nothing" and name not in by_field:
                fields.append(ConstantField(alias, ""))
            else:
                query, cost = by_field[name](nodes)
                fields.append(Nested(alias, query))
                costs.append(cost)
        return PlannedRead(
            Read(tuple(fields)),
            tuple(self.sources),
            tuple(self.names),
            tuple(self.cursors),
            tuple(costs),
            tuple(self.bounded),
            tuple(dict.fromkeys(self.instants)),
        )

    def _root_fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for entity in (e for e in self.model.entities.values() if e.field):
            found[entity.field] = lambda nodes, e=entity: self.list_of(e, nodes, 1)
            if entity.by_key is not None:
                found[entity.by_key] = lambda nodes, e=entity: self.by_key(e, nodes)
            if entity.page is not None:
                found[entity.page] = lambda nodes, e=entity: self.page(e, nodes)
        for name, template in self.model.templates.items():
            found[name] = lambda nodes, t=template: self.template(t, nodes)
        return found

    # selections

    def collect(self, sets: Iterable[SelectionSetNode | None]) -> dict[str, list[FieldNode]]:
        """The fields of selection sets by response key, fragments spread, @skip and @include obeyed."""
        result: dict[str, list[FieldNode]] = {}
        for selections in sets:
            seen: set[str] = set()
            for node in self._spread(selections, seen):
                result.setdefault((node.alias or node.name).value, []).append(node)
        return result

    def _spread(self, selections: SelectionSetNode | None, seen: set[str]) -> Iterator[FieldNode]:
        for node in () if selections is None else selections.selections:
            if not self._is_included(node):
                continue
            if isinstance(node, FieldNode):
                yield node
            elif isinstance(node, InlineFragmentNode):
                yield from self._spread(node.selection_set, seen)
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                seen.add(node.name.value)
                yield from self._spread(self.fragments[node.name.value].selection_set, seen)

    def _is_included(self, node: SelectionNode) -> bool:
        said = ((d.name.value, self.values.boolean(a.value)) for d in node.directives or () for a in d.arguments or ())
        return all(value is not (name == "skip") for name, value in said)

    def fields_of(self, entity: Entity, nodes: list[FieldNode], depth: int) -> tuple[tuple[Field, ...], list[Cost]]:
        """The selected fields of an entity's rows."""
        if depth > self.limits.depth:
            hint = f"at most {self.limits.depth} levels may be nested in each other"
            raise RequestError(LIMIT_EXCEEDED, f"the request is nested {depth} levels deep", hint, node=nodes[0])
        fields: list[Field] = []
        costs: list[Cost] = []
        for alias, found in self.collect(n.selection_set for n in nodes).items():
            name = found[0].name.value
            if name == "__typename":
                fields.append(ConstantField(alias, entity.type_name))
            elif name in entity.columns:
                fields.append(ColumnField(alias, entity.columns[name].name))
            elif name in entity.relations:
                query, cost = self.relation(entity.relations[name], found, depth + 1)
                fields.append(Nested(alias, query))
                costs.append(cost)
            else:
                raise RequestError(BAD_VALUE, f"`{entity.type_name}` has no column to show", "add a column", node=found[0])
        return tuple(fields), costs

    # queries

    def list_of(
        self, entity: Entity, nodes: list[FieldNode], depth: int, relation: RelationshipField | None = None
    ) -> tuple[StoreQuery, Cost]:
        """Rows of an entity with the arguments of a field."""
        own = () if relation is None else relation.parameters
        arguments = {n: a for n, a in self.arguments(nodes[0]).items() if n not in own}
        as_of = self.then(entity, nodes[0], arguments, relation)
        fields, costs = self.fields_of(entity, nodes, depth)
        condition = self.condition(entity, arguments)
        limit, source = self.limit(arguments.get("limit"), "limit")
        default = () if relation is not None and relation.link.order else entity.order
        query = StoreQuery(
            entity.id,
            entity.schema,
            fields,
            where=condition,
            order=self.order(entity, arguments.get("order")) or default,
            limit=limit,
            offset=self.offset(arguments.get("offset")),
            link=None if relation is None else relation.link,
            as_of=as_of,
        )
        return query, Cost(len(fields), 1 if is_keyed(entity, condition) else source, tuple(costs))

    def relation(self, relation: RelationshipField, nodes: list[FieldNode], depth: int) -> tuple[StoreQuery, Cost]:
        """Related rows, or the one related row."""
        entity = self.model.entities[relation.target]
        if relation.parameters:
            bound = self.bound(relation.name, relation.parameters, self.arguments(nodes[0]))
            relation = replace(relation, link=replace(relation.link, arguments=bound))
        if not relation.to_one:
            return self.list_of(entity, nodes, depth, relation)
        as_of = self.then(entity, nodes[0], {}, relation)
        return self._one(entity, nodes, depth, link=relation.link, as_of=as_of)

    def _one(self, entity: Entity, nodes: list[FieldNode], depth: int, **query: Any) -> tuple[StoreQuery, Cost]:
        fields, costs = self.fields_of(entity, nodes, depth)
        found = StoreQuery(entity.id, entity.schema, fields, Shape.ONE, limit=1, **query)
        return found, Cost(len(fields), 1, tuple(costs))

    def by_key(self, entity: Entity, nodes: list[FieldNode]) -> tuple[StoreQuery, Cost]:
        """The row with a key."""
        arguments = self.arguments(nodes[0])
        conditions = tuple(
            Comparison(column.name, Operator.EQ, self.parameter(arguments[name], column, Role.EXACT, name))
            for name, column in entity.key.items()
        )
        as_of = self.then(entity, nodes[0], {k: v for k, v in arguments.items() if k not in entity.key})
        return self._one(entity, nodes, 1, where=Every(conditions), as_of=as_of)

    def page(self, entity: Entity, nodes: list[FieldNode]) -> tuple[StoreQuery, Cost]:
        """One page of an entity's rows in a total order."""
        arguments = self.arguments(nodes[0])
        as_of = self.then(entity, nodes[0], arguments)
        names, costs = self.page_names(entity, nodes)
        limit, source = self.limit(arguments.get("first"), "first")
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
        query = replace(query, after=self.after(query, arguments.get("after")))
        return query, Cost(3 + sum(len(f) for _, f in names.nodes), source, tuple(costs))

    def page_names(self, entity: Entity, nodes: list[FieldNode]) -> tuple[PageNames, list[Cost]]:
        lists: list[tuple[str, tuple[Field, ...]]] = []
        costs: list[Cost] = []
        parts = self.collect(n.selection_set for n in nodes)
        by_name: dict[str, list[str]] = {}
        for alias, found in parts.items():
            name = found[0].name.value
            by_name.setdefault(name, []).append(alias)
            if name == "nodes":
                fields, nested = self.fields_of(entity, found, 1)
                lists.append((alias, fields))
                costs += nested
        constants = tuple(ConstantField(a, entity.page_type) for a in by_name.get("__typename", ()))
        cursors, more = tuple(by_name.get("endCursor", ())), tuple(by_name.get("hasNextPage", ()))
        return PageNames(tuple(lists), cursors, more, constants, tuple(parts)), costs

    def after(self, query: StoreQuery, given: Given | None) -> tuple[BoundValue, ...] | None:
        """The values of a cursor, decoded when the plan is bound."""
        if not isinstance(given, Scalar):
            return None
        sorts = ordered(query)
        self.cursors.append((given.source, len(sorts), order_mark(query, sorts)))
        which = len(self.cursors) - 1
        columns = [query.schema.find(s.column) for s in sorts]
        numbers = [self.register(("cursor", which, n), "after") for n in range(len(sorts))]
        types = [pa.string() if c is None else c.type for c in columns]
        return tuple(BoundValue(n, t, Role.CURSOR, nullable=True) for n, t in zip(numbers, types, strict=True))

    def template(self, template: Template, nodes: list[FieldNode]) -> tuple[StoreQuery, Cost]:
        """The rows of a query template."""
        arguments = self.arguments(nodes[0])
        names = {a: found[0].name.value for a, found in self.collect(n.selection_set for n in nodes).items()}
        fields = tuple(
            ConstantField(a, template.type_name) if n == "__typename" else ColumnField(a, template.columns[n].name)
            for a, n in names.items()
        )
        limit, source = self.limit(arguments.get("limit"), "limit")
        query = StoreQuery(
            template.template.name,
            template.template.schema,
            fields,
            order=plan_order(template.template.plan),
            limit=limit,
            offset=self.offset(arguments.get("offset")),
            plan=template.template.plan,
            arguments=self.bound(template.template.name, template.parameters, arguments),
        )
        return query, Cost(len(fields), source)

    def bound(
        self, of: str, parameters: Mapping[str, Parameter], arguments: Mapping[str, Given]
    ) -> tuple[tuple[str, BoundValue], ...]:
        """The values of the parameters of a template or relationship."""
        given = {n: _given_or_default(arguments, n, p) for n, p in parameters.items() if p.metadata is None}
        return tuple((p.name, self.argument(of, p, given.get(n), n)) for n, p in parameters.items())

    def argument(self, of: str, parameter: Parameter, given: Given | None, name: str) -> BoundValue:
        """The value of a parameter: what the caller gives, or what the caller's token says."""
        if given is None:
            return BoundValue(self.register(("claim", of, parameter), name), parameter.type, Role.ARGUMENT)
        return self.parameter(given, Column(parameter.name, parameter.type, parameter.nullable), Role.ARGUMENT, name)

    def then(
        self, entity: Entity, node: FieldNode, arguments: Mapping[str, Given], relation: RelationshipField | None = None
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

    def instant(self, given: Given | None, node: FieldNode) -> Instant | None:
        """`{epoch: 5}` or `{time: "..."}`."""
        if not isinstance(given, dict):
            return None
        said = {n: v for n, v in given.items() if isinstance(v, Scalar)}
        if len(said) != 1 or len(given) != 1:
            raise RequestError(BAD_VALUE, "`asOf` takes an epoch or a time", "write `asOf: {epoch: 5}`", node=node)
        ((name, value),) = said.items()
        by_time = name == "time"
        type_ = TIMESTAMP if by_time else pa.int64()
        return Instant(BoundValue(self.register(value.source, f"asOf.{name}"), type_), by_time)

    # arguments

    def condition(self, entity: Entity, arguments: Mapping[str, Given]) -> Condition | None:
        """What a root field's arguments ask of its rows: those that hints gave it, and `filter`."""
        given = {n: arguments[n] for n in entity.arguments if n in arguments and arguments[n] != Fixed(None)}
        equal = [
            Comparison(column.name, Operator.EQ, self.parameter(given[n], column, Role.EXACT, n))
            for n, (column, _) in entity.arguments.items()
            if n in given
        ]
        asked = where(entity, arguments.get("filter"), self.parameter)
        if not equal:
            return asked
        return Every((*equal, *(asked.parts if isinstance(asked, Every) else [asked] if asked is not None else [])))

    def arguments(self, node: FieldNode) -> dict[str, Given]:
        """A field's arguments that were given."""
        read = ((a.name.value, self.values.read(a.value)) for a in node.arguments or ())
        return {name: value for name, value in read if value is not None}

    def register(self, source: ValueSource, name: str) -> int:
        """The number of a value that comes from `source`."""
        self.sources.append(source)
        self.names.append(name)
        return len(self.sources) - 1

    def parameter(self, given: Given, column: Column, role: Role, name: str) -> BoundValue:
        """A scalar argument as a parameter of a column's type."""
        if isinstance(given, Scalar):
            return BoundValue(self.register(given.source, name), column.type, role)
        if isinstance(given, Fixed):
            nullable = role is Role.ARGUMENT
            if given.value is None and not nullable:
                raise RequestError(BAD_VALUE, f"`{name}` must not be null", "write `isNull: true` to ask for missing values")
            return BoundValue(self.register(("constant", given.value), name), column.type, role, nullable)
        raise RequestError(BAD_VALUE, f"`{name}` takes one value")

    def limit(self, given: Given | None, name: str) -> tuple[BoundValue | int, ValueSource | int]:
        """A list's bound, and what it means for the cost: a list without one is assumed to be short."""
        if isinstance(given, Scalar):
            number = self.register(given.source, name)
            self.bounded.append(number)
            return BoundValue(number, pa.int64(), Role.LIMIT), given.source
        return self.limits.rows, self.limits.assumed_rows

    def offset(self, given: Given | None) -> BoundValue | None:
        if isinstance(given, Scalar):
            return BoundValue(self.register(given.source, "offset"), pa.int64(), Role.OFFSET)
        return None

    def order(self, entity: Entity, given: Given | None) -> tuple[Sort, ...]:
        """`[{a: DESC}, {b: ASC}]`; the first mention of a column counts."""
        result: dict[str, Sort] = {}
        for name, direction in (pair for part in as_list(given) if isinstance(part, dict) for pair in part.items()):
            # an enum that came in a variable is a string there, and part of the plan's shape
            value = self.values.scalar(direction) if isinstance(direction, Scalar) else getattr(direction, "value", None)
            if value is not None:
                column = entity.columns[name].name
                result.setdefault(column, Sort(column, *SORT_ORDERS[str(value)]))
        return tuple(result.values())


def _given_or_default(arguments: Mapping[str, Given], name: str, parameter: Parameter) -> Given:
    """A template's argument; a null for a parameter that has a default is refused, as GraphQL says."""
    given = arguments.get(name, Fixed(parameter.default))
    if isinstance(given, Fixed) and given.value is None and parameter.default is not None:
        raise RequestError(BAD_VALUE, f"`{name}` must not be null", "leave it out to get its default")
    return given
