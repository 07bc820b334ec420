"""JSON objects. Most are read by Arrow, many at once; one that Arrow does not take is left to Spark's reader, which reads files too.

So the rows are those that files with the same lines would give, at a fraction of the time: a value that has no form in Arrow (a text
for a number, a time in words) and every error go the slow way. Types that Arrow's reader has not send all messages there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from belvedere.connectors.kafka.formats.decoded import Decoded, Sample, nullable, placed
from belvedere.errors import fail
from belvedere.lang.types.samples import arrow_type, kind_of_value, merge
from belvedere.schema import TIMESTAMP, Column

T = pa.types
LINE_SPACE = 1 << 10


def columns(table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
    """The members of the sample's objects."""
    import json

    kinds: dict[str, Any] = {}
    for value in sample():
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            for name, member in found.items():
                kind = kind_of_value(member)
                kinds[name] = merge(kinds[name], kind) if name in kinds else kind
    if not kinds:
        hint = f'send some, or declare its columns: [sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        raise fail("B6103", f'table "{table}" has no messages that would tell its columns', hint=hint)
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kinds.items()])


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """The rows, and the texts that Arrow does not take."""
    schema, count = nullable(columns), len(values)
    if "timestamp_format" in options or not all(_is_readable(f.type) for f in schema):
        return Decoded(placed(schema.empty_table(), [], count), dict(enumerate(values)))
    text = b"\n".join(values)
    fits = np.ones(count, np.bool_) if _is_one_a_line(text, count) else _may_fit(values)
    places = np.flatnonzero(fits)
    parts = list(_parsed(list(compress(values, fits)), schema, 0))
    rows = pa.concat_tables([rows for _, rows in parts]) if parts else schema.empty_table()
    found = [places[start : start + rows.num_rows] for start, rows in parts]
    taken = np.concatenate(found) if found else np.zeros(0, np.int64)
    whole = _without_nulls(rows, columns)
    if not whole.all():
        rows, taken = rows.filter(pa.array(whole)), taken[whole]
    undecided = np.setdiff1d(np.arange(count), taken, assume_unique=True) if len(taken) < count else ()
    return Decoded(placed(rows, taken, count), {int(n): values[n] for n in undecided})


def _is_one_a_line(text: bytes, count: int) -> bool:
    """Whether joined messages are objects on one line each, in UTF-8: most often so, and soon known of all together."""
    between = count - 1
    shaped = text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == text.count(b"\n") == between
    return shaped and b"\r" not in text and _is_text(text)


def _may_fit(values: Sequence[bytes]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Objects on one line each, in UTF-8: what else Arrow is given may end the process, or count for more rows than one."""
    raw = pa.array(values, pa.binary())
    try:
        texts = raw.cast(pa.string())
        sound = np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        sound = np.array([_is_text(v) for v in values])
        texts = pa.array([v if ok else b"" for v, ok in zip(values, sound, strict=True)], pa.binary()).cast(pa.string())
    shaped = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    lined = pc.or_(pc.match_substring(texts, "\n"), pc.match_substring(texts, "\r"))
    return np.asarray(pc.and_not(shaped, lined).to_numpy(zero_copy_only=False)) & sound


def _is_text(value: bytes) -> bool:
    try:
        pa.array([value], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _parsed(values: list[bytes], schema: pa.Schema, start: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of messages from number `start` on; halves of those that Arrow refuses together are tried alone."""
    if not values:
        return
    rows = _parse(values, schema)
    if rows is not None:
        yield start, rows
    elif len(values) > 1:
        half = len(values) // 2
        yield from _parsed(values[:half], schema, start)
        yield from _parsed(values[half:], schema, start + half)


def _parse(values: list[bytes], schema: pa.Schema) -> pa.Table | None:
    text = b"\n".join(values)
    read = pj.ReadOptions(use_threads=False, block_size=len(text) + LINE_SPACE)
    asked = pa.schema([f.with_type(_as_read(f.type)) for f in schema])
    parse = pj.ParseOptions(explicit_schema=asked, unexpected_field_behavior="ignore")
    try:
        rows = pj.read_json(pa.py_buffer(text), read, parse)
        return rows.cast(schema).combine_chunks() if rows.num_rows == len(values) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _as_read(type_: pa.DataType) -> pa.DataType:
    return pa.string() if T.is_date(type_) else type_


def _is_readable(type_: pa.DataType, depth: int = 0) -> bool:
    """Whether Arrow reads the type from JSON as Spark does."""
    if T.is_list(type_):
        return _is_readable(type_.value_type, depth + 1)
    if T.is_struct(type_):
        return all(_is_readable(f.type, depth + 1) for f in type_)
    simple = T.is_string(type_) or T.is_boolean(type_) or T.is_signed_integer(type_) or type_ in (pa.float64(), TIMESTAMP)
    return bool(simple or (T.is_date32(type_) and not depth))


def _without_nulls(rows: pa.Table, columns: Sequence[Column]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows have a value in each column that must have one."""
    whole = np.ones(rows.num_rows, np.bool_)
    for c in columns:
        if not c.nullable:
            whole &= np.asarray(pc.is_valid(rows[c.name]).to_numpy(), np.bool_)
    return whole
