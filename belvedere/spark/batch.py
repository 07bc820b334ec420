"""The batch answer of a view: the same plan over all input so far, in one Spark query.

In: a catalog, a log of accepted input. Out: Arrow rows. This is the test oracle of every incremental rule. It shares
the plan and its printing with the engine, but neither stages nor stored state.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.engine.epoch_report import EpochReport
from belvedere.engine.fixpoint import fixpoint_rows
from belvedere.engine.rows.epoch_rows import Rows, as_rows
from belvedere.engine.sql.plan_sql import CLOCK_COLUMN, render
from belvedere.engine.sql.recursion_sql import RecursionOperator
from belvedere.engine.sql.staged_operators import Apart, split_windows
from belvedere.functions.spark_types import quote
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.observed import Observed
from belvedere.plan.rewrites.rewrite import inline
from belvedere.rules.emit.emit_batch import History, LoggedEpoch, has_history
from belvedere.schema import INGEST_TIME, TIMESTAMP, WEIGHT
from belvedere.spark.code_generation import FEW
from belvedere.spark.compute import SparkCompute
from belvedere.spark.project_functions import register_functions

_RUNS = itertools.count()
CLOCK = "clock"


class InputLog:
    """All accepted input, in order of arrival."""

    def __init__(self, catalog: Catalog, *, ends: bool = False):
        """`ends`: whether the input ends with the rows of the last epoch."""
        self.catalog = catalog
        self._ends = ends
        self.epochs: list[LoggedEpoch] = []
        self._rows: dict[str, list[tuple[int, pa.Table]]] = {}

    def add(self, report: EpochReport) -> None:
        """Add the rows that an epoch has ingested."""
        for id_, table in report.arrivals.items():
            self._rows.setdefault(id_, []).append((len(self.epochs), table))
        self.epochs.append(LoggedEpoch(report.clock, report.bounds, self._ends))

    def current(self, table: Input, epoch: int | None = None) -> pa.Table | Rows:
        """Return the input's rows now, or after an epoch of the log, with upserts and deletions applied in order."""
        schema = table.schema.arrow
        parts = [t for n, t in self._rows.get(table.id, []) if epoch is None or n <= epoch]
        if not parts:
            return schema.empty_table()
        log = pa.concat_tables(parts)
        if table.append_only:
            return log.select(schema.names)
        kept = _fold(log, table)
        return log.take(pa.array(kept, pa.int64())).select(schema.names)


class SingleEpochLog(InputLog):
    """The given rows of each input, with all columns of its schema, as if one epoch had ingested them."""

    def __init__(self, catalog: Catalog, rows: Mapping[str, pa.Table | Rows], now: datetime):
        """Rows in files must have exactly these columns."""
        super().__init__(catalog, ends=True)
        self._given = rows
        self.add(EpochReport(1, now))

    def current(self, table: Input, epoch: int | None = None) -> pa.Table | Rows:
        given = self._given[table.id]
        return given if isinstance(given, Rows) else given.select(table.schema.names)


def _fold(log: pa.Table, table: Input) -> list[int]:
    """Return the indexes of the rows that remain at the end."""
    names = list(table.primary_key) or [c.name for c in table.schema if not c.hidden]
    keys = [
        repr([0.0 if v == 0.0 and isinstance(v, float) else v for v in row.values()])
        for row in log.select(names).to_pylist()
    ]
    live: dict[str, list[int]] = {}
    for index, (key, weight) in enumerate(zip(keys, log[WEIGHT].to_pylist(), strict=True)):
        if weight < 0:
            held = live.get(key, [])
            live[key] = [] if table.primary_key else held[1:]
        elif table.primary_key:
            live[key] = [index]
        else:
            live.setdefault(key, []).append(index)
    return sorted(i for indexes in live.values() for i in indexes)


def full_plan(catalog: Catalog, relation: str, known: Container[str] = ()) -> Node:
    """Return a view's plan down to the inputs and to the `known` views.

    A subscription's plan is over its query.
    """

    def definition(id_: str) -> Node | None:
        subscription = None if id_ in known else catalog.subscriptions.get(id_)
        if subscription is not None:
            observed = catalog.views[subscription.view]
            return Observed(Scan(observed.id, observed.schema), str(subscription.on), subscription.schema)
        view = None if id_ in known else catalog.views.get(id_)
        return None if view is None else view.plan

    return inline(Scan(relation, catalog.schema_of(relation)), definition)


def _served(table: pa.Table, catalog: Catalog, relation: str, now: datetime) -> pa.Table:
    """Return an input's rows that are still served."""
    source = catalog.inputs.get(relation)
    if source is None or source.keep is None or not source.append_only:
        return table
    oldest = pa.scalar(now - timedelta(microseconds=source.keep), TIMESTAMP)
    return table.filter(pc.greater(table[INGEST_TIME], oldest))


class BatchAnswers:
    """Batch answers from one log. Each input becomes a temporary view once for all answers of an epoch.

    An answer of few rows becomes a view too: views above it read it, so Spark does not compute it again for each of
    them. Views have the same names in each epoch, so Spark can reuse its plans. Folds over history continue from the
    previous epoch.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, log: InputLog):
        self.catalog = catalog
        self.log = log
        register_functions(spark, catalog.functions)
        self._compute = SparkCompute(spark, f"belvedere_batch_{os.getpid()}_{next(_RUNS)}")
        self._moment: tuple[int, datetime] | None = None
        """The number of epochs in the log, and the clock, for which views and answers are valid."""
        self._names: dict[str, str] = {}
        """Name of the view of each relation."""
        self._made: set[str] = set()
        """The relations whose views hold rows of this moment."""
        self._answers: dict[str, pa.Table] = {}
        """Answers of few rows, with hidden columns."""
        self._histories: dict[str, History] = {}

    def answer(self, relation: str, now: datetime) -> pa.Table:
        """Return all rows of a relation, computed from the log alone at the time `now`, in the columns of its
        schema."""
        return self.answers((relation,), now)[relation]

    def answers(self, relations: Collection[str], now: datetime) -> dict[str, pa.Table]:
        """Return the answers of several relations. Those that do not depend on each other are one query."""
        plans = {r: full_plan(self.catalog, r) for r in relations}
        found = {r: self._folded(r, plan, now) for r, plan in plans.items() if has_history(plan)}
        waiting = {r: self._views_below(r) for r in relations if r not in found}
        self._at(len(self.log.epochs), now)
        while waiting:
            ready = [r for r, below in waiting.items() if not below & waiting.keys()]
            found |= self._whole(ready, now)
            for relation in ready:
                del waiting[relation]
        return {r: found[r] for r in relations}

    def close(self) -> None:
        """Delete views and scratch files."""
        self._compute.close()

    def _at(self, epochs: int, now: datetime) -> None:
        """Forget cached views and answers of another moment."""
        if self._moment != (epochs, now):
            self._compute.sweep()
            self._moment = epochs, now
            self._made.clear()
            self._answers.clear()

    def _views_below(self, relation: str) -> set[str]:
        """Return the views that a relation's query reads, and those that these read."""
        view = self.catalog.views.get(relation)
        subscription = self.catalog.subscriptions.get(relation)
        scans = {n.relation for n in view.plan.walk() if isinstance(n, Scan)} if view else set()
        scans |= {subscription.view} if subscription is not None else set()
        found = scans & (self.catalog.views.keys() | self.catalog.subscriptions.keys())
        return found.union(*(self._views_below(r) for r in found))

    def _folded(self, relation: str, plan: Node, now: datetime) -> pa.Table:
        """Return the answer of a plan with history."""
        history = self._histories.get(relation)
        if history is None:
            history = self._histories[relation] = History(relation, plan, self.catalog, self._after)
        history.go_on(self.log.epochs)
        if not self.log.epochs:
            return history.plan.schema.arrow.empty_table()
        return _in_order(self._after(history.plan, len(self.log.epochs) - 1, history.tables), history.plan)

    def _after(self, plan: Node, epoch: int, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows of a plan over the inputs after an epoch of the log, and over the given tables."""
        now = self.log.epochs[epoch].clock
        self._at(epoch + 1, now)
        for name in {n.relation for n in plan.walk() if isinstance(n, Scan)} & tables.keys():
            self._made.discard(name)
            self._make(name, partial(_same, tables[name]))
        return self._rows([plan], now)[0]

    def _whole(self, relations: Sequence[str], now: datetime) -> dict[str, pa.Table]:
        """Return the answers of relations without history that do not depend on each other."""
        asked = [r for r in relations if r not in self._answers]
        plans = [full_plan(self.catalog, r, self._answers) for r in asked]
        found = dict(zip(asked, self._rows(plans, now), strict=True))
        known = {r: self._answers[r] for r in relations if r in self._answers}
        self._answers |= {r: t for r, t in found.items() if r in self.catalog.views and t.num_rows <= FEW}
        return known | {r: _served(t, self.catalog, r, now) for r, t in found.items()}

    def _rows(self, plans: Sequence[Node], now: datetime) -> list[pa.Table]:
        """Return all rows of each plan over the inputs and the created views."""
        compute = self._compute
        for relation in {n.relation: None for plan in plans for n in plan.walk() if isinstance(n, Scan)}:
            self._make(relation, partial(self._contents, relation))
        self._put(f"${CLOCK}", CLOCK, lambda: pa.table({CLOCK_COLUMN: pa.array([now], TIMESTAMP)}))
        windows: dict[Node, str] = {}
        try:
            return compute.collect_all([self._query(plan, windows) for plan in plans])
        finally:
            compute.rest()

    def _query(self, plan: Node, made: dict[Node, str]) -> tuple[str, pa.Schema]:
        """Return a plan as text, with the schema of its rows.

        The rows of its windows are views of their own; those in `made` exist already.
        """
        compute, own = self._compute, "windows_"

        def view_of(relation: str) -> str:
            return compute.view_name(self._names[relation] if relation in self._made else own + relation)

        clock = compute.view_name(CLOCK)
        plan, windows = split_windows(plan, view_of, clock, made)
        for found in windows:
            compute.put(own + found.name, self._apart(found, own))
        columns = ", ".join(quote(c.name) for c in plan.schema)
        fields: list[Any] = [pa.field(c.name, c.type) for c in plan.schema]
        return f"SELECT {columns} FROM ({render(plan, view_of, clock)}) AS v", pa.schema(fields)

    def _apart(self, operator: Apart, own: str) -> Rows:
        """Return the rows of a non-SQL operator. `own` is the prefix of its views' names."""
        if isinstance(operator, RecursionOperator):
            return fixpoint_rows(operator, self._compute, lambda name, rows: self._compute.put(own + name, rows))
        return self._compute.windows(operator, few=False)

    def _make(self, relation: str, rows: Callable[[], pa.Table | Rows]) -> None:
        """Create a relation's view at this moment, once."""
        self._put(relation, self._names.setdefault(relation, f"rows{len(self._names)}"), rows)

    def _put(self, relation: str, name: str, rows: Callable[[], pa.Table | Rows]) -> None:
        """Create a relation's view with this name."""
        if relation not in self._made:
            found = rows()
            self._compute.put(name, as_rows(found))
            self._made.add(relation)

    def _contents(self, relation: str) -> pa.Table | Rows:
        """Return the rows of an input, or an answer."""
        source = self.catalog.inputs.get(relation)
        if source is None:
            return self._answers[relation]
        assert self._moment is not None
        return self.log.current(source, self._moment[0] - 1)


def _same(table: pa.Table) -> pa.Table:
    return table


def run_batch(spark: SparkSession, catalog: Catalog, relation: str, log: InputLog, now: datetime) -> pa.Table:
    """Return one answer of `BatchAnswers`."""
    batch = BatchAnswers(spark, catalog, log)
    try:
        return batch.answer(relation, now)
    finally:
        batch.close()


def _in_order(table: pa.Table, plan: Node) -> pa.Table:
    """Sort a changelog or stream by the order in which it was emitted."""
    return table.sort_by(SEQUENCE) if plan.schema.key == (SEQUENCE,) else table
