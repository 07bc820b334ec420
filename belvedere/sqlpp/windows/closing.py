"""Alternatives of END that never move back as the start, or the label, advances.

In: the normal forms of a window's boundaries. Out: the indexes of the alternatives. If such an alternative ends the
window of one start, it ends the windows of all earlier starts there or earlier. So a few rows around a change, or
around a cut, contain all windows that extend across it.
"""

from __future__ import annotations

import math

from sqlglot import exp

from belvedere.functions.sqlpp_functions import duration_micros
from belvedere.sqlpp.query_tree import Expr, called
from belvedere.sqlpp.windows.boundary_classes import COUNTED, Compare, Conjunction, Search, Summand, TypedWindow


def closing_of(found: Search, typed: TypedWindow, nullable: bool = False) -> tuple[int, ...]:
    """Return the indexes of END's alternatives that never move back as the start advances; `nullable` as in
    `moves_on`."""
    return tuple(n for n, c in enumerate(found) if moves_on(c, typed, nullable))


def frame_closing(typed: TypedWindow, nullable: bool = False) -> tuple[int, ...]:
    """Return the same for LABEL, if each window has its label or ends before it, and starts at a distance before the
    label.

    START counts from the label, by positions (`lp - sp = 3`) or ORDER BY's key (`l.day - s.day <= 7`), so it advances
    with the labels. Only alternatives of END that do not read the start qualify, since the first labels have none.
    """
    window, start, end = typed.window, typed.start, typed.end
    if window.tumbling or start is None or end is None or len(start) != 1:
        return ()
    opening = start[0]
    if opening.local or len(opening.compares) != 1 or not moves_on(opening, typed, nullable):
        return ()
    compare = opening.compares[0]
    searched, labels = compare.searched[0], [p for p in compare.known if p.side]
    if [(p.side, p.role) for p in labels] != [("label", searched.role)] or searched.role not in ("item", "position"):
        return ()
    counted = searched.role == "position"
    back = (constant_of(compare) if counted else _key_shift(compare)) * (1 if typed.descending and not counted else -1)
    if not math.isfinite(back) or back < (compare.operator in ("<", ">")):
        return ()
    exact = window.only and len(end) == 1 and searched.role == "position" and compare.operator == "="
    return tuple(
        n
        for n in closing_of(end, typed, nullable)
        if all(
            all(p.side in ("", "label") for p in c.known) and (not is_before(c) or (exact and back >= -constant_of(c)))
            for c in end[n].compares
        )
    )


def is_before(compare: Compare) -> bool:
    """Return whether a comparison selects a tuple at some distance before another."""
    return compare.operator == "=" and constant_of(compare) < 0


def moves_on(conjunction: Conjunction, typed: TypedWindow, nullable: bool) -> bool:
    """Return whether an end found for one start is found, there or earlier, for all starts before it.

    `nullable`: some tuple may have no order key.
    """
    if conjunction.known:
        return False
    at_once = len(conjunction.compares) == 1 and not conjunction.local
    return all(_grows(c, typed, nullable, at_once) for c in conjunction.compares)


def _grows(compare: Compare, typed: TypedWindow, nullable: bool, at_once: bool) -> bool:
    """Return whether a tuple that is far enough from one start is far enough from all starts before it."""
    if not typed.is_monotone(compare) or any(p.sign < 0 for p in compare.searched):
        return False
    counted = compare.searched[0].role in COUNTED
    if compare.operator == "=":
        return (
            at_once
            and compare.searched[0].role == "position"
            and all(p.role in ("position", "") for p in compare.known)
            and _moves(compare.known, typed, 1, 1)
        )
    keyed = not counted or any(p.role == "item" for p in compare.known)
    if keyed and nullable:
        return False  # a start without an order key has no end by it
    key = -1 if typed.descending else 1
    way = 1 if counted else key
    return compare.operator in ((">", ">=") if way > 0 else ("<", "<=")) and _moves(compare.known, typed, way, key)


def _moves(parts: tuple[Summand, ...], typed: TypedWindow, way: int, key: int) -> bool:
    """Return whether a sum over the start never decreases (`way` 1) or never increases (-1) along the tuples.

    The order key moves by `key`.
    """
    return all(
        p.side == ""
        or (p.role in COUNTED and p.sign == way)
        or (p.role == "item" and _keyed(p.expr) == typed.order and p.sign * key == way)
        for p in parts
    )


def _keyed(expr: Expr) -> Expr:
    """Return the expression without the literals that it adds or subtracts."""
    while (
        isinstance(expr, (exp.Add, exp.Sub))
        and isinstance(expr.expression, exp.Literal)
        and not expr.expression.is_string
    ):
        expr = expr.this
    return expr


def _key_shift(compare: Compare) -> float:
    """Return the sum added to the known tuple's order key, durations in microseconds; NaN if it is not constant."""
    total = 0.0
    for part in compare.known:
        expr = part.expr
        while part.side and isinstance(expr, (exp.Add, exp.Sub)):
            total += float(expr.expression.name) * (1 if isinstance(expr, exp.Add) else -1)  # as `_keyed`
            expr = expr.this
        if not part.side:
            total += part.sign * length_of(expr)
    return total


def length_of(expr: Expr) -> float:
    """Return the value of a number or duration; NaN for other expressions."""
    if isinstance(expr, exp.Literal) and not expr.is_string:
        return float(expr.name)
    inner = expr.expressions[0] if called(expr) == "DURATION" else None
    found = duration_micros(inner.name) if isinstance(inner, exp.Literal) else None
    return math.nan if found is None else found


def constant_of(compare: Compare) -> float:
    """Return the sum of the known numbers; a value far below all others if they are not constant."""
    total = 0
    for part in compare.known:
        if not part.side:
            if not (isinstance(part.expr, exp.Literal) and part.expr.name.isdigit()):
                return -math.inf
            total += part.sign * int(part.expr.name)
    return total
