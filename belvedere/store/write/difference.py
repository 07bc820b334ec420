"""What differs between a table's old rows and its new ones.

In: flat tables (see `belvedere.store.layout`) with distinct `_key`s. Out: a `Difference`. Rows are compared by their stored
form: NULL equals NULL, NaN equals NaN, 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.schema import KEY


@dataclass(frozen=True)
class Difference:
    """Flat rows: `gone` have no new row; `before` and `after` are the two sides of changed ones; `fresh` had no old row.

    `columns` are the stored names of those in which any `before` differs from its `after`.
    """

    gone: pa.Table
    before: pa.Table
    after: pa.Table
    fresh: pa.Table
    columns: tuple[str, ...] = ()


def difference(old: pa.Table, new: pa.Table) -> Difference:
    """Compare the rows of `old` and `new`, which have one schema, by `_key`."""
    if not old.num_rows or not new.num_rows:
        return Difference(old, old.slice(0, 0), new.slice(0, 0), new)
    places = pc.index_in(_one(new[KEY]), value_set=_one(old[KEY]))
    fresh = new.filter(pc.is_null(places))
    kept = pc.is_valid(places)
    here = new.filter(kept)
    there = places.filter(kept)
    gone = old.filter(pc.invert(pc.is_in(_one(old[KEY]), value_set=_one(new[KEY]))))
    before = old.take(there)
    changed, columns = _differing(before, here, before.column_names)
    return Difference(gone, before.filter(changed), here.filter(changed), fresh, columns)


def heard(found: Difference, silent: frozenset[str]) -> Difference:
    """Without the rows that differ in silent columns alone."""
    if silent.isdisjoint(found.columns):
        return found
    changed, _ = _differing(found.before, found.after, [n for n in found.columns if n not in silent])
    return replace(found, before=found.before.filter(changed), after=found.after.filter(changed))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _differing(before: pa.Table, after: pa.Table, names: Sequence[str]) -> tuple[pa.Array, tuple[str, ...]]:
    """Which rows differ in some of these columns, and in which any does."""
    result, columns = pa.repeat(pa.scalar(False), len(before)), []
    for name in names:
        found = _differ(_one(before[name]), _one(after[name]))
        if pc.any(found).as_py():
            result = pc.or_(result, found)
            columns.append(name)
    return result, tuple(columns)


def _differ(left: pa.Array, right: pa.Array) -> pa.Array:
    unequal = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        unequal = pc.and_kleene(unequal, pc.invert(pc.and_(pc.is_nan(left), pc.is_nan(right))))
    if left.null_count or right.null_count:
        return pc.if_else(pc.is_null(unequal), pc.xor(pc.is_null(left), pc.is_null(right)), unequal)
    return unequal
