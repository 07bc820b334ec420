"""Text files as batches of numbered records: JSON lines and CSV, whatever compression and byte order mark.

In: a file's path, or a range of its bytes. Out: Arrow batches of `RECORDS`, with a mark on bytes that are not UTF-8. The same code runs
in the driver and in Spark's tasks. What the records mean is decided in `rows`. Raises OSError, EOFError or csv.Error where a file cannot
be read to its end.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.array import read_elements

FILE, LINE, TEXT, BAD, FIELDS, FAULT = "__file", "__line", "__text", "__bad", "__fields", "__fault"
RECORDS = pa.schema(
    [
        pa.field(FILE, pa.string()),
        pa.field(LINE, pa.int64()),
        pa.field(TEXT, pa.string()),
        pa.field(BAD, pa.bool_()),
        pa.field(FIELDS, pa.list_(pa.string())),
        pa.field(FAULT, pa.string()),
    ]
)
"""A record: where it is from, its text, whether its bytes are no UTF-8, of CSV its fields. `FAULT` says why a file ends here."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
CHUNK = 1 << 20
BATCH = 4096
REPLACEMENT = "\ufffd"
READ_ERRORS = (OSError, EOFError, pa.ArrowException, csv.Error)
csv.field_size_limit(sys.maxsize)


def compression_of(path: str) -> str | None:
    """The compression by a file's name, as Arrow names it."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def open_file(path: str) -> pa.NativeFile:
    """The file as it is: of any name, which need not be UTF-8."""
    return pa.OSFile(os.fsencode(path))


def open_bytes(path: str) -> pa.NativeFile:
    """The file's bytes, decompressed by its name."""
    return pa.input_stream(open_file(path), compression=compression_of(path))


def chunks_of(path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The decompressed bytes without a byte order mark; of a plain file those of a range."""
    if end is not None:
        yield from _range_of(path, start, end)
        return
    with open_bytes(path) as stream:
        head = b""
        while len(head) < len(BYTE_ORDER_MARK) and (more := stream.read(CHUNK)):
            head += more
        yield head.removeprefix(BYTE_ORDER_MARK)
        while chunk := stream.read(CHUNK):
            yield chunk


def _range_of(path: str, start: int, end: int) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        stream.seek(start)
        while start < end and (chunk := stream.read(min(CHUNK, end - start))):
            yield chunk.removeprefix(BYTE_ORDER_MARK) if not start else chunk
            start += len(chunk)


def json_records(path: str, name: str, start: int = 0, end: int | None = None, first: int = 1) -> Iterator[pa.RecordBatch]:
    """The non-empty lines under their file's `name`; the elements where the file is one JSON array. A range begins with line `first`."""
    if end is None and is_array(path):
        elements = enumerate(read_elements(chunks_of(path)), start=1)
        while some := list(islice(elements, BATCH)):
            yield _batch(name, [n for n, _ in some], pa.array([_element_text(e) for _, e in some]))
        return
    for block in _whole_lines(chunks_of(path, start, end)):
        lines = pc.split_pattern(pa.array([block], pa.binary()), b"\n").flatten()
        yield _line_batch(name, first, lines)
        first += len(lines)


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes cut at ends of lines, which are left out."""
    begun: list[bytes] = []
    for chunk in chunks:
        cut = chunk.rfind(b"\n")
        if cut < 0:
            begun.append(chunk)
            continue
        yield b"".join([*begun, chunk[:cut]])
        begun = [chunk[cut + 1 :]]
    yield b"".join(begun)


def _line_batch(name: str, first: int, lines: pa.Array) -> pa.RecordBatch:
    bad = None
    try:
        texts = lines.cast(pa.string())
    except pa.ArrowInvalid:
        found = [decoded(line) for line in lines.to_pylist()]
        texts, bad = pa.array([t for t, _ in found]), pa.array([b for _, b in found])
    texts = pc.ascii_trim_whitespace(texts)
    numbers = np.arange(first, first + len(texts))
    return _batch(name, numbers, texts, bad).filter(pc.greater(pc.binary_length(texts), 0))


def _batch(
    name: str, numbers: Any, texts: pa.Array, bad: pa.Array | None = None, fields: pa.Array | None = None
) -> pa.RecordBatch:
    size = len(texts)
    columns = [
        pa.array([name]).take(pa.array(np.zeros(size, dtype=np.int64))),
        pa.array(numbers, pa.int64()),
        texts,
        pa.array(np.zeros(size, dtype=bool)) if bad is None else bad,
        pa.nulls(size, RECORDS.field(FIELDS).type) if fields is None else fields,
        pa.nulls(size, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _element_text(element: Any) -> str:
    try:
        # the file may spell surrogates as escapes, which UTF-8 does not have
        return json.dumps(element, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except RecursionError:
        return "an element that is nested too deep"


def is_array(path: str) -> bool:
    """Whether the file is one JSON array. A file that begins as one and is none counts as lines."""
    first = next((text for chunk in chunks_of(path) if (text := chunk.lstrip())), b"")
    if first[:1] != b"[":
        return False
    try:
        for _ in read_elements(chunks_of(path)):
            pass
    except ValueError:
        return False
    return True


def csv_records(path: str, name: str, delimiter: str, skip: bool) -> Iterator[pa.RecordBatch]:
    """The records of a CSV file (RFC 4180: quoted fields may hold line breaks), without the header where there is one to `skip`."""
    records = csv_rows(path, delimiter)
    if skip:
        next(records, None)
    suspicious = not _is_utf8(path)
    while some := list(islice(records, BATCH)):
        fields = [f for _, f in some]
        texts = [_csv_text(f, delimiter) for f in fields]
        bad = pa.array([suspicious and REPLACEMENT in t for t in texts], pa.bool_())
        yield _batch(name, [n for n, _ in some], pa.array(texts), bad, pa.array(fields, pa.list_(pa.string())))


def _csv_text(fields: list[str], delimiter: str) -> str:
    """A record that can be split into its fields again: with quotes where they need them."""
    text = delimiter.join(fields)
    if text and text.count(delimiter) == len(fields) - 1 and not ('"' in text or "\n" in text or "\r" in text):
        return text
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter).writerow(fields)
    return line.getvalue().removesuffix("\r\n")


def csv_fields(text: str, delimiter: str) -> list[str]:
    """The fields of a record; none where the text is not one record."""
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return records[0] if len(records) == 1 else []


def csv_rows(path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record with its first line."""
    text = io.TextIOWrapper(io.BufferedReader(_Bytes(chunks_of(path)), CHUNK), "utf-8", "replace", newline="")
    reader = csv.reader(text, delimiter=delimiter)
    start = 1
    for fields in reader:
        if fields:
            yield start, fields
        start = reader.line_num + 1


def first_csv_record(path: str, delimiter: str = ",") -> list[str]:
    """The fields of the first record: the header, of a file of any size. Empty for an empty file."""
    return next((fields for _, fields in csv_rows(path, delimiter)), [])


def _is_utf8(path: str) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks_of(path):
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


def decoded(data: bytes) -> tuple[str, bool]:
    """The text of bytes, and whether they are no UTF-8: what is none is replaced then."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace"), True
