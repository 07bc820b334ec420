"""Ingests an epoch's rows of a table without a key. A deletion removes one equal row, the oldest first.

In: rows with their hash and `_weight`. Out: the table's delta. For any number of inserted, deleted and equal rows, the
driver holds only the distinct rows of a piece of the deletions, and one batch of the stored rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.inputs import Input
from belvedere.engine.rows.epoch_rows import (
    Rows,
    combined,
    coming,
    going,
    hashes_in,
    keys_of,
    weighted_stream,
    with_hash,
)
from belvedere.engine.rows.ordered_rows import in_order, stream, whole_runs
from belvedere.engine.work import Work, without
from belvedere.errors import fail
from belvedere.functions.spark_types import quote
from belvedere.schema import KEY, UID, WEIGHT

LOOKED_AT = 1_000
"""Maximum number of rows held as Python values at once."""
MIN_BYTES = 4_096
PYTHON = 16
"""Factor by which rows held as Python values need more memory."""


def ingest_bag(table: Input, rows: Rows, work: Work) -> Rows:
    """Store inserted rows and remove deleted ones. Raises B6010 if there is no row to remove."""
    names = without(rows, WEIGHT)
    came = work.append(work.where(rows, coming, names), table.id)
    leaving = work.where(rows, going, names)
    if leaving.is_empty:
        return rows
    gone = work.compute.keep(stream(work.stored_schema(table.id), _found(table, leaving, work)))
    work.replace(KEY, keys_of([(gone, KEY)]), ())
    if came.is_empty:
        return work.compute.keep(weighted_stream(gone.schema, gone.weighted(-1)))
    # a row inserted and deleted in the same epoch is no change; rows of this epoch have the greatest numbers
    first = min(pc.min(b.column(0)).as_py() for b in came.batches([UID]) if b.num_rows)
    brief = work.where(gone, lambda b: pc.greater_equal(b.column(UID), first), [UID])
    gone = work.where(gone, lambda b: pc.less(b.column(UID), first))
    stays = came if brief.is_empty else _without(came, brief, work)
    return work.compute.keep(weighted_stream(stays.schema, chain(gone.weighted(-1), stays.weighted(1))))


def _found(table: Input, going: Rows, work: Work) -> Iterator[pa.Table]:
    """Yield the stored rows to remove."""
    path, compute = work.output.paths[0].name, work.compute
    few = going.is_collected and going.num_rows <= LOOKED_AT
    ordered = going if few else in_order(going, [quote(path)], work.name("s0", "going"), compute)
    size = max(MIN_BYTES, compute.memory.chunk // PYTHON)
    for piece in [going.table] if few else whole_runs(ordered.batches(), path, size):
        stored = work.look_up(table.id, path, combined(pc.unique(piece[path])))
        if stored.is_collected:
            oldest = Rows(stored.table.sort_by(UID))
        else:
            oldest = in_order(stored, [quote(UID)], work.name("s0", "stored"), compute)
        yield from _taken(table, oldest, piece)


def _taken(table: Input, stored: Rows, going: pa.Table) -> Iterator[pa.Table]:
    """Yield for each deletion one equal stored row, the oldest first. Raises B6010 if there are too few."""
    names = [c.name for c in table.schema if not c.hidden]
    requested: Counter[Hashable] = Counter()
    shown: dict[Hashable, dict[str, Any]] = {}
    for rows in _looked_at(going):
        for row in rows.select(names).to_pylist():
            content = _content(row)
            requested[content] += 1
            shown.setdefault(content, row)
    missing = going.num_rows
    for batch in (b for t in stored.tables() for b in _looked_at(t)):
        found = []
        for place, row in enumerate(batch.select(names).to_pylist()):
            content = _content(row)
            if requested.get(content):  # otherwise it has only the hash, or there are enough
                requested[content] -= 1
                found.append(place)
        yield batch.take(pa.array(found, pa.int64()))
        missing -= len(found)
        if not missing:
            return
    row = next(shown[c] for c, count in requested.items() if count)
    raise fail(
        "B6010",
        f'table "{table.name}" has no row {row} to delete',
        hint="a row of a table without a primary key is deleted by giving all its columns",
    )


def _looked_at(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in pieces that fit in memory as Python values."""
    return (rows.slice(n, LOOKED_AT) for n in range(0, rows.num_rows, LOOKED_AT))


def _without(rows: Rows, brief: Rows, work: Work) -> Rows:
    """Return the rows whose number is not among those of `brief`."""
    if brief.is_collected:
        known = with_hash(UID, hashes_in(brief, UID))
        return work.compute.keep(rows.where(lambda b: pc.invert(known(b))))
    work.put("s0", "came", rows)
    work.put("s0", "brief", brief)
    names = ", ".join(f"c.{quote(n)}" for n in rows.schema.names)
    came, gone = work.view("s0", "came"), work.view("s0", "brief")
    return work.compute.compute(
        f"SELECT {names} FROM {came} AS c LEFT ANTI JOIN {gone} AS g ON c.{quote(UID)} = g.{quote(UID)}", rows.schema
    )


def _content(row: dict[str, Any]) -> Hashable:
    # NaN has one text, though it does not equal itself; 0.0 and -0.0 are equal and have two texts
    return repr([0.0 if isinstance(v, float) and v == 0.0 else v for v in row.values()])
