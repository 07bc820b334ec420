"""Where exports go: files named by epoch, or the console.

In: events as Arrow, the sink of the project file, a name and an epoch. Out: a file that appears whole or not at all. A repeated
delivery of the same epoch overwrites its file; the console cannot take a line back, so it is at least once.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from belvedere.errors import fail
from belvedere.settings import Sink

SUFFIXES = {"json": "jsonl", "jsonl": "jsonl", "parquet": "parquet", "csv": "csv"}


def deliver(sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
    """Write events, a piece at a time, to a sink under the name `target`. Raises BelvedereError where it cannot be written."""
    if sink.connector == "console":
        for events in pieces:
            sys.stdout.write("".join(f"{target} {line}\n" for line in json_lines(events)))
            sys.stdout.flush()
        return
    if sink.connector != "files" or sink.format not in SUFFIXES:
        raise fail(
            "B6130",
            f'sink "{sink.name}" has connector "{sink.connector}" and format "{sink.format}", which is not supported',
            hint='write connector = "files" with format = "json", "csv" or "parquet", or connector = "console"',
        )
    if sink.path is None:
        raise fail("B6131", f'sink "{sink.name}" has no path', hint='write path = "..." in belvedere.toml')
    _write_file(sink.path / target, f"{target}-{epoch:012d}.{SUFFIXES[sink.format]}", sink, pieces)


def _write_file(folder: Path, name: str, sink: Sink, pieces: Iterable[pa.Table]) -> None:
    part = folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            _WRITERS[SUFFIXES[sink.format]](pieces, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / name)
    except OSError as error:
        raise fail(
            "B6132",
            f'sink "{sink.name}" cannot write {folder / name}: {error.strerror or error}',
            hint="make room or give rights; what is not delivered is kept in the store and delivered at the next start",
        ) from error


def _write_json(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    for events in pieces:
        for line in json_lines(events):
            file.write(line.encode() + b"\n")


def _write_csv(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    for number, events in enumerate(pieces):
        plain = [c if not pa.types.is_nested(c.type) else _texts(c.to_pylist()) for c in events.columns]
        table = pa.table(plain, names=events.schema.names)
        pc.write_csv(table, file, pc.WriteOptions(include_header=not number))


def _write_parquet(pieces: Iterable[pa.Table], file: IO[bytes]) -> None:
    writer: pq.ParquetWriter | None = None
    for events in pieces:
        writer = writer or pq.ParquetWriter(file, events.schema)
        writer.write_table(events)
    if writer is not None:
        writer.close()


def _texts(values: list[Any]) -> pa.Array:
    return pa.array([None if v is None else _json(v) for v in values], pa.string())


_WRITERS: Mapping[str, Callable[[Iterable[pa.Table], IO[bytes]], None]] = {
    "jsonl": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


def json_lines(events: pa.Table) -> list[str]:
    """One JSON object per row: times in RFC 3339, decimals as exact text, bytes in base64, no infinities."""
    return [_json(row) for row in events.to_pylist()]


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
