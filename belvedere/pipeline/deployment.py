"""Effect of starting a script on a store: which relations stay, are filled, are dropped, or cannot be maintained.

In: a catalog, the stored relations, the numbers of rows of its tables. Out: a `Deployment`: for each public relation
the effect and why, the columns that API clients will miss, estimated seconds. It writes nothing, and needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.subscriptions import ChangeKind
from belvedere.engine.change.change_plan import planned
from belvedere.engine.change.lost_rows import changed_inputs, lost_rows, not_retained
from belvedere.engine.change.stored_relations import StoredRelations
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.epoch_row.served_names import SERVED, served_names
from belvedere.engine.errors.failed_stages import Failed, failures_of
from belvedere.engine.errors.quarantine import Isolation
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import name_in_script
from belvedere.errors import BelvedereError, counted
from belvedere.functions.spark_types import type_text
from belvedere.functions.widening import evolution
from belvedere.optimize.costs import Coefficients, Sizes, Workload, maintaining, storing
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.placement import whole_plan
from belvedere.plan.operators.nodes import Scan
from belvedere.rules.events import EventsStage
from belvedere.schema import HISTORY, Schema
from belvedere.store.stored_table import StoredTable

NO_ROWS: Mapping[str, int] = {}
NOTHING_BROKEN: Mapping[str, BelvedereError] = {}


class ChangeEffect(StrEnum):
    """Effect of a start on a public relation."""

    KEPT = "kept"
    ADDED = "added"
    CHANGED = "changed"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True)
class RelationChange:
    """Effect of a start on a public input, view or subscription, by its name."""

    name: str
    change: ChangeEffect
    reason: str
    rows: int = 0
    """Number of rows that clients can read now."""
    seconds: float = 0.0
    """Estimated processor time to fill it."""
    missed: tuple[str, ...] = ()
    """Columns that clients will miss, or find with another type."""
    hint: str = ""
    """Remedy for a refused relation."""


@dataclass(frozen=True)
class Deployment:
    """All public relations, those of the script first, in its order."""

    changes: tuple[RelationChange, ...]
    is_new: bool = False
    """Whether the store has no epoch yet."""
    gone: tuple[str, ...] = ()
    """Query templates and relationship fields that clients will miss, or that take other arguments."""
    read_again: tuple[str, ...] = ()
    """Ids of imports that are re-read from the start."""
    again: Mapping[str, int] = field(default_factory=dict)
    """Ids of inputs whose earlier rows are re-read beside the stored ones, with their number."""
    resent: Mapping[str, int] = field(default_factory=dict)
    """Subscriptions and exported relations, by name, that send all rows again, with the number of rows."""
    lost: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Missing files of re-read imports: the number of missing files, and of all files; their rows cannot be re-read."""
    notices: tuple[str, ...] = ()
    """Further effects, in words."""
    refusals: tuple[BelvedereError, ...] = ()
    """Reasons why a start would be refused."""

    def of(self, *kinds: ChangeEffect) -> tuple[RelationChange, ...]:
        """Return the relations with one of these effects."""
        return tuple(c for c in self.changes if c.change in kinds)

    @property
    def takes_away(self) -> bool:
        """Return whether clients will miss something that is available now."""
        return bool(self.gone or self.lost) or any(c.missed or c.change is ChangeEffect.DROPPED for c in self.changes)


READING = 0.000_015
"""Seconds of processor time to re-read a row of a source."""


def plan_deployment(
    catalog: Catalog,
    stored: StoredRelations,
    rows: Mapping[str, int],
    readable: Mapping[str, int] = NO_ROWS,
    broken: Mapping[str, BelvedereError] = NOTHING_BROKEN,
) -> Deployment:
    """Compare a script with the stored relations; `rows` are the numbers of rows of the tables.

    `readable` inputs, with their numbers of rows, can be re-read from their sources; `broken` ones cannot.
    """
    pipeline = maintain(catalog)
    found = planned(catalog, pipeline, stored, readable, lambda table: rows.get(table, 0))
    tables = found.tables
    again = {i: readable[i] for i in tables.again if readable.get(i)}
    comparison = _Comparison(catalog, pipeline, stored, tables, rows, again, broken, found.failed)
    dropped = tuple(comparison.dropped())
    before: list[str] = stored.last.extra.get(SERVED, []) if stored.last is not None else []
    now = set(served_names(catalog))
    gone = tuple(n for n in before if n not in now)
    read_again = tuple(comparison.read_again())
    resent = dict(comparison.resent())
    refusals = tuple(comparison.refused().values())
    return Deployment(
        (*comparison.relations(), *dropped), stored.last is None, gone, read_again, again, resent, refusals=refusals
    )


@dataclass(frozen=True)
class _Comparison:
    catalog: Catalog
    pipeline: Pipeline
    stored: StoredRelations
    plan: TablePlan
    rows: Mapping[str, int]
    again: Mapping[str, int]
    broken: Mapping[str, BelvedereError]
    failed: tuple[Failed, ...] = ()
    before: dict[str, StoredTable] = field(default_factory=dict)
    """The tables of relations that are filled now."""

    def __post_init__(self) -> None:
        filled = self.stored.filled_tables
        self.before.update({t.name: t for t in self.stored.tables if t.name in filled or t.query})

    @property
    def _extra(self) -> Mapping[str, Any]:
        return self.stored.last.extra if self.stored.last is not None else {}

    def relations(self) -> Iterator[RelationChange]:
        """Yield the effects on the script's public relations."""
        refused, held = self.refused(), self._quarantined()
        for id_ in self._ids():
            name = self.pipeline.served.get(id_, id_)
            table = self.before.get(name)
            if id_ in refused:
                error = refused[id_].diagnostics[0]
                found = RelationChange(id_, ChangeEffect.REFUSED, error.message, hint=error.hint or "")
            elif id_ in self.catalog.placement.at_read:
                found = self._at_read(id_)
            else:
                found = self._filled(id_)
            if id_ in held and found.change is not ChangeEffect.REFUSED:
                found = replace(found, reason="; ".join(filter(None, (held[id_], found.reason))))
            missed = () if table is None else _missed(table.schema, self.catalog.schema_of(id_))
            yield replace(found, name=self.catalog.name_of(id_), rows=self.rows.get(name, 0), missed=missed)

    def _quarantined(self) -> dict[str, str]:
        """Return the effect on views in quarantine, by id, if their failed stage is still part of the script."""
        if self.stored.last is None:
            return {}
        found: dict[str, str] = {}
        for failed in Isolation(self.catalog, self.pipeline).still(self.failed, self.plan.fresh):
            for id_, epoch in failed.good.items():
                shows = "has no rows yet" if epoch is None else f"shows epoch {epoch}"
                since = f"in quarantine since epoch {failed.since}, {shows}"
                how = "processes the missed changes" if failed.resumes and not failed.lost else "recomputed"
                found[id_] = f"{since}: {how} at the start, unless {name_in_script(failed.owner)} fails again"
        return found

    def dropped(self) -> Iterator[RelationChange]:
        """Yield the relations that were served and are dropped."""
        there = {*self.pipeline.relations, *self._ids(), *self.catalog.placement.parts}
        for name in self.before:
            base = name.removesuffix(HISTORY)
            is_shown = not name.startswith("_") and "@" not in name and not (base != name and base in self.before)
            if is_shown and name not in there:
                yield RelationChange(
                    base, ChangeEffect.DROPPED, "the script no longer defines it", self.rows.get(name, 0)
                )

    def read_again(self) -> Iterator[str]:
        """Yield the imports that are re-read from the start, because the store no longer has or never had
        their rows.
        """
        known = self.stored.filled
        offsets = self.stored.last.offsets if self.stored.last is not None else {}
        read = (i for i, t in self.catalog.inputs.items() if t.source is not None and (i in known or offsets.get(i)))
        return (i for i in read if i in self.plan.fresh)

    def resent(self) -> Iterator[tuple[str, int]]:
        """Yield the subscriptions and exports that cannot compute the difference, by name, with the number of rows that
        they send again.
        """
        for stage in self.pipeline.stages:
            if (
                stage.output in self.plan.resent
                and isinstance(stage, EventsStage)
                and stage.on in (None, ChangeKind.ADD)
            ):
                count = self.rows.get(stage.slots[0].relation, self.rows.get(stage.output, 0))
                if count:
                    yield self.catalog.name_of(stage.owner), count

    def _ids(self) -> list[str]:
        shown = self.catalog.public | self.catalog.subscriptions.keys()
        known = (*self.catalog.inputs, *self.catalog.views, *self.catalog.subscriptions)
        return [i for i in known if i in shown and (i in self.pipeline.served or i in self.catalog.placement.at_read)]

    def refused(self) -> dict[str, BelvedereError]:
        """Return the errors that a start would raise, by the id of the affected relation."""
        if self.stored.last is None:
            return {}
        known, fresh = self.stored.filled, self.plan.fresh
        why = self.plan.misfits
        found = dict(
            lost_rows(
                self.catalog, self.pipeline, fresh, self.plan.restored, known, why, self.plan.again, self.plan.waiting
            )
        )
        found |= {i: e for i, e in self.broken.items() if i in self.plan.refilled}
        found |= {
            s.owner: self.broken[r]
            for s, r in not_retained(self.pipeline, fresh, self.plan.restored)
            if r in self.broken
        }
        return {**found, **dict(changed_inputs(self.catalog, fresh & known.keys(), why))}

    def _at_read(self, id_: str) -> RelationChange:
        before = self.before.get(id_)
        if before is None:
            return RelationChange(id_, ChangeEffect.ADDED, "the database computes it at read time")
        if id_ in self.plan.unmade and before.query != self.plan.computed[id_].query:
            return RelationChange(
                id_, ChangeEffect.CHANGED, "the database computes it at read time, from now on by another query"
            )
        return RelationChange(id_, ChangeEffect.KEPT, "the database computes it at read time")

    def _filled(self, id_: str) -> RelationChange:
        relation = self.pipeline.served[id_]
        if relation in self.plan.evolved:
            evolved = evolution(self.plan.evolved[relation], self.pipeline.relations[relation].schema)
            return RelationChange(id_, ChangeEffect.CHANGED, "; ".join(evolved))
        if relation in self.plan.refilled:
            seconds = READING * self.again.get(relation, 0)
            return RelationChange(id_, ChangeEffect.ADDED, self._read_again([relation]), seconds=seconds)
        if relation in self.plan.continued:
            return RelationChange(
                id_, ChangeEffect.CHANGED, "its query has changed: it sends the differences as events"
            )
        if relation in self.plan.resumed:
            lost = next((f for f in failures_of(self._extra) if f.lost and id_ in f.good), None)
            gap = "" if lost is None else f", without the changes since epoch {lost.since}: {lost.lost}"
            reason = f"its definition has changed: its rows so far are kept, and it continues from them (`resume`){gap}"
            return RelationChange(id_, ChangeEffect.CHANGED, reason)
        if relation not in self.plan.fresh:
            moved = relation in self.plan.copied
            return RelationChange(
                id_, ChangeEffect.KEPT, "its rows are copied to be indexed by other columns" if moved else ""
            )
        source = self._source_of(relation)
        if relation not in self.before:
            return RelationChange(id_, ChangeEffect.ADDED, source, seconds=self._seconds(id_))
        if self.before[relation].query:
            return RelationChange(
                id_, ChangeEffect.KEPT, f"it is maintained from now on: {source}", seconds=self._seconds(id_)
            )
        waits = any(n in self.again for n in self._walk(relation, self._is_there))
        reason = f"{self._cause(relation)}; {source}{'; not served until then' if waits else ''}"
        return RelationChange(id_, ChangeEffect.CHANGED, reason, seconds=self._seconds(id_))

    def _cause(self, relation: str) -> str:
        """Return the cause of a change: the relation's own definition, or an input."""
        known = self.stored.filled
        found = (n for n in self._walk(relation, lambda n: "$" not in n) if n != relation and "$" not in n)
        below = [n for n in found if n in self.plan.fresh | self.plan.evolved.keys() and n in known]
        return (
            f"{' and '.join(dict.fromkeys(map(name_in_script, below)))} has changed"
            if below
            else "its definition has changed"
        )

    def _source_of(self, relation: str) -> str:
        """Return the source of the rows: stored relations, or the sources of inputs."""
        stored, again = dict[str, None](), list[str]()
        for name in self._walk(relation, self._is_there):
            table = self.catalog.inputs.get(name)
            if self._is_there(name):
                stored["its state" if "$" in name else name_in_script(name)] = None
            elif table is not None and table.source is not None:
                again.append(name)
        parts = [f"computed from stored rows ({', '.join(stored)})"] if stored else []
        parts += [self._read_again(again)] if again else []
        return " and ".join(parts) or "filled by future rows"

    def _is_there(self, name: str) -> bool:
        """Return whether all rows of a relation are stored."""
        return name in self.plan.held or (
            self.pipeline.relations[name].stored and name not in self.plan.fresh | self.again.keys()
        )

    def _read_again(self, ids: Iterable[str]) -> str:
        """Return a text that says which inputs are re-read from their sources, with their number of rows if known."""
        rows = {i: f" ({counted(self.again[i], 'row')})" if i in self.again else "" for i in dict.fromkeys(ids)}
        names = ", ".join(f"{self.catalog.inputs[i].name}{count}" for i, count in rows.items())
        return f"filled by re-reading the sources of {names}"

    def _walk(self, relation: str, is_end: Callable[[str], bool]) -> Iterator[str]:
        """Yield the relation and its inputs, down to those at which a walk ends."""
        todo, seen = [relation], {relation}
        while todo:
            name = todo.pop(0)
            yield name
            if name == relation or not is_end(name):
                below = [s.relation for stage in self.pipeline.stages if stage.output == name for s in stage.slots]
                todo += [n for n in dict.fromkeys(below) if n not in seen]
                seen |= set(below)

    def _seconds(self, id_: str) -> float:
        """Return the processor seconds to recompute a whole view, by the shipped costs."""
        if id_ not in self.catalog.views:
            return 0.0
        plan, costs = whole_plan(self.catalog, id_), Coefficients()
        rows = {n: float(count) for n, count in {**self.rows, **self.again}.items()}
        sizes = Sizes(Workload(rows, rows))
        reading = READING * sum(self.again.get(n.relation, 0) for n in plan.walk() if isinstance(n, Scan))
        return (
            reading + sum(maintaining(n, sizes, costs) for n in plan.walk() if n.inputs) + storing(plan, sizes, costs)
        )


def _missed(before: Schema, after: Schema) -> tuple[str, ...]:
    """Return the visible columns that are gone or have another type."""
    found = []
    for column in before.visible:
        now = after.find(column.name)
        if now is None or now.hidden:
            found.append(column.name)
        elif now.type != column.type:
            found.append(f"{column.name} ({type_text(column.type)}, then {type_text(now.type)})")
    return tuple(found)
