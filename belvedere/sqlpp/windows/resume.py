"""Resumption of the window search at the last open window, once a bound on ORDER BY's key makes earlier windows final.

In: a clause and its block. Out: a `Resume`, or None if some window may depend on rows of any age. Windows without LABEL
end at the first END at or after their start. So a window with a final end never changes, unless it counts from the
partition's first tuple (AT) or ends at the partition's edge (UNBOUNDED). A window that looks back (PREV, LABEL) needs
some rows before it.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from belvedere.plan.bound_rules import is_time
from belvedere.plan.operators.predicate_window import Gap, Neighbour, Ranges, Resume, WindowEnd, WindowForm
from belvedere.schema import Column
from belvedere.sqlpp.query_names import after_window, free_in
from belvedere.sqlpp.query_tree import Expr, QueryBlock
from belvedere.sqlpp.windows.boundary_classes import FLIPPED, Compare, Search, TypedWindow, compared
from belvedere.sqlpp.windows.closing import length_of


def resume_of(typed: TypedWindow, column: Column | None, ranges: Ranges | None, block: QueryBlock) -> Resume | None:
    """Return the column of the bound (ORDER BY's first key), and whether windows read tuples beside their own.

    `ranges` are known for windows with LABEL that advance with the key.
    """
    window, key = typed.window, typed.window.order[0]
    labelled = window.label is not None
    if (window.end is not None and window.end.unbounded) or window.start.unbounded:
        return None
    if labelled and (ranges is None or ranges.form is not WindowForm.LABELLED):
        return None
    if "position" in typed.roles and not only_distances(block, typed):
        return None
    if "previous" in typed.roles and window.tumbling and window.end is not None:
        return None  # the row before the first kept row might look like a start
    if column is None or key.descending or not is_time(column.type):
        return None
    if_timed = column.nullable and key.nulls_come_first
    ahead = any(role == "next" and side != "end" for side, role in window.variables.values())
    form = WindowForm.LABELLED if labelled else WindowForm.TUMBLING if window.tumbling else WindowForm.SLIDING
    end = WindowEnd.NEXT_START if window.end is None else WindowEnd.CONDITION
    return Resume(column.name, form, neighbours_of(typed), end, gap_of(typed), if_timed, ahead)


def gap_of(typed: TypedWindow) -> Gap | None:
    """Return the alternative of END that tests only the distance of NEXT: `n.ts - e.ts > duration('PT5M')`."""
    for conjunction in typed.end or ():
        if conjunction.known or len(conjunction.local) + len(conjunction.compares) != 1:
            continue
        compare = conjunction.compares[0] if conjunction.compares else compared(typed, conjunction.local[0])
        found = None if compare is None else _gap_in(compare, typed)
        if found is not None:
            return found
    return None


def _gap_in(compare: Compare, typed: TypedWindow) -> Gap | None:
    """Return the gap in `next - other > length`; None for other comparisons."""
    parts = [(p, p.sign) for p in compare.searched] + [(p, -p.sign) for p in compare.known]
    ahead = [sign for p, sign in parts if p.role == "next"]
    others = [(p, sign) for p, sign in parts if p.side and p.role != "next"]
    if len(ahead) != 1 or len(others) != 1 or any(p.side and p.expr != typed.order for p, _ in parts):
        return None
    way, (other, sign) = ahead[0], others[0]
    operator = compare.operator if way > 0 else FLIPPED[compare.operator]
    length = -way * sum(sign * length_of(p.expr) for p, sign in parts if not p.side)
    if operator not in (">", ">=") or sign != -way or other.role != "item" or not length >= 0:
        return None
    return Gap(other.side, int(length) - (operator == ">="))


def neighbours_of(typed: TypedWindow) -> frozenset[Neighbour]:
    """Return the neighbor tuples that conditions read."""
    named = {"previous": Neighbour.PREVIOUS, "next": Neighbour.NEXT}
    return frozenset(named[role] for role in typed.roles if role in named)


def only_distances(block: QueryBlock, typed: TypedWindow) -> bool:
    """Return whether positions are only subtracted from each other."""
    window = typed.window
    places = {name for name, (_, role) in window.variables.items() if role == "position"}
    whens = [] if window.end is None else [(window.end.when, typed.end)]
    whens += [] if window.label is None else [(window.start.when, typed.start)]

    def reads_places(expr: Expr) -> bool:
        return bool(places & free_in(_without_differences(expr, places)))

    if any(reads_places(e) for e in after_window(block) if not any(e is when for when, _ in whens)):
        return False
    return all(_is_apart(found, places) for when, found in whens if when is not None and reads_places(when))


def _is_apart(found: Search | None, places: set[str]) -> bool:
    """Return whether a boundary compares differences of positions alone."""
    if found is None:
        return False
    for conjunction in found:
        if places & {c.name for e in (*conjunction.known, *conjunction.local) for c in e.find_all(exp.Column)}:
            return False
        for compare in conjunction.compares:
            sides = ((compare.searched, 1), (compare.known, -1))
            if sum(way * p.sign for parts, way in sides for p in parts if p.role == "position"):
                return False
    return True


def _without_differences(expr: Expr, places: set[str]) -> Expr:
    """Return the expression with a number in place of each difference of two positions."""

    def is_place(node: Expr) -> bool:
        return isinstance(node, exp.Column) and node.name in places

    def change(node: Any) -> Any:
        apart = isinstance(node, exp.Sub) and is_place(node.this.unnest()) and is_place(node.expression.unnest())
        return exp.Literal.number(0) if apart else node

    changed: Expr = expr.transform(change)
    return changed
