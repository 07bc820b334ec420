"""FROM with several tables in a WINDOW BY query as one relation, their join: then windows follow the changes of each of them.

In: a query and the nodes of the tables. Out: the join as a node, whose visible columns are objects named as the variables of FROM, and the
query over it. An item of the one is an item of the other: an object with a field for each variable. The join holds every row that the
conditions can be TRUE for: it is by those equalities of columns that mean the same in SQL. All conditions stand in WHERE of the new query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.window_by import Block, Expr, Name, Query, QueryExpression, Source, SourceKind
from belvedere.lang.window_by_names import before_window, free_names
from belvedere.lang.window_by_relational import Record, Said, is_exact
from belvedere.plan.expressions import column, conjunction, conjuncts
from belvedere.plan.nodes import Item, Join, JoinKind, Node, Project
from belvedere.schema import Column, Schema

JOINED, ITEM = "@joined", "@row"
"""What the new query calls the join and its rows."""
SEPARATOR = "$"


def join_of(query: Query, tables: Mapping[str, Node]) -> Node | None:
    """The join of the tables of FROM; None where there are not several of them, or more is in the way than inner joins by equal columns."""
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
    for side in rest:
        pairs = [pair for c in conditions if (pair := _equal(c, found.schema, side.schema)) is not None]
        if not pairs:
            return None
        found = Join(found, side, JoinKind.INNER, conjunction(pairs))
    return Project(found, (*_objects(block, tables), *(_hidden(c) for c in found.schema)))


def over_join(query: Query) -> Query:
    """The query over the join of its tables."""
    (block,) = query.blocks
    own = frozenset(s.variable.text for s in block.sources)
    where = [_within(e, own) for e in _conditions(block)]
    assert block.window is not None
    window = replace(
        block.window,
        partition=tuple(_within(e, own) for e in block.window.partition),
        order=tuple(replace(k, expr=_within(k.expr, own)) for k in block.window.order),
    )
    source = Source(Name(ITEM), exp.Column(this=exp.to_identifier(JOINED)))
    return replace(query, blocks=(replace(block, sources=(source,), where=reduce(_both, where), window=window),))


def variables_of(variable: str, schema: Schema) -> Record:
    """What the variable of FROM is: the row of a table, or `@row` of a join, by the columns of the relation."""
    if variable != ITEM:
        return _record(schema, "")
    return Record({c.name: _record(schema, f"{c.name}{SEPARATOR}") for c in schema.visible})


def _record(schema: Schema, prefix: str) -> Record:
    columns = (c for c in schema if c.hidden == bool(prefix) and c.name.startswith(prefix))
    return Record({c.name[len(prefix) :]: Said(column(c.name), c.type) for c in columns})


def _sides(block: Block, tables: Mapping[str, Node]) -> list[Node] | None:
    """The tables of FROM with their columns called `variable$column`; None where FROM has something else."""
    names = [s.variable.text for s in block.sources]
    plain = block.group is None and not (block.lets or block.group_lets) and block.having is None and not block.select.distinct
    if block.window is None or len(names) < 2 or not plain or len({n.casefold() for n in names}) < len(names):
        return None
    sides: list[Node] = []
    for place, source in enumerate(block.sources):
        node = _table(source, tables)
        inner = source.kind in (SourceKind.CROSS, SourceKind.INNER) and source.position is None
        known = isinstance(source.expr, exp.Column) and source.expr.name in names[:place]
        if node is None or node.schema.key is None or not inner or known or SEPARATOR in source.variable.text:
            return None
        name = source.variable.text
        items = (Item(f"{name}{SEPARATOR}{c.name}", column(c.name), c.type, c.nullable, c.hidden) for c in node.schema)
        sides.append(Project(node, tuple(items)))
    return sides


def _table(source: Source, tables: Mapping[str, Node]) -> Node | None:
    if not isinstance(source.expr, exp.Column):
        return None
    return next((node for name, node in tables.items() if name.casefold() == source.expr.name.casefold()), None)


def _conditions(block: Block) -> list[Expr]:
    """What must be TRUE of the variables of FROM."""
    return [e for e in (*(s.condition for s in block.sources), block.where) if e is not None]


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
        node, name = _table(source, tables), source.variable.text
        assert node is not None
        visible = node.schema.visible
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(c.name, quoted=True), expression=column(f"{name}{SEPARATOR}{c.name}"))
            for c in visible
        ]
        yield Item(name, exp.Struct(expressions=fields), pa.struct([(c.name, c.type) for c in visible]), False)


def _hidden(c: Column) -> Item:
    return Item(c.name, column(c.name), c.type, c.nullable, hidden=True)


def _within(expr: Expr, variables: frozenset[str]) -> Expr:
    """The expression with `@row.v` in place of each of the variables v."""

    def moved(node: Expr) -> Expr:
        if not isinstance(node, exp.Column) or node.name not in variables:
            return node
        return exp.Dot(this=exp.Column(this=exp.to_identifier(ITEM)), expression=exp.to_identifier(node.name))

    return expr.transform(moved)
