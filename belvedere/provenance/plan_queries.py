"""Queries of plans over stored relations, all in one epoch.

The database answers plans that it computes exactly as Spark does. Spark answers the others.

In: plans, a store's reader, its tables, a Spark session if there is one. Out: rows, in the order of the plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.prune_columns import prune
from belvedere.provenance.why.covering_views import from_covering_view, why_not_stored
from belvedere.schema import Schema
from belvedere.store.protocol import EpochRow, Reader, Take
from belvedere.store.read.computed_views import BEYOND, plan_of_unstored, text_at_read
from belvedere.store.read.shared_sets import Sets, SharedSet
from belvedere.store.stored_table import StoredTable

BySpark = Callable[[Sequence[Node], Mapping[str, pa.Table | Rows], datetime], list[pa.Table]]
"""Function that computes plans from the rows of the relations that they scan, at a time; large inputs are in files."""


@dataclass(frozen=True)
class Answers:
    """The epoch that was read, and for each plan its rows or the reason that they are not available."""

    epoch: EpochRow | None
    rows: tuple[pa.Table | Diagnostic, ...]


@dataclass(frozen=True)
class QueryRunner:
    """A store that answers plans of a script. `held` returns the rows of a relation that is only in the state."""

    catalog: Catalog
    tables: Mapping[str, StoredTable]
    reader: Reader
    spark: BySpark | None = None
    held: Mapping[str, Callable[[], pa.Table]] = field(default_factory=dict)

    def definition(self, id_: str) -> Node | None:
        """Return the plan that computes a relation that is not stored from stored ones; None if there is none."""
        return from_covering_view(self.catalog, id_, self.tables) or plan_of_unstored(self.catalog, id_, self.tables)

    def is_there(self, id_: str) -> bool:
        """Return whether a relation's rows can be read."""
        return id_ in self.tables or id_ in self.held or self.definition(id_) is not None

    def ask(self, plans: Sequence[Node]) -> Answers:
        """Return the rows of each plan, in one snapshot. Raises B7063 if no epoch has created the tables."""
        plans = [prune(p) for p in plans]  # an unused aggregate may be one that the database does not compute
        sets = Sets()
        texts = [self._text(plan, sets) for plan in plans]
        statements, kept = sets.shared(t for t in texts if isinstance(t, str))
        said = (p for p, t in zip(plans, texts, strict=True) if isinstance(t, str))
        asked = [StoredTable("", Schema(p.schema.columns), query=t) for p, t in zip(said, statements, strict=True)]
        open_ = [p for p, t in zip(plans, texts, strict=True) if not isinstance(t, str) and self._is_for_spark(t)]
        scanned = {n.relation: n.schema for p in open_ for n in p.walk() if isinstance(n, Scan)}
        rows: dict[str, pa.Table | Rows] = {i: self.held[i]() for i in scanned if i not in self.tables}
        streams = [(self.tables[i], partial(_take, rows, i, s)) for i, s in scanned.items() if i in self.tables]
        epoch, found = self._together(asked, kept, streams)
        answers = iter(found)
        computed = iter(self.spark(open_, rows, epoch.clock) if self.spark and open_ and epoch else ())
        return Answers(epoch, tuple(self._answer(t, answers, computed) for t in texts))

    def _together(
        self, tables: Sequence[StoredTable], sets: Sequence[SharedSet], streams: Sequence[tuple[StoredTable, Take]]
    ) -> tuple[EpochRow | None, list[pa.Table]]:
        try:
            return self.reader.rows_together(tables, sets, streams)
        except BelvedereError as error:
            if error.diagnostics[0].code == "B7014" and not self._has_epochs():
                hint = "run its script first: `belvedere run SCRIPT`, or `step()` of a Workbench"
                raise fail("B7063", "the store has no epoch yet, so it has no rows", hint=hint) from None
            raise

    def _has_epochs(self) -> bool:
        try:
            return self.reader.last_epoch() is not None
        except BelvedereError:
            return False

    def _text(self, plan: Node, sets: Sets) -> str | Diagnostic:
        """Return the SQL of a plan, or the reason that the database cannot answer it."""
        for node in plan.walk():
            if isinstance(node, Scan) and node.relation not in self.tables:
                return self._not_there(node.relation)
        try:
            return text_at_read(plan, self.reader.dialect, sets)
        except BelvedereError as error:
            if error.diagnostics[0].code not in BEYOND:
                raise
            return error.diagnostics[0]

    def _not_there(self, id_: str) -> Diagnostic:
        code = "B8020" if id_ in self.held else "B8110"
        name = self.catalog.name_of(id_) if self.catalog.find(id_) else id_
        hint = f"serve `{name}`: give it a name without the leading underscore"
        message = (
            f"the rows of `{name}` are not in the database" if id_ in self.held else why_not_stored(self.catalog, id_)
        )
        return fail(code, message, hint=hint).diagnostics[0]

    def _is_for_spark(self, why: Diagnostic) -> bool:
        return self.spark is not None and why.code in BEYOND

    def _answer(
        self, text: str | Diagnostic, answers: Iterator[pa.Table], computed: Iterator[pa.Table]
    ) -> pa.Table | Diagnostic:
        """Return the next rows of the database or of Spark; a diagnostic if neither was queried."""
        if isinstance(text, str):
            return next(answers)
        return next(computed, text) if self._is_for_spark(text) else text


def _take(into: dict[str, pa.Table | Rows], id_: str, schema: Schema, batches: pa.RecordBatchReader) -> None:
    """Store the batches of a relation: few rows in memory, more in a temporary file."""
    taken = Scratch(pa.schema([batches.schema.field(n) for n in schema.names]))
    for batch in batches:
        taken.add(batch.select(schema.names))
    into[id_] = taken.rows()
