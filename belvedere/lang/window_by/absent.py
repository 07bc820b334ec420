"""What an expression is where a variable is MISSING: that of most is MISSING too.

In: an expression and the names of the variables that are MISSING. Out: a Python value, or OPEN where only Spark can tell. No other
variable's value is known.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from sqlglot import exp

from belvedere.functions.table import WINDOW_AGGREGATES, WINDOW_BY, canonical
from belvedere.functions.window_by import duration_micros
from belvedere.kernels.values import MISSING, arithmetic, both, either, negation
from belvedere.lang.window_by.classes import ARITHMETIC, OPERATORS
from belvedere.lang.window_by.tree import Expr, Missing


class _Open:
    """The one value OPEN."""

    def __repr__(self) -> str:
        return "OPEN"


OPEN: Any = _Open()
STRICT = (*ARITHMETIC, *OPERATORS, exp.Neg, exp.DPipe, exp.Like, exp.Cast, exp.TryCast)
"""What is MISSING where an operand is."""
TOLERANT = {"COALESCE", "IF_NULL", "IF_MISSING", "IF_MISSING_OR_NULL", "MISSING_IF", "NULL_IF", "CONCAT", *WINDOW_AGGREGATES}
"""Functions of MISSING that may have a value."""


def absent(expr: Expr, names: Set[str]) -> Any:
    """The value where these variables are MISSING."""
    expr = expr.unnest()
    if isinstance(expr, exp.Column):
        return MISSING if expr.name in names else OPEN
    if isinstance(expr, Missing):
        return MISSING
    if isinstance(expr, exp.Dot):
        return MISSING if absent(expr.this, names) is MISSING else OPEN
    if isinstance(expr, exp.Bracket):
        return MISSING if absent(expr.this, names) is MISSING else OPEN
    if isinstance(expr, exp.Null):
        return None
    if isinstance(expr, exp.Boolean):
        return bool(expr.this)
    if isinstance(expr, exp.And | exp.Or):
        return _joined(both if isinstance(expr, exp.And) else either, absent(expr.left, names), absent(expr.right, names))
    if isinstance(expr, exp.Not):
        inner = absent(expr.this, names)
        return OPEN if inner is OPEN else negation(inner)
    if isinstance(expr, exp.Is):
        return _is(absent(expr.this, names), expr.expression)
    if isinstance(expr, STRICT):
        return _strict(expr.iter_expressions(), names, number(expr))
    if isinstance(expr, exp.Between | exp.In):
        return MISSING if absent(expr.this, names) is MISSING else OPEN
    if isinstance(expr, exp.Anonymous) and canonical(expr.name) in WINDOW_BY and canonical(expr.name) not in TOLERANT:
        return _strict(expr.expressions, names, number(expr))
    return number(expr)


def number(expr: Expr) -> Any:
    """A number that is written out, a duration as microseconds; OPEN for others."""
    if isinstance(expr, exp.Neg):
        inner = number(expr.this)
        return OPEN if inner is OPEN else -inner
    if type(expr) in ARITHMETIC:
        sides = number(expr.this), number(expr.expression)
        return OPEN if OPEN in sides else arithmetic(ARITHMETIC[type(expr)], *sides)
    if isinstance(expr, exp.Literal) and not expr.is_string:
        return int(expr.name) if expr.name.isdigit() else float(expr.name)
    if isinstance(expr, exp.Anonymous) and canonical(expr.name) == "DURATION" and isinstance(expr.expressions[0], exp.Literal):
        length = duration_micros(expr.expressions[0].name)
        return OPEN if length is None else length
    return OPEN


def _strict(operands: Any, names: Set[str], otherwise: Any) -> Any:
    return MISSING if any(absent(o, names) is MISSING for o in operands if not isinstance(o, exp.DataType)) else otherwise


def _joined(operator: Any, left: Any, right: Any) -> Any:
    """AND or OR: the value that decides alone does so beside one that is not known."""
    if left is OPEN or right is OPEN:
        known = right if left is OPEN else left
        decides = known is not OPEN and operator(known, True) is operator(known, False) and isinstance(known, bool)
        return known if decides else OPEN
    return operator(left, right)


def _is(value: Any, kind: Expr) -> Any:
    if value is OPEN:
        return OPEN
    if isinstance(kind, exp.Boolean):
        return value is bool(kind.this)
    word = "NULL" if isinstance(kind, exp.Null) else kind.name.upper()
    if word == "MISSING":
        return value is MISSING
    if word in ("UNKNOWN", "VALUED"):
        return (value is MISSING or value is None) is (word == "UNKNOWN")
    return MISSING if value is MISSING else value is None
