"""Hashes of key texts, and numbers in the order of a column: the sort keys of the indexes of runs.

In: Arrow arrays. Out: int64 arrays of numpy. The hash of a text mixes its bytes, eight at a time, for all texts at once
(multiplication and shifts as in MurmurHash3's finalizer). Hashes are stored in files, so the function must never
change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_SHIFT = np.uint64(33)
_WORD = 8


def text_hashes(texts: pa.Array) -> Numbers:
    """Return a 64-bit hash for each text (not NULL)."""
    offsets, content = _buffers(texts)
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = _mixed(lengths.astype(np.uint64) * _FACTOR)
    # overlapping words: the eight bytes from every place on
    words = np.lib.stride_tricks.as_strided(content, (max(1, len(content) - _WORD + 1), _WORD), (1, 1)).view("<u8")[
        :, 0
    ]
    for begin in range(0, int(lengths.max(initial=0)), _WORD):
        rows = np.flatnonzero(lengths > begin)
        left = np.minimum(lengths[rows] - begin, _WORD).astype(np.uint64)
        word = words[starts[rows] + begin] & (~np.uint64(0) >> ((np.uint64(_WORD) - left) * np.uint64(8)))
        found[rows] = _mixed((found[rows] ^ word) * _FACTOR + np.uint64(begin))
    return found.view(np.int64)


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offsets of each text, and all bytes followed by a word of zeros."""
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.string())
    wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.zeros(_WORD, np.uint8)
    ends = np.frombuffer(offsets, wide)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(ends[0]), int(ends[-1])
    content = np.zeros(last - first + _WORD, np.uint8)
    if data is not None:
        content[: last - first] = np.frombuffer(data, np.uint8)[first:last]
    return (ends - first).astype(np.int64), content


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for factor in _MIX:
        values = (values ^ (values >> _SHIFT)) * factor
    mixed: npt.NDArray[np.uint64] = values ^ (values >> _SHIFT)
    return mixed


def numbers(values: pa.Array) -> Numbers:
    """Return integers, dates (days) and times (microseconds) as numbers; 0 for NULL."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    found: Numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def distinct(values: Numbers) -> Numbers:
    """Return the distinct numbers, sorted.

    `np.unique` uses a hash table for large inputs, which takes fifty times as long as sorting.
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def number(value: object, type_: pa.DataType) -> int:
    """Return one value as a number, as `numbers` does."""
    return int(numbers(pa.array([value], type_))[0])
