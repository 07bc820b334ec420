"""Relationships in queries with WINDOW BY: in FROM as joins, in paths of other clauses as fields of a row.

In: a parsed query, the relations that it can name, and their relationships. Out: the query with tables in place of
FROM's paths, and the relations with a column for each relationship to one row that a path of the query names: the
related row, or NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.relationships import OWNER, Relationship, fixes_key
from belvedere.errors import Span, fail
from belvedere.plan.expressions import column, conjunction, conjuncts, map_columns
from belvedere.plan.operators.nodes import Filter, Item, Join, JoinKind, Node, Project, Scan, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.sqlpp.bindings import members
from belvedere.sqlpp.query_names import parts_of
from belvedere.sqlpp.query_tree import (
    Expr,
    FromTerm,
    Name,
    Query,
    QueryBlock,
    QueryExpression,
    RelationshipLink,
    SourceKind,
    reference,
)
from belvedere.sqlpp.spark_text.sql_text import parsed
from belvedere.sqlpp.spark_text.sql_values import name as quoted
from belvedere.sqlpp.type_rules import RELATED

Follow = Callable[[str, str], tuple[Relationship, Scan] | None]
"""Function from a relation's id and a name to the relationship of that name and the scan of its target."""
DEPTH = 8
"""Maximum number of relationships that a path follows."""


@dataclass
class LinkedTables:
    """Relations that a query can name, and those that its paths lead to; `follow` finds these."""

    sources: dict[str, Node]
    follow: Follow
    relationships: set[str] = field(default_factory=set)
    """Folded names of the relationships that paths of the query may mean."""
    tails: set[tuple[str, ...]] = field(default_factory=set)

    def linked(self, query: Query) -> Query:
        """Return the query with joins in place of the paths of relationships in FROM."""
        self.tails = set(_tails(query))
        self.sources |= self._with_fields(query)
        return self._in_from(query, frozenset())

    def _in_from(self, query: Query, hidden: Set[str]) -> Query:
        """Return the query with joins; `hidden` are folded names of WITH, which are no tables."""
        bindings = []
        for let in query.bindings:
            bindings.append(replace(let, value=self._within(let.value, hidden)))
            hidden = hidden | {let.name.text.casefold()}
        blocks = tuple(self._block(b, hidden) for b in query.blocks)
        return replace(query, bindings=tuple(bindings), blocks=blocks)

    def _within(self, expr: Expr, hidden: Set[str]) -> Expr:
        if not isinstance(expr, QueryExpression):
            return expr
        made = QueryExpression(query=self._in_from(expr.query, hidden))
        made.meta.update(expr.meta)
        return made

    def _block(self, block: QueryBlock, hidden: Set[str]) -> QueryBlock:
        terms: list[FromTerm] = []
        bound: dict[str, Scan | None] = {}  # the table of each variable, if it has one
        for term in block.sources:
            terms += self._term(replace(term, expr=self._within(term.expr, hidden)), bound, hidden)
            bound.setdefault(term.variable.text, None)
        return replace(block, sources=tuple(terms))

    def _term(self, term: FromTerm, bound: dict[str, Scan | None], hidden: Set[str]) -> Iterator[FromTerm]:
        names = list(path_of(term.expr))
        visible = names and names[0].name not in bound and names[0].name.casefold() not in hidden
        table = self._table(names[0].name) if visible else None
        if len(names) == 1 and table is not None:
            bound[term.variable.text] = table
        owner = bound.get(names[0].name) if names else None
        if owner is None and len(names) > 1 and table is not None:  # FROM Orders.items AS x
            variable = _hidden_variable(names[0].name, term, bound)
            first = FromTerm(variable, reference(names[0].name), term.kind)
            if self._steps(table, names[1:]):
                yield first
                bound[variable.text] = owner = table
                names[0] = exp.to_identifier(variable.text)
        steps = self._steps(owner, names[1:]) if owner is not None else []
        if not steps:
            yield term
            return
        if term.condition is not None:
            message = f"`{'.'.join(n.name for n in names)}` is a relationship, which has its own condition"
            hint = "remove ON; further conditions belong in WHERE"
            raise fail("B3623", message, span=term.condition.meta.get("span"), hint=hint)
        before = names[0].name
        kind = SourceKind.INNER if term.kind is SourceKind.CROSS else term.kind
        assert owner is not None
        for number, (relationship, target) in enumerate(steps):
            last = number == len(steps) - 1
            variable = term.variable if last else _hidden_variable(f"{before}.{relationship.name}", term, bound)
            source = f"${owner.relation}.{relationship.name}"
            rows = self._wider(target, self.tails, DEPTH)
            self.sources[source] = _limited(rows, relationship, term.variable.span)
            expr = exp.Column(this=exp.to_identifier(source, quoted=True))
            expr.meta["span"] = term.expr.meta.get("span")
            link = RelationshipLink(before, relationship.pairs, relationship.residual)
            yield FromTerm(variable, expr, kind, position=term.position, link=link)
            bound[variable.text] = owner = target
            before = variable.text

    def _table(self, name: str) -> Scan | None:
        node = next((n for t, n in self.sources.items() if t.casefold() == name.casefold()), None)
        return _scanned(node)

    def _steps(self, owner: Scan, names: Sequence[exp.Identifier]) -> list[tuple[Relationship, Scan]]:
        """Return the relationships that a path follows; empty if a part of it is a column or unknown."""
        found: list[tuple[Relationship, Scan]] = []
        for part in names:
            columns = {c.name.casefold() for c in members(owner.schema)}
            step = None if part.name.casefold() in columns else self.follow(owner.relation, part.name)
            if step is None:
                return []
            found.append(step)
            owner = step[1]
        return found

    # -- fields

    def _with_fields(self, query: Query) -> dict[str, Node]:
        """Return the relations with a relationship to one row that a path names, with that row as a column."""
        tables = {n.casefold() for part in parts_of(query) if isinstance(part, FromTerm) for n in _names(part)}
        found = {}
        for name, node in self.sources.items():
            if name.casefold() in tables and isinstance(node, Scan):
                wider = self._wider(node, self.tails, DEPTH)
                if wider is not node:
                    found[name] = wider
        return found

    def _wider(self, node: Scan, tails: set[tuple[str, ...]], depth: int) -> Node:
        own = {c.name.casefold() for c in members(node.schema)}
        made: Node = node
        for name in sorted({t[0].casefold() for t in tails} - own) if depth else ():
            step = self.follow(node.relation, name)
            if step is None:
                continue
            self.relationships.add(name)
            if step[0].limit is not None:
                continue
            relationship, target = step
            if not fixes_key(relationship.pairs, node.schema, target.schema):
                continue
            further = {t[1:] for t in tails if t[0].casefold() == name and len(t) > 1}
            made = _with_row(made, relationship, self._wider(target, further, depth - 1))
        return made


def path_of(expr: Expr) -> Iterator[exp.Identifier]:
    """Yield the names of a path; none for other expressions."""
    if isinstance(expr, exp.Column):
        yield expr.this
    elif isinstance(expr, exp.Dot) and isinstance(expr.expression, exp.Identifier):
        base = list(path_of(expr.this))
        yield from [*base, expr.expression] if base else []


def _scanned(node: Node | None) -> Scan | None:
    """Return the scan of a table, which may have further columns above it."""
    while isinstance(node, Project | Join):
        node = node.inputs[0]
    return node if isinstance(node, Scan) else None


def _names(term: FromTerm) -> Iterator[str]:
    names = [n.name for n in path_of(term.expr)]
    yield from names[:1]
    yield ".".join(names)


def _tails(query: Query) -> Iterator[tuple[str, ...]]:
    """Yield the ends of all paths of the query, without variables: `s.customer.city` has two."""
    for part in parts_of(query):
        for node in part.find_all(exp.Dot) if isinstance(part, exp.Expr) else ():
            names = [n.name for n in _fields(node)]
            yield from (tuple(names[n:]) for n in range(len(names)))


def _fields(node: Any) -> list[exp.Identifier]:
    """Return the fields that a path reads in order; elements of arrays are skipped."""
    if isinstance(node, exp.Dot):
        own = [node.expression] if isinstance(node.expression, exp.Identifier) else []
        return [*_fields(node.this), *own]
    return _fields(node.this) if isinstance(node, exp.Bracket) else []


def _hidden_variable(name: str, term: FromTerm, bound: Mapping[str, Any]) -> Name:
    """Return a variable that results do not have."""
    requested, number = f"${name}", 1
    while (found := requested if number == 1 else f"{requested}_{number}") in bound:
        number += 1
    return Name(found, term.variable.span)


def _limited(target: Node, relationship: Relationship, span: Span | None) -> Node:
    """Return the target of a relationship; with a limit, its first rows per row of the owner."""
    if relationship.limit is None:
        return target
    reads = [*conjuncts(relationship.residual), *(o.expr for o in relationship.order)]
    if any(c.table == OWNER for e in reads for c in e.find_all(exp.Column)):
        hint = "write the join here: JOIN ... ON ..."
        raise fail(
            "B4002",
            f"`{relationship.name}` has a LIMIT that depends on the row: not in FROM here",
            span=span,
            hint=hint,
        )
    node: Node = target
    if relationship.residual is not None:
        node = Filter(node, map_columns(relationship.residual, lambda c: column(c.name)))
    order = tuple(replace(o, expr=map_columns(o.expr, lambda c: column(c.name))) for o in relationship.order)
    partition = tuple(target.schema[t].name for _, t in relationship.pairs)
    return TopK(node, order, relationship.limit, partition=partition)


def _with_row(node: Node, relationship: Relationship, target: Node) -> Node:
    """Return the relation with one more column: the related row as an object, or NULL."""
    taken = {*node.schema.names}
    own: dict[str, str] = {}
    for c in target.schema:
        own[c.name] = unused_name(f"{relationship.name}${c.name}", taken)
        taken.add(own[c.name])
    there = unused_name(f"{relationship.name}$there", taken)
    items = (
        *(item_of(c, own[c.name], hidden=True) for c in target.schema),
        Item(there, exp.true(), pa.bool_(), nullable=False, hidden=True),
    )

    def joined(c: exp.Column) -> Expr:
        side = node if c.table == OWNER else target
        found = side.schema[c.name].name
        return column(found if side is node else own[found])

    equal = [
        exp.EQ(this=joined(column_of("_", o)), expression=joined(column_of("target", t))) for o, t in relationship.pairs
    ]
    rest = [map_columns(p, joined) for p in conjuncts(relationship.residual)]
    join = Join(node, Project(target, items), JoinKind.LEFT, conjunction([*equal, *rest]))
    fields = members(target.schema)
    texts = ", ".join(f"'{c.name}', {quoted(own[c.name])}" for c in fields)
    row = parsed(f"IF({quoted(there)} IS NULL, NULL, named_struct({texts}))")
    type_ = pa.struct([(c.name, c.type) for c in fields])
    return Project(join, (*(item_of(c) for c in node.schema), Item(RELATED + relationship.name, row, type_)))


def column_of(side: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(side))


def link_condition(link: RelationshipLink, owner: Mapping[str, Any], target: Mapping[str, Any]) -> Expr | None:
    """Return the condition of a join, from the fields of both variables. Raises KeyError for a hidden column."""

    def read(c: exp.Column) -> Expr:
        fields = {n.casefold(): v for n, v in (owner if c.table == OWNER else target).items()}
        return parsed(fields[c.name.casefold()].sql)

    equal = [exp.EQ(this=read(column_of("target", t)), expression=read(column_of("_", o))) for o, t in link.pairs]
    return conjunction([*equal, *(map_columns(p, read) for p in conjuncts(link.residual))])
