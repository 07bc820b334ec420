"""One stage in one epoch: the calls in which rules are written.

In: a prepared stage, and the context that all stages of the epoch share. Out: look-ups of stored rows, views and
queries over them, writes to the epoch's transaction. The retracted row is always the stored row: `replace` looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa

from belvedere.engine.arrow_copy import identified
from belvedere.engine.cardinalities import Costs
from belvedere.engine.compute import Compute
from belvedere.engine.fixpoint import fixpoint_rows
from belvedere.engine.relation import Relation, Slot, arranged_schema, delta_schema
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, ColumnValues, Rows, combined, keys_of, weighted_stream
from belvedere.engine.rows.ordered_rows import stream
from belvedere.engine.rows.selected_rows import COMING, NewRows, choose
from belvedere.engine.sql.recursion_sql import RecursionOperator
from belvedere.engine.sql.stage_sql import DELTA, ROWS, PreparedStage, view_name
from belvedere.engine.storage import Storage, given
from belvedere.functions.spark_types import quote
from belvedere.plan.monotone import NEVER
from belvedere.schema import KEY, WEIGHT
from belvedere.store.stage_memory import Kind, Memories
from belvedere.time.event_time import Clocks


@dataclass
class EpochContext:
    """Shared context of the stages of one epoch."""

    compute: Compute
    storage: Storage
    relations: Mapping[str, Relation]
    deltas: dict[str, Rows]
    clock: datetime
    fresh: frozenset[str]
    """Stored relations that were empty and unknown before this epoch. They receive all rows of their inputs."""
    restored: frozenset[str]
    """Relations among them that are restored from their own stage's state."""
    memories: Memories = field(default_factory=Memories)
    """Memory of stages from earlier epochs."""
    bounds: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    """Bounds of the event-time columns by input, after this epoch's rows; None for an input that sets no bound."""
    epoch: int = 0
    """The number of this epoch."""
    clocks: Clocks = field(default_factory=Clocks)
    """The clocks of the inputs' event-time columns after this epoch's rows."""
    costs: Costs = field(default_factory=lambda: Costs(False))
    whole: dict[str, Rows] = field(default_factory=dict)
    """All rows so far, including this epoch's, of unstored inputs that were re-read for fresh relations."""
    final_results: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Columns and bounds by relation before this epoch. Rows below these bounds are final and are not recomputed."""
    resumed: bool = False
    """Whether the changes are those of several epochs that a stage in quarantine has missed.

    Stored rows already include them.
    """


class Work:
    """One stage in one epoch."""

    def __init__(self, prepared: PreparedStage, context: EpochContext):
        self.prepared, self.context = prepared, context
        self.number, self.output, self.sql, self.slots = prepared.number, prepared.output, prepared.sql, prepared.slots
        self.compute, self.storage, self.costs = context.compute, context.storage, context.costs
        self.clock, self.bounds = context.clock, context.bounds
        self.memory = context.memories.recall(self.output.name, prepared.memory)
        self._deltas: tuple[Rows | None, ...] | None = None

    # --- what there is

    @property
    def is_fresh(self) -> bool:
        """Return whether the output was empty and unknown before this epoch, and receives all rows of the inputs."""
        return self.output.name in self.context.fresh - self.context.restored

    @property
    def is_restored(self) -> bool:
        """Return whether the output was empty before this epoch, and is restored from the stage's own state."""
        return self.output.name in self.context.restored

    @property
    def is_touched(self) -> bool:
        """Return whether the stage has new input: a change of a slot, or all rows for a fresh output."""
        if self.is_fresh or self.is_restored:
            return True
        return any(
            not rows.is_empty for s, _ in self.slots if (rows := self.context.deltas.get(s.relation)) is not None
        )

    @property
    def deltas(self) -> tuple[Rows | None, ...]:
        """Return the changes of the slots as the stage must see them; None for an unchanged slot."""
        if self._deltas is None:
            self._deltas = tuple(self._delta(s, r) for s, r in self.slots)
        return self._deltas

    def _delta(self, slot: Slot, relation: Relation) -> Rows | None:
        if self.is_fresh and slot.relation in self.context.whole:
            return self.context.whole[slot.relation]
        if self.is_fresh and relation.is_state and slot.relation not in self.context.fresh:
            stored = self.look_up(relation.name, None, None)
            return self.as_coming(stored)
        rows = self.context.deltas.get(slot.relation)
        return None if rows is None or rows.is_empty else rows

    @property
    def limits(self) -> dict[str, int]:
        """Return the columns of the output and the bounds below which its rows are final."""
        return {n: b for n, b in self.context.final_results.get(self.output.name, {}).items() if b > NEVER}

    def recall(self, kind: type[Kind]) -> Kind:
        """Return the stage's memory, which can be changed; `kind` is its declared `Stage.memory`, or a base of it."""
        assert isinstance(self.memory, kind), f"{self.output.name} declares no {kind.__name__}"
        return self.memory

    # --- the store

    def look_up(self, relation: str, by: str | None, keys: ColumnValues | pa.Array | None) -> Rows:
        """Return the stored rows with these keys of an access path, or by `_key`; all of them for None."""
        found = self.storage.by_tasks.look_up(relation, by, keys)
        return self.compute.keep(self.storage.look_up(relation, by, given(keys))) if found is None else found

    def look_up_before(self, relation: str, by: str, keys: ColumnValues) -> Rows:
        """Return the stored rows before this epoch with these keys of an access path."""
        found = self.storage.by_tasks.look_up(relation, by, keys, before=True)
        return self.compute.keep(self.storage.look_up_before(relation, by, given(keys))) if found is None else found

    def look_up_range(self, relation: str, column: str, above: int | None, up_to: int | None) -> Rows:
        """Return the stored rows with a value in a range of an indexed column."""
        found = self.storage.by_tasks.look_up_range(relation, column, above, up_to)
        return self.compute.keep(self.storage.look_up_range(relation, column, above, up_to)) if found is None else found

    def stored_schema(self, relation: str) -> pa.Schema:
        """Return the Arrow schema of a stored relation."""
        return arranged_schema(self.context.relations[relation])

    def append(self, rows: Rows, relation: str | None = None) -> Rows:
        """Store new rows of the output (or of another relation). Columns that the store does not hold are left out."""
        self.storage.append(relation or self.output.name, rows)
        return rows

    def added(self, rows: Rows) -> Rows:
        """Store new rows of the output, and return them as its change."""
        return self.as_coming(self.append(rows))

    def as_coming(self, rows: Rows) -> Rows:
        """Return rows as a change in which all of them come."""
        return self.mapped(rows, rows.schema.append(WEIGHT_FIELD), partial(_as_coming, rows.schema))

    def replace(
        self, by: str | None, keys: ColumnValues | pa.Array | None, rows: NewRows, relation: str | None = None
    ) -> Rows:
        """Return the differences after the output's rows of these keys were replaced by `rows`."""
        changed = self.output if relation is None else self.context.relations[relation]
        return self.storage.replace(changed.name, by, keys, rows, changed.has_in_key(by))

    def overwrite(self, relation: str, by: str | None, keys: ColumnValues | pa.Array | None, rows: NewRows) -> None:
        """Replace rows of another relation without computing the differences."""
        self.storage.overwrite(relation, by, keys, rows)

    def is_apart(self, rows: Rows) -> bool:
        """Return whether rows are outside the driver and numerous enough for tasks in other processes to look up and
        change state."""
        return not rows.is_collected and self.compute.spreads(rows.num_rows)

    def mapped(
        self, rows: Rows, schema: pa.Schema, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    ) -> Rows:
        """Apply a function to batches of rows of any size, in the driver or in tasks."""
        found = self.storage.by_tasks.mapped(rows, schema, function)
        if found is None:
            found = self.compute.keep(pa.RecordBatchReader.from_batches(schema, function(rows.batches())))
        return found

    def where(self, rows: Rows, test: Callable[[pa.RecordBatch], pa.Array], names: Sequence[str] | None = None) -> Rows:
        """Return the rows for which `test` holds, wherever they are; `names` are the columns that remain."""
        kept = rows.schema.names if names is None else list(names)

        def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from (b.select(kept).filter(test(b)) for b in batches)

        found = self.storage.by_tasks.mapped(rows, pa.schema([rows.schema.field(n) for n in kept]), chosen)
        return self.compute.keep(rows.where(test, kept)) if found is None else found

    def take(self, rows: Rows) -> Rows:
        """Write weighted rows to the output, and return the actual changes."""
        if self.output.append_only:
            return self.append(rows)
        if not self.output.stored:
            return rows
        if not self.storage.is_arranged(self.output.name):
            self.storage.change(self.output.name, rows)
            return rows
        return self.replace(KEY, keys_of([(rows, KEY)]), choose(rows, COMING, WEIGHT))

    # --- views and queries

    def name(self, scan: str, kind: str) -> str:
        """Return a temporary view's short name, which `put` accepts."""
        return view_name(self.number, scan, kind)

    def view(self, scan: str, kind: str) -> str:
        """Return the view's name in a query."""
        return quote(self.compute.view_name(self.name(scan, kind)))

    def put(self, scan: str, kind: str, rows: Rows) -> None:
        """Create a temporary view of these rows."""
        self.compute.put(self.name(scan, kind), rows)

    def put_deltas(self) -> bool:
        """Create the views of the slots' changes (including empty ones) if there are changes or the output is new.

        Return whether there are any.
        """
        if not self.is_touched:
            return False  # most stages of a script in most epochs
        for (slot, relation), delta in zip(self.slots, self.deltas, strict=True):
            empty = delta_schema(relation).append(WEIGHT_FIELD).empty_table()
            self.put(slot.name, DELTA, delta or Rows(empty))
        return any(d is not None for d in self.deltas)

    def put_rows(self, keys: ColumnValues | None) -> None:
        """Create the views of the slots' rows with these keys (None: all), and of non-SQL operators over them."""
        count = 0
        for slot, _ in self.slots:
            rows = self.look_up(slot.relation, None if keys is None else slot.path, keys)
            self.put(slot.name, ROWS, rows)
            count += rows.num_rows
        self.put_windows(count)

    def put_windows(self, rows: int) -> None:
        """Create the views of non-SQL operators, over the views of the slots, which have `rows` rows."""
        for windows in self.prepared.windows:
            if isinstance(windows, RecursionOperator):
                self.put(
                    windows.name,
                    ROWS,
                    fixpoint_rows(windows, self.compute, lambda name, found: self.put(name, ROWS, found)),
                )
                continue
            found = self.compute.windows(windows, rows <= self.compute.small)
            self.put(
                windows.name, ROWS, Rows(frame=found.frame, schema=found.schema, count=rows)
            )  # an approximate number

    def rows(self, text: str, *extra: pa.Field) -> Rows:
        """Run one of the stage's texts, and return its rows in the output's stored form, with extra columns."""
        return self.query(self.sql[text], *extra)

    def query(self, sql: str, *extra: pa.Field) -> Rows:
        """Run another text, as `rows` does."""
        schema = delta_schema(self.output)
        for added in extra:
            schema = schema.append(added)
        return self.compute.compute(sql, schema)

    def changes_by_arrow(self) -> Rows | None:
        """Return the changes of the only slot as those of the output, or None if Arrow alone cannot compute them."""
        columns, delta = self.prepared.moved, self.deltas[0] if self.deltas else None
        if columns is None or delta is None or delta.frame is not None or self.is_apart(delta):
            return None
        names, chosen = [*columns, WEIGHT], [*columns.values(), WEIGHT]
        pieces = (
            pa.Table.from_batches([b]).select(chosen).rename_columns(names)
            for b in delta.batches(list(dict.fromkeys(chosen)))
        )
        made = (identified(piece, self.output, (WEIGHT,)) for piece in pieces)
        return self.compute.keep(stream(delta_schema(self.output).append(WEIGHT_FIELD), made))

    def defer(self, sql: str) -> Rows:
        """Return the weighted rows of a text, computed as a part of the query of the stage that reads them."""
        return self.compute.defer(sql, delta_schema(self.output).append(WEIGHT_FIELD))

    def first_of_each_key(self, rows: Rows, by: pa.Field) -> Rows:
        """Return one row per `_key` with the greatest value of `by`.

        Rows with equal key and `by` are identical here.
        """
        if rows.is_collected:
            return Rows(_first_of_each_key(rows.table, by.name))
        self.put("all", "ranked", rows)
        names = ", ".join(quote(n) for n in rows.schema.names)
        ranked = f"row_number() OVER (PARTITION BY {quote(KEY)} ORDER BY {quote(by.name)} DESC) AS `_rank`"
        source = self.view("all", "ranked")
        return self.compute.compute(
            f"SELECT {names} FROM (SELECT *, {ranked} FROM {source}) AS r WHERE `_rank` = 1", rows.schema
        )

    def prefers_whole(self) -> bool:
        """Return whether computing all of an operator's rows is cheaper than computing those of the changed keys: the
        choice by cost.

        A look-up by key costs about three times as much per row as a sequential read, and old and new rows of a join
        are joined three times. Append-only rows are not rewritten. If rows were deleted that still count, the remaining
        rows are incomplete, so the stage works key by key.
        """
        if not self.is_touched or not self.costs.counted or (self.output.append_only and not self.is_fresh):
            return False
        if not self.is_fresh and any(r.loses_rows for r in (self.output, *(relation for _, relation in self.slots))):
            return False
        changed = [0 if delta is None else delta.num_rows for delta in self.deltas]
        relations = [s.relation for s, _ in self.slots]
        crossed = all(s.path is None for s, _ in self.slots)
        if not self.is_fresh and not self.costs.is_most(changed, relations, self.storage.count, crossed):
            return False
        self.costs.whole.append(self.output.name)
        return True


def _as_coming(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    return weighted_stream(schema, ((b, 1) for b in batches))


def without(rows: Rows, *names: str) -> list[str]:
    """Return the columns except these."""
    return [n for n in rows.schema.names if n not in names]


def _first_of_each_key(table: pa.Table, by: str) -> pa.Table:
    codes = combined(table[KEY]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    rank = combined(table[by].cast(pa.int64())).to_numpy(zero_copy_only=False)
    order = np.lexsort((-rank, codes))
    first = order[np.unique(codes[order], return_index=True)[1]]
    return table if len(first) == table.num_rows else table.take(pa.array(np.sort(first)))
