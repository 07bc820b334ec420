"""`belvedere query`: one query of the whole language over files, or over the views of a store as of any epoch, in batch.

In: the query's text, and `name=path` for each table (JSON lines, CSV, Parquet; a file or a directory) or a store's URL. Out: the answer in
the query's order on stdout, as a table, JSON or CSV; what was wrong in the files on stderr. Exit code 1 where the query is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belvedere.commands.answer_formats import FORMATS
from belvedere.commands.output import show
from belvedere.commands.under_way import UnderWay
from belvedere.errors import BelvedereError, Severity, fail
from belvedere.queries import QUERY_FILE, compile_over, compile_query
from belvedere.schema import KEY, Column, Schema
from belvedere.settings import load_project

if TYPE_CHECKING:
    import pyarrow as pa

    from belvedere.spark.query_files import Answer
    from belvedere.store import Reader, StoredTable

FILE = QUERY_FILE
SHOWN_REJECTED = 5


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(
    sql: Annotated[str | None, typer.Argument(help="one query", metavar="SQL")] = None,
    table: Annotated[list[str] | None, typer.Option("--table", help="name=path: a file, or a directory of files")] = None,
    store: Annotated[str | None, typer.Option("--store", help="a store's URL: its views are the tables")] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="an epoch or a time: the views as they were then", metavar="EPOCH|TIME")
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="instead of a query: a relation of the store's state", metavar="RELATION")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="how to print the answer")] = Format.TABLE,
    json: Annotated[bool, typer.Option("--json", help="the same as --format json")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="say how WINDOW BY is evaluated, and do not run it")] = False,
) -> int:
    """Run one query over files, or over the views of a store."""
    paths = table_paths(table or [])
    if store is not None and paths:
        raise typer.BadParameter("tables come from files or from a store, not from both", param_hint="--store")
    if store is None and as_of is not None:
        raise typer.BadParameter("only a store knows former states: give --store too", param_hint="--as-of")
    then = None if as_of is None else _instant(as_of)
    if explain and store is not None:
        raise typer.BadParameter("tables come from files here", param_hint="--explain")
    if (sql is None) == (state is None) or (state is not None and store is None):
        raise typer.BadParameter("give a query, or --state RELATION and --store URL", param_hint="SQL")
    try:
        if state is not None and store is not None:
            sys.stdout.write(FORMATS[Format.JSON if json else format](state_rows(state, store)))
            return 0
        assert sql is not None
        if explain:
            sys.stdout.write(explained(sql, paths) + "\n")
            return 0
        with UnderWay(quiet=json):
            answer = query(sql, paths) if store is None else query_store(sql, store, then)
    except BelvedereError as error:
        show(error.diagnostics, {FILE: sql or ""}, stream=sys.stderr)
        return 1
    sys.stdout.write(FORMATS[Format.JSON if json else format](answer.rows))
    sys.stdout.flush()
    for row in answer.rejected[:SHOWN_REJECTED]:
        place = f"{row.file}:{row.line}" if row.line else row.file
        sys.stderr.write(f'warning: rejected for table "{row.table}": {place}: {row.reason}\n')
    if len(answer.rejected) > SHOWN_REJECTED:
        sys.stderr.write(f"warning: {len(answer.rejected) - SHOWN_REJECTED} more rows were rejected\n")
    return 0


def table_paths(given: Sequence[str]) -> dict[str, Path]:
    """The tables by name. A wrong form or a path that is not there is a wrong command line."""
    paths: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise typer.BadParameter(f"`{text}` is not of the form name=path", param_hint="--table")
        if not Path(path).exists():
            raise typer.BadParameter(f"there is no file or directory `{path}`", param_hint="--table")
        if name.casefold() in {n.casefold() for n in paths}:
            raise typer.BadParameter(f"table `{name}` is given twice", param_hint="--table")
        paths[name] = Path(path).absolute()
    return paths


def query(sql: str, paths: Mapping[str, Path]) -> Answer:
    """The answer of one query over tables in files. Raises BelvedereError where it is wrong, before Spark is started."""
    from belvedere.lang.window_by.check import check_window_query
    from belvedere.lang.window_by.parser import mentions_window_by

    columns = columns_of(paths)
    if mentions_window_by(sql):
        found = check_window_query(sql, {name: Schema(tuple(cs)) for name, cs in columns.items()}, FILE)
        if any(d.severity is Severity.ERROR for d in found):
            raise BelvedereError(found)
        if found:
            show(found, {FILE: sql}, stream=sys.stderr)
        from belvedere.spark.query_files import query_window_by
        from belvedere.spark.quiet_session import batch_session

        with batch_session() as spark:
            return query_window_by(spark, sql, {name: (path, columns[name]) for name, path in paths.items()})
    catalog, template = compile_query(sql, columns, project=load_project(Path.cwd()))
    from belvedere.spark.query_files import query_template
    from belvedere.spark.quiet_session import batch_session

    with batch_session() as spark:
        return query_template(spark, catalog, template, {i: paths[t.name] for i, t in catalog.inputs.items()})


def columns_of(paths: Mapping[str, Path]) -> dict[str, list[Column]]:
    """The columns of the tables' files."""
    from belvedere.connectors.reading.infer import infer_file

    return {name: [Column(f.name, f.type) for f in infer_file(path)] for name, path in paths.items()}


def explained(sql: str, paths: Mapping[str, Path]) -> str:
    """How the windows of a query will be found. Raises BelvedereError where it is wrong."""
    from belvedere.lang.window_by.lower import explain_window_query
    from belvedere.lang.window_by.parser import mentions_window_by

    if not mentions_window_by(sql):
        raise typer.BadParameter("it tells of WINDOW BY, which this query has not", param_hint="--explain")
    return explain_window_query(sql, {name: Schema(tuple(cs)) for name, cs in columns_of(paths).items()}, FILE)


def _instant(text: str) -> int | datetime:
    """An epoch's number or a time (without a zone: UTC)."""
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"`{text}` is neither an epoch nor a time", param_hint="--as-of") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def query_store(sql: str, url: str, then: int | datetime | None) -> Answer:
    """The answer of one query over the relations of a store, now or as they were; all of one epoch."""
    from belvedere.store import open_reader
    from belvedere.store.read.history import AsOf, rows_as_of, stored_tables

    reader = open_reader(url)
    try:
        stored = stored_tables(reader)
        catalog, template, read = compile_over(sql, stored, load_project(Path.cwd()))
        names = {i: catalog.inputs[i].name for i in read}
        if then is None:
            rows = _rows_now(reader, {i: stored[n] for i, n in names.items()})
        else:
            rows = {i: rows_as_of(reader, stored, n, AsOf.of(then)) for i, n in names.items()}
    finally:
        reader.close()
    from belvedere.spark.query_files import Answer, answer_template
    from belvedere.spark.quiet_session import batch_session

    shown = {i: r.select(read[i]) for i, r in rows.items()}
    with batch_session() as spark:
        return Answer(answer_template(spark, catalog, template, shown))


def state_rows(relation: str, url: str) -> pa.Table:
    """All rows of a relation of the store's state, as of the last epoch; without the hashes."""
    import pyarrow as pa

    from belvedere.engine.opening import read_state
    from belvedere.lang.names import did_you_mean
    from belvedere.store import open_reader

    reader = open_reader(url)
    try:
        state = read_state(reader, url)
    finally:
        reader.close()
    try:
        found = state.stored(relation)
        if found is None:
            raise fail("B2001", f'the state has no "{relation}"', hint=did_you_mean(relation, tuple(state.manifest.relations)))
        rows = pa.Table.from_batches(found.look_up(None, None), found.arranged.schema)
        return rows.drop_columns([n for n in (KEY, *found.arranged.paths) if n in rows.schema.names])
    finally:
        state.close()


def _rows_now(reader: Reader, tables: Mapping[str, StoredTable]) -> dict[str, pa.Table]:
    """The rows of tables, all of one epoch: read again where one was committed meanwhile."""
    while True:
        before = reader.last_epoch()
        rows = {i: reader.rows(t) for i, t in tables.items()}
        if reader.last_epoch() == before:
            return rows
