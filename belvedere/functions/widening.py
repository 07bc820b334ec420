"""Whether columns have only grown: new ones that may be NULL, and types that hold all values that there were.

In: columns before and after. Out: why rows of before are none of after, in words; nothing where each is one, with NULL in what is new.
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
    """Whether every value of the old type is one of the new: integers grow to longer ones, DECIMAL and DOUBLE, decimals on both sides.

    A BIGINT beyond 2^53 is rounded as a DOUBLE, as it is where a file is read into one.
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
    """Why rows with the columns `before` have no place in `after`; None where they do. Columns of the `key` stay whole numbers."""
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
