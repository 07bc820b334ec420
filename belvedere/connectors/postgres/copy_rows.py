"""Rows of COPY in Postgres' text format.

In: chunks from the server. Out: blocks of rows. Arrow parses most of them into columns of texts. A block with escaped
values, or with bytes that are not UTF-8, becomes rows of bytes, and the conversion to columns checks these.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyarrow import csv

Copied: TypeAlias = tuple[bytes | None, ...]
Block: TypeAlias = pa.Table | list[Copied]
BLOCK_BYTES = 4 << 20
"""Number of bytes read at once."""
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANINGS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_NULL = rb"\N"
_MARK = "\ufeff".encode()
"""Byte order mark, which Arrow drops at the beginning of its input."""
_PARSED = csv.ParseOptions(
    delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
)


def copied_blocks(pieces: Iterable[bytes | bytearray | memoryview], columns: Sequence[str]) -> Iterator[Block]:
    """Yield the rows in blocks. A line break within a value is escaped, so each line is a row."""
    held, size = list[bytes](), 0
    for piece in pieces:
        held.append(bytes(piece))
        size += len(held[-1])
        if size >= BLOCK_BYTES:
            whole, _, rest = b"".join(held).rpartition(b"\n")
            if whole:
                yield _block(whole + b"\n", columns)
            held, size = [rest], len(rest)
    if left := b"".join(held):
        yield _block(left, columns)


def rows_of_block(block: Block) -> list[Copied]:
    """Return the rows of a block, one by one."""
    if isinstance(block, list):
        return block
    columns = [c.cast(pa.binary()).to_pylist() for c in block.columns]
    return list(zip(*columns, strict=True))


def _block(text: bytes, columns: Sequence[str]) -> Block:
    if text.count(b"\\") == text.count(_NULL) and not text.startswith(_MARK):
        types = dict.fromkeys(columns, pa.string())
        read = csv.ReadOptions(column_names=list(columns), use_threads=False, block_size=len(text) + 1)
        convert = csv.ConvertOptions(column_types=types, null_values=[_NULL.decode()], strings_can_be_null=True)
        try:
            return csv.read_csv(io.BytesIO(text), read_options=read, parse_options=_PARSED, convert_options=convert)
        except pa.ArrowInvalid:
            pass
    return [tuple(map(_value, line.split(b"\t"))) for line in text.removesuffix(b"\n").split(b"\n")]


def _value(text: bytes) -> bytes | None:
    if b"\\" not in text:
        return text
    return None if text == _NULL else _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), text)
