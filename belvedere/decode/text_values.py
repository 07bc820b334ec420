"""Vectorized conversion of texts to values of a type, for forms that all readers interpret alike.

In: texts of one column. Out: values, and flags of texts for the slow decoder (Spark or Python), which reads more forms
(spaces, `+5`, `1/2/2020`) and reports errors. So a form is read here only if all decoders give it the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import TIMESTAMP
from belvedere.values.decimals import decimals_of

T = pa.types
Flags: TypeAlias = npt.NDArray[np.bool_]
Reader: TypeAlias = Callable[[pa.Array, pa.DataType], "pa.Array | None"]
"""Function that converts texts, at least one of which is not NULL. It returns None, or raises an Arrow error, if one of
them needs the slow decoder."""
DIGITS = b"0123456789-"
FRACTIONS = DIGITS + b"."
FLOATS = FRACTIONS + b"eE+"
MAX_TRIES = 200
"""Maximum number of attempts at parts of a column with such texts; the slow decoder reads the rest."""
SAFE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
"""Number of digits that always fit an integer type, by its bits."""
DAY, HOUR = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "[ T]([01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"{HOUR}:[0-5][0-9](\.[0-9]{{1,6}})?"
OFFSET = "[+-](0[0-9]|1[0-3]):(00|30|45)"
DATE, MINUTES = len("2020-01-31"), len("2020-01-31 10:11")
SECONDS, MICROSECONDS = len("2020-01-31 10:11:12"), len("2020-01-31 10:11:12.123456")
TENTHS = SECONDS + len(".1")
OFFSETS = [f"{sign}{hour:02}:{minute}" for sign in "+-" for hour in range(15) for minute in ("00", "30", "45")]
"""Supported offsets from UTC."""
OFFSET_LENGTH = len("+01:00")


def values_of(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    """Return the values of texts, and flags of those for the slow decoder, whose values are NULL; None without such
    texts."""
    read = reader_of(type_)
    found = _try(read, texts, type_)
    if found is not None:
        return found, None
    found, taken = pa.nulls(len(texts), type_), pc.is_null(texts)
    for form in _forms(type_):
        usual = pc.fill_null(pc.match_substring_regex(texts, form), False)
        if usual.true_count:
            values, left = read_in_parts(read, pc.if_else(usual, texts, pa.scalar(None, texts.type)), type_)
            found = pc.coalesce(found, values)
            taken = pc.or_(taken, usual if left is None else pc.and_(usual, pa.array(~left)))
    return found, ~np.asarray(taken)


def _forms(type_: pa.DataType) -> Sequence[str]:
    """Return the usual forms of a type's texts, each a regular expression."""
    if T.is_signed_integer(type_):
        return (rf"^-?[0-9]{{1,{SAFE_DIGITS[type_.bit_width]}}}$",)
    if T.is_floating(type_):
        return (r"^-?[0-9]{1,15}(\.[0-9]{1,15})?([eE]-?[0-9])?$",)
    if T.is_decimal128(type_):
        fraction = rf"(\.[0-9]{{1,{type_.scale}}})?" if type_.scale else ""
        return (rf"^-?[0-9]{{1,{max(1, type_.precision - type_.scale)}}}{fraction}$",)
    if T.is_boolean(type_):
        return ("^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[01])$",)
    if T.is_date32(type_):
        return (f"^{DAY}$",)
    if type_ in (TIMESTAMP, pa.timestamp("us")):
        return tuple(
            f"^{DAY}{time}$"
            for time in (f"({HOUR}|{TIME})?", *([f"{TIME}Z", f"{TIME}{OFFSET}"] if type_ == TIMESTAMP else []))
        )
    return ()


def read_in_parts(read: Reader, given: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    """Return the result of `values_of` for any reader. If it does not accept all values together, it gets halves of
    them."""
    found = _try(read, given, type_)
    if found is not None:
        return found, None
    tries = [MAX_TRIES]
    parts = list(_halves(read, given, type_, tries))
    left = np.concatenate([np.full(len(values), not taken) for values, taken in parts])
    return pa.concat_arrays([values for values, _ in parts]), left & np.asarray(pc.is_valid(given))


def _halves(read: Reader, texts: pa.Array, type_: pa.DataType, tries: list[int]) -> Iterator[tuple[pa.Array, bool]]:
    """Yield parts of the texts in order, each with its values or flagged for the slow decoder."""
    tries[0] -= 1
    values = _try(read, texts, type_) if tries[0] >= 0 else None
    if values is not None:
        yield values, True
    elif len(texts) <= 1 or tries[0] < 0:
        yield pa.nulls(len(texts), type_), False
    else:
        half = len(texts) // 2
        yield from _halves(read, texts.slice(0, half), type_, tries)
        yield from _halves(read, texts.slice(half), type_, tries)


def _try(read: Reader, texts: pa.Array, type_: pa.DataType) -> pa.Array | None:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), type_)
    try:
        return read(texts, type_)
    except pa.ArrowInvalid:
        return None


def reader_of(type_: pa.DataType) -> Reader:
    """Return the function that reads texts of the type."""
    if T.is_string(type_):
        return lambda texts, _: texts
    if T.is_signed_integer(type_):
        return lambda texts, t: texts.cast(t) if _consists_of(texts, DIGITS) else None
    if type_ in (pa.float32(), pa.float64()):
        return _floats
    if T.is_decimal128(type_):
        return lambda texts, t: decimals_of(texts, t) if _consists_of(texts, FRACTIONS) else None
    if T.is_boolean(type_) or T.is_binary(type_):
        return lambda texts, t: texts.cast(t)
    if T.is_date32(type_):
        return lambda texts, t: texts.cast(t) if set(_lengths(texts)) == {DATE} else None
    if type_ in (TIMESTAMP, pa.timestamp("us")):
        return _times
    return lambda texts, _: None


def _floats(texts: pa.Array, type_: pa.DataType) -> pa.Array | None:
    if not _consists_of(texts, FLOATS):
        return None
    found = texts.cast(type_)
    return found if pc.all(pc.is_finite(found)).as_py() is not False else None


def _times(texts: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Return times in ISO 8601, either all without a zone (meaning UTC) or all with one; None for other texts."""
    lengths = set(_lengths(texts))
    zone = _zone(texts)  # first, because Arrow rejects a text 30 times slower than it reads one
    if zone is None:
        usual = lengths <= {DATE, MINUTES, SECONDS, *range(TENTHS, MICROSECONDS + 1)}
        return texts.cast(pa.timestamp("us")).cast(type_) if usual else None
    usual = type_ == TIMESTAMP and lengths <= {zone + n for n in (SECONDS, *range(TENTHS, MICROSECONDS + 1))}
    return texts.cast(type_) if usual else None


def _zone(texts: pa.Array) -> int | None:
    """Return the number of characters of the zone at the end of all texts: `Z` or an offset."""
    first = texts.drop_null()[0].as_py()
    if first.endswith("Z"):
        return 1 if pc.all(pc.ends_with(texts, "Z")).as_py() else None
    if first[-OFFSET_LENGTH:] not in OFFSETS:
        return None
    ends = pc.utf8_slice_codeunits(texts.drop_null(), -OFFSET_LENGTH)
    return OFFSET_LENGTH if pc.all(pc.is_in(ends, value_set=pa.array(OFFSETS))).as_py() else None


def _data(texts: pa.Array) -> tuple[npt.NDArray[np.int32], Any]:
    """Return the end of each text in the bytes of the column, and the bytes, without NULLs."""
    texts = texts.drop_null() if texts.null_count else texts
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    return ends, memoryview(data if data is not None else b"")


def _lengths(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return the distinct lengths in bytes."""
    return np.unique(np.diff(_data(texts)[0]))


def _consists_of(texts: pa.Array, characters: bytes) -> bool:
    ends, data = _data(texts)
    return not bytes(data[ends[0] : ends[-1]]).translate(None, characters)


def is_text(data: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        pa.array([data], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True
