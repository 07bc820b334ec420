"""Text files as batches of numbered records: JSON lines and CSV, with any compression and byte order mark.

In: a file's path, or a range of its bytes. Out: Arrow batches of `RECORDS`, with a flag for bytes that are not UTF-8.
The same code runs in the driver and in Spark's tasks. `file_rows` interprets the records. Raises OSError, EOFError or
csv.Error if a file cannot be read to its end.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.connectors.reading.csv_text import CsvRecord, bounded_lines, csv_records_of
from belvedere.connectors.reading.encodings import HEAD, as_utf8, utf16_of
from belvedere.connectors.reading.json_arrays import read_documents, read_elements
from belvedere.connectors.reading.long_lines import LIMIT_MB, SHOWN, TooLong, too_long, whole_lines

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
"""A record: its position, its text, whether its bytes are not UTF-8, and for CSV its fields (none for an unclosed
quote).

`FAULT` is a coded reason that it is not a record, or, without a line, that the file ends here.
"""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
CHUNK = 1 << 20
BATCH, BATCH_SIZE = 4096, 4 << 20
"""Maximum number of records in a batch, and of characters after which a batch ends."""
LIMIT = LIMIT_MB << 20
REPLACEMENT = "\ufffd"
READ_ERRORS = (OSError, EOFError, pa.ArrowException, csv.Error)
Values = Callable[[Iterator[bytes]], Iterator[Any]]


def compression_of(path: str) -> str | None:
    """Return the compression by a file's name, in Arrow's spelling."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def line_breaks(text: bytes) -> int:
    """Return the number of line ends in a text. With many of them, `count` takes six times as long."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def open_file(path: str) -> pa.NativeFile:
    """Open a file of any name, which need not be UTF-8, without decompression."""
    return pa.OSFile(os.fsencode(path))


def open_bytes(path: str) -> pa.NativeFile:
    """Open a file, decompressed according to its name."""
    return pa.input_stream(open_file(path), compression=compression_of(path))


def chunks_of(path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the decompressed bytes as UTF-8 without a byte order mark; for a plain file those of a range."""
    if end is not None:
        yield from _range_of(path, start, end)
        return
    with open_bytes(path) as stream:
        yield from as_utf8(iter(lambda: stream.read(CHUNK), b""))


def text_head(path: str, size: int) -> bytes:
    """Return the first `size` bytes of a text as UTF-8, or all of a shorter one."""
    head = b""
    for chunk in chunks_of(path):
        head += chunk
        if len(head) >= size:
            break
    return head[:size]


def is_utf16(path: str) -> bool:
    """Return whether the file is in UTF-16, so ranges of its bytes are not lines."""
    with open_bytes(path) as stream:
        return utf16_of(stream.read(HEAD)) is not None


def _range_of(path: str, start: int, end: int) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        stream.seek(start)
        while start < end and (chunk := stream.read(min(CHUNK, end - start))):
            yield chunk.removeprefix(BYTE_ORDER_MARK) if not start else chunk
            start += len(chunk)


def json_records(
    path: str, name: str, start: int = 0, end: int | None = None, first: int = 1, limit: int = LIMIT
) -> Iterator[pa.RecordBatch]:
    """Yield the non-empty lines under their file's `name`; or the values of one JSON array, or of objects over several
    lines.

    A range begins with line `first`. A line of more than `limit` bytes has its beginning as text, and a fault.
    """
    values = values_of(path) if end is None else None
    if values is not None:
        elements = ((n, _element_text(e)) for n, e in enumerate(values(chunks_of(path)), start=1))
        for some in _together(elements, lambda e: len(e[1])):
            yield _batch(name, [n for n, _ in some], pa.array([t for _, t in some]))
        return
    for block in whole_lines(chunks_of(path, start, end), limit):
        if isinstance(block, TooLong):
            yield too_long_record(name, first, block)
            first += 1
            continue
        yield from json_block(name, first, block, limit)
        first += line_breaks(block) + 1


def too_long_record(name: str, line: int, found: TooLong) -> pa.RecordBatch:
    """Return the record of a line that is too long."""
    return _batch(name, [line], pa.array([found.text]), faults=pa.array([found.reason.coded]))


def json_block(name: str, first: int, block: bytes, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the non-empty lines of a block, the first with the number `first`."""
    lines = pc.split_pattern(pa.array([block], pa.binary()), b"\n").flatten()
    yield from _line_batches(name, first, lines, limit)


def _together(records: Iterable[Any], size: Callable[[Any], int]) -> Iterator[list[Any]]:
    """Group records: many at a time, fewer if they are large."""
    held: list[Any] = []
    held_size = 0
    for record in records:
        held.append(record)
        held_size += size(record)
        if len(held) >= BATCH or held_size >= BATCH_SIZE:
            yield held
            held, held_size = [], 0
    if held:
        yield held


def _line_batches(name: str, first: int, lines: pa.Array, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a block; those above the limit come after the others, with their faults.

    The limit is below a chunk's size in this case.
    """
    long = pc.greater(pc.binary_length(lines), limit)
    if not long.true_count:
        yield _line_batch(name, first, lines)
        return
    places = pc.indices_nonzero(long).to_pylist()
    texts = [lines[n].as_py()[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN] for n in places]
    yield _line_batch(name, first, pc.if_else(long, pa.scalar(b"", pa.binary()), lines))
    yield _batch(
        name, [first + n for n in places], pa.array(texts), faults=pa.array([too_long("the line").coded] * len(places))
    )


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
    name: str,
    numbers: Any,
    texts: pa.Array,
    bad: pa.Array | None = None,
    fields: pa.Array | None = None,
    faults: pa.Array | None = None,
) -> pa.RecordBatch:
    size = len(texts)
    columns = [
        pa.array([name]).take(pa.array(np.zeros(size, dtype=np.int64))),
        pa.array(numbers, pa.int64()),
        texts,
        pa.array(np.zeros(size, dtype=bool)) if bad is None else bad,
        pa.nulls(size, RECORDS.field(FIELDS).type) if fields is None else fields,
        pa.nulls(size, pa.string()) if faults is None else faults,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _element_text(element: Any) -> str:
    try:
        # the file may spell surrogates as escapes, which UTF-8 does not have
        return json.dumps(element, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except RecursionError:
        return "an element that is nested too deeply"


def values_of(path: str) -> Values | None:
    """Return a reader of the values if a file is one JSON array, or objects over several lines; None for lines.

    A file that only begins in this form is treated as lines.
    """
    first = next((text for chunk in chunks_of(path) if (text := chunk.lstrip())), b"")
    if first[:1] not in (b"[", b"{") or (first[:1] == b"{" and _is_value(first.partition(b"\n")[0])):
        return None
    read = read_elements if first[:1] == b"[" else read_documents
    try:
        for _ in read(chunks_of(path)):
            pass
    except ValueError:
        return None
    return read


def _is_value(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def csv_records(path: str, name: str, delimiter: str, skip: bool, limit: int = LIMIT) -> Iterator[pa.RecordBatch]:
    """Yield the records of a CSV file (RFC 4180: quoted fields may contain line breaks), without a header if `skip`."""
    return csv_records_of_text(path, name, chunks_of(path), delimiter, skip, limit)


def csv_records_of_text(
    path: str, name: str, chunks: Iterator[bytes], delimiter: str, skip: bool, limit: int = LIMIT, first: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the same for the file's text from line `first` on."""
    records = _csv_rows(chunks, delimiter, limit)
    if skip:
        next(records, None)
    suspicious = not _is_utf8(path)
    for some in _together(records, lambda r: sum(map(len, r.fields or [r.text]))):
        yield csv_batch(name, [r._replace(line=r.line + first - 1) for r in some], delimiter, suspicious)


def csv_batch(name: str, records: Sequence[CsvRecord], delimiter: str, suspicious: bool = False) -> pa.RecordBatch:
    """Return records as a batch; `suspicious`: the file has bytes that are not UTF-8."""
    fields = [r.fields for r in records]
    texts = [r.text if r.fields is None else _csv_text(r.fields, delimiter) for r in records]
    bad = pa.array([suspicious and REPLACEMENT in t for t in texts], pa.bool_())
    faults = pa.array([None if r.fault is None else r.fault.coded for r in records], pa.string())
    return _batch(
        name, [r.line for r in records], pa.array(texts), bad, pa.array(fields, pa.list_(pa.string())), faults
    )


def _csv_text(fields: list[str], delimiter: str) -> str:
    """Return a record as CSV text, with quotes if necessary."""
    text = delimiter.join(fields)
    if text and text.count(delimiter) == len(fields) - 1 and not ('"' in text or "\n" in text or "\r" in text):
        return text
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter).writerow(fields)
    return line.getvalue().removesuffix("\r\n")


def csv_fields(text: str, delimiter: str) -> list[str]:
    """Return the fields of a record; none if the text is not one record."""
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return records[0] if len(records) == 1 else []


def csv_rows(path: str, delimiter: str, limit: int = LIMIT) -> Iterator[CsvRecord]:
    """Yield the records of a file."""
    return _csv_rows(chunks_of(path), delimiter, limit)


def _csv_rows(chunks: Iterator[bytes], delimiter: str, limit: int) -> Iterator[CsvRecord]:
    text = io.TextIOWrapper(io.BufferedReader(_ChunkFile(chunks), CHUNK), "utf-8", "replace", newline="")
    return csv_records_of(bounded_lines(text, limit), delimiter)


def first_csv_record(path: str, delimiter: str = ",") -> list[str]:
    """Return the fields of the first record, the header, of a file of any size; empty for an empty file.

    Raises csv.Error if the record is too long.
    """
    first = next(csv_rows(path, delimiter), None)
    if first is not None and first.fault is not None:
        raise csv.Error(first.fault)
    return [] if first is None else first.fields or [first.text]


def _is_utf8(path: str) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks_of(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class _ChunkFile(io.RawIOBase):
    """Chunks of bytes as a file object."""

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
    """Return the text of bytes, and whether they are not UTF-8; invalid bytes are replaced."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace"), True
