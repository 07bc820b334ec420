"""Read text files in the driver, as they stream: JSON lines and CSV as numbered records, whatever compression and byte order mark.

In: a file's path. Out: records (line number, text, and for CSV the fields), with bytes that are no UTF-8 told apart. What
the records mean is decided in `source_rows`; files too large for the driver are read by Spark (`source_files`).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.spark.source_array import read_elements

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
CHUNK = 1 << 20
REPLACEMENT = "\ufffd"
csv.field_size_limit(sys.maxsize)


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


def _chunks(path: str) -> Iterator[bytes]:
    """The decompressed bytes without a byte order mark. Raises OSError where the file is truncated or not what it says."""
    with open_bytes(path) as stream:
        head = b""
        while len(head) < len(BYTE_ORDER_MARK) and (more := stream.read(CHUNK)):
            head += more
        yield head.removeprefix(BYTE_ORDER_MARK)
        while chunk := stream.read(CHUNK):
            yield chunk


def read_json_records(path: str) -> Iterator[TextRecord]:
    """The non-empty lines, as they are read; the elements where the file is one JSON array."""
    if _is_array(path):
        for number, element in enumerate(read_elements(_chunks(path)), start=1):
            yield TextRecord(number, _element_text(element))
        return
    for number, line in enumerate(_lines(path), start=1):
        stripped = line.strip()
        if stripped:
            text, bad = _decode(stripped)
            yield TextRecord(number, text, bad=bad)


def _element_text(element: Any) -> str:
    try:
        # the file may spell surrogates as escapes, which UTF-8 does not have
        return json.dumps(element, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except RecursionError:
        return "an element that is nested too deep"


def _lines(path: str) -> Iterator[bytes]:
    begun: list[bytes] = []
    for chunk in _chunks(path):
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            yield from others[:-1]
            begun = others[-1:]
    yield b"".join(begun)


def _is_array(path: str) -> bool:
    first = next((text for chunk in _chunks(path) if (text := chunk.lstrip())), b"")
    if first[:1] != b"[":
        return False
    try:
        for _ in read_elements(_chunks(path)):
            pass
    except ValueError:
        return False
    return True


def read_csv_records(path: str, delimiter: str = ",") -> Iterator[TextRecord]:
    """The records of a CSV file (RFC 4180: quoted fields may hold line breaks), the header's among them, as they are read."""
    bad = not _is_utf8(path)
    text = io.TextIOWrapper(io.BufferedReader(_Bytes(_chunks(path)), CHUNK), "utf-8", "replace", newline="")
    reader = csv.reader(text, delimiter=delimiter)
    start = 1
    for fields in reader:
        if fields:
            record = delimiter.join(fields)
            yield TextRecord(start, record, fields, bad=bad and REPLACEMENT in record)
        start = reader.line_num + 1


def _is_utf8(path: str) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class _Bytes(io.RawIOBase):
    """Chunks of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


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
