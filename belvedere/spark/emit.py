"""Run EMIT: decide which groups are emitted in this epoch, and write the table as last emitted or its changelog.

In: the change of the input in one epoch, its bounds, the groups' state. Out: the change of the output. What falls due before the epoch's
clock is emitted first, as it was before this epoch's rows; what is due at the clock, or complete, includes them (One SQL,
extensions 4 to 7). What is retracted is what was emitted: the store finds the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.emission import COMPLETE, DUE, EMITTED, GROUPS, WAIT, Emission, Group, due_groups, orderable
from belvedere.instants import microseconds
from belvedere.plan.monotone import NEVER
from belvedere.plan.time_nodes import PTIME, SEQUENCE, UNDO, VERSION
from belvedere.schema import KEY, TIMESTAMP, WEIGHT
from belvedere.spark.exchange import Rows, combined
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import WEIGHT_FIELD, Context, stored_schema, weighted
from belvedere.store.protocol import StoredTable

GROUP = "_group"
AT = "_ptime"


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

    def __post_init__(self) -> None:
        self.slot, self.input = self.prepared.slots[0]
        if self.slot.path is None:
            raise AssertionError("EMIT looks rows up by their group")
        self.path: str = self.slot.path
        self.output = self.prepared.output
        self.now = microseconds(self.context.clock)

    def run(self) -> Rows | None:
        (delta,) = self.context.deltas_of(self.prepared)
        table = delta.table if delta is not None else stored_schema(self.input).append(WEIGHT_FIELD).empty_table()
        bounds = self.emission.bounds(self.context.bounds.__getitem__)
        final = self.emission.final_bounds(self.context.bounds.__getitem__) if self.emission.forgets else ()
        touched = {int(g) for g in pc.unique(table[self.path]).to_pylist()}
        self._load(touched, bounds if self.emission.watermark else final)
        self._note_times(table, touched)
        changes = [self._overdue(table)] if self.emission.delay is not None else []
        firing = due_groups(self.emission, self.groups, touched, bounds, self.now)
        if self.emission.at_once:
            changes.append(self._timed(self._with_group(table, self.path), dict.fromkeys(firing, self.now)))
        elif firing:
            rows = self.context.look_up(self.input.name, self.path, _hashes(firing)).table
            changes.append(self._timed(self._replaced(rows, firing), dict.fromkeys(firing, self.now)))
        found = [c for c in changes if c is not None and c.num_rows]
        result = self._changelog(found) if self.emission.stream else self._table(found)
        self._save({k for k, g in self.groups.items() if final and g.due is None and g.passed(final)})
        return result

    # --- groups

    def _load(self, touched: set[int], bounds: tuple[int, ...]) -> None:
        """The groups that this epoch may concern: touched, due, or now below a bound (complete, or final)."""
        name = self.output.name + GROUPS
        if touched:
            self._read(self.context.look_up(name, KEY, pa.array([str(g) for g in touched])).table)
        if self.emission.delay is not None:
            self._read(self.context.transaction.lookup_range(name, DUE, None, self.now).read_all())
        for n, bound in enumerate(bounds):
            if bound > NEVER:
                self._read(self.context.transaction.lookup_range(name, f"{WAIT}{n}", None, bound - 1).read_all())
        for key in touched:
            self.groups.setdefault(key, Group(waits=(None,) * len(self.emission.times)))

    def _read(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            waits = tuple(row[f"{WAIT}{n}"] for n in range(len(self.emission.times)))
            self.groups[row["group"]] = Group(row["ver"], row[DUE], row[COMPLETE], waits)

    def _note_times(self, table: pa.Table, touched: set[int]) -> None:
        """The times of the groups in a change: those of its rows that are there, else of those that were."""
        if not (self.emission.watermark or self.emission.forgets) or not touched:
            return
        ordered = table.take(pc.sort_indices(table[WEIGHT]))  # rows that are there come last and win
        times = [_micros(ordered[t]) for t in self.emission.times]
        for index, key in enumerate(ordered[self.path].to_pylist()):
            self.groups[key].waits = tuple(t[index] for t in times)

    def _save(self, final: set[int]) -> None:
        """Keep the groups of this epoch, but for those that will never change again: nothing is kept of them."""
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

    def _overdue(self, delta: pa.Table) -> pa.Table | None:
        """Emit what fell due before the epoch's clock, on the rows before this epoch."""
        due = {k: g.due for k, g in self.groups.items() if g.due is not None and g.due < self.now}
        if not due:
            return None
        for key in due:
            self.groups[key].due = None
        hashes = _hashes(due)
        rows = self.context.look_up(self.input.name, self.path, hashes).table
        mine = delta.filter(pc.is_in(delta[self.path], value_set=hashes))
        before = rows.filter(pc.invert(pc.is_in(rows[KEY], value_set=combined(mine[KEY]))))
        gone = mine.filter(pc.less(mine[WEIGHT], 0)).drop_columns([WEIGHT])
        before = pa.concat_tables([before, gone.select(before.schema.names).cast(before.schema)])
        return self._timed(self._replaced(before, due), {k: d for k, d in due.items() if d is not None})

    def _replaced(self, rows: pa.Table, firing: Iterable[int]) -> pa.Table:
        """Make these rows those that the groups have emitted; gives what changed."""
        names = list(self.input.schema.names)
        if self.emission.stream:
            name = self.output.name + EMITTED
            coming = pa.table([rows[n] for n in (*names, KEY, self.path)], names=[*names, KEY, "_h0"])
            return self._with_group(self.context.replace(name, "_h0", _hashes(firing), coming.to_reader()).table, "_h0")
        path = self.prepared.stage.path
        if path is None:
            raise AssertionError("an emitted table is found by its groups")
        identified = self._identified(rows.select(names)).to_reader()
        return self._with_group(self.context.replace(self.output.name, path, _hashes(firing), identified).table, path)

    def _identified(self, rows: pa.Table) -> pa.Table:
        """Rows of the output with their `_key` and hashes."""
        self.context.exchange.put(self.prepared.view(self.slot, "rows"), Rows(rows))
        return self.context.exchange.collect(self.prepared.sql[0], stored_schema(self.output))

    @staticmethod
    def _with_group(changes: pa.Table, path: str) -> pa.Table:
        return changes.append_column(GROUP, changes[path])

    @staticmethod
    def _timed(changes: pa.Table, at: dict[int, int]) -> pa.Table:
        times = [at[g] for g in changes[GROUP].to_pylist()]
        return changes.append_column(AT, pa.array(times, pa.int64()))

    def _table(self, changes: list[pa.Table]) -> Rows | None:
        """The net change of the emitted table: per row the first that went and the last that came."""
        if not changes:
            return None
        table = pa.concat_tables([c.drop_columns([GROUP, AT]) for c in changes])
        if len(changes) == 1:
            return Rows(table)
        going, coming = _net(table)
        return Rows(table.take(pa.array(sorted([*going, *coming]), pa.int64())))

    def _changelog(self, changes: list[pa.Table]) -> Rows | None:
        """The changes as rows: an undo, then what is there instead; numbered per group and over all."""
        if not changes:
            return None
        names = [*self.input.schema.names, KEY, WEIGHT, GROUP, AT]
        table = pa.concat_tables([c.select(names) for c in changes])
        table = table.take(pa.array(emission_order(table, self.emission, self.input.schema.key or ()), pa.int64()))
        name = self.output.name
        first = self.context.sequences.get(name, 1)
        self.context.sequences[name] = first + table.num_rows
        made = {
            UNDO: pc.less(table[WEIGHT], 0),
            PTIME: table[AT].cast(TIMESTAMP),
            VERSION: pa.array(self._versions(table[GROUP].to_pylist()), pa.int64()),
            SEQUENCE: pa.array(np.arange(first, first + table.num_rows), pa.int64()),
        }
        columns = {
            c.name: made.get(c.name, table[c.name] if c.name in table.schema.names else None) for c in self.output.schema
        }
        rows = self._identified(pa.table(columns))
        self.context.append(name, Rows(rows))
        return Rows(weighted(rows, 1))

    def _versions(self, groups: list[int]) -> list[int]:
        found = []
        for key in groups:
            found.append(self.groups[key].version)
            self.groups[key].version += 1
        return found


def emission_order(table: pa.Table, emission: Emission, key: tuple[str, ...]) -> list[int]:
    """The order in which changes come out: by time of emission, group, row; an undo before what replaces it.

    Within a group rows that go for good come first, then rows that change, then those that are new.
    """
    rows = [tuple(map(orderable, r)) for r in zip(*(table[n].to_pylist() for n in key), strict=True)] or [()] * table.num_rows
    times = list(zip(*(table[n].to_pylist() for n in emission.group), strict=True)) or [()] * table.num_rows
    at, groups, weights = table[AT].to_pylist(), table[GROUP].to_pylist(), table[WEIGHT].to_pylist()
    keys = table[KEY].to_pylist()
    went = {(a, k) for a, k, w in zip(at, keys, weights, strict=True) if w < 0}
    came = {(a, k) for a, k, w in zip(at, keys, weights, strict=True) if w > 0}

    def place(index: int) -> tuple[Any, ...]:
        mark = (at[index], keys[index])
        kind = 1 if mark in went and mark in came else (0 if mark in went else 2)
        group = tuple(map(orderable, times[index]))
        return at[index], group, groups[index], kind, rows[index], keys[index], weights[index]

    return sorted(range(table.num_rows), key=place)


def _net(table: pa.Table) -> tuple[list[int], list[int]]:
    """Per `_key` the index of the first row that went and of the last that came; none where both are equal."""
    rows = table.drop_columns([WEIGHT]).to_pylist()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, (key, weight) in enumerate(zip(table[KEY].to_pylist(), table[WEIGHT].to_pylist(), strict=True)):
        if weight > 0:
            last[key] = index
            first.setdefault(key, -1)  # it came before anything of it went: it was not there
        else:
            first.setdefault(key, index)
            last.pop(key, None)
    going = {k: i for k, i in first.items() if i >= 0}
    same = {k for k, i in going.items() if k in last and repr(rows[i]) == repr(rows[last[k]])}
    return [i for k, i in going.items() if k not in same], [i for k, i in last.items() if k not in same]


def _hashes(groups: Iterable[int]) -> pa.Array:
    return pa.array(sorted(groups), pa.int64())


def _micros(column: pa.ChunkedArray) -> list[int | None]:
    values: list[int | None] = column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return values
