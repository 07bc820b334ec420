"""Vectorized decoding of JSON objects by Arrow: the one decoder of files, messages and pushes.

In: texts of one object each. Out: rows, and flags of the texts for the slow decoder. These are values without an Arrow
form (a string for a number, seconds for a time), duplicate members, all errors, and with `only_known` unknown members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from belvedere.decode.row_values import placed, row_schema, typed_values
from belvedere.decode.text_values import MAX_TRIES, Flags, is_text, read_in_parts, values_of
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.decimals import DIGITS, decimals_of

T = pa.types
LINE_SPACE = 1 << 10
ROWS = b"rows"
DEEPEST = 500
"""Maximum nesting of brackets in a line; Spark's parser stops at 1,000."""
LONG_NUMBER = 900
"""Minimum digits of a number that the slow decoder reads; Spark's parser rejects more than 1,000."""
NEWLINE, OPEN, CLOSE = b"\n{}"


def is_readable(columns: Sequence[Column]) -> bool:
    """Return whether Arrow reads all types of the columns from JSON."""
    return all(_is_readable(c.type) for c in columns)


def _is_readable(type_: pa.DataType) -> bool:
    if T.is_list(type_):
        return _is_readable(type_.value_type)
    if T.is_struct(type_):
        return bool(type_.num_fields) and all(_is_readable(f.type) for f in type_)
    simple = T.is_string(type_) or T.is_boolean(type_) or T.is_signed_integer(type_) or T.is_floating(type_)
    return bool(simple or T.is_decimal128(type_) or T.is_date32(type_) or type_ == TIMESTAMP)


def rows_of_block(block: bytes, columns: Sequence[Column], only_known: bool = False) -> tuple[pa.Table, Flags] | None:
    """Return the rows of a text with one object per line, and flags for the slow decoder.

    Return None if the text may have another form.
    """
    count = _objects_in(block)
    if count is None:
        return None
    rows = _parse(block, columns, only_known, count)
    return _typed(rows, columns) if rows is not None else rows_of_texts(block.split(b"\n"), columns, only_known)


def rows_of_texts(
    texts: Sequence[bytes], columns: Sequence[Column], only_known: bool = False
) -> tuple[pa.Table, Flags]:
    """Return the rows of texts, and flags of the texts for the slow decoder."""
    count = len(texts)
    fits = np.ones(count, np.bool_) if _objects_in(b"\n".join(texts)) == count else _may_fit(texts)
    found = np.flatnonzero(fits)
    tries = [MAX_TRIES]
    parts = list(
        _parsed(list(compress(texts, fits)), partial(_parse, columns=columns, only_known=only_known), 0, tries)
    )
    if not parts:
        return placed(row_schema(columns).empty_table(), (), count), np.ones(count, np.bool_)
    places = np.concatenate([found[start : start + rows.num_rows] for start, rows in parts])
    rows, left = _typed(pa.concat_tables([rows for _, rows in parts]).combine_chunks(), columns)
    flags = np.ones(count, np.bool_)
    flags[places] = left
    return placed(rows, places, count), flags


def rows_of_array(text: bytes, columns: Sequence[Column]) -> pa.Table | None:
    """Return the rows of a JSON array of objects without unknown members; None if one needs the slow decoder."""
    whole = b'{"%s":%s}' % (ROWS, text)
    if not is_text(text) or _has_long_number(text):
        return None
    rows = pa.struct([f.with_type(_as_read(f.type)) for f in row_schema(columns)])
    table = _read(whole, pa.schema([(ROWS.decode(), pa.list_(rows))]), only_known=True, count=1)
    if table is None or table[ROWS.decode()].null_count:
        return None
    found = _whole(table[ROWS.decode()]).flatten()
    if found.null_count:
        return None
    taken, left = _typed(pa.table(found.flatten(), names=[c.name for c in columns]), columns)
    return None if left.any() else taken


def _objects_in(text: bytes) -> int | None:
    """Return the number of objects, one per line, in UTF-8 that Spark and Arrow parse alike; None if the text may
    differ."""
    if not (text.startswith(b"{") and text.endswith(b"}")) or b"\r" in text or not is_text(text) or not _is_plain(text):
        return None
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    shaped = (data[ends - 1] == CLOSE).all() and (data[ends + 1] == OPEN).all()
    return len(ends) + 1 if shaped else None


def _is_plain(text: bytes) -> bool:
    """Return whether the text has only shallow nesting and short numbers; parsers differ on others."""
    data = np.frombuffer(text, np.uint8)  # counting in bytes takes five times as long
    lists, objects, lines = (np.count_nonzero(data == byte) for byte in b"[{\n")
    if lists > DEEPEST or objects - lines > DEEPEST:
        return _deepest(text) <= DEEPEST and not _has_long_number(text)
    return not _has_long_number(text)


def _has_long_number(text: bytes) -> bool:
    """Return whether the text has a run of that many digits. A sample of one byte in a hundred excludes most texts."""
    some = np.frombuffer(text, np.uint8)[:: LONG_NUMBER // 9]
    are_digits = ((some >= ord("0")) & (some <= ord("9"))).tobytes()
    return b"\x01" * 8 in are_digits and re.search(rb"[0-9]{%d}" % LONG_NUMBER, text) is not None


def _deepest(text: bytes) -> int:
    """Return the maximum number of brackets that a line opens."""
    data = np.frombuffer(text, np.uint8)
    lines = np.searchsorted(np.flatnonzero(data == NEWLINE), np.flatnonzero((data == ord("[")) | (data == OPEN)))
    return int(np.bincount(lines).max())


def _may_fit(values: Sequence[bytes]) -> Flags:
    """Return which values are objects on one line each, in UTF-8; Arrow may read others as several rows."""
    raw = pa.array(values, pa.binary())
    try:
        texts = raw.cast(pa.string())
        sound = np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        sound = np.array([is_text(v) for v in values])
        texts = pa.array([v if ok else b"" for v, ok in zip(values, sound, strict=True)], pa.binary()).cast(pa.string())
    shaped = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    lined = pc.or_(pc.match_substring(texts, "\n"), pc.match_substring(texts, "\r"))
    fits: Flags = np.asarray(pc.and_not(shaped, lined).to_numpy(zero_copy_only=False)) & sound
    if not _is_plain(b"\n".join(values)):
        fits &= np.array([_is_plain(v) for v in values])
    return fits


def _parsed(
    values: list[bytes], parse: Callable[..., pa.Table | None], start: int, tries: list[int]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of texts from number `start` on; texts that Arrow rejects together are split into halves."""
    tries[0] -= 1
    if not values or tries[0] < 0:
        return
    rows = parse(b"\n".join(values), count=len(values))
    if rows is not None:
        yield start, rows
    elif len(values) > 1:
        half = len(values) // 2
        yield from _parsed(values[:half], parse, start, tries)
        yield from _parsed(values[half:], parse, start + half, tries)


def _parse(text: bytes, columns: Sequence[Column], only_known: bool, count: int) -> pa.Table | None:
    return _read(text, pa.schema([f.with_type(_as_read(f.type)) for f in row_schema(columns)]), only_known, count)


def _read(text: bytes, schema: pa.Schema, only_known: bool, count: int) -> pa.Table | None:
    """Return the `count` objects of a text; None if Arrow rejects them."""
    read = pj.ReadOptions(use_threads=False, block_size=len(text) + LINE_SPACE)
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error" if only_known else "ignore")
    try:
        rows = pj.read_json(pa.py_buffer(text), read, parse)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return rows.combine_chunks() if rows.num_rows == count else None


def _as_read(type_: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads it: times as strings, and decimals with more digits, both checked later."""
    if T.is_list(type_):
        return pa.list_(type_.value_field.with_type(_as_read(type_.value_type)))
    if T.is_struct(type_):
        return pa.struct([f.with_type(_as_read(f.type)) for f in type_])
    if T.is_decimal128(type_):
        return pa.decimal256(2 * DIGITS, type_.scale)
    return pa.string() if T.is_date32(type_) or T.is_timestamp(type_) else type_


def _typed(rows: pa.Table, columns: Sequence[Column]) -> tuple[pa.Table, Flags]:
    values = {c.name: _of_type(_whole(rows[c.name]), c.type) for c in columns}
    return typed_values(values, columns, rows.num_rows)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.nulls(0, column.type), *column.chunks])


def _of_type(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    """Return values that Arrow read in their types, with flags for the slow decoder."""
    if values.type == type_:
        return values, _odd_floats(values) if T.is_floating(type_) else None
    if T.is_struct(type_):
        return _structs(values, type_)
    if T.is_list(type_):
        return _lists(values, type_)
    if not T.is_decimal128(type_):
        return values_of(values, type_)
    return read_in_parts(decimals_of, values, type_)


def _odd_floats(values: pa.Array) -> Flags | None:
    """Return flags of numbers beyond a type, and of negative zeros: other parsers read -0 as an integer without
    sign."""
    found = pc.fill_null(values, 1.0).to_numpy(zero_copy_only=False)
    odd: Flags = ~np.isfinite(found) | ((found == 0) & np.signbit(found))
    return odd if odd.any() else None


def _structs(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    parts = [_of_type(part, f.type) for part, f in zip(values.flatten(), type_, strict=True)]
    made = pa.StructArray.from_arrays([part for part, _ in parts], fields=list(type_), mask=pc.is_null(values))
    return made, _either([flags for _, flags in parts])


def _lists(values: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags | None]:
    inner, flags = _of_type(values.flatten(), type_.value_type)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    made = pa.ListArray.from_arrays(ends, inner, type=type_, mask=pc.is_null(values))
    if flags is None:
        return made, None
    left = np.zeros(len(values), np.bool_)
    left[np.repeat(np.arange(len(values)), lengths)[flags]] = True
    return made, left


def _either(flags: Sequence[Flags | None]) -> Flags | None:
    found = [f for f in flags if f is not None]
    either: Flags | None = np.logical_or.reduce(found) if found else None
    return either
