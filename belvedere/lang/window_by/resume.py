"""Whether the windows of a query can be found from the last open one on, once a bound on ORDER BY's key makes those before it final.

In: a query's one block and its table. Out: a `Resume`, or None where some window may depend on rows of any age. And the query that says
how far each window reaches. Windows without LABEL end at the first END at or after their start, so a window with a settled end never
changes, unless it counts from the partition's first tuple (AT), or lies at the partition's edge (UNBOUNDED). One that looks
back (PREV, LABEL) needs some rows before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.functions.window_by import Type
from belvedere.lang.window_by.chain import names_before, table_of, values_before
from belvedere.lang.window_by.classes import ITEM, ItemFacts, classify, item_expression
from belvedere.lang.window_by.expressions import VariableScope
from belvedere.lang.window_by.names import after_window, free_in, renamed
from belvedere.lang.window_by.relational import Said, known
from belvedere.lang.window_by.tree import Block, Boundary, Expr, Name, Query, Select, Selected, WindowBy
from belvedere.lang.window_by.types import Typing
from belvedere.plan.bounds import is_time
from belvedere.plan.nodes import Node
from belvedere.plan.window_by import Ranges, Resume
from belvedere.schema import Column

LABEL, FROM, TO, AFTER = "$label", "$from", "$to", "$after"


def resume_of(block: Block, source: Node, row: Type, ranges: Ranges | None) -> Resume | None:
    """By which column, and whether windows look beside their tuples. `ranges` are known where windows with LABEL move on with it."""
    window = block.window
    if window is None or (window.end is not None and window.end.unbounded) or window.start.unbounded:
        return None
    labelled, roles = window.label is not None, {role for _, role in window.variables.values()}
    before = "previous" in roles
    if labelled and (ranges is None or not ranges.labelled):
        return None
    if "position" in roles and not only_distances(block, window, row):
        return None
    if before and window.tumbling and window.end is not None:
        return None  # what comes before the first row that stays might look like a start
    column = None if window.order[0].descending else leading_column(block, window, source)
    if column is None or not is_time(column.type) or (column.nullable and window.order[0].nulls_come_first):
        return None  # a later NULL would come before all others
    return Resume(column.name, "next" in roles, window.tumbling, window.end is None, before, labelled)


def leading_column(block: Block, window: WindowBy, source: Node) -> Column | None:
    """ORDER BY's first key where it is a column of the table."""
    found = known(window.order[0].expr, values_before(block, source.schema))
    return source.schema[found.expr.name] if isinstance(found, Said) and isinstance(found.expr, exp.Column) else None


def only_distances(block: Block, window: WindowBy, row: Type) -> bool:
    """Whether positions are only subtracted from each other."""
    places = {name for name, (_, role) in window.variables.items() if role == "position"}
    searched = {"end": window.end, **({"start": window.start} if window.label is not None else {})}
    whens = {side: b.when for side, b in searched.items() if b is not None and b.when is not None}
    others = [e for e in after_window(block) if not any(e is when for when in whens.values())]
    if any(places & free_in(_without_differences(e, places)) for e in others):
        return False
    item = item_of(block, window, row)
    return all(_is_apart(window, side, item) for side, e in whens.items() if places & free_in(_without_differences(e, places)))


def _is_apart(window: WindowBy, side: str, item: ItemFacts) -> bool:
    """Whether a boundary compares differences of positions alone."""
    found = classify(window, side, item)
    if found is None:
        return False
    for conjunction in found.conjunctions:
        read = {c.name for e in (*conjunction.known, *conjunction.local) for c in e.find_all(exp.Column)}
        if any(name in read for name, (_, role) in window.variables.items() if role == "position"):
            return False
        for compare in conjunction.compares:
            sides = ((compare.searched, 1), (compare.known, -1))
            if sum(way * p.sign for parts, way in sides for p in parts if p.role == "position"):
                return False
    return True


def _without_differences(expr: Expr, places: set[str]) -> Expr:
    """The expression with a number for each difference of two positions."""

    def is_place(node: Expr) -> bool:
        return isinstance(node, exp.Column) and node.name in places

    def change(node: Any) -> Any:
        apart = isinstance(node, exp.Sub) and is_place(node.this.unnest()) and is_place(node.expression.unnest())
        return exp.Literal.number(0) if apart else node

    changed: Expr = expr.transform(change)
    return changed


def item_of(block: Block, window: WindowBy, row: Type) -> ItemFacts:
    """What classification knows of the items of a block over one table with rows of that type."""
    types = Typing().block(block, VariableScope(tables={table_of(block): row}))
    return ItemFacts(types.item, item_expression(window.order[0].expr, tuple(types.before)), {})


def extents(query: Query) -> Query:
    """The windows' reach: ORDER BY's first key at the label, start, end, and after it (NULL where there is none); dropped windows too."""
    block = query.blocks[0]
    window = block.window
    assert window is not None
    label = _named(window.label, ("item",)) if window.label is not None else None
    start = _named(window.start, ("item",)) if not window.start.unbounded else window.start
    end = _named(window.end, ("item", "next")) if window.end is not None else None
    last = (end.variables.item, end.variables.next) if end is not None else (None, None)
    places = (
        (LABEL, label.variables.item if label is not None else None),
        (FROM, start.variables.item),
        (TO, last[0]),
        (AFTER, last[1]),
    )
    key = item_expression(window.order[0].expr, names_before(block))
    items = tuple(Selected(renamed(key, {ITEM: v.text}), name) for name, v in places if v is not None)
    reach = replace(window, label=label, start=start, end=end, only=False)
    whole = replace(block, window=reach, window_lets=(), window_having=None, select=Select(items=items))
    return Query((whole,))


def _named(boundary: Boundary, roles: tuple[str, ...]) -> Boundary:
    """The boundary with variables for the roles."""
    names = {role: Name(f"${role}{id(boundary)}") for role in roles if getattr(boundary.variables, role) is None}
    return replace(boundary, variables=replace(boundary.variables, **names))
