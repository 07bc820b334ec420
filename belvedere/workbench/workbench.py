"""A script on local Spark, run step by step with a clock that you set: for notebooks and tests.

In: a script's text and a store URL. Out: the views after each epoch, as the store serves them, and their batch results.
The Workbench keeps a log of all accepted input; `batch` recomputes views from that log alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.compiler import compile_script
from belvedere.engine.epoch_report import EpochReport
from belvedere.engine.store_folders import beside
from belvedere.errors import BelvedereError, fail
from belvedere.frames.answer_frames import QueryRows, RowList, row_list
from belvedere.frames.plain_values import plain
from belvedere.intake.claims import claimed_columns
from belvedere.intake.program_rows import deletions_of_program, rows_of_program
from belvedere.intake.request_rows import find_input
from belvedere.pipeline.choose import maintain
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.nodes import Order
from belvedere.plan.sorting import sorted_rows
from belvedere.process.temporary_folders import is_shared
from belvedere.provenance.findings import Why, WhyNot
from belvedere.provenance.found_rows import SAMPLE
from belvedere.provenance.key_tests import key_tests
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.why.why import find_row, relation_named, why
from belvedere.provenance.why_not.why_not import why_not
from belvedere.queries.single_query import compile_over
from belvedere.rules.options import Options
from belvedere.schema import WEIGHT
from belvedere.spark.batch import BatchAnswers, InputLog
from belvedere.spark.cluster import is_cluster, join_cluster
from belvedere.spark.compute import DRIVER_MEMORY
from belvedere.spark.plan_answers import by_spark
from belvedere.spark.query_files import answer_template
from belvedere.spark.script_engine import open_engine
from belvedere.spark.session import SparkSession, local_session
from belvedere.store import open_store
from belvedere.store.read.history import AsOf, not_whole, rows_as_of
from belvedere.time.arrival_columns import arrival_times
from belvedere.time.pending_arrivals import Intake
from belvedere.values.input_rows import as_instant, shown
from belvedere.values.instants import microseconds
from belvedere.workbench.notebook_page import workbench_html


class Workbench:
    """A script with a store, run epoch by epoch. Several Workbenches can share one Spark session.

    - `script`: the text of the script. `store`: the URL of the store; `sqlite://` is a temporary SQLite file.
    - `spark`: a Spark session; None: the running local session, or a new one.
    - `options`: switches of optimizations. `project`: the settings of a project file (`belvedere.toml`).

    Add input with `insert`, `delete`, `bound`, `open` and `close`, and run an epoch with `step`. Read results with
    `rows`, `changes`, `query`, `graphql` and `rest`, and compare them with `batch`. Raises BelvedereError with the
    script's diagnostics if it does not compile.
    """

    def __init__(
        self,
        script: str,
        store: str = "sqlite://",
        *,
        spark: SparkSession | None = None,
        options: Options | None = None,
        project: Any = None,
    ):
        text = _text(script, "a script", "read a file by Path(...).read_text()")
        stops = None if project is None else replace(project, on_error=project.on_error or "stop")
        compiled = compile_script(text, project=stops, store=store)
        if not compiled.ok:
            raise BelvedereError(compiled.diagnostics)
        self.diagnostics = compiled.diagnostics
        self._sinks = project.sinks if project is not None else {}
        self._driver_memory = project.driver_memory if project is not None else None
        self._state = project.state if project is not None else None
        self._scratch = project.scratch if project is not None else None
        self._project = project
        self._start(compiled.catalog, store, spark, options)

    @classmethod
    def of_catalog(
        cls,
        catalog: Catalog,
        store: str = "sqlite://",
        *,
        spark: SparkSession | None = None,
        options: Options | None = None,
        sinks: Mapping[str, Any] | None = None,
        driver_memory: int | None = None,
    ) -> Workbench:
        """Create a Workbench for a compiled catalog; `sinks` and `driver_memory` are those of the project file."""
        made = cls.__new__(cls)
        made.diagnostics = ()
        made._sinks = sinks or {}
        made._driver_memory, made._state, made._scratch, made._project = driver_memory, None, None, None
        made._start(catalog, store, spark, options)
        return made

    def _start(self, catalog: Catalog, store: str, spark: SparkSession | None, options: Options | None) -> None:
        self.catalog = catalog
        self.pipeline = maintain(self.catalog, options)
        self.spark = spark or local_session()
        self._log = InputLog(self.catalog)
        self._batch = BatchAnswers(self.spark, self.catalog, self._log)
        self._intake = Intake(self.catalog)
        self._early: list[tuple[Input, pa.Table, str | None]] = []
        self._clock: datetime | None = None
        self._report: EpochReport | None = None
        self._open(store)

    def _open(self, url: str) -> None:
        self.store = open_store(url, migrate=True)
        if is_cluster(self.spark) and not is_shared():
            join_cluster(self.spark, self._scratch or beside(self.store.url).with_suffix(".scratch"))
        memory = DRIVER_MEMORY if self._driver_memory is None else self._driver_memory
        self.engine = open_engine(self.spark, self.catalog, self.pipeline, self.store, self._sinks, memory, self._state)
        self.engine.quarantine.pause = 0.0  # each step retries at once
        self.store.acquire("workbench", 86_400.0)
        self._intake.resume(self.engine.last.clocks)

    # --- input

    def insert(
        self,
        table: str,
        rows: Any,
        producer: str | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert rows into an input in the next epoch. If a row is not valid, this raises BelvedereError and takes no
        row.

        `table` is the name of the input; an unknown one raises B6012. `rows` are dicts, or a frame of pandas, Polars,
        Arrow or Spark, or any object with Arrow's PyCapsule interface. `producer` names the sender of the rows.
        `claims` are the claims of the caller's token. Rows below the stream's bound are late. If the stream rejects
        late rows, this raises B5024 and takes the other rows.
        """
        source = find_input(self.catalog, str(table))
        self._take(source, rows_of_program(source, rows), 1, producer, claims)

    def delete(self, table: str, rows: Any, claims: Mapping[str, Any] | None = None) -> None:
        """Delete rows of an input in the next epoch. `rows` are dicts or a frame.

        If the table has a primary key, rows are found by key. Otherwise each given row deletes one row with equal
        columns. Raises B6011 if the input is a stream.
        """
        source = find_input(self.catalog, str(table))
        if source.append_only:
            raise fail(
                "B6011", f'"{source.name}" is a stream: its rows cannot be deleted', hint="declare it with CREATE TABLE"
            )
        self._take(source, deletions_of_program(source, rows), -1, claims=claims)

    def _take(
        self,
        source: Input,
        table: pa.Table,
        weight: int,
        producer: str | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> None:
        if not table.num_rows:
            return
        if weight > 0 or source.primary_key:
            for name, value in claimed_columns(source, claims or {}).items():
                table = table.append_column(name, pa.array([value] * table.num_rows, source.schema[name].type))
        table = table.append_column(WEIGHT, pa.array([weight] * table.num_rows, pa.int64()))
        if weight > 0 and self._clock is None and _lacks_time(source, table):
            self._early.append((source, table, producer))  # the clock at their arrival is not set yet
        elif weight > 0:
            self._intake.insert(source, table, self._now(), producer)
        else:
            self._intake.delete(source, table)

    def bound(
        self, table: str, time: Any, producer: str | None = None, strict: bool = False, column: str | None = None
    ) -> None:
        """Set a rowtime bound: no later row of the producer is below `time` (`strict`: nor equal to it).

        `time` is a datetime, ISO 8601 text, or seconds since 1970; a time without zone is UTC. `column` is an
        event-time column of the stream, None for the first. Raises B6016 if `time` is not a time.
        """
        at = microseconds(_time(time))
        self._intake.bound(
            find_input(self.catalog, table), at, self._now(), column=column, producer=producer, strict=strict
        )

    def open(self, table: str, producer: str | None = None, bound: Any = None) -> None:
        """Open a producer of a stream, optionally at a `bound`. Until its first row or bound, the stream's watermark
        does not advance."""
        least = None if bound is None else microseconds(_time(bound))
        self._intake.open(find_input(self.catalog, table), producer, least, self._now())

    def close(self, table: str | None = None, producer: str | None = None) -> None:
        """Close the Workbench and its store. With `table`, close only one producer of that stream."""
        if table is not None:
            self._intake.close(find_input(self.catalog, table), producer, self._now())
            return
        self._batch.close()
        self.engine.close()
        self.store.close()

    # --- epochs

    def clock(self, time: Any) -> None:
        """Set now() for the following epochs; by default it is the real time.

        `time` is a datetime, ISO 8601 text, or seconds since 1970; a time without zone is UTC. Raises B6013 if it is
        before the present clock, B6016 if it is not a time.
        """
        instant = _time(time)
        if self._clock is not None and instant < self._clock:
            raise fail("B6013", f"the clock cannot go back from {self._clock} to {instant}")
        self._clock = instant
        self._take_early()

    def step(self) -> int:
        """Run one epoch, also without input, and return its number.

        The epoch processes all rows, deletions and bounds since the last one. If a view fails, `on_error` decides: by
        default this raises BelvedereError, and the epoch is rolled back.
        """
        now = self._clock or datetime.now(UTC)
        self._take_early()
        waiting = self._intake.waiting()
        bounds = waiting.clocks.as_document()
        report = self.engine.run_epoch(waiting.arrivals(self.catalog), now, bounds=bounds, keep_deltas=True)
        self._intake.committed(waiting, self.engine.last.clocks)
        self._report = report
        self._log.add(report)
        return report.epoch

    def _take_early(self) -> None:
        """Insert the rows that came before the first clock was set."""
        early, self._early = self._early, []
        for source, table, producer in early:
            self._intake.insert(source, table, self._now(), producer)

    def _now(self) -> int:
        return microseconds(self._clock or datetime.now(UTC))

    def restart(self) -> None:
        """Close the engine and the store, and continue from the last epoch, like a new process."""
        url = self.store.url
        self.engine.close()
        self.store.close()
        self._report = None
        self._open(url)

    # --- answers

    def rows(self, view: str, as_of: int | datetime | str | None = None) -> RowList[dict[str, Any]]:
        """Return the rows of a view as the store serves them: a list of dicts by column name, in the view's order.

        With `as_of`, return its state after that epoch (a number), or after the last epoch at or before a time (a
        datetime or ISO 8601 text). `to_arrow`, `to_pandas` and `to_polars` of the list return the rows as frames.
        Raises B2001 if there is no such view, B7050 if it is private and not stored.
        """
        id_ = self._relation(view)
        table, arranged = self.engine.tables.by_name.get(id_), self.engine.tables.plan.arranged.get(id_)
        if table is None and arranged is not None:
            if arranged.final:
                raise not_whole(view)
            return row_list(self._shown(id_, sorted_rows(self.engine.rows(id_), self._order(id_))))
        if table is None:
            raise fail(
                "B7050",
                f'"{view}" is private and not stored',
                hint="give it a name without the leading underscore to serve it",
            )
        then = as_of if as_of is None or isinstance(as_of, int) else _time(as_of)
        rows = self._stored(id_, then)
        if table.schema.key == (SEQUENCE,):
            rows = rows.sort_by(SEQUENCE)
        return row_list(self._shown(id_, sorted_rows(rows, self._order(id_))))

    def _stored(self, id_: str, then: int | datetime | None = None) -> pa.Table:
        """Return the rows of a table of the store; empty before an epoch has filled it."""
        if id_ in self.engine.tables.fresh | self.engine.tables.unmade:
            return self.engine.tables.by_name[id_].arrow.empty_table()
        reader = self.store.reader()
        try:
            if then is None:
                return reader.rows(self.engine.tables.by_name[id_])
            return rows_as_of(reader, self.engine.tables.by_name, id_, AsOf.of(then))
        finally:
            reader.close()

    def changes(self, view: str) -> RowList[tuple[dict[str, Any], int]]:
        """Return the changes of a view in the last epoch: pairs of a row and its weight.

        The weight is +1 for a row that the epoch added, and -1 for one that it removed. Raises B2001 if there is no
        such view, B7050 if it is computed on read.
        """
        if self._relation(view) in self.catalog.placement.at_read:
            hint = "write /*+ maintain */ before its definition"
            raise fail("B7050", f'"{view}" is computed at read time, so its changes are not recorded', hint=hint)
        delta = self._report.deltas.get(self._relation(view)) if self._report else None
        if delta is None:
            fields = [*self.catalog.schema_of(self._relation(view)).arrow, pa.field(WEIGHT, pa.int64())]
            delta = pa.schema(fields).empty_table()
        rows = self._shown(self._relation(view), delta)
        pairs = zip(row_list(rows), delta[WEIGHT].to_pylist(), strict=True)
        return RowList(pairs, rows.append_column(WEIGHT, delta[WEIGHT]))

    def query(self, sql: str) -> QueryRows:
        """Return the rows of one SQL query over the served tables and views, computed by Spark in batch.

        The result is a sequence of dicts in the query's order, with `to_arrow`, `to_pandas` and `to_polars`. `now()` is
        the clock of the last epoch. Raises BelvedereError with positions in the query if it is not valid.
        """
        catalog, template, read = compile_over(
            _text(sql, "a query", 'write "SELECT ... FROM View"'), self.engine.tables.by_name, self._project
        )
        now = self.engine.last.clock or self._clock or datetime.now(UTC)
        rows = {i: self._stored(catalog.inputs[i].name).select(columns) for i, columns in read.items()}
        return QueryRows(answer_template(self.spark, catalog, template, rows, now))

    def why(self, view: str, key: Mapping[str, Any], *, depth: int = 1, size: int = SAMPLE) -> Why:
        """Return the rows from which the row of a view with these values was computed: in each view, and in each input.

        `key` is a dict of column values. `size` is the maximum number of shown rows per relation; their total number is
        shown too. With `depth` 2 or more the rows of the views below are traced too. Raises B8111 or B8112 if no row,
        or more than one, has the values.
        """
        id_ = relation_named(self.catalog, str(view))
        with self._query_runner() as query_runner:
            row, epoch = find_row(query_runner, id_, key_tests(self.catalog, id_, key))
            return why(query_runner, id_, row, epoch, depth=depth, size=size)

    def why_not(self, view: str, key: Mapping[str, Any], *, size: int = SAMPLE) -> WhyNot:
        """Return why a view has no row with these values: the operators that drop the rows for it.

        `key` is a dict of values of any columns. On each path down from the view the result names the first operator
        that receives such rows and does not pass them on. `size` is the maximum number of shown rows that nearly match.
        """
        id_ = relation_named(self.catalog, str(view))
        with self._query_runner() as query_runner:
            return why_not(query_runner, id_, key_tests(self.catalog, id_, key), size=size)

    @contextmanager
    def _query_runner(self) -> Iterator[QueryRunner]:
        """Yield a runner for queries on the present store, including relations that are only in the state."""
        held = {n: partial(self.engine.rows, n) for n, a in self.engine.tables.plan.arranged.items() if not a.final}
        reader = self.store.reader()
        try:
            spark = by_spark(lambda: self.spark, self.catalog)
            yield QueryRunner(self.catalog, self.engine.tables.by_name, reader, spark, held)
        finally:
            reader.close()

    def batch(self, view: str) -> RowList[dict[str, Any]]:
        """Return the rows of a view recomputed by Spark from all input so far, in the form of `rows`.

        This is the expected result of `rows`; doubles may differ by 1e-9 relative.
        """
        return self.batches([view])[view]

    def batches(self, views: Iterable[str]) -> dict[str, RowList[dict[str, Any]]]:
        """Return the results of `batch` by view, with as few Spark queries as possible."""
        ids = {view: self._relation(view) for view in views}
        now = self.engine.last.clock or self._clock or datetime.now(UTC)
        answers = self._batch.answers(list(dict.fromkeys(ids.values())), now)
        return {
            view: row_list(self._shown(id_, sorted_rows(answers[id_], self._order(id_)))) for view, id_ in ids.items()
        }

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        claims: Mapping[str, Any] | None = None,
        role: str | None = None,
    ) -> dict[str, Any]:
        """Return the GraphQL API's answer as a dict: `{"data": ..., "extensions": ...}` or `{"errors": [...]}`.

        `variables` are the variables of the query. `claims` are the claims of the caller's token, and `role` is the
        caller's role; with None the caller sees everything.
        """
        text = _text(query, "a request", 'write "{ view { column } }"')
        from belvedere.api import execute_graphql  # a slow import that few notebooks need

        reader = self.store.reader()
        try:
            tables = self.engine.tables.by_name
            answer: dict[str, Any] = execute_graphql(
                self.catalog, tables, reader, text, variables, claims=claims, role=role
            )
            return answer
        finally:
            reader.close()

    def rest(self, address: str, claims: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of `GET /rest/<address>`: a list of rows, a row, or a problem document (RFC 9457).

        `claims` are the claims of the caller's token.
        """
        from belvedere.api import execute_rest  # a slow import that few notebooks need

        reader = self.store.reader()
        try:
            return execute_rest(self.catalog, self.engine.tables.by_name, reader, address, claims)
        finally:
            reader.close()

    def _repr_html_(self) -> str:
        return workbench_html(self.engine, self.store.url, self._clock)

    def _relation(self, name: str) -> str:
        id_ = self.catalog.find(str(name))
        if id_ is None:
            known = ", ".join([*self.catalog.inputs, *self.catalog.views])
            raise fail("B2001", f'the script defines no "{name}"', hint=f"it defines {known}")
        return id_

    def _order(self, id_: str) -> tuple[Order, ...]:
        view = self.catalog.views.get(id_)
        return () if view is None else view.order

    def _shown(self, id_: str, table: pa.Table) -> pa.Table:
        return table.select([c.name for c in self.catalog.schema_of(id_).visible])


def _lacks_time(source: Input, table: pa.Table) -> bool:
    """Return whether a row needs the clock at its arrival."""
    return any(n not in table.schema.names or table[n].null_count > 0 for n in arrival_times(source))


def _text(value: Any, what: str, hint: str) -> str:
    """Return the value if it is a string. Raises B6017 otherwise."""
    if isinstance(value, str):
        return value
    raise fail("B6017", f"{what} must be a text, not {shown(value)}", hint=hint)


def _time(value: Any) -> datetime:
    """Return a time that `as_instant` accepts, or one of NumPy or pandas. Raises B6016."""
    try:
        return as_instant(plain(value))
    except (ValueError, TypeError, OverflowError) as error:
        hint = 'write "2020-01-01 08:07:00", a datetime, or seconds since 1970'
        raise fail("B6016", f"{shown(value)} is not a time", hint=hint, detail=str(error)) from None
