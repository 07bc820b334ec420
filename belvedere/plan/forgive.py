"""Rewrite: expressions that would fail give NULL instead (`on_error = "null"` in the project file).

In: a plan. Out: the same plan with Spark's `try_` forms of arithmetic, casts, element access and sums. Interval arithmetic and
comparisons with the clock stay as they are: they do not fail in practice, and other rewrites read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark

from belvedere.plan.nodes import Aggregate, Expr, Filter, Item, Join, Node, Order, Project, Scan, TopK, Unnest, Window
from belvedere.schema import Schema

BINARY: dict[type[Expr], str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
    exp.Div: "try_divide",
    exp.Mod: "try_mod",
}
CALLS = {"to_timestamp": "try_to_timestamp", "to_date": "try_to_date"}


def forgive(node: Node, views: Mapping[str, Schema] | None = None) -> Node:
    """The plan with every expression that may fail in its forgiving form. `views`: the schemas of earlier ones after the same."""
    if isinstance(node, Scan):
        return replace(node, relation_schema=(views or {}).get(node.relation, node.relation_schema))
    node = node.with_inputs(tuple(forgive(i, views) for i in node.inputs))
    match node:
        case Project():
            return replace(node, items=_items(node.items, node.input.schema))
        case Window():
            return replace(node, items=_items(node.items, node.input.schema))
        case Filter():
            return replace(node, condition=forgiving(node.condition, node.schema))
        case Join() if node.condition is not None:
            both = Schema(tuple(c for i in node.inputs for c in i.schema))
            return replace(node, condition=forgiving(node.condition, both))
        case Aggregate():
            schema = node.input.schema
            return replace(node, keys=_items(node.keys, schema), aggregates=_items(node.aggregates, schema))
        case TopK():
            return replace(
                node, order=tuple(Order(forgiving(o.expr, node.schema), o.descending, o.nulls_first) for o in node.order)
            )
        case Unnest():
            return replace(node, expr=forgiving(node.expr, node.input.schema))
        case _:
            return node


def _items(items: tuple[Item, ...], source: Schema) -> tuple[Item, ...]:
    return tuple(_item(i, source) for i in items)


def _item(item: Item, source: Schema) -> Item:
    """What may have become NULL, here or below, is nullable."""
    expr = forgiving(item.expr, source)
    read = (source.find(c.name) for c in expr.find_all(exp.Column))
    nullable = item.nullable or expr != item.expr or any(c is not None and c.nullable for c in read)
    return replace(item, expr=expr, nullable=nullable)


def forgiving(expr: Expr, source: Schema) -> Expr:
    """A copy of an expression over columns of `source` that gives NULL where it would fail."""
    result: Expr = exp.paren(expr, copy=True)
    for node in reversed(list(result.walk())):  # from the leaves up: `transform` does not go into what it has replaced
        changed = _forgive(node, source)
        if changed is not node:
            node.replace(changed)
    found: Expr = result.this
    return found.pop() if isinstance(found, exp.Expr) else found


def _forgive(node: Expr, source: Schema) -> Expr:
    name = BINARY.get(type(node))
    if name is not None:
        sides = [node.this.unnest(), node.expression.unnest()]
        if any(isinstance(s, exp.Interval | exp.CurrentTimestamp) for s in sides):
            return node
        return exp.Anonymous(this=name, expressions=sides)
    if isinstance(node, exp.Cast) and not node.args.get("safe"):
        return exp.TryCast(this=node.this, to=node.args["to"], safe=True)  # printed as CAST unless it is safe
    if isinstance(node, exp.IntDiv):
        guarded = exp.func("nullif", node.expression.copy(), exp.Literal.number(0), dialect="spark")
        return exp.IntDiv(this=node.this, expression=guarded)
    if isinstance(node, exp.Sum):
        return exp.Anonymous(this="try_sum", expressions=[node.this])
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return _element(node, source)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal | exp.Interval):
        return exp.Anonymous(this="try_multiply", expressions=[node.this.unnest(), exp.Literal.number(-1)])
    if isinstance(node, exp.StrToTime | exp.TsOrDsToDate):
        name = "try_to_timestamp" if isinstance(node, exp.StrToTime) else "try_to_date"
        written = node.args.get("format")
        return exp.Anonymous(this=name, expressions=[node.this, *([] if written is None else [_format(node)])])
    if isinstance(node, exp.Anonymous) and node.name.lower() in CALLS:
        return exp.Anonymous(this=CALLS[node.name.lower()], expressions=node.expressions)
    return node


def _element(node: exp.Bracket, source: Schema) -> Expr:
    """Element access that gives NULL beside the array; of a map it always does."""
    if node.args.get("offset"):
        return exp.Bracket(this=node.this, expressions=node.expressions, offset=1, safe=True)  # try_element_at
    found = _type(node.this, source)
    if found is not None and pa.types.is_list(found):
        return exp.Anonymous(this="get", expressions=[node.this, node.expressions[0]])
    return node


def _type(expr: Expr, source: Schema) -> pa.DataType | None:
    """The type of a column or of a part of one, where that is easily told."""
    expr = expr.unnest()
    if isinstance(expr, exp.Column):
        column = source.find(expr.name)
        return None if column is None else column.type
    if isinstance(expr, exp.Array):
        return pa.list_(pa.null())
    if isinstance(expr, exp.Dot):
        owner = _type(expr.this, source)
        known = owner is not None and pa.types.is_struct(owner) and owner.get_field_index(expr.name) >= 0
        return owner.field(expr.name).type if owner is not None and known else None
    if isinstance(expr, exp.Bracket) or (isinstance(expr, exp.Anonymous) and expr.name == "get"):
        owner = _type(expr.this if isinstance(expr, exp.Bracket) else expr.expressions[0], source)
        if owner is not None and pa.types.is_map(owner):
            return owner.item_type
        return owner.value_type if owner is not None and pa.types.is_list(owner) else None
    return None


def _format(node: Expr) -> Expr:
    """The pattern of a time as Spark writes it."""
    return parse_one(str(Spark().generator().format_time(node)), dialect="spark")
