"""Recovery of stages in quarantine, within an epoch's transaction.

In: the stages that an attempt retries. Out: the epoch as its stages see it. A stage in quarantine is recomputed from
stored rows; event, export and history stages are not refilled but receive the difference. If these rows are not kept,
it processes its missed changes as the changes of one epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from belvedere.engine.compute import Compute
from belvedere.engine.errors.missed_changes import Missed
from belvedere.engine.errors.quarantine import Cordon, Isolation, emits_changes
from belvedere.engine.expiry import final_results_below
from belvedere.engine.rows.epoch_rows import Rows, weighted_stream
from belvedere.engine.stage import Stage
from belvedere.engine.storage import Storage
from belvedere.engine.work import EpochContext
from belvedere.state.arrangement import Arrangement
from belvedere.state.sorted_run import Arranged
from belvedere.time.event_time import Clocks, bounds_by_input

NOTHING: Mapping[str, Rows] = {}


def _is_in(schema: pa.Schema, field: pa.Field) -> bool:
    return field.name in schema.names and schema.field(field.name).type == field.type


class Healing:
    """Relations that one attempt recomputes, in the epoch's transaction."""

    def __init__(
        self,
        cordon: Cordon,
        empty: Collection[str],
        storage: Storage,
        compute: Compute,
        isolation: Isolation,
        missed: Missed,
        former: Mapping[str, Rows] = NOTHING,
        continued: Collection[str] = frozenset(),
    ):
        """Clear the relations, and keep the old rows of those whose changes are emitted; `empty` ones have none.

        `former` rows are those of relations that a changed script recomputes, whose changes `continued` relations still
        emit.
        """
        self._former, self._continued = former, continued
        self._compute, self._fresh, self._resumed = compute, cordon.fresh, cordon.resumed
        self._missed, self._isolation = missed, isolation
        stages = isolation.pipeline.stages
        reported = {
            r.relation for s in stages if emits_changes(s) and s.output not in cordon.blocked for r in s.slots
        } & cordon.fresh
        self._old = {n: compute.keep(storage.look_up(n, None, None)) for n in reported - set(empty)}
        for name in cordon.fresh - set(empty):
            if storage.is_arranged(name) or storage.is_served(name):
                storage.clear(name)

    def seen_by(self, stage: Stage, context: EpochContext) -> EpochContext:
        """Return the epoch as a stage sees it: a resuming stage sees its missed changes, a stage that emits changes
        sees the difference instead of all rows.
        """
        if stage.output in self._resumed:
            context = self._resuming(stage, context)
        read = {s.relation for s in stage.slots}
        healed = read & self._fresh if emits_changes(stage) else set()
        old = self._old if stage.output not in self._continued else {**self._old, **self._former}
        changes = {
            n: self._difference(n, old[n], context)
            for n in healed | (read & old.keys() & self._former.keys())
            if n in old
        }
        if not changes:
            return context
        return replace(context, deltas={**context.deltas, **changes})

    def _resuming(self, stage: Stage, context: EpochContext) -> EpochContext:
        since, before = self._resumed[stage.output]
        missed = self._missed.names.intersection(s.relation for s in stage.slots)
        changes = {n: self._missed.since(n, since, context.deltas.get(n)) for n in missed}
        deltas = {n: rows for n, rows in (context.deltas | changes).items() if rows is not None}
        bounds = bounds_by_input(self._isolation.catalog, Clocks.of_document(before))
        limits = final_results_below(self._isolation.pipeline, bounds.__getitem__)
        return replace(context, deltas=deltas, final_results=limits, resumed=True)

    def _difference(self, name: str, old: Rows, context: EpochContext) -> Rows:
        new = context.deltas.get(name)
        requested = (
            old.schema.names
            if new is None
            else [n for n in old.schema.names if _is_in(new.schema, old.schema.field(n))]
        )
        schema = pa.schema([old.schema.field(n) for n in requested])
        relation = context.relations[name]
        hidden = [c.name for c in relation.schema if c.hidden] if name in self._former else []
        arranged = Arranged(name, schema, (), (), (), frozenset((*relation.internal, *hidden)))
        found = Arrangement(arranged, lambda run: run, self._compute.memory.chunk)
        found.append(old.batches(requested))
        rows = () if new is None else new.batches(requested)
        return self._compute.keep(weighted_stream(schema, found.replace(None, None, rows)))
