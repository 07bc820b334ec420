"""Splits an epoch of an EMIT by groups, to limit the number of groups that the driver holds at once.

In: the change of the input, and the groups that a time or a bound affects. Out: parts in sequence, each with all data
of its groups. An epoch with few groups is one part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.engine.rows.ordered_rows import in_order
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote

GROUP_BYTES = 1_000
"""Estimated bytes of a group in memory, with its key."""
MIN_GROUPS = 1_000
"""Minimum number of groups processed together, even if little memory is free."""
FOUND = pa.schema([pa.field("group", pa.int64())])


@dataclass(frozen=True)
class EmitPart:
    """Groups, by their hash, and the changes of the input in them."""

    groups: pa.Array
    delta: Rows


def emit_parts(delta: Rows, path: str, others: Sequence[Rows], work: Work) -> Iterator[EmitPart]:
    """Yield the parts of a change whose groups are in its column `path`.

    `others` name further groups in their column `group`.
    """
    limit = max(MIN_GROUPS, work.compute.memory.chunk // GROUP_BYTES)
    several = [r for r in others if not r.is_empty]
    if delta.is_collected and sum(r.num_rows for r in several) <= limit:
        found = [combined(pc.unique(delta.table[path])), *(combined(r.table["group"]) for r in several)]
        groups = combined(pc.unique(pa.chunked_array(found, pa.int64())))
        if len(groups) <= limit:
            yield EmitPart(groups, delta)
            return
    names = _named_groups(delta, path, several, work)
    if names.num_rows <= limit:
        yield EmitPart(combined(names.table["group"]), delta)
        return
    ordered = in_order(delta, [quote(path)], work.name("s0", "by_group"), work.compute)
    lasts = [groups[-1].as_py() for groups in _by_number(names, limit)]
    parts = _cut(ordered, path, lasts, work)
    for groups in _by_number(names, limit):
        yield EmitPart(groups, next(parts))


def _named_groups(delta: Rows, path: str, others: Sequence[Rows], work: Work) -> Rows:
    """Return all affected groups once, in the order of their hashes."""
    parts = []
    for number, (rows, column) in enumerate([(delta, path), *((r, "group") for r in others)]):
        work.put("s0", f"groups{number}", rows)
        parts.append(f"SELECT {quote(column)} AS `group` FROM {work.view('s0', f'groups{number}')}")
    return work.compute.compute(
        f"SELECT DISTINCT `group` FROM ({' UNION ALL '.join(parts)}) AS g ORDER BY `group`", FOUND, ordered=True
    )


def _by_number(names: Rows, limit: int) -> Iterator[pa.Array]:
    """Yield the groups, at most `limit` at a time."""
    held: list[pa.Array] = []
    for batch in names.batches():
        held.append(batch.column(0))
        while sum(map(len, held)) >= limit:
            whole = pa.concat_arrays(held)
            yield whole.slice(0, limit)
            held = [whole.slice(limit)]
    if sum(map(len, held)):
        yield pa.concat_arrays(held)


def _cut(ordered: Rows, path: str, lasts: Sequence[int], work: Work) -> Iterator[Rows]:
    """Yield the change in parts, in its order. `lasts` gives the greatest hash of each part."""
    ends = np.array(lasts, dtype=np.int64)

    def slices() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in ordered.batches():
            numbers = np.searchsorted(ends, batch.column(batch.schema.get_field_index(path)).to_numpy())
            for number in np.unique(numbers):
                start, end = np.searchsorted(numbers, [number, number + 1])
                yield int(number), batch.slice(start, end - start)

    done = -1
    for number, found in groupby(slices(), key=lambda s: s[0]):
        for _ in range(done + 1, number):
            yield Rows(ordered.schema.empty_table())
        yield work.compute.keep(pa.RecordBatchReader.from_batches(ordered.schema, (b for _, b in found)))
        done = number
    for _ in range(done + 1, len(lasts)):
        yield Rows(ordered.schema.empty_table())
