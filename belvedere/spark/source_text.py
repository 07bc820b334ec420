"""Read small text files in the driver: JSON lines and CSV as numbered records, whatever compression and byte order mark.

In: a file's path. Out: records (line number, text, and for CSV the fields), with bytes that are no UTF-8 told apart. What
the records mean is decided in `source_rows`; files too large for the driver are read by Spark (`source_files`).
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
CHUNK = 1 << 20
REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record of a text file; `fields` only for CSV; `bad` where its bytes are not UTF-8."""

    line: int
    text: str
    fields: list[str] | None = None
    bad: bool = False


def compression_of(path: str) -> str | None:
    """The compression that a file's name tells, as Arrow names it."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def open_bytes(path: str) -> pa.NativeFile:
    """The file's bytes, decompressed by its name."""
    return pa.input_stream(path, compression=compression_of(path))


def read_bytes(path: str) -> bytes:
    """All decompressed bytes without a byte order mark. Raises OSError where the file is truncated or not what it says."""
    with open_bytes(path) as stream:
        data: bytes = stream.read()
    return data.removeprefix(BYTE_ORDER_MARK)


def read_json_records(path: str) -> Iterator[TextRecord]:
    """The non-empty lines; the elements where the file is one JSON array."""
    data = read_bytes(path)
    if data.lstrip()[:1] == b"[":
        elements = _array_elements(data)
        if elements is not None:
            yield from elements
            return
    for number, line in enumerate(data.split(b"\n"), start=1):
        stripped = line.strip()
        if stripped:
            text, bad = _decode(stripped)
            yield TextRecord(number, text, bad=bad)


def _array_elements(data: bytes) -> list[TextRecord] | None:
    try:
        elements = json.loads(data)
    except ValueError:
        return None
    return [TextRecord(n, json.dumps(e, ensure_ascii=False)) for n, e in enumerate(elements, start=1)]


def read_csv_records(path: str, delimiter: str = ",") -> Iterator[TextRecord]:
    """The records of a CSV file (RFC 4180: quoted fields may hold line breaks), the header's among them."""
    csv.field_size_limit(sys.maxsize)
    text, bad = _decode(read_bytes(path))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    start = 1
    for fields in reader:
        if fields:
            record = delimiter.join(fields)
            yield TextRecord(start, record, fields, bad=bad and REPLACEMENT in record)
        start = reader.line_num + 1


def first_csv_record(path: str, delimiter: str = ",") -> list[str]:
    """The fields of the first record: the header, of a file of any size. Empty for an empty file."""
    with open_bytes(path) as stream:
        head: bytes = stream.read(CHUNK)
    text, _ = _decode(head.removeprefix(BYTE_ORDER_MARK))
    return next((fields for fields in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if fields), [])


def decompress(path: str, target: str) -> None:
    """Write the file's decompressed bytes to `target`. Raises OSError where it is truncated."""
    with open_bytes(path) as stream, open(target, "wb") as out:
        while chunk := stream.read(CHUNK):
            out.write(chunk)


def _decode(data: bytes) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace"), True
