"""Range of TIMESTAMP and DATE, for all intakes: the years 1 to 9999, as in SQL, Python, JSON and the API.

Arrow, Spark and Kafka have times outside this range, which cannot be printed. In: columns of incoming rows. Out: the
rows with such a time, also within nested values, and the reason for their rejection.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import Column
from belvedere.values.rejections import Reason, RejectionKind

T = pa.types
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""First and last allowed microsecond since 1970."""
DAY = 86_400_000_000
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
Places = np.ndarray[Any, np.dtype[np.int64]]


def rows_beyond(rows: pa.Table, columns: Iterable[Column]) -> dict[int, Reason]:
    """Return the rows with a time out of range in one of these columns, each with the reason."""
    found: dict[int, Reason] = {}
    for column in columns:
        if has_times(column.type) and column.name in rows.schema.names:
            for place in _beyond(rows[column.name].combine_chunks()):
                found.setdefault(int(place), beyond(column.name))
    return found


def beyond(column: str) -> Reason:
    """Return the reason for rejecting a row."""
    return Reason(f'column "{column}": a time outside the years 1 to 9999', RejectionKind.LOSS)


def instant_of_milliseconds(milliseconds: int) -> int | None:
    """Return microseconds; None if they are outside the range of TIMESTAMP."""
    return milliseconds * 1_000 if FIRST <= milliseconds * 1_000 <= LAST else None


@cache
def has_times(type_: pa.DataType) -> bool:
    """Return whether values of a type contain times."""
    if T.is_struct(type_):
        return any(has_times(f.type) for f in type_)
    if T.is_map(type_):
        return has_times(type_.key_type) or has_times(type_.item_type)
    if T.is_list(type_):
        return has_times(type_.value_type)
    return bool(T.is_timestamp(type_) or T.is_date32(type_))


def _beyond(values: Any) -> Places:
    """Return the positions of values with a time out of range."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    type_ = values.type
    if not has_times(type_):
        return np.zeros(0, np.int64)
    if T.is_struct(type_):
        return np.unique(np.concatenate([_beyond(part) for part in values.flatten()]))
    if T.is_map(type_):
        entries = [values.keys, values.items]
        offsets = values.offsets.to_numpy()
        inner = np.unique(np.concatenate([_beyond(part) for part in entries]))
        return np.unique(np.searchsorted(offsets - offsets[0], inner, "right") - 1)
    if T.is_list(type_):
        parents = pc.list_parent_indices(values).to_numpy()
        return np.unique(parents[_beyond(values.flatten())])
    if T.is_date32(type_):
        return _outside(values.cast(pa.int32()), FIRST // DAY, LAST // DAY)
    unit = _UNITS.get(type_.unit)
    return np.zeros(0, np.int64) if unit is None else _outside(values.cast(pa.int64()), FIRST // unit, LAST // unit)


def _outside(numbers: pa.Array, first: int, last: int) -> Places:
    if not len(numbers):
        return np.zeros(0, np.int64)
    ends = pc.min_max(numbers)
    if ends["min"].as_py() is None or (ends["min"].as_py() >= first and ends["max"].as_py() <= last):
        return np.zeros(0, np.int64)
    is_outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last)).fill_null(False)
    return np.flatnonzero(is_outside.to_numpy(zero_copy_only=False))
