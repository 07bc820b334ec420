"""CSV files parsed by Arrow, one block of lines at a time.

In: a file whose lines are records, with quotes around whole fields. Out: parts with the table's types.

Arrow parses the file up to the first block with anything else: a line break within a field, a quote within a word, an
empty line, bytes that are not UTF-8. From there on Python's reader splits the records, and their fields are converted
here in the same way. Runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from belvedere.connectors.reading.computed_ahead import computed_ahead
from belvedere.connectors.reading.csv_text import CsvRecord
from belvedere.connectors.reading.formats import delimiter_of, has_header, time_formats
from belvedere.connectors.reading.long_lines import limit_of
from belvedere.connectors.reading.text_records import (
    BAD,
    FAULT,
    FIELDS,
    LINE,
    REPLACEMENT,
    chunks_of,
    csv_batch,
    csv_records_of_text,
    line_breaks,
)
from belvedere.connectors.reading.typed_records import Places, RecordForm, RecordPart
from belvedere.decode.row_values import Values, placed, typed_values
from belvedere.decode.text_values import Flags, is_text, values_of
from belvedere.schema import TIMESTAMP

MAX_BLOCK_BYTES = 8 << 20
"""Maximum bytes of a line here; the reader of long lines handles larger ones."""
LINE_SPACE = 1 << 10
NEWLINE, RETURN, QUOTE = b'\n\r"'


@dataclass(frozen=True)
class _CsvBlock:
    """Complete lines of a file, or the beginning of a line that exceeds the maximum size of a block."""

    text: bytes
    line: int
    """Number of its first line."""
    lines: int
    has_header: bool


def csv_parts(path: str, name: str, form: RecordForm, threads: int = 1) -> Iterator[RecordPart]:
    """Yield the records of a file. Raises one of `records.READ_ERRORS` if it cannot be read to its end."""
    delimiter, limit = delimiter_of(path, form.options), limit_of(form.options)

    def part(block: _CsvBlock) -> RecordPart | None:
        return _part(block, name, form, delimiter) if _is_plain(block.text, delimiter, limit) else None

    blocks = _blocks(chunks_of(path), has_header(form.options))
    for found, left in computed_ahead(part, blocks, threads):
        if found is None:
            first = next(left)
            texts = (block.text for block in chain([first], left))
            rest = csv_records_of_text(path, name, texts, delimiter, first.has_header, limit, first.line)
            yield from (_listed(batch, name, form) for batch in rest)
            return
        yield found


def _blocks(chunks: Iterator[bytes], has_header: bool) -> Iterator[_CsvBlock]:
    """Divide the text into blocks."""
    begun, line = b"", 1
    for chunk in chain(filter(None, chunks), (b"",)):
        end = chunk.rfind(b"\n") + 1
        text, begun = (b"".join((begun, memoryview(chunk)[:end])), chunk[end:]) if end else (b"", begun + chunk)
        if not text and (not chunk or len(begun) > MAX_BLOCK_BYTES):
            text, begun = begun, b""
        if text:
            lines = line_breaks(text) + (not text.endswith(b"\n"))
            yield _CsvBlock(text, line, lines, has_header and line == 1)
            line += lines


def _is_plain(block: bytes, delimiter: str, limit: int) -> bool:
    """Return whether each line is a record that both readers parse in the same way."""
    if len(block) > MAX_BLOCK_BYTES or not delimiter.isascii() or delimiter in '"\r\n' or b"\x00" in block:
        return False
    if not block.isascii() and (REPLACEMENT.encode() in block or not is_text(block)):
        return False
    if b"\r" in block and (
        block.count(b"\r") != block.count(b"\r\n") or block.startswith(b"\r\n") or b"\n\r\n" in block
    ):
        return False
    data = np.frombuffer(block, np.uint8)
    breaks = np.flatnonzero(data == NEWLINE)
    lengths = np.diff(breaks, prepend=-1, append=len(block) if not block.endswith(b"\n") else [])
    if lengths.min() <= 1 or lengths.max() > limit:
        return False
    return b'"' not in block or _are_around_fields(data, breaks, delimiter)


def _are_around_fields(data: npt.NDArray[np.uint8], breaks: Places, delimiter: str) -> bool:
    """Return whether quotes enclose whole fields without line breaks, or are doubled within such fields."""
    quotes = np.flatnonzero(data == QUOTE)
    if len(quotes) % 2:
        return False
    opens, closes = quotes[::2], quotes[1::2]
    beside = np.zeros(256, np.bool_)
    beside[[QUOTE, NEWLINE, RETURN, ord(delimiter)]] = True
    before = beside[data[opens[1:] - 1]].all() and (opens[0] == 0 or beside[data[opens[0] - 1]])
    after = beside[data[closes[:-1] + 1]].all() and (closes[-1] == len(data) - 1 or beside[data[closes[-1] + 1]])
    return bool(before and after and not (np.searchsorted(quotes, breaks) % 2).any())


def _part(block: _CsvBlock, name: str, form: RecordForm, delimiter: str) -> RecordPart | None:
    """Return the records of a block; None if Arrow finds another number of records."""
    text, skip = block.text, block.has_header
    names = [str(n) for n in range(len(form.header))]
    columns = {c: names[n] for c, n in form.fields.items()}
    wrong: list[int] = []

    def pass_over(row: pcsv.InvalidRow) -> str:
        wrong.append(row.number)
        return "skip"

    read = pcsv.ReadOptions(
        use_threads=False, block_size=len(text) + LINE_SPACE, skip_rows=int(skip), column_names=names
    )
    parse = pcsv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False, invalid_row_handler=pass_over)
    convert = pcsv.ConvertOptions(
        check_utf8=False,
        column_types=dict.fromkeys(columns.values(), pa.string()),
        include_columns=list(dict.fromkeys(columns.values())),
        null_values=_nulls(form),
        strings_can_be_null=True,
    )
    try:
        table = pcsv.read_csv(pa.py_buffer(text), read, parse, convert)
    except pa.ArrowInvalid:
        return None
    count = block.lines - skip
    if table.num_rows + len(wrong) != count:
        return None
    texts = {c: table[n].combine_chunks() if table.num_rows else pa.nulls(0, pa.string()) for c, n in columns.items()}
    rows, left = typed_values(_values(texts, form), form.columns, table.num_rows)
    if wrong:
        right = np.ones(count, np.bool_)
        right[np.array(wrong) - 1 - skip] = False
        rows, flags = placed(rows, np.flatnonzero(right), count), ~right
        flags[right] = left
        left = flags
    first = block.line + skip
    lines, places = np.arange(first, first + count), np.flatnonzero(left)
    return RecordPart(
        name, rows, lines, places, _records(text, name, lines, places, delimiter, skip) if len(places) else None
    )


def _records(block: bytes, name: str, lines: Places, places: Places, delimiter: str, skip: bool) -> pa.RecordBatch:
    """Return the records of some lines of a block."""
    texts = block.split(b"\n")
    chosen = (texts[place + skip].decode().removesuffix("\r") for place in places)
    records = zip(lines[places].tolist(), csv.reader(chosen, delimiter=delimiter), strict=True)
    return csv_batch(name, [CsvRecord(line, fields) for line, fields in records], delimiter)


def _listed(batch: pa.RecordBatch, name: str, form: RecordForm) -> RecordPart:
    """Return the records of a batch from Python's reader."""
    size, width = batch.num_rows, len(form.header)
    lines = batch.column(LINE).to_numpy(zero_copy_only=False)
    whole = pc.equal(pc.fill_null(pc.list_value_length(batch.column(FIELDS)), -1), width)
    whole = pc.and_(pc.and_not(whole, batch.column(BAD)), pc.is_null(batch.column(FAULT)))
    right: Flags = np.asarray(whole)
    fields = batch.column(FIELDS).filter(whole).flatten()
    fields = pc.if_else(pc.is_in(fields, value_set=pa.array(_nulls(form))), pa.scalar(None, pa.string()), fields)
    count = int(right.sum())
    texts = {c: fields.take(pa.array(np.arange(count) * width + n)) for c, n in form.fields.items()}
    rows, left = typed_values(_values(texts, form), form.columns, count)
    flags = ~right
    flags[right] = left
    places = np.flatnonzero(flags)
    rows = placed(rows, np.flatnonzero(right), size)
    return RecordPart(name, rows, lines, places, batch.take(pa.array(places)) if len(places) else None)


def _nulls(form: RecordForm) -> list[str]:
    return ["", *([str(form.options["null"])] if "null" in form.options else [])]


def _values(texts: Mapping[str, pa.Array], form: RecordForm) -> Values:
    apart = bool(time_formats(form.options, "csv"))
    found: dict[str, tuple[pa.Array, Flags | None]] = {}
    for column in form.columns:
        if column.name not in texts:
            continue
        given = texts[column.name]
        if apart and column.type == TIMESTAMP:
            found[column.name] = pa.nulls(len(given), TIMESTAMP), np.asarray(pc.is_valid(given))
        else:
            found[column.name] = values_of(given, column.type)
    return found
