"""Differing rows: values are compared as Spark's GROUP BY does.

In: two record batches of one schema with corresponding rows. Out: which rows differ, and in which columns. NULL equals
NULL, NaN equals NaN, 0.0 equals -0.0, in nested values too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def differing(before: pa.RecordBatch, after: pa.RecordBatch, names: Sequence[str]) -> Mask:
    """Return which rows differ in any of these columns."""
    found = np.zeros(before.num_rows, np.bool_)
    for name in names:
        found |= _differ(before.column(name), after.column(name))
    return found


def _differ(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_nested(left.type):
        unequal = _nested(left, right)
    elif pa.types.is_null(left.type):
        return np.zeros(len(left), np.bool_)
    else:
        unequal = _plain(left, right)
    if left.null_count or right.null_count:
        nulls = left.is_null().to_numpy(zero_copy_only=False), right.is_null().to_numpy(zero_copy_only=False)
        unequal = np.where(nulls[0] | nulls[1], nulls[0] != nulls[1], unequal)
    return unequal


def _plain(left: pa.Array, right: pa.Array) -> Mask:
    try:
        found = pc.not_equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:  # intervals
        return np.array([a != b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)], np.bool_)
    if pa.types.is_floating(left.type):
        both = pc.and_(pc.is_nan(left), pc.is_nan(right)).fill_null(False).to_numpy(zero_copy_only=False)
        found = found & ~both
    unequal: Mask = found
    return unequal


def _nested(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_struct(left.type):
        found = np.zeros(len(left), np.bool_)
        for n in range(left.type.num_fields):
            found |= _differ(pc.struct_field(left, n), pc.struct_field(right, n))
        return found
    sizes = [pc.list_value_length(_as_list(side)).fill_null(0).to_numpy(zero_copy_only=False) for side in (left, right)]
    found = sizes[0] != sizes[1]
    found = np.asarray(found, np.bool_)
    same = np.flatnonzero(~found & (sizes[0] > 0) & _valid(left) & _valid(right))
    if len(same):
        inner = [_as_list(side).take(pa.array(same)).flatten() for side in (left, right)]
        rows = np.repeat(same, sizes[0][same])
        found[rows[_differ(inner[0], inner[1])]] = True
    return found


def _as_list(values: pa.Array) -> pa.Array:
    """Return a map as the list of its entries."""
    if not pa.types.is_map(values.type):
        return values
    entry = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
    return values.cast(pa.list_(entry))


def _valid(values: pa.Array) -> Mask:
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
