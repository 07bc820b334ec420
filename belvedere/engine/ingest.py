"""Ingests an epoch's arrivals: assigns every row its `_uid` and `_ingest_time`, upserts or appends it, and returns the
input's delta.

In: rows of an input (`_weight` -1 for a deletion). Out: the delta of the input with its keys and hashes. Within one
epoch the last row of a primary key wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.inputs import Input
from belvedere.engine.arrow_copy import identified, is_identified
from belvedere.engine.bag_ingest import ingest_bag
from belvedere.engine.by_tasks.file_tasks import (
    FileTasks,
    RowFile,
    new_file,
    row_files,
    rows_of,
    run_file_tasks,
    written,
)
from belvedere.engine.relation import delta_schema
from belvedere.engine.rows.epoch_rows import (
    PASSED,
    WEIGHT_FIELD,
    Rows,
    SparkFrame,
    as_rows,
    fits_parquet,
    is_frame,
    keys_of,
)
from belvedere.engine.rows.ordered_rows import stream
from belvedere.engine.rows.selected_rows import COMING, choose
from belvedere.engine.sql.stage_sql import DELTA
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote, type_text
from belvedere.schema import INGEST_TIME, KEY, PLACE, ROWTIME, TIMESTAMP, UID, WEIGHT
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes, at_once
from belvedere.values.instants import microseconds
from belvedere.values.pieces import in_pieces

UID_BITS = 33
"""Number of bits in which Spark's `monotonically_increasing_id` numbers the rows of a partition."""


@dataclass(frozen=True)
class StampedRows:
    """The stamped rows of one input that an epoch ingests. `next_uid` is the first free number after them."""

    stamped: Rows
    rows: int
    next_uid: int


def in_order(
    arrivals: Mapping[str, Any], next_uid: int, since: datetime | None, clock: datetime
) -> tuple[dict[str, Any], int]:
    """Assign pushed rows a `_uid` by their position among the rows of all inputs. Return them and the next free number.

    Their `_ingest_time` is between the last epoch's clock (`since`) and this one's, so results of earlier epochs stay
    valid.
    """
    found, free = dict(arrivals), next_uid
    for id_, given in arrivals.items():
        if not isinstance(given, pa.Table) or PLACE not in given.schema.names:
            continue
        numbers = pc.add(given[PLACE], next_uid)
        times = pc.min_element_wise(given[INGEST_TIME].cast(pa.int64()), microseconds(clock))
        times = (times if since is None else pc.max_element_wise(times, microseconds(since))).cast(TIMESTAMP)
        free = max([free, *(1 + n for n in [pc.max(numbers).as_py()] if n is not None)])
        rows = given.drop_columns([PLACE, INGEST_TIME])
        found[id_] = rows.append_column(UID, numbers).append_column(INGEST_TIME, times)
    return found, free


def receive(
    given: pa.Table | Rows | SparkFrame, table: Input, first_uid: int, work: Work, times: ArrivalTimes = NO_TIMES
) -> StampedRows | None:
    """Stamp arrivals with these times, or return None if there are none.

    Many rows of a data frame stay in Spark and arrive with the epoch.
    """
    if is_frame(given):
        rows = given.count()
        if rows > work.compute.small:
            partitions = max(1, given.rdd.getNumPartitions())
            frame = stamp_frame(given, table, first_uid, work.clock)
            stamped = Rows(frame=frame, schema=table.schema.arrow.append(WEIGHT_FIELD), count=rows)
            return StampedRows(stamped, rows, first_uid + (partitions << UID_BITS))
        given = given.toArrow()
    return _received(given, table, first_uid, work, times)


def _received(given: Any, table: Input, first_uid: int, work: Work, times: ArrivalTimes) -> StampedRows | None:
    """Stamp an Arrow table, or rows in files, as `receive` does."""
    if not given.num_rows:
        return None
    if isinstance(given, pa.Table):
        PASSED.count(given)
    schema = stamp(given.schema.empty_table(), table, first_uid, work.clock).schema
    if isinstance(given, Rows) and may_stamp(given, schema, work.compute):
        return StampedRows(
            _stamped_by_tasks(given, schema, table, first_uid, work, times),
            given.num_rows,
            first_uid + given.num_rows,
        )
    stamped = work.compute.keep(stream(schema, _stamped(given, table, first_uid, work, times)))
    if UID in given.schema.names:
        next_uid = max(first_uid, 1 + max(pc.max(b.column(0)).as_py() for b in stamped.batches([UID]) if b.num_rows))
    else:
        next_uid = first_uid + given.num_rows
    return StampedRows(stamped, given.num_rows, next_uid)


def may_stamp(given: Rows, schema: pa.Schema, tasks: FileTasks) -> bool:
    """Whether tasks stamp these rows: many in files, that have no numbers yet."""
    is_new = UID not in given.schema.names
    return given.files is not None and is_new and tasks.spreads(given.num_rows) and fits_parquet(schema)


def _stamped_by_tasks(
    given: Rows, schema: pa.Schema, table: Input, first_uid: int, work: Work, times: ArrivalTimes
) -> Rows:
    """The rows stamped by tasks, a file each: what came before a file is counted."""
    sent, first, tasks = replace(table, source=None, checks=()), first_uid, []
    for file in row_files(given, (), times):
        tasks.append(StampTask(file, sent, first, work.clock, schema, work.compute.scratch))
        first += file.count
    return rows_of(run_file_tasks(work.compute, tasks), schema, given.num_rows)


@dataclass(frozen=True)
class StampTask:
    """Stamps the rows of a file, of which the first has the number `first_uid`."""

    rows: RowFile
    table: Input
    first_uid: int
    clock: datetime
    schema: pa.Schema
    folder: Path

    def __call__(self) -> str | None:
        place, times, file = 0, self.rows.times, new_file(self.folder, self.schema)
        for _, part in self.rows.parts():
            arrived = times.of_rows(place, part.num_rows) if times else None
            stamped = stamp(part.combine_chunks(), self.table, self.first_uid + place, self.clock, arrived)
            for batch in stamped.combine_chunks().to_batches():
                file.add(batch)
            place += part.num_rows
        return written(file)


def _stamped(
    given: pa.Table | Rows, table: Input, first_uid: int, work: Work, times: ArrivalTimes
) -> Iterator[pa.Table]:
    """Yield the stamped rows, one part at a time, since they can arrive in many parts."""
    place = 0
    for rows in in_pieces(as_rows(given).batches(), work.compute.memory.chunk, given.schema):
        arrived = times.of_rows(place, rows.num_rows) if times else None
        yield stamp(rows.combine_chunks(), table, first_uid + place, work.clock, arrived)
        place += rows.num_rows


def stamp_frame(frame: SparkFrame, table: Input, first_uid: int, clock: datetime) -> SparkFrame:
    """Stamp rows that stay in Spark, as `stamp` does.

    They are not counted first, so their numbers increase with the partitions.
    """
    now = f"timestamp_micros({microseconds(clock)}L)"
    made = {UID: f"monotonically_increasing_id() + {first_uid}L", INGEST_TIME: now, ROWTIME: now, WEIGHT: "1L"}
    items = []
    for field, is_given, is_filled in _stamped_columns(table, frame.columns):
        value = quote(field.name) if is_given else made.get(field.name, "NULL")
        value = f"coalesce({value}, {made[field.name]})" if is_filled else value
        items.append(f"CAST({value} AS {type_text(field.type)}) AS {quote(field.name)}")
    stamped: SparkFrame = frame.selectExpr(*items)
    return stamped


def stamp(arrivals: pa.Table, table: Input, first_uid: int, clock: datetime, times: pa.Array | None = None) -> pa.Table:
    """Return the arrivals as rows of the input's schema plus `_weight`; missing columns are NULL.

    `times` are their times of arrival, if these differ from the clock.
    """
    size = arrivals.num_rows
    made: dict[str, pa.Array] = {
        UID: pa.array(np.arange(first_uid, first_uid + size), pa.int64()),
        INGEST_TIME: at_once(microseconds(clock), size) if times is None else times,
        WEIGHT: pa.array(np.ones(size), pa.int64()),
    }
    made[ROWTIME] = made[INGEST_TIME]
    columns, fields = [], []
    for field, is_given, is_filled in _stamped_columns(table, arrivals.schema.names):
        value = arrivals[field.name].cast(field.type) if is_given else made.get(field.name, pa.nulls(size, field.type))
        columns.append(pc.coalesce(value, made[field.name]) if is_filled else value)
        fields.append(pa.field(field.name, field.type, field.nullable or field.name not in made))
    return pa.table(columns, schema=pa.schema(fields))


def _stamped_columns(table: Input, given: Collection[str]) -> Iterator[tuple[pa.Field, bool, bool]]:
    """Yield the columns of stamped rows, each with whether the arrivals have it, and whether the clock replaces its
    NULLs."""
    for field in table.schema.arrow.append(WEIGHT_FIELD):
        is_given = field.name in given
        yield field, is_given, is_given and field.name == ROWTIME and table.schema[ROWTIME].hidden


def ingest(table: Input, arrived: StampedRows, work: Work) -> Rows:
    """Write stamped arrivals to the transaction and return the input's delta."""
    rows = _changes(table, arrived.stamped, arrived.rows, work)
    if table.append_only:
        if work.output.stored:
            work.append(rows)
        return rows
    if table.primary_key:
        number = work.output.schema.arrow.field(UID)
        last = work.first_of_each_key(rows, number)
        return work.replace(KEY, keys_of([(last, KEY)]), choose(last, COMING, WEIGHT))
    return ingest_bag(table, rows, work)


def _changes(table: Input, stamped: Rows, count: int, work: Work) -> Rows:
    """Return stamped rows with the keys and hashes that their readers need."""
    if not work.output.stored and count > work.compute.small:
        return stamped  # no stage looks these rows up: they need neither key nor hash
    # many changes are aggregated before any of their groups is looked up: they need no hash of a group
    paths = [p for p in work.output.paths if p.stored or count <= work.compute.small]
    if table.append_only and stamped.is_collected and is_identified(work.output, paths):
        return Rows(identified(stamped.table, work.output, (WEIGHT,), paths))
    work.put("s0", DELTA, stamped)
    schema = delta_schema(work.output)
    # rows deleted by key have no other columns, even NOT NULL ones
    given = pa.schema([f.with_nullable(f.nullable or bool(table.primary_key)) for f in schema])
    return work.compute.compute(work.sql["changes"], given.append(WEIGHT_FIELD))


def whole_input(table: Input, past: Rows, arrived: StampedRows | None, work: Work) -> Rows:
    """Return all rows of an append-only input: earlier ones with their original stamps, and the arriving ones.

    Nothing is stored.
    """
    names = past.schema.names
    now = () if arrived is None else arrived.stamped.batches(names)
    both = (pa.RecordBatch.from_arrays(b.columns, schema=past.schema) for b in chain(past.batches(), now))
    stamped = work.compute.keep(pa.RecordBatchReader.from_batches(past.schema, both))
    return _changes(table, stamped, stamped.num_rows, work)
