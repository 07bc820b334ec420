"""The dead rows of a run: a bit for each row in memory, and in a file the bits or the positions, whichever is shorter.

In: positions of rows that become dead or live. Out: which of some positions are dead. A run without dead rows has no
bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BITS = 8
_FEW = 4_096
"""Maximum number of positions whose bits are set one by one."""
_POSITIONS, _BITMAP = "dead", "bits"


class DeadRows:
    """A bit for each of `size` rows."""

    def __init__(self, size: int):
        self.size = size
        self.bits = np.zeros(-(-size // _BITS), np.uint8)

    def at(self, positions: Positions) -> Mask:
        """Return which of the rows at these positions are dead."""
        if len(positions) == 1:  # half of the time that numpy takes for it
            place = int(positions[0])
            return np.array([int(self.bits[place >> 3]) >> (place & 7) & 1], np.bool_)
        found: Mask = ((self.bits[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1).astype(np.bool_)
        return found

    def mark(self, positions: Positions) -> None:
        """Mark rows as dead."""
        if len(positions) <= _FEW:
            np.bitwise_or.at(self.bits, positions >> 3, _bit(positions))
        else:
            self.bits |= self._bitmap(positions)

    def unmark(self, positions: Positions) -> None:
        """Mark rows as live."""
        if len(positions) <= _FEW:
            np.bitwise_and.at(self.bits, positions >> 3, ~_bit(positions))
        else:
            self.bits &= ~self._bitmap(positions)

    def _bitmap(self, positions: Positions) -> npt.NDArray[np.uint8]:
        mask = np.zeros(self.size, np.bool_)
        mask[positions] = True
        return np.packbits(mask, bitorder="little")

    def mask(self) -> Mask:
        """Return a mask of the dead rows, with a byte per row."""
        return np.unpackbits(self.bits, count=self.size, bitorder="little").view(np.bool_)

    def positions(self) -> Positions:
        """Return all dead positions."""
        return np.flatnonzero(self.mask())

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the dead positions of a batch from `dead_batch`."""
        if batch.schema.names == [_BITMAP]:
            self.bits |= batch.column(0).to_numpy()
        else:
            self.mark(batch.column(0).to_numpy().astype(np.int64))


def _bit(positions: Positions) -> npt.NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (positions & 7).astype(np.uint8))


def dead_batch(positions: Positions, size: int) -> pa.RecordBatch:
    """Return the dead positions of a run of `size` rows as a piece of a file: the positions, or a bit for each row."""
    if len(positions) * np.dtype(np.int32).itemsize * _BITS <= size:
        return pa.record_batch([pa.array(np.sort(positions).astype(np.int32))], [_POSITIONS])
    found = DeadRows(size)
    found.mark(positions)
    return pa.record_batch([pa.array(found.bits)], [_BITMAP])
