"""SQL++ values in Python: MISSING, the total order, comparison, logic and arithmetic.

In: Python values (None is NULL, `MISSING` is MISSING, dict an object, list an array). Out: the same. Rules: the SQL++
documentation of AsterixDB, as listed in docs/reference/window-by.md. Numbers compare as Spark does: NaN equals itself
and is greatest.
"""

from __future__ import annotations

import math
import operator as operators
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any


class _Missing:
    """The one value MISSING; the same object in every process."""

    _instance: _Missing | None = None

    def __new__(cls) -> _Missing:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __reduce__(self) -> Any:
        return (_Missing, ())

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()
NUMBERS = (int, float, Decimal)
MIDNIGHT = datetime.min.time()
EXACT = Context(prec=120)
"""Decimals of 38 digits are added, multiplied and divided without rounding."""
BITS = 1 << 63
COMPARISONS = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
STEPS = {"+": operators.add, "-": operators.sub, "*": operators.mul}
DECIMAL_STEPS = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "DIV": EXACT.divide_int,
    "%": EXACT.remainder,
}


def rank(value: Any) -> int:
    """The place of the value's type in the total order."""
    if value is MISSING:
        return 0
    if value is None:
        return 1
    if isinstance(value, bool):
        return 2
    if isinstance(value, NUMBERS):
        return 3
    if isinstance(value, str):
        return 4
    if isinstance(value, date):
        return 5
    if isinstance(value, timedelta):
        return 6
    if isinstance(value, list | tuple):
        return 7
    return 8 if isinstance(value, dict) else 9


def order_key(value: Any) -> tuple[Any, ...]:
    """A key whose order and equality are those of SQL++ values: MISSING < NULL < booleans < numbers < strings < ...

    Within an array MISSING counts as NULL, as Spark's arrays have it.
    """
    place = rank(value)
    if place == 3:
        unordered = value != value
        return (3, unordered, 0 if unordered else value)
    if place in (2, 4, 6):
        return (place, value)
    if place == 5:
        return (5, instant(value))
    if place == 7:
        return (7, tuple(order_key(None if v is MISSING else v) for v in value))
    if place == 8:
        return (
            8,
            tuple(order_key(v) for v in value.values() if v is not MISSING),
            tuple(k for k, v in value.items() if v is not MISSING),
        )
    return (place, value) if place == 9 else (place,)


def instant(value: date) -> datetime:
    """A date as its midnight, a time without zone as UTC."""
    if not isinstance(value, datetime):
        value = datetime.combine(value, MIDNIGHT)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def unknown(*values: Any) -> Any:
    """MISSING if one is MISSING, else None if one is NULL, else False."""
    if any(v is MISSING for v in values):
        return MISSING
    return None if any(v is None for v in values) else False


def compare(operator: str, left: Any, right: Any) -> Any:
    """TRUE, FALSE, NULL (also for values of types that do not compare) or MISSING."""
    if left is MISSING or right is MISSING:
        return MISSING
    if left is None or right is None or rank(left) != rank(right):
        return None
    if isinstance(left, float) != isinstance(right, float) and rank(left) == 3:
        left, right = float(left), float(right)  # as Spark and the kernels compare numbers of two types
    return COMPARISONS[operator](order_key(left), order_key(right))


def both(left: Any, right: Any) -> Any:
    """AND: FALSE, then MISSING, then NULL."""
    left, right = truth(left), truth(right)
    if left is False or right is False:
        return False
    if left is MISSING or right is MISSING:
        return MISSING
    return None if left is None or right is None else True


def either(left: Any, right: Any) -> Any:
    """OR: TRUE, then NULL, then MISSING."""
    left, right = truth(left), truth(right)
    if left is True or right is True:
        return True
    if left is None or right is None:
        return None
    return MISSING if left is MISSING or right is MISSING else False


def truth(value: Any) -> Any:
    """A boolean, NULL or MISSING; other values are NULL as a condition."""
    return value if value is MISSING or isinstance(value, bool) else None


def negation(value: Any) -> Any:
    """NOT passes NULL and MISSING through."""
    value = truth(value)
    return value if value is MISSING or value is None else not value


def arithmetic(operator: str, left: Any, right: Any) -> Any:
    """+ - * / DIV %; MISSING beats NULL; NULL for operands that do not fit and for division by zero."""
    if left is MISSING or right is MISSING:
        return MISSING
    if left is None or right is None:
        return None
    if rank(left) == rank(right) == 3:
        return _numeric(operator, left, right)
    return _temporal(operator, left, right)


def _numeric(operator: str, left: Any, right: Any) -> Any:
    if isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    if operator in ("/", "DIV", "%") and right == 0:
        return None
    if operator == "/":
        return float(left) / float(right) if isinstance(left, Decimal) or isinstance(right, Decimal) else left / right
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        found = DECIMAL_STEPS[operator](left, right)
        return whole(found) if operator == "DIV" else found
    if operator in STEPS:
        return STEPS[operator](left, right)
    if isinstance(left, float):
        return whole(left / right) if operator == "DIV" else math.fmod(left, right) if math.isfinite(left) else math.nan
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "DIV" else left - quotient * right


def whole(value: Any) -> int | None:
    """The number without its fraction; NULL where that has more than 64 bits."""
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return None
    found = int(value)
    return found if -BITS <= found < BITS else None


def _temporal(operator: str, left: Any, right: Any) -> Any:
    kinds = (rank(left), rank(right))
    if operator == "-" and kinds == (5, 5):
        return instant(left) - instant(right)
    if operator in "+-" and kinds == (6, 6):
        return left + right if operator == "+" else left - right
    if operator in "+-" and kinds == (5, 6):
        return instant(left) + (right if operator == "+" else -right)
    if operator == "+" and kinds == (6, 5):
        return instant(right) + left
    if operator == "*" and kinds in ((6, 3), (3, 6)) and isinstance(left if kinds[0] == 3 else right, int):
        return left * right
    return None
