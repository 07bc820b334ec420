"""Filters that exclude keys from a run, for the hashes of every index except the first: each run can contain any of
these.

In: the sorted hashes of an index. Out: a blocked Bloom filter of 16 bits per row (Putze, Sanders and Singler, 2007):
five bits in one 64-bit word. Of 1,000 keys that a run does not have, about three pass. Words follow the order of the
hashes, so sorted keys read the filter from beginning to end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from belvedere.state.dead_rows import Positions
from belvedere.state.hashing import Numbers

Words = npt.NDArray[np.uint64]

MIN_ROWS = 4_096
"""Minimum number of rows of a run with filters. Smaller runs are searched as fast without."""
_ROWS = 4
"""Number of rows per word."""
_BITS = 5
_HALF = np.int64(32)


def is_filtered(rows: int) -> bool:
    """Return whether a run of this many rows has filters."""
    return rows >= MIN_ROWS


class KeyProbes:
    """Keys (sorted) to test against filters."""

    def __init__(self, keys: Numbers):
        self.masks = _masks(keys)
        self.tops = _tops(keys)

    def find_held(self, words: Words, first: int, last: int) -> Positions:
        """Return the keys in the range from `first` to `last` that a run with this filter may have."""
        masks = self.masks[first:last]
        found = words[_places(self.tops[first:last], len(words))]
        found &= masks
        return first + np.flatnonzero(found == masks)


def filter_of(hashes: Numbers) -> npt.NDArray[np.uint16]:
    """Return the filter of sorted hashes, two bytes for each."""
    words = np.zeros(max(1, len(hashes) // _ROWS), np.uint64)
    places = _places(_tops(hashes), len(words))
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    words[places[starts]] = np.bitwise_or.reduceat(_masks(hashes), starts)
    found = np.zeros(len(hashes), np.uint16)
    found[: len(hashes) // _ROWS * _ROWS] = words[: len(hashes) // _ROWS].view(np.uint16)
    return found


def words_of(filter_: npt.NDArray[np.uint16]) -> Words:
    """Convert the bytes of a filter to words for look-ups."""
    return filter_[: len(filter_) // _ROWS * _ROWS].view(np.uint64)


def _tops(hashes: Numbers) -> Numbers:
    """Return the upper halves of the hashes as numbers from 0 on, in the order of the hashes."""
    return (hashes >> _HALF) + np.int64(1 << 31)


def _places(tops: Numbers, words: int) -> Numbers:
    return (tops * np.int64(words)) >> _HALF


def _masks(hashes: Numbers) -> Words:
    found = np.zeros(len(hashes), np.uint64)
    unsigned = hashes.view(np.uint64)
    for bit in range(_BITS):
        found |= np.uint64(1) << ((unsigned >> np.uint64(6 * bit)) & np.uint64(63))
    return found
