"""Exact conversion of numbers to DECIMAL types.

In: an Arrow array of strings, integers or decimals. Out: an array of a DECIMAL type, or an error if a value does not
fit. Arrow 26 does not check casts that add digits after the decimal point: 345000000000000000000 becomes
4717633079061536536.6 as DECIMAL(38, 18).
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation, localcontext

import pyarrow as pa
import pyarrow.compute as pc

DIGITS = 38
"""Maximum number of digits of a DECIMAL; a cast through a DECIMAL with that scale needs twice as many."""
_PLAIN = r"^[+-]?[0-9]{0,38}(\.[0-9]{0,38})?$"
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def decimals_of(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values in a DECIMAL type.

    Raises pa.ArrowInvalid if a value is not a number, is too large, or has too many digits after the decimal point.
    """
    if pa.types.is_null(values.type):
        return values.cast(type_)
    wide = pa.decimal256(2 * DIGITS, type_.scale)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        if not pa.types.is_decimal(values.type):
            return values.cast(type_)
        if values.type.precision - values.type.scale + type_.scale <= 2 * DIGITS:
            return values.cast(wide).cast(type_)
        return decimals_of(values.cast(pa.string()), type_)
    plain = pc.match_substring_regex(values, _PLAIN)
    if pc.all(plain).as_py() is not False:
        return values.cast(wide).cast(type_)
    found = [None if text is None else _decimal(text, type_.scale) for text in values.to_pylist()]
    return pa.array(found, pa.decimal256(2 * DIGITS, type_.scale)).cast(type_)


def _decimal(text: str, scale: int) -> Decimal:
    """Return a number of any form with `scale` digits after the point."""
    try:
        if not _NUMBER.fullmatch(text.strip()):
            raise InvalidOperation
        with localcontext(prec=2 * DIGITS):
            exact = Decimal(text.strip())
            if exact.adjusted() >= DIGITS:
                raise InvalidOperation
            typed = exact.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        raise pa.ArrowInvalid(f"{text[:200]} is not a number that fits") from None
    if typed != exact:
        raise pa.ArrowInvalid(f"{text[:200]} has more than {scale} digits after the point")
    return typed
