"""Emit: EMIT selects the groups that are emitted in an epoch.

The output is the table as last emitted, or its changelog.

Groups due before the epoch's clock are emitted first, without this epoch's rows. Groups that are complete, or due at
the clock, include these rows (One SQL, extensions 4 to 7). The retracted rows are always the emitted ones: the store
finds the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Relation, Slot, delta_schema
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, combined
from belvedere.engine.rows.ordered_rows import stream
from belvedere.engine.rows.selected_rows import NewRows, SelectedRows
from belvedere.engine.sql.stage_sql import ROWS, Texts
from belvedere.engine.stage import BoundsNow, Stage
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.expressions import column
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.emit import PTIME, SEQUENCE, UNDO, VERSION, Emit
from belvedere.plan.operators.nodes import Scan, Union
from belvedere.plan.plan_text import plan_text
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.rules.emit.emission import (
    COMPLETE,
    DUE,
    PLAIN,
    WAIT,
    Emission,
    GroupState,
    due_groups,
    emission_of,
    explain_emission,
)
from belvedere.rules.emit.emit_rows import AT, GROUP, before_epoch, emission_order, net_change, timed
from belvedere.rules.emit.group_parts import EmitPart, emit_parts
from belvedere.rules.events import next_numbers
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import KEY, TIMESTAMP, WEIGHT
from belvedere.store.stage_memory import Numbered
from belvedere.store.stored_table import StoredTable
from belvedere.values.instants import microseconds

GROUPS = "$groups"
"""Suffix of the relation with a row per group: its next version, its due time, and whether it is complete."""
EMITTED = "$emitted"
"""Suffix of the relation with the rows as last emitted, if the output is their changelog."""


@dataclass(frozen=True)
class EmitStage(Stage):
    """Stage of an EMIT.

    `emission` gives the groups and what completes them; `path` is the output's access path by group (for a table as
    last emitted).

    `idles`: whether the clock alone can raise a bound that completes groups.
    """

    emission: Emission
    path: str | None
    idles: bool

    rule = "emit"
    in_driver = "a row of state for each changed group, and the rows of a changelog, which it numbers"
    memory = Numbered
    rebuilds = False
    looks_up = True

    @property
    def reads_clock(self) -> bool:
        return self.emission.delay is not None or (self.emission.watermark and self.idles)

    @property
    def delay(self) -> int | None:
        return self.emission.delay

    @property
    def states(self) -> tuple[str, ...]:
        waits = self.emission.stream and not self.emission.at_once
        return (self.output + GROUPS, *((self.output + EMITTED,) if waits else ()))

    @property
    def definition(self) -> tuple[str, ...]:
        return (plan_text(self.emission.node),)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.rows(Scan("s0", texts.output.schema), ROWS)}

    def run(self, work: Work) -> Rows | None:
        return _Emitting(self, work).run()

    # --- expiry

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return {t: own[t] for t in self.emission.times if t in own}

    def reads_from(self, slot: Slot, now: BoundsNow) -> Bounds:
        if self.delay is not None:
            now = now.earlier(self.delay)
        own = now.relations[slot.relation]
        if self.emission.at_once:
            return own
        final = dict(zip(self.emission.times, self.emission.final_bounds(now.inputs), strict=True))
        return {t: min(b, own[t]) for t, b in final.items() if t in own}

    # --- explaining

    def frees(self, relation: Relation) -> str | None:
        if relation.name not in self.states:
            return None
        forgets = self.emission.forgets
        return (
            "groups leave once a watermark makes them final"
            if forgets
            else "unbounded: no watermark makes a group final"
        )


def _applies(site: Site) -> Maintain | None:
    return partial(_maintain, site, site.top) if isinstance(site.top, Emit) else None


def _maintain(site: Site, top: Emit) -> Relation:
    """Maintain the input as a relation of its own, and the state of its groups beside it."""
    if site.plan is not top:
        return site.apart()
    builder, part = site.builder, site.part
    emission = emission_of(builder, top)
    needs_rows = not emission.at_once
    known = builder.drafts[builder.relation_of_scan(top.input)].relation if isinstance(top.input, Scan) else None
    if known is None or (needs_rows and not known.is_state):
        known = builder.shared(carry_keys(top.input), part.owner)
    key = known.schema.key or ()
    moved = tuple(n for n in emission.group if n not in key)
    if moved and not known.append_only:
        # a row that moves to another group is a new row there: each group is emitted at its own time
        known = builder.shared(Union((Scan(known.name, known.schema),), key=(*key, *moved)), part.owner)
    keys = tuple(column(n) for n in emission.group), tuple(known.schema[n].type for n in emission.group)
    slot = Slot("s0", known.name, builder.drafts[known.name].path(*keys))
    builder.state_of(
        part, GROUPS, emission.groups_schema, tuple(n for n in emission.groups_schema.names if n not in PLAIN)
    )
    if top.stream and needs_rows:
        builder.state_of(part, EMITTED, known.schema).path(*keys)
    path = None if top.stream else builder.path_of(part, *keys)
    idles = any(w.idle_after is not None for t in builder.catalog.inputs.values() for w in t.watermarks)
    fields = {"emission": emission, "path": path, "idles": idles}
    rendered = top.with_inputs((Scan(slot.name, known.schema),))
    stage = site.stage(EmitStage, rendered, (slot,), explain_emission(emission), **fields)
    return builder.emit(stage, part, append_only=top.stream)


EMIT = Rule("emit", _applies, is_optional=False)


@dataclass
class _Emitting:
    """One epoch of one stage."""

    stage: EmitStage
    work: Work
    groups: dict[int, GroupState] = field(default_factory=dict)
    """Groups of the current part."""

    def __post_init__(self) -> None:
        self.slot, self.input = self.work.slots[0]
        if self.slot.path is None:
            raise AssertionError("EMIT looks rows up by their group")
        self.path: str = self.slot.path
        self.emission, self.output, self.compute = self.stage.emission, self.work.output, self.work.compute
        self.now = microseconds(self.work.clock)

    def run(self) -> Rows | None:
        (delta,) = self.work.deltas
        if delta is None:
            delta = Rows(delta_schema(self.input).append(WEIGHT_FIELD).empty_table())
        bounds = self.emission.bounds(self.work.bounds.__getitem__)
        final = self.emission.final_bounds(self.work.bounds.__getitem__) if self.emission.forgets else ()
        concerned = self._concerned(bounds if self.emission.watermark else final)
        changes: list[Rows] = []
        parts = 0
        for part in emit_parts(delta, self.path, concerned, self.work):
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
        return net_change(changes, self.work.name("s0", "net"), self.work)

    def _emit(self, part: EmitPart, bounds: tuple[int, ...]) -> list[Rows]:
        """Return the changes that the groups of a part emit."""
        delta = part.delta
        touched = {int(g) for b in delta.batches([self.path]) for g in pc.unique(b.column(0)).to_pylist()}
        self._load(part.groups, touched)
        self._note_times(delta)
        changes = [self._overdue(delta)] if self.emission.delay is not None else []
        firing = due_groups(self.emission, self.groups, touched, bounds, self.now)
        if self.emission.at_once:
            changes.append(timed(delta, self.path, dict.fromkeys(firing, self.now), self.work))
        elif firing:
            rows = self.work.look_up(self.input.name, self.path, _hashes(firing))
            changes.append(self._replaced(rows, dict.fromkeys(firing, self.now)))
        return [c for c in changes if c is not None]

    # --- groups

    def _concerned(self, bounds: tuple[int, ...]) -> list[Rows]:
        """Return the groups that may be affected without a change: those that are due, complete or final."""
        name = self.output.name + GROUPS
        found = []
        if self.emission.delay is not None:
            found.append(self.work.look_up_range(name, DUE, None, self.now))
        for n, bound in enumerate(bounds):
            if bound > NEVER:
                found.append(self.work.look_up_range(name, f"{WAIT}{n}", None, bound - 1))
        return found

    def _load(self, groups: pa.Array, touched: set[int]) -> None:
        """Load the state of these groups."""
        self.groups.clear()
        if len(groups):
            rows = self.work.look_up(self.output.name + GROUPS, KEY, groups.cast(pa.string()))
            for row in (r for t in rows.tables() for r in t.to_pylist()):
                waits = tuple(row[f"{WAIT}{n}"] for n in range(len(self.emission.times)))
                self.groups[row["group"]] = GroupState(row["ver"], row[DUE], row[COMPLETE], waits)
        for key in touched:
            self.groups.setdefault(key, GroupState(waits=(None,) * len(self.emission.times)))

    def _note_times(self, delta: Rows) -> None:
        """Record the times of the groups in a change, from its new rows, or from its old rows if a group has no new
        ones."""
        if not (self.emission.watermark or self.emission.forgets):
            return
        names = list(dict.fromkeys((*self.emission.times, self.path, WEIGHT)))
        for there in (False, True):  # present rows win
            for batch in delta.batches(names):
                rows = batch.filter(pc.equal(pc.greater(batch.column(WEIGHT), 0), there))
                times = [_micros(rows[t]) for t in self.emission.times]
                for index, key in enumerate(rows[self.path].to_pylist()):
                    self.groups[key].waits = tuple(t[index] for t in times)

    def _save(self, final: set[int]) -> None:
        """Store the groups of this part. Groups that are final are not stored."""
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
        self.work.overwrite(name, KEY, keys, Rows(pa.Table.from_pylist(rows, schema=schema)))
        if final and self.emission.stream and not self.emission.at_once:
            emitted = self.output.name + EMITTED
            self.work.overwrite(emitted, "_h0", _hashes(final), ())

    # --- rows

    def _overdue(self, delta: Rows) -> Rows | None:
        """Emit the groups due before the epoch's clock, with their rows from before this epoch."""
        due = {k: g.due for k, g in self.groups.items() if g.due is not None and g.due < self.now}
        if not due:
            return None
        for key in due:
            self.groups[key].due = None
        hashes = _hashes(due)
        rows = self.work.look_up(self.input.name, self.path, hashes)
        if rows.is_collected and delta.is_collected:
            before = Rows(_before(rows.table, delta.table, self.path, hashes))
        else:
            view = [self.work.name("s0", name) for name in ("stored", "changed", "wanted")]
            before = before_epoch(rows, delta, self.path, hashes, view, self.compute)
        return self._replaced(before, due)

    def _replaced(self, rows: Rows, at: Mapping[int, int]) -> Rows:
        """Replace the emitted rows of the groups by these rows and return the change. `at`: the time of each group."""
        names = list(self.input.schema.names)
        if self.emission.stream:
            name, path = self.output.name + EMITTED, "_h0"
            coming: NewRows = SelectedRows(rows, None, {n: n for n in (*names, KEY)} | {path: self.path})
        else:
            name, path = self.output.name, self.stage.path or ""
            coming = self._identified(rows)
        return timed(self.work.replace(path, _hashes(at), coming, name), path, at, self.work)

    def _identified(self, rows: Rows) -> Rows:
        """Return the rows of the output with their `_key` and hashes."""
        self.work.put("s0", ROWS, rows)
        return self.work.rows("rows")

    def _ordered(self, changes: Sequence[Rows]) -> Rows:
        key = self.input.schema.key or ()
        return emission_order(changes, self.emission, key, self.work.name("s0", "order"), self.compute)

    def _numbered(self, changes: Sequence[Rows]) -> Rows:
        """Return the changes of a part in their order, numbered per group."""
        names = (*self.input.schema.names, KEY, WEIGHT, GROUP, AT)
        ordered = self._ordered([self.compute.keep(c.reader(names)) for c in changes])
        version = pa.field(VERSION, pa.int64())
        found = (t.append_column(version, self._versions(t[GROUP].to_pylist())) for t in ordered.tables())
        return self.compute.keep(stream(ordered.schema.append(version), found))

    def _versions(self, groups: list[int]) -> pa.Array:
        found = []
        for key in groups:
            found.append(self.groups[key].version)
            self.groups[key].version += 1
        return pa.array(found, pa.int64())

    def _changelog(self, changes: Sequence[Rows]) -> Rows:
        """Return the changes as changelog rows (an undo before its replacement), numbered across all groups."""
        found = (self._entries(t) for c in changes for t in c.tables())
        rows = self._identified(self.compute.keep(stream(self.output.schema.arrow, found)))
        return self.work.added(rows)

    def _entries(self, table: pa.Table) -> pa.Table:
        made = {
            UNDO: pc.less(table[WEIGHT], 0),
            PTIME: table[AT].cast(TIMESTAMP),
            VERSION: table[VERSION],
            SEQUENCE: next_numbers(self.work, table.num_rows),
        }
        columns = [
            made.get(c.name, table[c.name] if c.name in table.schema.names else None) for c in self.output.schema
        ]
        return pa.table(columns, schema=self.output.schema.arrow)


def _before(rows: pa.Table, delta: pa.Table, path: str, groups: pa.Array) -> pa.Table:
    """Return the rows of some groups before a change, from their rows after it."""
    mine = delta.filter(pc.is_in(delta[path], value_set=groups))
    stayed = rows.filter(pc.invert(pc.is_in(rows[KEY], value_set=combined(mine[KEY]))))
    gone = mine.filter(pc.less(mine[WEIGHT], 0)).drop_columns([WEIGHT])
    return pa.concat_tables([stayed, gone.select(stayed.schema.names).cast(stayed.schema)])


def _hashes(groups: Iterable[int]) -> pa.Array:
    return pa.array(sorted(groups), pa.int64())


def _micros(column: pa.Array) -> list[int | None]:
    times = column if pa.types.is_integer(column.type) else column.cast(TIMESTAMP)
    values: list[int | None] = times.cast(pa.int64()).to_pylist()
    return values
