"""Schema evolution: checks whether columns only widened, with new nullable columns and types that hold all earlier
values.

In: columns before and after. Out: the reason in words if earlier rows do not fit; nothing if they do, with NULL in new
columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from belvedere.functions.spark_types import type_text
from belvedere.schema import Column

T = pa.types
DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Maximum number of digits of an integer by its bits."""


def is_wider(new: pa.DataType, old: pa.DataType) -> bool:
    """Return whether every value of the old type fits the new one: integers widen to longer ones, DECIMAL and DOUBLE;
    decimals on both sides of the point.

    A BIGINT beyond 2^53 is rounded as a DOUBLE, as it is when a file is read into a DOUBLE column.
    """
    if T.is_signed_integer(old):
        if T.is_signed_integer(new):
            return bool(new.bit_width > old.bit_width)
        return bool(new == pa.float64() or (T.is_decimal(new) and new.precision - new.scale >= DIGITS[old.bit_width]))
    if T.is_decimal(old) and T.is_decimal(new):
        whole = new.precision - new.scale >= old.precision - old.scale
        return bool(new != old and whole and new.scale >= old.scale)
    return bool(old == pa.float32() and new == pa.float64())


def misfit(before: Iterable[Column], after: Iterable[Column], key: Collection[str] = ()) -> str | None:
    """Return why rows with the columns `before` do not fit `after`; None if they do. Integer columns of the `key` must
    remain integers."""
    known, now = {c.name: c for c in before}, {c.name: c for c in after}
    for name, old in known.items():
        new = now.get(name)
        if new is None:
            return f'column "{name}" is gone'
        both = (T.is_integer(old.type), T.is_integer(new.type)) == (True, True)
        if new.type != old.type and not (is_wider(new.type, old.type) and (both or name not in key)):
            return f'column "{name}" was {type_text(old.type)} and is {type_text(new.type)} now'
        if old.nullable and not new.nullable:
            return f'column "{name}" is no longer nullable'
    new_name = next((n for n, c in now.items() if n not in known and not c.nullable), None)
    return (
        None if new_name is None else f'column "{new_name}" is new and NOT NULL, but earlier rows have no value for it'
    )


def evolution(before: Iterable[Column | pa.Field], after: Iterable[Column | pa.Field]) -> tuple[str, ...]:
    """Return the differences in words: new columns, which are NULL in earlier rows, and wider types."""
    known = {c.name: c for c in before}
    found = []
    for column in after:
        old = known.get(column.name)
        if old is None:
            found.append(f'new column "{column.name}" {type_text(column.type)}, NULL so far')
        elif old.type != column.type:
            found.append(f'column "{column.name}" {type_text(old.type)} becomes {type_text(column.type)}')
    return tuple(found)
