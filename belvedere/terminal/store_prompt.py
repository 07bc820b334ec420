"""Queries over the relations of a store: one from the command line, many at the prompt, and the rows of its state.

In: SQL, a store's URL, and optionally a script. Out: answers. `belvedere.queries.store_queries` decides whether the
database or Spark answers; this module starts Spark if needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from belvedere.catalog.shown_names import shown_names
from belvedere.connectors.project_file import load_project
from belvedere.engine.errors.failed_stages import failures_of, quarantined
from belvedere.engine.store_folders import read_state
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import ProjectSettings
from belvedere.queries.single_query import compile_over
from belvedere.queries.store_queries import StoreAnswer, Vocabulary, answer_query, script_vocabulary, store_vocabulary
from belvedere.schema import KEY
from belvedere.store import open_reader
from belvedere.store.read.history import AsOf, is_readable, readable_tables, rows_as_of, stored_tables
from belvedere.syntax.spl.mentions import mentions_spl_window
from belvedere.syntax.wording import did_you_mean
from belvedere.terminal.output import has_errors, read_script
from belvedere.terminal.stores import compile_over_store

if TYPE_CHECKING:
    import pyarrow as pa

    from belvedere.spark.pyspark_types import SparkSession
    from belvedere.store import Reader, StoredTable

MAX_QUERY_SECONDS = 86_400.0
"""Maximum seconds of a query. Only with a time limit does SQLite interrupt its work to check for Ctrl-C."""
GIVEN_UP = "B7086"


def query_store(sql: str, url: str | None, then: int | datetime | None, script: Path | None) -> StoreAnswer:
    """Answer one query over the relations of a store, now or in an earlier state. All rows are of one epoch."""
    if url is not None and (then is not None or mentions_spl_window(sql)):
        return query_copies(sql, url, then)
    with ExitStack() as opened:

        def session(_: str) -> SparkSession:
            from belvedere.spark.jvm.quiet_session import batch_session  # loads PySpark, which takes a second

            return opened.enter_context(batch_session())

        return opened.enter_context(open_store_tables(url, script)).answer(sql, session)


@dataclass(frozen=True)
class StoreTables:
    """A store that is open for queries, and optionally the script whose names they can use."""

    reader: Reader
    project: ProjectSettings
    script: Vocabulary | None = None

    def tables(self) -> dict[str, StoredTable]:
        """Return the relations that a query can name, as they are stored now. The store's own come last."""
        return readable_tables(self.reader)

    def quarantined(self) -> dict[str, int | None]:
        """Return the relations in quarantine, each with its last good epoch, or None if no epoch has filled it."""
        last = self.reader.last_epoch()
        return (
            {n: e for n, e in quarantined(failures_of(last.extra)).items() if is_readable(n)}
            if last is not None
            else {}
        )

    def vocabulary(self) -> Vocabulary:
        """Return the names that a query may use."""
        return self.script or store_vocabulary(self.tables().values(), self.project)

    def answer(self, sql: str, spark: Callable[[str], SparkSession]) -> StoreAnswer:
        """Answer one query. Raises KeyboardInterrupt if the user cancels it."""
        tables = self.tables()
        known = self.script or store_vocabulary(tables.values(), self.project)
        try:
            return answer_query(sql, self.reader, tables, known, spark)
        except BelvedereError as error:
            if error.diagnostics[0].code == GIVEN_UP:
                raise KeyboardInterrupt from error
            raise


@contextmanager
def open_store_tables(url: str | None, script: Path | None) -> Iterator[StoreTables]:
    """Open a store; without a URL, the script's store. Raises the script's diagnostics if it does not compile."""
    project, known = load_project(script.parent if script is not None else Path.cwd()), None
    if script is not None:
        text = read_script(script)
        over = compile_over_store(script, text, url, project)
        if has_errors(over.diagnostics):
            raise BelvedereError(over.diagnostics)
        url, project = over.url, over.project
        known = script_vocabulary(text, script, project, over.catalog)
    assert url is not None
    reader = open_reader(url, MAX_QUERY_SECONDS)
    try:
        yield StoreTables(reader, project, known)
    finally:
        reader.close()


def query_copies(sql: str, url: str, then: int | datetime | None) -> StoreAnswer:
    """Answer a query by Spark over copies of the tables: of an earlier state, or in the order of their rows (windows of
    SPL)."""
    reader = open_reader(url)
    try:
        stored = stored_tables(reader)
        catalog, template, read = compile_over(sql, stored, load_project(Path.cwd()))
        names = [catalog.inputs[i].name for i in read]
        if then is None:
            _, found = reader.rows_together([stored[n] for n in names])
        else:
            found = [rows_as_of(reader, stored, n, AsOf.of(then)) for n in names]
    finally:
        reader.close()
    from belvedere.spark.jvm.quiet_session import batch_session  # loads PySpark, which takes a second
    from belvedere.spark.query_files import answer_template

    shown = {i: r.select(columns) for (i, columns), r in zip(read.items(), found, strict=True)}
    with batch_session() as spark:
        return StoreAnswer(
            answer_template(spark, catalog, template, shown), "the query reads former states or ordered rows"
        )


def state_rows(relation: str, url: str) -> pa.Table:
    """Return all rows of a relation of the store's state, as of the last epoch, without the hashes."""
    reader = open_reader(url)
    try:
        state = read_state(reader, url)
    finally:
        reader.close()
    try:
        names = {shown_names(name): name for name in state.manifest.relations}
        found = state.stored(names.get(relation, relation))
        if found is None:
            raise fail("B2001", f'the state has no "{relation}"', hint=did_you_mean(relation, tuple(names)))
        rows = pa.Table.from_batches(found.look_up(None, None), found.arranged.schema)
        return rows.drop_columns([n for n in (KEY, *found.arranged.paths) if n in rows.schema.names])
    finally:
        state.close()
