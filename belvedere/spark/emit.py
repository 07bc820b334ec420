"""Run EMIT: decide which groups are emitted in this epoch, and write the table as last emitted or its changelog.

In: the change of the input in one epoch, its bounds, the groups' state. Out: the change of the output. What falls due before the epoch's
clock is emitted first, as it was before this epoch's rows; what is due at the clock, or complete, includes them (One SQL,
extensions 4 to 7). What is retracted is what was emitted: the store finds the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.instants import microseconds
from belvedere.plan.monotone import NEVER
from belvedere.plan.time_nodes import PTIME, SEQUENCE, UNDO, VERSION
from belvedere.rules.emit.emission import COMPLETE, DUE, EMITTED, GROUPS, WAIT, Emission, Group, due_groups
from belvedere.schema import KEY, TIMESTAMP, WEIGHT
from belvedere.spark.emit_parts import EmitPart, emit_parts
from belvedere.spark.emit_rows import AT, GROUP, before_epoch, emission_order, net_change, timed
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.ordered import stream
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import WEIGHT_FIELD, Context, stored_schema, weighted_stream
from belvedere.store.protocol import StoredTable


def run_emit(prepared: PreparedStage, context: Context) -> Rows | None:
    """One epoch of an EMIT."""
    emission = prepared.stage.emission
    if emission is None:
        raise AssertionError(f"stage {prepared.stage.output} emits nothing")
    return _Emitting(prepared, context, emission).run()


@dataclass
class _Emitting:
    """One epoch of one stage."""

    prepared: PreparedStage
    context: Context
    emission: Emission
    groups: dict[int, Group] = field(default_factory=dict)
    """Those of the part that is under way."""

    def __post_init__(self) -> None:
        self.slot, self.input = self.prepared.slots[0]
        if self.slot.path is None:
            raise AssertionError("EMIT looks rows up by their group")
        self.path: str = self.slot.path
        self.output = self.prepared.output
        self.exchange = self.context.exchange
        self.now = microseconds(self.context.clock)

    def run(self) -> Rows | None:
        (delta,) = self.context.deltas_of(self.prepared)
        if delta is None:
            delta = Rows(stored_schema(self.input).append(WEIGHT_FIELD).empty_table())
        bounds = self.emission.bounds(self.context.bounds.__getitem__)
        final = self.emission.final_bounds(self.context.bounds.__getitem__) if self.emission.forgets else ()
        concerned = self._concerned(bounds if self.emission.watermark else final)
        changes: list[Rows] = []
        parts = 0
        for part in emit_parts(delta, self.path, concerned, self.prepared, self.context):
            found = [c for c in self._emit(part, bounds) if not c.is_empty]
            parts += 1
            if self.emission.stream and found:
                found = [self._numbered(found)]
            changes += found
            self._save({k for k, g in self.groups.items() if final and g.due is None and g.passed(final)})
        if not changes:
            return None
        if self.emission.stream:
            return self._changelog(changes if parts == 1 else [self._ordered(changes)])
        return net_change(changes, self.prepared.view(self.slot, "net"), self.exchange)

    def _emit(self, part: EmitPart, bounds: tuple[int, ...]) -> list[Rows]:
        """The changes of what the groups of a part have emitted."""
        delta = part.delta
        touched = {int(g) for t in delta.tables() for g in pc.unique(t[self.path]).to_pylist()}
        self._load(part.groups, touched)
        self._note_times(delta)
        changes = [self._overdue(delta)] if self.emission.delay is not None else []
        firing = due_groups(self.emission, self.groups, touched, bounds, self.now)
        if self.emission.at_once:
            changes.append(timed(delta, self.path, dict.fromkeys(firing, self.now), self.exchange))
        elif firing:
            rows = self.context.look_up(self.input.name, self.path, _hashes(firing))
            changes.append(self._replaced(rows, dict.fromkeys(firing, self.now)))
        return [c for c in changes if c is not None]

    # --- groups

    def _concerned(self, bounds: tuple[int, ...]) -> list[Rows]:
        """Groups that may be concerned without a change: due, or now below a bound (complete, or final)."""
        name = self.output.name + GROUPS
        found = []
        if self.emission.delay is not None:
            found.append(self.context.look_up_range(name, DUE, None, self.now))
        for n, bound in enumerate(bounds):
            if bound > NEVER:
                found.append(self.context.look_up_range(name, f"{WAIT}{n}", None, bound - 1))
        return found

    def _load(self, groups: pa.Array, touched: set[int]) -> None:
        """What is known of these groups."""
        self.groups.clear()
        if len(groups):
            rows = self.context.look_up(self.output.name + GROUPS, KEY, groups.cast(pa.string()))
            for row in (r for t in rows.tables() for r in t.to_pylist()):
                waits = tuple(row[f"{WAIT}{n}"] for n in range(len(self.emission.times)))
                self.groups[row["group"]] = Group(row["ver"], row[DUE], row[COMPLETE], waits)
        for key in touched:
            self.groups.setdefault(key, Group(waits=(None,) * len(self.emission.times)))

    def _note_times(self, delta: Rows) -> None:
        """The times of the groups in a change: those of its rows that are there, else of those that were."""
        if not (self.emission.watermark or self.emission.forgets):
            return
        for there in (False, True):  # what is there wins
            for table in delta.tables():
                rows = table.filter(pc.equal(pc.greater(table[WEIGHT], 0), there))
                times = [_micros(rows[t]) for t in self.emission.times]
                for index, key in enumerate(rows[self.path].to_pylist()):
                    self.groups[key].waits = tuple(t[index] for t in times)

    def _save(self, final: set[int]) -> None:
        """Keep the groups of this part, but for those that will never change again: nothing is kept of them."""
        if not self.groups:
            return
        name = self.output.name + GROUPS
        schema = StoredTable(name, self.emission.groups_schema).arrow
        rows: list[dict[str, Any]] = []
        for key, group in ((k, g) for k, g in self.groups.items() if k not in final):
            waits = group.waits if not group.complete else (None,) * len(group.waits)
            row = {"group": key, "ver": group.version, DUE: group.due, COMPLETE: group.complete, KEY: str(key)}
            rows.append(row | {f"{WAIT}{n}": w for n, w in enumerate(waits)})
        keys = pa.array([str(g) for g in self.groups])
        self.context.overwrite(name, KEY, keys, pa.Table.from_pylist(rows, schema=schema).to_reader())
        if final and self.emission.stream and not self.emission.at_once:
            emitted = self.output.name + EMITTED
            nothing = self.context.tables[emitted].arrow.empty_table().to_reader()
            self.context.overwrite(emitted, "_h0", _hashes(final), nothing)

    # --- rows

    def _overdue(self, delta: Rows) -> Rows | None:
        """Emit what fell due before the epoch's clock, on the rows before this epoch."""
        due = {k: g.due for k, g in self.groups.items() if g.due is not None and g.due < self.now}
        if not due:
            return None
        for key in due:
            self.groups[key].due = None
        hashes = _hashes(due)
        rows = self.context.look_up(self.input.name, self.path, hashes)
        if rows.is_collected and delta.is_collected:
            before = Rows(_before(rows.table, delta.table, self.path, hashes))
        else:
            view = [self.prepared.view(self.slot, name) for name in ("stored", "changed", "wanted")]
            before = before_epoch(rows, delta, self.path, hashes, view, self.exchange)
        return self._replaced(before, due)

    def _replaced(self, rows: Rows, at: Mapping[int, int]) -> Rows:
        """Make these rows those that the groups have emitted; gives what changed. `at`: the time of each group."""
        names = list(self.input.schema.names)
        if self.emission.stream:
            name, path = self.output.name + EMITTED, "_h0"
            coming = rows.reader([*names, KEY, self.path], [*names, KEY, path])
        else:
            name, path = self.output.name, self.prepared.stage.path or ""
            coming = self._identified(rows).reader()
        return timed(self.context.replace(name, path, _hashes(at), coming), path, at, self.exchange)

    def _identified(self, rows: Rows) -> Rows:
        """Rows of the output with their `_key` and hashes."""
        self.exchange.put(self.prepared.view(self.slot, "rows"), rows)
        return self.exchange.compute(self.prepared.sql[0], stored_schema(self.output))

    def _ordered(self, changes: Sequence[Rows]) -> Rows:
        key = self.input.schema.key or ()
        return emission_order(changes, self.emission, key, self.prepared.view(self.slot, "order"), self.exchange)

    def _numbered(self, changes: Sequence[Rows]) -> Rows:
        """The changes of a part in their order, numbered per group."""
        names = (*self.input.schema.names, KEY, WEIGHT, GROUP, AT)
        ordered = self._ordered([self.exchange.keep(c.reader(names)) for c in changes])
        version = pa.field(VERSION, pa.int64())
        found = (t.append_column(version, self._versions(t[GROUP].to_pylist())) for t in ordered.tables())
        return self.exchange.keep(stream(ordered.schema.append(version), found))

    def _versions(self, groups: list[int]) -> pa.Array:
        found = []
        for key in groups:
            found.append(self.groups[key].version)
            self.groups[key].version += 1
        return pa.array(found, pa.int64())

    def _changelog(self, changes: Sequence[Rows]) -> Rows:
        """The changes as rows: an undo, then what is there instead; numbered over all."""
        found = (self._entries(t) for c in changes for t in c.tables())
        rows = self._identified(self.exchange.keep(stream(self.output.schema.arrow, found)))
        self.context.append(self.output.name, rows)
        return self.exchange.keep(weighted_stream(rows, 1))

    def _entries(self, table: pa.Table) -> pa.Table:
        name = self.output.name
        first = self.context.sequences.get(name, 1)
        self.context.sequences[name] = first + table.num_rows
        made = {
            UNDO: pc.less(table[WEIGHT], 0),
            PTIME: table[AT].cast(TIMESTAMP),
            VERSION: table[VERSION],
            SEQUENCE: pa.array(np.arange(first, first + table.num_rows), pa.int64()),
        }
        columns = [made.get(c.name, table[c.name] if c.name in table.schema.names else None) for c in self.output.schema]
        return pa.table(columns, schema=self.output.schema.arrow)


def _before(rows: pa.Table, delta: pa.Table, path: str, groups: pa.Array) -> pa.Table:
    """The rows of some groups as they were before a change, from their rows after it."""
    mine = delta.filter(pc.is_in(delta[path], value_set=groups))
    stayed = rows.filter(pc.invert(pc.is_in(rows[KEY], value_set=combined(mine[KEY]))))
    gone = mine.filter(pc.less(mine[WEIGHT], 0)).drop_columns([WEIGHT])
    return pa.concat_tables([stayed, gone.select(stayed.schema.names).cast(stayed.schema)])


def _hashes(groups: Iterable[int]) -> pa.Array:
    return pa.array(sorted(groups), pa.int64())


def _micros(column: pa.ChunkedArray) -> list[int | None]:
    values: list[int | None] = column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return values
