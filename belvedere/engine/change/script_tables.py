"""The stored relations of a script while it runs: those that no epoch has filled, and the work of the first epoch for
them.

In: a `TablePlan`, the last epoch before this run. Out: the names of relations to fill; within the first epoch, tables
and arrangements with their existing rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from belvedere.catalog.catalog import Catalog
from belvedere.engine.change.complete_inputs import rows_so_far
from belvedere.engine.change.continued_events import DOCUMENT as TELLING
from belvedere.engine.change.continued_events import ReportedRows, former_results
from belvedere.engine.change.table_diff import make_tables, rows_of_today, unread_inputs
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.compute import Compute
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.storage import Storage
from belvedere.state.state import State
from belvedere.store.protocol import EpochRow, Store


class ScriptTables:
    """Tables of the database, its views, and arrangements, from the start of a run."""

    def __init__(
        self,
        plan: TablePlan,
        catalog: Catalog,
        pipeline: Pipeline,
        state: State,
        compute: Compute,
        last: EpochRow | None,
    ):
        """Open the arrangements with the rows that stay. `last` is the last epoch, of another run."""
        self.plan = plan
        self._catalog, self._pipeline, self._state, self._compute = catalog, pipeline, state, compute
        self.by_name = {**plan.tables, **plan.computed}
        self.fresh = plan.fresh
        """The relations that no epoch has filled."""
        self.unmade = plan.unmade
        """The views of the database that the first epoch creates."""
        self.past: Mapping[str, Rows] = {}
        """The rows so far of the inputs in `plan.again`, with their original stamps.

        Set before the first epoch, and removed after it.
        """
        self.needed: frozenset[str] = plan.again - plan.held - (unread_inputs(catalog, last) if last else frozenset())
        """The inputs whose rows so far must be in `past` before the first epoch."""
        self._is_first = True
        new = plan.fresh | plan.refilled
        kept = plan.arranged.keys() - new - {n for n, (_, to_state) in plan.copied.items() if to_state}
        state.arrange(plan.arranged.values(), frozenset(kept))
        self.former = ReportedRows(state, compute)
        self.former.open(last.extra.get(TELLING, {}) if last else {}, self.fresh)

    @property
    def tellers(self) -> frozenset[str]:
        """Return the relations that continue to emit changes of recomputed relations."""
        return self.plan.continued.union(*self.former.tellers.values())

    @property
    def copied(self) -> Collection[str]:
        """Return the relations that the next epoch fills from their own rows."""
        return self.plan.copied.keys() if self._is_first else ()

    @property
    def refilled(self) -> Collection[str]:
        """Return the inputs into which the next epoch inserts their rows so far."""
        return self.plan.refilled if self._is_first else ()

    def prepare(self, storage: Storage, store: Store) -> dict[str, Rows]:
        """Create and fill tables in the first epoch.

        Return, in each epoch, the reported rows of recomputed relations.
        """
        reported = self.former.rows()
        if not self._is_first:
            return reported
        missing = self.needed - self.past.keys()
        if missing:
            raise AssertionError(f"earlier rows of {sorted(missing)} were not re-read")
        plan, pipeline, transaction = self.plan, self._pipeline, storage.transaction
        reported = former_results(plan, pipeline, transaction, self._compute) | reported
        of_table = partial(rows_of_today, plan=plan, pipeline=pipeline, state=self._state, transaction=transaction)
        self.past = {**self.past, **rows_so_far(self._catalog, plan.held, of_table, self._compute)}
        make = make_tables(plan, self._catalog, pipeline, self._state, transaction, self._compute, self.past)
        storage.prepare({*plan.outdated, *plan.fresh, *plan.refilled, *plan.copied}, partial(make, store))
        return reported

    def keep_former(self, reported: Mapping[str, Rows], blocked: Collection[str]) -> None:
        """Keep the reported rows of relations that an epoch could not fill because they are `blocked`."""
        unfilled = {n: rows for n, rows in reported.items() if n in self.fresh and n in blocked}
        tellers, stages = self.tellers, self._pipeline.stages
        readers = {n: frozenset(s.output for s in stages if any(i.relation == n for i in s.slots)) for n in unfilled}
        self.former.keep(unfilled, {n: found & tellers for n, found in readers.items()})

    def committed(self, unfilled: frozenset[str]) -> None:
        """Record a commit. `unfilled` are the relations that still have no rows."""
        self.former.committed()
        self.fresh, self.unmade, self.past, self._is_first = unfilled, frozenset(), {}, False
