"""Accumulators: mergeable summaries of consecutive rows, from which aggregates are computed.

In: a column, and ranges of rows. Out: the accumulators of single rows (`of_rows`), of ranges of accumulators (`fold`),
the aggregate's value (`value`). Nothing is ever subtracted: a range is recombined from its parts, so sums of doubles do
not drift.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.kernels import range_aggregates
from belvedere.kernels.aggregates import extreme_values, moment
from belvedere.kernels.search import Bools, Ints

Parts = Sequence[pa.Array]
"""The columns of an accumulator."""
BIGINT, DOUBLE = pa.int64(), pa.float64()


@dataclass(frozen=True)
class BlockAggregate(ABC):
    """An aggregate of `column` (None: of rows) over the rows for which the boolean column `included` is TRUE."""

    column: str | None
    type: pa.DataType
    """Type of the column."""
    included: str | None = None

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """Return the types of the parts."""

    @abstractmethod
    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        """Return the parts of each row."""

    @abstractmethod
    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        """Return the parts of each range. Raises OverflowError if a part exceeds its type."""

    @abstractmethod
    def value(self, parts: Parts) -> pa.Array:
        """Return the aggregate. Raises OverflowError."""

    def given(self, rows: pa.Table) -> pa.Array:
        """Return the values to aggregate; NULL for excluded rows."""
        assert self.column is not None
        values = whole(rows[self.column])
        if self.included is None:
            return values
        return pc.if_else(whole(rows[self.included]), values, pa.scalar(None, values.type))


@dataclass(frozen=True)
class Counted(BlockAggregate):
    """COUNT."""

    types = (BIGINT,)

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        counts = np.ones(rows.num_rows, np.bool_)
        if self.column is not None:
            counts = _valid(self.given(rows))
        elif self.included is not None:
            counts = np.asarray(pc.fill_null(whole(rows[self.included]), False).to_numpy(zero_copy_only=False))
        return [pa.array(counts.astype(np.int64))]

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        return [_added(parts[0], first, last)]

    def value(self, parts: Parts) -> pa.Array:
        return parts[0]


@dataclass(frozen=True)
class Whole(BlockAggregate):
    """SUM or AVG of whole numbers. Parts: quotient of the sum by 2^32, remainder, and count."""

    is_average: bool = False
    types = (BIGINT, BIGINT, BIGINT)

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        values = self.given(rows).cast(BIGINT)
        plain = _plain(values, 0)
        return [pa.array(plain >> 32), pa.array(plain & 0xFFFFFFFF), _known(values)]

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        high, low, count = (np.asarray(_added(p, first, last)) for p in parts)
        return [pa.array(high + (low >> 32)), pa.array(low & 0xFFFFFFFF), pa.array(count)]

    def value(self, parts: Parts) -> pa.Array:
        high, low, count = (np.asarray(p) for p in parts)
        if self.is_average:
            total = (high.astype(np.longdouble) * (1 << 32) + low).astype(np.float64)
            return pa.array(total / np.maximum(count, 1), mask=count == 0)
        if ((high < -(1 << 31)) | (high >= 1 << 31)).any():
            raise OverflowError("a sum of whole numbers has more than 64 bits")
        return pa.array((high << 32) | low, mask=count == 0)


@dataclass(frozen=True)
class Exact(BlockAggregate):
    """SUM of decimals, and their count."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return pa.decimal128(38, self.type.scale), BIGINT

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        values = self.given(rows).cast(self.types[0])
        return [pc.fill_null(values, pa.scalar(0).cast(self.types[0])), _known(values)]

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        values = parts[0]
        return [
            range_aggregates.decimal_sum(values, np.ones(len(values), np.bool_), first, last),
            _added(parts[1], first, last),
        ]

    def value(self, parts: Parts) -> pa.Array:
        return pc.if_else(pc.greater(parts[1], 0), parts[0], pa.scalar(None, parts[0].type))


@dataclass(frozen=True)
class Real(BlockAggregate):
    """SUM or AVG of doubles. Parts: sum, rounding error, and count."""

    is_average: bool = False
    types = (DOUBLE, DOUBLE, BIGINT)

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        values = self.given(rows).cast(DOUBLE)
        return [pa.array(_plain(values, 0.0)), pa.array(np.zeros(rows.num_rows)), _known(values)]

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        high, low = range_aggregates.real_sums(np.asarray(parts[0]), np.asarray(parts[1]), first, last)
        return [pa.array(high), pa.array(low), _added(parts[2], first, last)]

    def value(self, parts: Parts) -> pa.Array:
        high, low, count = (np.asarray(p) for p in parts)
        found = high + low
        return pa.array(found / np.maximum(count, 1) if self.is_average else found, mask=count == 0)


@dataclass(frozen=True)
class OneValue(BlockAggregate):
    """An aggregate that returns one of the values."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        return [self.given(rows)]

    def value(self, parts: Parts) -> pa.Array:
        return parts[0]


@dataclass(frozen=True)
class Extreme(OneValue):
    """MIN or MAX."""

    greatest: bool = False

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        return [extreme_values(parts[0], _valid(parts[0]), first, last, self.greatest)]


@dataclass(frozen=True)
class End(OneValue):
    """FIRST or LAST; the value may be NULL."""

    is_last: bool = False

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        return [parts[0].take(pa.array(last if self.is_last else first))]


@dataclass(frozen=True)
class Deviation(BlockAggregate):
    """A variance or standard deviation. Parts: count, mean, and sum of squared distances from the mean."""

    function: str = "STDDEV_SAMP"
    types = (DOUBLE, DOUBLE, DOUBLE)

    def of_rows(self, rows: pa.Table) -> list[pa.Array]:
        values = self.given(rows).cast(DOUBLE)
        return [_known(values).cast(DOUBLE), pa.array(_plain(values, 0.0)), pa.array(np.zeros(rows.num_rows))]

    def fold(self, parts: Parts, first: Ints, last: Ints) -> list[pa.Array]:
        zero = np.zeros(len(parts[0]))
        return [
            pa.array(p) for p in range_aggregates.joined_moments((*map(np.asarray, parts), zero, zero), first, last)[:3]
        ]

    def value(self, parts: Parts) -> pa.Array:
        n, mean, second = (np.asarray(p) for p in parts)
        found, undefined = moment(self.function, (n, mean, second, second, second))
        return pa.array(found, mask=undefined | (n == 0))


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _valid(values: pa.Array) -> Bools:
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), np.bool_)


def _known(values: pa.Array) -> pa.Array:
    return pc.is_valid(values).cast(BIGINT)


def _plain(values: pa.Array, blank: float) -> np.ndarray:
    return np.asarray(pc.fill_null(values, blank).to_numpy(zero_copy_only=False))


def _added(part: pa.Array, first: Ints, last: Ints) -> pa.Array:
    sums = range_aggregates.prefix(np.asarray(part))
    return pa.array(sums[last + 1] - sums[first])  # type: ignore[operator]
