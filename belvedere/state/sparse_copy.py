"""A piece of a remote file of which blocks are fetched when they are needed.

In: a place, a function that fetches ranges of bytes, and the checksum of each block. Out: a record batch over a sparse
local file. Its arrays are mapped memory: before rows or a column are read, `need` must fetch their blocks. Bytes that
were not fetched are zeros, so every reader first declares what it reads.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from belvedere.state.dead_rows import Positions

BLOCK = 256 << 10
"""Number of bytes of a block."""
REQUESTS = 8
"""Maximum number of parallel requests."""
GAP = 4
"""Maximum number of blocks between two that are fetched in one request with them."""
Bytes: TypeAlias = tuple[int, int]
"""A range of bytes of a piece: the first byte, and the byte after the last."""
Fetch: TypeAlias = Callable[[int, int], bytes]
_ROW = 64
"""Approximate number of bytes of a row. Rows of one block are one range."""
_MAGIC, _HEAD, _TAIL = 8, 8, 10
"""Bytes of Arrow's file format: its magic word, the head of a message, the length of the footer with the magic word."""


def has_blocks(length: int) -> bool:
    """Return whether a piece is fetched by blocks. A shorter one is fetched whole."""
    return length > 4 * BLOCK


def block_checksums(content: pa.Buffer) -> bytes:
    """Return the checksums of the blocks of a piece and one of all of them, in the form stored after the piece."""
    view = memoryview(content)
    each = [zlib.crc32(view[n : n + BLOCK]) for n in range(0, len(view), BLOCK)]
    found = struct.pack(f"<{len(each)}I", *each)
    return found + struct.pack("<I", zlib.crc32(found))


def read_checksums(content: bytes) -> np.ndarray | None:
    """Parse the bytes of `block_checksums`, or return None if they are damaged."""
    found, own = content[:-4], content[-4:]
    return np.frombuffer(found, "<u4") if struct.pack("<I", zlib.crc32(found)) == own else None


def checksums_length(length: int) -> int:
    """Return the bytes of the checksums of a piece."""
    return 4 * (-(-length // BLOCK) + 1)


class SparseCopy:
    """One piece of `length` bytes.

    Its file has no name: no other process sees it, and it is freed with its last array.
    """

    def __init__(
        self,
        folder: Path,
        length: int,
        block: int,
        checksums: np.ndarray,
        fetch: Fetch,
        differs: Callable[[], Exception],
    ):
        """`fetch` returns a range of bytes (first, count); `differs` returns the error for a block with a wrong
        checksum."""
        self.length, self.block, self.checksums, self.fetch, self.differs = length, block, checksums, fetch, differs
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(length)
            self._memory = mmap(file.fileno(), length)
        self._buffer = pa.py_buffer(self._memory)
        self._there = np.zeros(len(checksums), np.bool_)
        self._lock = Lock()
        self._need_layout()
        with ipc.open_file(pa.BufferReader(self._buffer)) as reader:
            self.batch = reader.get_batch(0)

    @property
    def bytes(self) -> int:
        """Return the number of fetched bytes."""
        return int(self._there.sum()) * self.block

    def _need_layout(self) -> None:
        """Fetch the two messages before the columns, each after its length, and the footer, before its length."""
        self._need([(0, _MAGIC + _HEAD), (self.length - _TAIL, self.length)])
        (footer,) = struct.unpack_from("<i", self._memory, self.length - _TAIL)
        self._need([(self.length - _TAIL - footer, self.length)])
        end = _MAGIC
        for _ in range(2):
            self._need([(end, end + _HEAD)])
            (length,) = struct.unpack_from("<i", self._memory, end + _HEAD - 4)
            self._need([(end, end + _HEAD + length)])
            end += _HEAD + length

    def need(self, names: Iterable[str], positions: Positions | None = None) -> None:
        """Fetch columns, or their rows at some positions."""
        if self._there.all():
            return
        arrays = [self.batch.column(n) for n in names]
        if positions is None or len(positions) > len(self.batch) // 2:
            self._need(r for a in arrays for r in self._all(a))
            return
        ranges = _ranges(positions, max(1, self.block // _ROW))
        self._need(r for a in arrays for first, last in ranges for r in self._rows(a, first, last))
        for array in (a for a in arrays if _has_offsets(a.type)):
            self._need(self._data(array, first, last) for first, last in ranges)

    def _all(self, array: pa.Array) -> Iterator[Bytes]:
        for buffer in array.buffers():
            if buffer is not None and buffer.size:
                yield self._at(buffer, 0, buffer.size)

    def _rows(self, array: pa.Array, first: int, last: int) -> Iterator[Bytes]:
        """Yield the bytes of some rows; of texts only the offsets."""
        buffers, bits = array.buffers(), _bits(array.type)
        if bits is None or len(buffers) < 2:
            yield from self._all(array)
            return
        if buffers[0] is not None:
            yield self._at(buffers[0], first // 8, last // 8 + 1)
        if buffers[1] is not None:
            yield self._at(buffers[1], first * bits // 8, (last + 1) * bits // 8 + 1)

    def _data(self, array: pa.Array, first: int, last: int) -> Bytes:
        """Return the bytes of some texts, whose offsets were fetched."""
        _, starts, data = array.buffers()
        if starts is None or data is None or not data.size:
            return 0, 0
        offsets = np.frombuffer(starts, f"i{_offset_bits(array.type) // 8}")
        return self._at(data, int(offsets[first]), int(offsets[last]))

    def _at(self, buffer: pa.Buffer, first: int, last: int) -> Bytes:
        begin = buffer.address - self._buffer.address
        return begin + first, begin + min(last, buffer.size)

    def _need(self, ranges: Iterable[Bytes]) -> None:
        asked = np.zeros(len(self._there), np.bool_)
        for first, last in ranges:
            asked[first // self.block : -(-last // self.block)] = True
        with self._lock:
            missing = np.flatnonzero(asked & ~self._there)
            if not len(missing):
                return
            groups = np.split(missing, np.flatnonzero(np.diff(missing) > GAP) + 1)
            if len(groups) == 1:
                self._fill(groups[0])
                return
            with ThreadPoolExecutor(min(REQUESTS, len(groups))) as threads:
                for _ in threads.map(self._fill, groups):
                    pass

    def _fill(self, blocks: Positions) -> None:
        first, last = int(blocks[0]), int(blocks[-1]) + 1
        begin, end = first * self.block, min(last * self.block, self.length)
        content = self.fetch(begin, end - begin)
        view = memoryview(content)
        for number in range(first, last):
            block = view[(number - first) * self.block : (number - first + 1) * self.block]
            if len(content) != end - begin or zlib.crc32(block) != self.checksums[number]:
                raise self.differs()
        self._memory[begin:end] = content
        self._there[first:last] = True


def _ranges(positions: Positions, near: int) -> list[tuple[int, int]]:
    """Return the ranges of positions, each from its first to after its last.

    Ranges at most `near` apart are joined.
    """
    ordered = np.sort(positions)
    if not len(ordered):
        return []
    cuts = np.flatnonzero(np.diff(ordered) > near) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(ordered, cuts)]


def _has_offsets(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind))


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _offset_bits(kind: pa.DataType) -> int:
    return 64 if _is_large(kind) else 32


def _bits(kind: pa.DataType) -> int | None:
    """Return the bits of a value of a plain column, or of a text's offset; None for nested columns."""
    if _has_offsets(kind):
        return _offset_bits(kind)
    try:
        return int(kind.bit_width)
    except ValueError:
        return None
