"""FROM with several tables in a WINDOW BY query as one relation, their join: then windows follow the changes of each of them.

In: a query and the nodes of the tables. Out: the join as a node, whose visible columns are objects named as the variables of FROM, and the
query over it. An item of the one is an item of the other: an object with a field for each variable. The join holds every row that the
conditions can be TRUE for: it is by those equalities of columns that mean the same in SQL. All conditions stand in WHERE of the new query,
but those of LEFT JOIN: there the join says all of the condition. What has no match is MISSING again in the new query, as LET is in its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.window_by.names import before_window, free_names
from belvedere.lang.window_by.relational import ColumnObject, Meaning, Said, Unsaid, condition, is_exact, never_fails
from belvedere.lang.window_by.tree import (
    Block,
    Expr,
    FromTerm,
    Let,
    Missing,
    Name,
    Query,
    QueryExpression,
    Select,
    Selected,
    SourceKind,
)
from belvedere.plan.expressions import column, conjunction, conjuncts
from belvedere.plan.nodes import Item, Join, JoinKind, Node, Project
from belvedere.schema import Column, Schema

JOINED, ITEM = "@joined", "@row"
"""What the new query calls the join and its rows."""
SEPARATOR = "$"
THERE = "$@there"
"""Added to the variable of a LEFT JOIN, the name of a column that is TRUE where there is a match."""


def join_of(query: Query, tables: Mapping[str, Node]) -> Node | None:
    """The join of the tables of FROM; None where there are not several of them, or more is in the way than joins by equal columns."""
    if len(query.blocks) != 1 or query.bindings or query.limit is not None or query.offset is not None:
        return None
    block = query.blocks[0]
    sides = _sides(block, tables)
    others = replace(block, sources=())
    own = {s.variable.text for s in block.sources}
    named = {n.casefold() for n in free_names(replace(query, blocks=(others,)), own)}
    if sides is None or named & {n.casefold() for n in tables}:
        return None
    if any(e.find(QueryExpression) for e in before_window(block)):
        return None
    conditions = [part for e in _conditions(block) for part in conjuncts(e)]
    found, *rest = sides
    for source, side in zip(block.sources[1:], rest, strict=True):
        joined = _left(found, side, source, block) if source.kind is SourceKind.LEFT else _inner(found, side, conditions)
        if joined is None:
            return None
        found = joined
    return Project(found, (*_objects(block, tables), *(_hidden(c) for c in found.schema)))


def _inner(found: Node, side: Node, conditions: list[Expr]) -> Join | None:
    """With one table more, by those of the conditions that are equalities of columns of it; None where there are none."""
    pairs = [pair for c in conditions if (pair := _equal(c, found.schema, side.schema)) is not None]
    return Join(found, side, JoinKind.INNER, conjunction(pairs)) if pairs else None


def _left(found: Node, side: Node, source: FromTerm, block: Block) -> Join | None:
    """The same with rows that have no match: here the plan must say all of the condition."""
    known = [s for s in block.sources[: block.sources.index(source) + 1] if s is source or s.kind is not SourceKind.LEFT]
    variables: dict[str, Meaning] = {}
    columns = (*found.schema.visible, *side.schema.visible)
    for name in (s.variable.text for s in known):
        variables[name] = _record(columns, f"{name}{SEPARATOR}")
    parts = conjuncts(source.condition)
    if not any(_equal(c, found.schema, side.schema) is not None for c in parts):
        return None
    try:
        return Join(
            found, side, JoinKind.LEFT, conjunction([never_fails(condition(c, variables), c).expr.unnest() for c in parts])
        )
    except Unsaid:
        return None


def over_join(query: Query) -> Query:
    """The query over the join of its tables."""
    (block,) = query.blocks
    tables = frozenset(s.variable.text for s in block.sources)
    own = tables | {let.name.text for let in block.lets}
    assert block.window is not None
    window = replace(
        block.window,
        partition=tuple(within(e, own) for e in block.window.partition),
        order=tuple(replace(k, expr=within(k.expr, own)) for k in block.window.order),
    )
    source = FromTerm(Name(ITEM), exp.Column(this=exp.to_identifier(JOINED)))
    conditions = _conditions(block)
    if not block.lets and all(s.kind is not SourceKind.LEFT for s in block.sources):
        where = reduce(_both, (within(e, own) for e in conditions))
        return replace(query, blocks=(replace(block, sources=(source,), where=where, window=window),))
    lets = (*(Let(s.variable, _variable(s)) for s in block.sources), *block.lets)
    fields = tuple(Selected(exp.Column(this=exp.to_identifier(let.name.text)), let.name.text) for let in lets)
    inner = Block(Select(items=fields), (source,), lets, reduce(_both, conditions) if conditions else None)
    row = FromTerm(Name(ITEM), QueryExpression(query=Query((inner,))))
    return replace(query, blocks=(replace(block, sources=(row,), lets=(), where=None, window=window),))


def _variable(source: FromTerm) -> Expr:
    """What the variable of a term of FROM is in a row of the join: MISSING where a LEFT JOIN found no match."""
    value = within(exp.Column(this=exp.to_identifier(source.variable.text)), frozenset({source.variable.text}))
    if source.kind is not SourceKind.LEFT:
        return value
    blank = exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=Missing())
    return exp.Case(ifs=[blank], default=value)


def variables_of(variable: str, schema: Schema) -> ColumnObject:
    """What the variable of FROM is: the row of a table, or `@row` of a join, by the columns of the relation."""
    if variable != ITEM:
        return _record(schema.visible, "")
    hidden = [c for c in schema if c.hidden]
    return ColumnObject({c.name: _record(hidden, f"{c.name}{SEPARATOR}") for c in schema.visible})


def _record(columns: Iterable[Column], prefix: str) -> ColumnObject:
    """An object of those of the columns whose names begin so."""
    return ColumnObject({c.name[len(prefix) :]: Said(column(c.name), c.type) for c in columns if c.name.startswith(prefix)})


def _sides(block: Block, tables: Mapping[str, Node]) -> list[Node] | None:
    """The tables of FROM with their columns called `variable$column`; None where FROM has something else."""
    names = [s.variable.text for s in block.sources]
    plain = block.group is None and not block.group_lets and block.having is None and not block.select.distinct
    if block.window is None or len(names) < 2 or not plain or len({n.casefold() for n in names}) < len(names):
        return None
    sides: list[Node] = []
    for place, source in enumerate(block.sources):
        node = table_in(source, tables)
        kinds = (SourceKind.CROSS, SourceKind.INNER, SourceKind.LEFT)
        known = isinstance(source.expr, exp.Column) and source.expr.name in names[:place]
        if node is None or node.schema.key is None or source.kind not in kinds or source.position is not None or known:
            return None
        if SEPARATOR in source.variable.text or any("duration" in str(c.type) for c in node.schema.visible):
            return None  # there are no durations in objects
        name = source.variable.text
        items = [Item(f"{name}{SEPARATOR}{c.name}", column(c.name), c.type, c.nullable, c.hidden) for c in node.schema]
        if source.kind is SourceKind.LEFT:
            items.append(Item(f"{name}{THERE}", exp.true(), pa.bool_(), False, hidden=True))
        sides.append(Project(node, tuple(items)))
    return sides


def table_in(source: FromTerm, tables: Mapping[str, Node]) -> Node | None:
    """The table that a term of FROM names; None where it is something else."""
    if not isinstance(source.expr, exp.Column):
        return None
    return next((node for name, node in tables.items() if name.casefold() == source.expr.name.casefold()), None)


def _conditions(block: Block) -> list[Expr]:
    """What must be TRUE of the variables of FROM; that of a LEFT JOIN need not."""
    inner = (s.condition for s in block.sources if s.kind is not SourceKind.LEFT)
    return [e for e in (*inner, block.where) if e is not None]


def _both(left: Expr, right: Expr) -> Expr:
    return exp.And(this=left, expression=right)  # trees of queries have no brackets


def _equal(condition: Expr, left: Schema, right: Schema) -> Expr | None:
    """The condition in SQL, where it is the equality of a column of either side."""
    if not isinstance(condition, exp.EQ):
        return None
    for sides in ((condition.left, condition.right), (condition.right, condition.left)):
        a, b = (_flat(e, schema) for e, schema in zip(sides, (left, right), strict=True))
        if a is not None and b is not None and a.type == b.type and is_exact(a.type):
            return exp.EQ(this=column(a.name), expression=column(b.name))
    return None


def _flat(path: Expr, schema: Schema) -> Column | None:
    """The column called `variable$column` of a path `variable.column`."""
    path = path.unnest()
    if not isinstance(path, exp.Dot) or not isinstance(path.this, exp.Column):
        return None
    found = schema.find(f"{path.this.name}{SEPARATOR}{path.expression.name}")
    return None if found is None or found.hidden else found


def _objects(block: Block, tables: Mapping[str, Node]) -> Iterator[Item]:
    for source in block.sources:
        node, name = table_in(source, tables), source.variable.text
        assert node is not None
        visible = node.schema.visible
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(c.name, quoted=True), expression=column(f"{name}{SEPARATOR}{c.name}"))
            for c in visible
        ]
        row: Expr = exp.Struct(expressions=fields)
        left = source.kind is SourceKind.LEFT
        if left:
            row = exp.Case(ifs=[exp.If(this=column(f"{name}{THERE}"), true=row)])
        yield Item(name, row, pa.struct([(c.name, c.type) for c in visible]), left)


def _hidden(c: Column) -> Item:
    return Item(c.name, column(c.name), c.type, c.nullable, hidden=True)


def within(expr: Expr, variables: frozenset[str]) -> Expr:
    """The expression with `@row.v` in place of each of the variables v."""

    def moved(node: Expr) -> Expr:
        if not isinstance(node, exp.Column) or node.name not in variables:
            return node
        return exp.Dot(this=exp.Column(this=exp.to_identifier(ITEM)), expression=exp.to_identifier(node.name))

    return expr.transform(moved)
