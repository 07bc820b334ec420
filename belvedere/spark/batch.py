"""The batch answer of a view: the same plan over all input so far, in one Spark query.

In: a catalog, a log of accepted input. Out: Arrow rows. This is the oracle of every incremental rule: it shares the plan and
its printing with the engine, but neither stages nor stored state.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from belvedere.catalog import Catalog, Input
from belvedere.engine.epoch import EpochReport
from belvedere.engine.render import CLOCK_COLUMN, quote, render
from belvedere.engine.rows import Rows
from belvedere.engine.windows import split_windows
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.rewrite import inline
from belvedere.plan.time_nodes import SEQUENCE
from belvedere.rules.emit.batch import History, LoggedEpoch, has_history
from belvedere.schema import INGEST_TIME, TIMESTAMP, WEIGHT
from belvedere.spark.compute import SparkCompute
from belvedere.spark.interpreting import FEW

_RUNS = itertools.count()


class InputLog:
    """All accepted input, in order of arrival."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self.epochs: list[LoggedEpoch] = []
        self._rows: dict[str, list[tuple[int, pa.Table]]] = {}

    def add(self, report: EpochReport) -> None:
        """Take in what an epoch took in."""
        for id_, table in report.arrivals.items():
            self._rows.setdefault(id_, []).append((len(self.epochs), table))
        self.epochs.append(LoggedEpoch(report.clock, report.bounds))

    def current(self, table: Input, epoch: int | None = None) -> pa.Table:
        """The input's rows now, or after an epoch of the log: upserts and deletions applied one after the other."""
        schema = table.schema.arrow
        parts = [t for n, t in self._rows.get(table.id, []) if epoch is None or n <= epoch]
        if not parts:
            return schema.empty_table()
        log = pa.concat_tables(parts)
        if table.append_only:
            return log.select(schema.names)
        kept = _fold(log, table)
        return log.take(pa.array(kept, pa.int64())).select(schema.names)


def _fold(log: pa.Table, table: Input) -> list[int]:
    """The indexes of the rows that are there in the end."""
    names = list(table.primary_key) or [c.name for c in table.schema if not c.hidden]
    keys = [
        repr([0.0 if v == 0.0 and isinstance(v, float) else v for v in row.values()]) for row in log.select(names).to_pylist()
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
    """A view's plan down to the inputs, and to the `known` views."""

    def definition(id_: str) -> Node | None:
        view = None if id_ in known else catalog.views.get(id_)
        return None if view is None else view.plan

    return inline(Scan(relation, catalog.schema_of(relation)), definition)


def _kept(table: pa.Table, catalog: Catalog, relation: str, now: datetime) -> pa.Table:
    """An input's rows that are still served."""
    source = catalog.inputs.get(relation)
    if source is None or source.keep is None or not source.append_only:
        return table
    oldest = pa.scalar(now - timedelta(microseconds=source.keep), TIMESTAMP)
    return table.filter(pc.greater(table[INGEST_TIME], oldest))


class BatchAnswers:
    """Batch answers from one log: each input becomes a temporary view once for all answers of an epoch.

    So does an answer of few rows: views above it are computed from it, where Spark would compute it again for each of them.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, log: InputLog):
        self.catalog = catalog
        self.log = log
        self._compute = SparkCompute(spark, f"belvedere_batch_{os.getpid()}_{next(_RUNS)}")
        self._asked: tuple[int, datetime] | None = None
        """The number of epochs and the clock that views and answers are of."""
        self._inputs: dict[tuple[str, int | None], str] = {}
        self._clock: datetime | None = None
        self._answers: dict[str, pa.Table] = {}
        """Answers of few rows, with hidden columns."""

    def answer(self, relation: str, now: datetime) -> pa.Table:
        """All rows of a view, computed from the log alone at the time `now`; the columns of its schema."""
        if self._asked != (len(self.log.epochs), now):
            self._renew(now)
        plan = full_plan(self.catalog, relation)
        if not has_history(plan):
            return _kept(self._whole(relation, now), self.catalog, relation, now)

        def after(node: Node, epoch: int, tables: Mapping[str, pa.Table]) -> pa.Table:
            return self._rows(node, self.log.epochs[epoch].clock, epoch, tables)

        history = History(self.catalog, tuple(self.log.epochs), after)
        plan = history.with_scans(plan)
        if not self.log.epochs:
            return plan.schema.arrow.empty_table()
        return _in_order(after(plan, len(self.log.epochs) - 1, history.at(-1)), plan)

    def close(self) -> None:
        """Delete views and scratch files."""
        self._compute.close()

    def _renew(self, now: datetime) -> None:
        """Drop the views of another epoch's inputs and answers."""
        self._compute.forget()
        self._asked = len(self.log.epochs), now
        self._inputs.clear()
        self._answers.clear()
        self._clock = None

    def _whole(self, relation: str, now: datetime) -> pa.Table:
        """The answer of a plan without history."""
        known = self._answers.get(relation)
        answer = self._rows(full_plan(self.catalog, relation, self._answers), now) if known is None else known
        if relation in self.catalog.views and answer.num_rows <= FEW:
            self._answers[relation] = answer
        return answer

    def _rows(
        self, plan: Node, now: datetime, epoch: int | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """All rows of a plan over the inputs, after an epoch of the log (None: now) and with the given tables beside them."""
        compute = self._compute
        names: dict[str, str] = {}
        for relation in {n.relation: None for n in plan.walk() if isinstance(n, Scan)}:
            known = (tables or {}).get(relation)
            if known is None:
                names[relation] = self._input(relation, epoch)
            else:
                names[relation] = f"given{len(names)}"
                compute.put(names[relation], Rows(known))
        if self._clock != now:
            compute.put("clock", Rows(pa.table({CLOCK_COLUMN: pa.array([now], TIMESTAMP)})))
            self._clock = now
        clock = compute.view_name("clock")
        plan, windows = split_windows(plan, lambda r: compute.view_name(names.get(r, r)), clock)
        for found in windows:
            compute.put(found.name, compute.windows(found, few=False))
        query = render(plan, lambda r: compute.view_name(names.get(r, r)), clock)
        columns = ", ".join(quote(c.name) for c in plan.schema)
        fields: list[Any] = [pa.field(c.name, c.type) for c in plan.schema]
        try:
            return compute.collect(f"SELECT {columns} FROM ({query}) AS v", pa.schema(fields))
        finally:
            compute.rest()

    def _input(self, relation: str, epoch: int | None) -> str:
        """The view of the rows of an input, or of an answer."""
        name = self._inputs.get((relation, epoch))
        if name is None:
            name = self._inputs[relation, epoch] = f"input{len(self._inputs)}"
            source = self.catalog.inputs.get(relation)
            self._compute.put(name, Rows(self._answers[relation] if source is None else self.log.current(source, epoch)))
        return name


def run_batch(spark: SparkSession, catalog: Catalog, relation: str, log: InputLog, now: datetime) -> pa.Table:
    """One answer of `BatchAnswers`."""
    batch = BatchAnswers(spark, catalog, log)
    try:
        return batch.answer(relation, now)
    finally:
        batch.close()


def _in_order(table: pa.Table, plan: Node) -> pa.Table:
    """A changelog or stream in the order in which it was emitted."""
    return table.sort_by(SEQUENCE) if plan.schema.key == (SEQUENCE,) else table
