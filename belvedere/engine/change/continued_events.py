"""Events of relations that a changed script recomputes: sent events are not sent again, only the differences.

In: the pipeline, the stored relations, the relations that emit changes. Out: those that continue, and the rows that
their events described. The difference is computed where views recover (`belvedere.engine.errors.healing`). If the
corrected view fails in its first epoch, these rows are kept beside the state until it is filled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.engine.change.stored_relations import StoredRelations
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.compute import Compute
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.schema import Schema
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from belvedere.store.protocol import Transaction

DOCUMENT = "telling"
"""Name in the epoch row's `extra`: relations that are still to be filled, with the relations that then emit the
differences from former rows."""
SUFFIX = "~former"


def continued_tellers(pipeline: Pipeline, now: StoredRelations, tellers: frozenset[str]) -> frozenset[str]:
    """Return those of `tellers` that continue: their events have the same columns, for rows with the same key, and are
    stored."""
    kept: Mapping[str, list[str]] = now.last.extra.get(DOCUMENT, {}) if now.last is not None else {}
    stored = {t.name: t.schema for t in now.tables if t.name in now.filled_tables or t.name in kept}
    read = {s.relation for stage in pipeline.stages for s in stage.slots}
    found = set()
    for stage in pipeline.stages:
        if stage.output in tellers - read:
            observed, schema = stage.slots[0].relation, pipeline.relations[stage.output].schema
            is_same = observed in stored and _keys(stored[observed]) == _keys(pipeline.relations[observed].schema)
            if is_same and _types(stored[stage.output]) == _types(schema):
                found.add(stage.output)
    return frozenset(found)


def _keys(schema: Schema) -> list[tuple[str, pa.DataType]] | None:
    return None if schema.key is None else [(n, schema[n].type) for n in schema.key]


def _types(schema: Schema) -> list[tuple[str, pa.DataType]]:
    return [(c.name, c.type) for c in schema]


def former_results(plan: TablePlan, pipeline: Pipeline, transaction: Transaction, compute: Compute) -> dict[str, Rows]:
    """Return the former rows of relations that are recomputed and whose changes are still emitted."""
    reported = {s.relation for stage in pipeline.stages if stage.output in plan.continued for s in stage.slots}
    return {n: compute.keep(transaction.lookup(n)) for n in reported & plan.fresh}


@dataclass
class ReportedRows:
    """Rows that events described, of relations that a corrected script has changed and that no epoch could fill yet."""

    state: State
    compute: Compute
    tellers: dict[str, frozenset[str]] = field(default_factory=dict)
    """Relations that continue to emit a relation's changes, by its name."""
    _next: dict[str, frozenset[str]] = field(default_factory=dict)

    def open(self, document: Mapping[str, Collection[str]], unfilled: Collection[str]) -> None:
        """Open the rows that an earlier run has kept, of relations that are still `unfilled`.

        `document` is that of the last epoch.
        """
        self.tellers = {n: frozenset(tellers) for n, tellers in document.items() if n in unfilled}
        arranged = [self.state.manifest.relations[n + SUFFIX][0] for n in self.tellers]
        self.state.arrange(arranged, frozenset(a.name for a in arranged))

    def rows(self) -> dict[str, Rows]:
        """Return the kept rows, by relation."""
        return {n: self.compute.keep(self._reader(n)) for n in self.tellers}

    def keep(self, found: Mapping[str, Rows], tellers: Mapping[str, frozenset[str]]) -> None:
        """Keep the rows of relations that an epoch could not fill.

        `tellers` emit their changes once they are filled.
        """
        self._next = {n: tellers[n] for n in found}
        for name in found.keys() - self.tellers.keys():
            schema = found[name].schema
            self.state.arrange([Arranged(name + SUFFIX, schema, fingerprint=Fingerprint(name, "former"))], frozenset())
            self.state.arrangements[name + SUFFIX].append(found[name].batches(schema.names))

    def document(self) -> dict[str, list[str]]:
        """Return the document for the epoch's row."""
        return {n: sorted(tellers) for n, tellers in self._next.items()}

    def committed(self) -> None:
        """Record a commit. The next epoch drops the rows of relations that this one has filled."""
        for name in self.tellers.keys() - self._next.keys():
            self.state.arrangements.pop(name + SUFFIX, None)
        self.tellers = self._next

    def _reader(self, name: str) -> pa.RecordBatchReader:
        found = self.state.arrangements[name + SUFFIX]
        return pa.RecordBatchReader.from_batches(found.arranged.schema, found.look_up(None, None))
