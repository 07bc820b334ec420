"""Events as files: JSON lines, CSV and Parquet, written in chunks.

In: events as Arrow. Out: bytes of a file, and JSON texts to print.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from belvedere.values.intervals import iso_text
from belvedere.values.months import with_month_texts

MIN_EXPONENT = 6
"""Number of decimals of a DECIMAL above which Arrow writes small numbers with an exponent."""
SUFFIXES = {"json": "jsonl", "jsonl": "jsonl", "parquet": "parquet", "csv": "csv"}


def _write_json(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    for events in pieces:
        for line in json_lines(events):
            file.write(line.encode() + b"\n")


def _write_csv(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    for number, events in enumerate(map(with_month_texts, pieces)):
        plain = [_in_csv(c) for c in events.columns]
        table = pa.table(plain, names=events.schema.names)
        pc.write_csv(table, file, pc.WriteOptions(include_header=not number))


def _write_parquet(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    writer: pq.ParquetWriter | None = None
    for events in map(with_month_texts, pieces):
        writer = writer or pq.ParquetWriter(file, events.schema)
        writer.write_table(events)
    if writer is not None:
        writer.close()


def _in_csv(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_duration(column.type):
        return pa.array([None if v is None else iso_text(v) for v in column.to_pylist()], pa.string())
    if pa.types.is_decimal(column.type) and column.type.scale > MIN_EXPONENT:
        return pa.array([None if v is None else format(v, "f") for v in column.to_pylist()], pa.string())
    return _texts(values_of(column)) if pa.types.is_nested(column.type) else column


def _texts(values: list[Any]) -> pa.Array:
    return pa.array([None if v is None else _json(v) for v in values], pa.string())


WRITERS: Mapping[str, Callable[[Iterable[pa.Table], IO[bytes]], None]] = {
    "jsonl": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


def json_lines(events: pa.Table) -> list[str]:
    """Return one JSON object per row.

    Times are in RFC 3339, decimals exact texts, intervals in ISO 8601, bytes in base64. There are no infinities.
    """
    shown = with_month_texts(events)
    columns = [values_of(column) for column in shown.columns]
    return [_json(dict(zip(shown.column_names, row, strict=True))) for row in zip(*columns, strict=True)]


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; maps with text keys become objects."""
    found: list[Any] = column.to_pylist(maps_as_pydicts="strict") if _has_objects(column.type) else column.to_pylist()
    return found


def _has_objects(type_: pa.DataType) -> bool:
    """Return whether a type contains maps, all of them with text keys."""
    maps = [t for t in _types_in(type_) if pa.types.is_map(t)]
    return bool(maps) and all(pa.types.is_string(t.key_type) or pa.types.is_large_string(t.key_type) for t in maps)


def _types_in(type_: pa.DataType) -> Iterator[pa.DataType]:
    yield type_
    for number in range(type_.num_fields):
        yield from _types_in(type_.field(number).type)


def _json(value: Any) -> str:
    return json.dumps(plain_json(value), ensure_ascii=False, separators=(",", ":"))


def plain_json(value: Any) -> Any:
    """Return a value as JSON, in the form that `json_lines` documents."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")  # no exponent, unlike 0E-18
    if isinstance(value, timedelta):
        return iso_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(k): plain_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(v) for v in value]
    return value
