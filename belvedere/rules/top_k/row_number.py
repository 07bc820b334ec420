"""Row number: the rows whose `row_number()` is at most k are the first k of each key.

`top` maintains them if the input is append-only.

The relation has the key of the numbered rows, so its changes are those of the window function. If the view reads the
numbers, `top` computes them: the first k rows of a key have the same numbers among themselves as among all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.plan.expressions import conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Filter, Item, Node, Order, Project, Scan, TopK, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import base_scan
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.top import TOP


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, Window) or len(top.items) != 1 or TOP.name in site.builder.options.off:
        return None
    (item,) = top.items
    limit, is_read = _limit(site.plan, top, item.name)
    first = None if limit is None else _first_rows(top, item.expr, limit)
    if first is None or not site.builder.grows(top.input):
        return None
    return partial(_maintain, site, top, first, item, is_read)


def _maintain(site: Site, top: Window, first: TopK, item: Item, is_read: bool) -> Relation:
    builder, owner = site.builder, site.part.owner
    if base_scan(first.input) is None:
        source = builder.shared(first.input, owner)
        first = replace(first, input=Scan(source.name, source.schema))
    if is_read:
        found = builder.shared(replace(first, number=item.column), owner)
        return builder.maintain(
            _above_first(site.plan, top, Scan(found.name, found.schema), item.name, first.limit or 1)[0], site.part
        )
    found = builder.shared(first, owner)
    number = Item(
        item.name, exp.cast(exp.Literal.number(1), "int", dialect="spark"), item.type, item.nullable, item.hidden
    )
    return site.maintain(Project(Scan(found.name, found.schema), (*map(item_of, found.schema), number)))


def _first_rows(node: Window, expr: Expr, limit: int) -> TopK | None:
    """Return the rows with the least numbers. Return None for other functions, or if keys are not plain columns."""
    window = expr if isinstance(expr, exp.Window) else None
    order = None if window is None else window.args.get("order")
    if window is None or not isinstance(window.this, exp.RowNumber) or order is None:
        return None
    by, keys = window.args.get("partition_by") or [], order.expressions
    if not by or not all(isinstance(e, exp.Column) for e in by):
        return None
    orders = tuple(Order(k.this, bool(k.args.get("desc")), k.args.get("nulls_first")) for k in keys)
    return TopK(node.input, orders, limit, 0, tuple(e.name for e in by), by_rows=True)


def _limit(plan: Node, top: Window, name: str) -> tuple[int | None, bool]:
    """Return the greatest number that passes the filters above the window (None if there is no limit), and whether the
    number is read otherwise.

    A number that can only be 1 is known, so it need not be read.
    """
    limits: list[int] = []
    is_read = False
    for node in reversed(list(_above(plan, top))):
        if isinstance(node, Filter):
            found = [(c, _at_most(c, name)) for c in conjuncts(node.condition)]
            limits += [limit for _, limit in found if limit is not None]
            is_read |= any((limit is None or isinstance(c, exp.EQ)) and _reads(c, name) for c, limit in found)
        elif isinstance(node, Project):
            passed = [i.name for i in node.items if isinstance(i.expr, exp.Column) and i.expr.name == name]
            is_read |= any(_reads(i.expr, name) for i in node.items if i.name not in passed) or len(passed) > 1
            name = passed[0] if passed else ""
        else:
            is_read = True
    limit = min(limits, default=None)
    return limit, limit != 1 and (is_read or name in plan.schema.names)


def _above_first(plan: Node, top: Node, rows: Node, name: str, limit: int) -> tuple[Node, str]:
    """Return the linear operators over the first rows, without conditions that are always true, and the name of the
    number there."""
    if plan is top:
        return rows, name
    below, name = _above_first(plan.inputs[0], top, rows, name, limit)
    if isinstance(plan, Filter):
        left = [c for c in conjuncts(plan.condition) if isinstance(c, exp.EQ) or (_at_most(c, name) or 0) < limit]
        condition = conjunction(left)
        return (below if condition is None else Filter(below, condition)), name
    if isinstance(plan, Project):
        name = next((i.name for i in plan.items if isinstance(i.expr, exp.Column) and i.expr.name == name), "")
    return plan.with_inputs((below,)), name


def _above(plan: Node, top: Node) -> Iterator[Node]:
    """Yield the linear operators over a node, starting at the top."""
    while plan is not top:
        yield plan
        plan = plan.inputs[0]


def _reads(expr: Expr, name: str) -> bool:
    return any(c.name == name for c in expr.find_all(exp.Column))


def _at_most(test: Expr, name: str) -> int | None:
    """Return the greatest integer (1 or more) that satisfies a comparison of the column with a constant.

    Return None for other conditions.
    """
    if not isinstance(test, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return None
    column, number = test.this.unnest(), test.expression.unnest()
    if isinstance(test, (exp.GT, exp.GTE)) or (isinstance(test, exp.EQ) and isinstance(number, exp.Column)):
        column, number = number, column
    if (
        not isinstance(column, exp.Column)
        or column.name != name
        or not isinstance(number, exp.Literal)
        or not number.is_int
    ):
        return None
    most = int(number.this) - isinstance(test, (exp.LT, exp.GT))
    return most if most >= 1 else None


ROW_NUMBER = Rule("row number", _applies)
