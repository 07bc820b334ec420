"""Bounds on columns, and the rules for deriving them that operators share.

In: the bounds of columns, conditions. Out: further bounds. `belvedere.plan.bounds` defines the meaning of a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import Expr, columns_of, conjuncts
from belvedere.plan.monotone import FOREVER, NEVER, combine, monotone

Bounds = Mapping[str, int]
"""Column -> bound in microseconds."""
Known = Callable[[str], Bounds | None]
"""Function from a scanned relation's id to its bounds; None for a relation without bounds that never delays others (a
table without a watermark)."""


def given(pairs: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    return {name: bound for name, bound in pairs if bound is not None}


def only(bounds: Bounds, names: tuple[str, ...]) -> dict[str, int]:
    return {n: b for n, b in bounds.items() if n in names}


def is_time(type_: pa.DataType) -> bool:
    """Return whether columns of this type can have a bound."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def implied_bounds(bounds: Bounds, *conditions: Expr | None) -> dict[str, int]:
    """Return the bounds, with those that comparisons in conditions imply: `a >= b - d` and a bound on b imply
    one on a."""
    parts = [part for condition in conditions for part in conjuncts(condition)]
    found = dict(bounds)
    for _ in range(len(parts) + 1):
        before = dict(found)
        for part in parts:
            for smaller, greater, strict in _comparisons(part):
                _raise(found, smaller, greater, strict)
        if found == before:
            break
    return found


def _comparisons(part: Expr) -> list[tuple[Expr, Expr, bool]]:
    """Return the comparison as tuples (smaller, greater, strictly); equality gives both directions."""
    a, b = part.args.get("this"), part.args.get("expression")
    match part:
        case exp.Between():
            return [(part.args["low"], part.this, False), (part.this, part.args["high"], False)]
        case exp.EQ() | exp.NullSafeEQ() if a is not None and b is not None:
            return [(a, b, False), (b, a, False)]
        case exp.LT() | exp.LTE() if a is not None and b is not None:
            return [(a, b, isinstance(part, exp.LT))]
        case exp.GT() | exp.GTE() if a is not None and b is not None:
            return [(b, a, isinstance(part, exp.GT))]
        case exp.Or() if _is_null(part.left):
            # NULL is not below any bound
            return [c for c in _comparisons(part.right.unnest()) if c[1] == part.left.unnest().this]
        case _:
            return []


def _is_null(part: Expr) -> bool:
    test = part.unnest()
    return isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and isinstance(test.this, exp.Column)


def _raise(bounds: dict[str, int], smaller: Expr, greater: Expr, strict: bool) -> None:
    """Derive a bound of the greater side's column from that of the smaller side."""
    if not columns_of(smaller):
        return
    least, target = combine(bounds, smaller), monotone(greater)
    if least is None or target is None or target.above is None or (least == NEVER and target.column in bounds):
        return
    if least not in (NEVER, FOREVER):
        least += (1 if strict else 0) - target.above
    bounds[target.column] = max(bounds.get(target.column, NEVER), least)
