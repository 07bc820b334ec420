"""Decimals in SQLite, which has no such type: integers for up to 18 digits, else texts that sort as the numbers.

In: decimals as Arrow arrays, as unscaled Python integers, as SQL of a stored value. Out: their stored forms, and back.
A wide number's text has a fixed width: `1` and its digits, or for a negative number `0` and the nines' complement of
its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.store.dialects.stored_form import StoredForm
from belvedere.store.read.query import Role

DIGITS = 38
DIGITS_OF_INTEGERS = 18
"""Maximum number of digits of decimals that fit into 64 bits."""
_EXACT = Context(prec=200)


def stored_decimals(type_: pa.DataType) -> StoredForm:
    """Return the form of a decimal type for columns."""
    if type_.precision <= DIGITS_OF_INTEGERS:
        return StoredForm("INTEGER", pa.int64(), lambda a: _unscaled(a).cast(pa.int64()), lambda a: _scaled(a, type_))
    return StoredForm("TEXT", pa.string(), _wide_text, lambda a: _from_wide_text(a, type_))


def _unscaled(values: pa.Array) -> pa.Array:
    """Return a decimal array times 10^scale, as decimal(38, 0): the same bytes under another type."""
    plain = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return pa.Array.from_buffers(pa.decimal128(DIGITS, 0), len(plain), plain.buffers(), offset=plain.offset)


def _scaled(integers: pa.Array, type_: pa.DataType) -> pa.Array:
    wide = integers.cast(pa.decimal128(19, 0)) if integers.type == pa.int64() else integers
    compact = pa.concat_arrays([wide])
    exact = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(exact, len(compact), compact.buffers(), offset=compact.offset).cast(type_)


def _wide_text(values: pa.Array) -> pa.Array:
    digits = values.type.precision
    number = _unscaled(values).cast(pa.decimal256(DIGITS, 0))
    whole, nines = _constant(10**digits), _constant(10**digits - 1)
    shifted = pc.add(number, pc.if_else(pc.less(number, _constant(0)), nines, whole))
    return pc.utf8_lpad(shifted.cast(pa.string()), digits + 1, "0")


def _from_wide_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    digits = type_.precision
    shifted = texts.cast(pa.decimal256(digits + 1, 0))
    whole, nines = _constant(10**digits), _constant(10**digits - 1)
    number = pc.subtract(shifted, pc.if_else(pc.less(shifted, whole), nines, whole))
    return _scaled(number.cast(pa.decimal128(DIGITS, 0), safe=True), type_)


def _constant(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.decimal256(DIGITS + 1, 0))


@dataclass(frozen=True)
class DecimalForm:
    """A decimal's stored form for single values, which a query binds."""

    precision: int
    scale: int

    @property
    def never(self) -> int | str:
        """Return a value that no stored decimal equals."""
        return -(2**63) if self.precision <= DIGITS_OF_INTEGERS else ""

    def encode(self, unscaled: int) -> int | str:
        """Return the stored form of `unscaled` / 10^scale.

        Beyond the type's range, return a value beyond all stored ones on that side.
        """
        bound: int = 10**self.precision
        if self.precision <= DIGITS_OF_INTEGERS:
            return max(-bound, min(bound, unscaled))
        if abs(unscaled) >= bound:
            return "2" if unscaled > 0 else ""
        return str(unscaled + (bound if unscaled >= 0 else bound - 1)).rjust(self.precision + 1, "0")

    def compared(self, number: Decimal, role: Role) -> int | str:
        """Return the value with which a stored decimal is compared.

        If the type cannot hold the number, the role decides.
        """
        scaled = _EXACT.scaleb(number, self.scale)
        whole = scaled.to_integral_value(ROUND_CEILING if role is Role.CEILING else ROUND_FLOOR, _EXACT)
        exact = whole == scaled and abs(whole) < 10**self.precision
        if role is Role.ARGUMENT and not exact:
            raise ValueError(f"{number} does not fit DECIMAL({self.precision}, {self.scale}) exactly")
        return self.never if role is Role.EXACT and not exact else self.encode(int(whole))


def decimal_form(type_: pa.DataType) -> DecimalForm:
    """Return the form of a decimal type for single values."""
    return DecimalForm(type_.precision, type_.scale)


def decimal_to_text_sql(sql: str, type_: pa.DataType) -> str:
    """Return SQL for a stored decimal as text with all digits of its scale, such as `-12.30`; NULL for NULL."""
    precision, scale = type_.precision, type_.scale
    if precision <= DIGITS_OF_INTEGERS:
        if scale == 0:
            return f"CAST({sql} AS TEXT)"
        power = 10**scale
        return (
            f"(CASE WHEN {sql}<0 THEN '-' ELSE '' END||(abs({sql})/{power})||printf('.%0{scale}d',abs({sql})%{power}))"
        )
    positive, negative = _digits_sql(f"substr({sql},2)", type_), _digits_sql(complement_sql(f"substr({sql},2)"), type_)
    return f"CASE substr({sql},1,1) WHEN '1' THEN {positive} WHEN '0' THEN '-'||{negative} END"


def comparable_sql(sql: str, type_: pa.DataType, digits: int, scale: int) -> str:
    """Return SQL for a stored decimal or integer in the form of DECIMAL(digits, scale), which holds all numbers of its
    own type.

    `digits` can exceed the maximum of a type: texts compare at any width.
    """
    whole = pa.types.is_integer(type_)
    behind = scale - (0 if whole else type_.scale)
    if digits <= DIGITS_OF_INTEGERS:
        return f"({sql}*{10**behind})" if behind else sql
    if whole or type_.precision <= DIGITS_OF_INTEGERS:
        width = digits - behind
        positive = f"'1'||printf('%0{width}d',{sql})||'{'0' * behind}'"
        behind_sign = f"substr(printf('%0{width + 1}d',{sql}),2)"
        negative = f"'0'||{complement_sql(behind_sign)}||'{'9' * behind}'"
        return f"CASE WHEN {sql}>=0 THEN {positive} WHEN {sql}<0 THEN {negative} END"
    before = digits - behind - type_.precision
    if not before and not behind:
        return sql
    parts = (
        f"WHEN '{sign}' THEN '{sign}{d * before}'||substr({sql},2)||'{d * behind}'"
        for sign, d in (("1", "0"), ("0", "9"))
    )
    return f"CASE substr({sql},1,1) {' '.join(parts)} END"


def complement_sql(digits: str) -> str:
    """Return the nines' complement of digits."""
    for low in range(5):
        for old, new in ((low, "x"), (9 - low, low), ("x", 9 - low)):
            digits = f"replace({digits},'{old}','{new}')"
    return digits


def _digits_sql(digits: str, type_: pa.DataType) -> str:
    before = type_.precision - type_.scale
    whole = f"coalesce(nullif(ltrim(substr({digits},1,{before}),'0'),''),'0')" if before else "'0'"
    return whole if type_.scale == 0 else f"{whole}||'.'||substr({digits},{before + 1})"
