"""`belvedere query`: one query in the whole language over files, or over the views of a store as of any epoch, in
batch.

In: the query's text, and `name=path` for each table (JSON lines, CSV, Parquet; a file or a folder) or a store's URL.
Out: the result in the query's order on stdout, as a table, JSON or CSV; errors in the files, and views in quarantine,
on stderr. The exit code is 1 if the query is not valid. Queries over stores are in `belvedere.terminal.store_prompt`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belvedere.connectors.project_file import load_project
from belvedere.connectors.reading.column_inference import infer_file
from belvedere.errors import BelvedereError, Severity
from belvedere.queries.single_query import compile_query
from belvedere.queries.store_queries import QUERY_FILE as FILE
from belvedere.schema import Column, Schema
from belvedere.sqlpp.check import check_window_query
from belvedere.sqlpp.parser import mentions_window_by
from belvedere.terminal.answer_formats import FORMATS
from belvedere.terminal.output import quarantine_notice, show
from belvedere.terminal.progress_line import UnderWay
from belvedere.terminal.store_prompt import query_store, state_rows

if TYPE_CHECKING:
    from belvedere.spark.query_files import QueryAnswer

SHOWN_REJECTED = 5


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(
    sql: Annotated[str | None, typer.Argument(help="one query", metavar="SQL")] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="name=path: a file, or a directory of files")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", help="a store's URL: its views are the tables")] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="an epoch or a time: read the views as of then", metavar="EPOCH|TIME")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option("--script", help="a script (.sqrl), for its relationships and query templates", metavar="SCRIPT"),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="instead of a query: print a relation of the operator state", metavar="RELATION"),
    ] = None,
    format: Annotated[OutputFormat, typer.Option("--format", help="the output format")] = OutputFormat.TABLE,
    json: Annotated[bool, typer.Option("--json", help="the same as --format json")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="explain how WINDOW BY is evaluated, without running the query")
    ] = False,
) -> int:
    """Run one query over files, or over the views of a store; without a query, open a prompt over the store."""
    paths = table_paths(table or [])
    over_store = store is not None or script is not None
    if over_store and paths:
        raise typer.BadParameter("--table and --store cannot be used together", param_hint="--store")
    if as_of is not None and (store is None or script is not None or sql is None):
        raise typer.BadParameter("--as-of needs --store and a query", param_hint="--as-of")
    then = None if as_of is None else _instant(as_of)
    if explain and over_store:
        raise typer.BadParameter("this form reads tables from files: give --table", param_hint="--explain")
    if (
        (sql is not None and state is not None)
        or (state is not None and store is None)
        or not (sql or state or over_store)
    ):
        raise typer.BadParameter("give a query, or --state RELATION and --store URL", param_hint="SQL")
    try:
        if state is not None and store is not None:
            sys.stdout.write(FORMATS[OutputFormat.JSON if json else format](state_rows(state, store)))
            return 0
        if sql is None:
            from belvedere.terminal.shell import run_shell  # imported when the command runs, not for its help

            return run_shell(store, script, OutputFormat.JSON if json else format)
        if explain:
            sys.stdout.write(explained(sql, paths) + "\n")
            return 0
        with UnderWay(quiet=json):
            if over_store:
                found = query_store(sql, store, then, script)
                rows, warnings = found.rows, quarantine_notice(found.quarantined)
            else:
                answer = query(sql, paths)
                rows, warnings = answer.rows, rejected_notice(answer)
    except BelvedereError as error:
        show(error.diagnostics, {FILE: sql or ""}, stream=sys.stderr)
        return 1
    sys.stdout.write(FORMATS[OutputFormat.JSON if json else format](rows))
    sys.stdout.flush()
    sys.stderr.write(warnings)
    return 0


def rejected_notice(answer: QueryAnswer) -> str:
    """Return the first rejected rows of the files, one per line."""
    text = ""
    for row in answer.rejected[:SHOWN_REJECTED]:
        place = f"{row.file}:{row.line}" if row.line else row.file
        text += f'warning: rejected for table "{row.table}": {place}: {row.reason}\n'
    if len(answer.rejected) > SHOWN_REJECTED:
        text += f"warning: {len(answer.rejected) - SHOWN_REJECTED} more rows were rejected\n"
    return text


def table_paths(given: Sequence[str]) -> dict[str, Path]:
    """Return the tables by name. Raises an error of the command line for an invalid form or a missing path."""
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


def query(sql: str, paths: Mapping[str, Path]) -> QueryAnswer:
    """Return the answer of one query over tables in files. Raises BelvedereError if it is not valid, before Spark
    starts."""
    columns = columns_of(paths)
    if mentions_window_by(sql):
        found = check_window_query(sql, {name: Schema(tuple(cs)) for name, cs in columns.items()}, FILE)
        if any(d.severity is Severity.ERROR for d in found):
            raise BelvedereError(found)
        if found:
            show(found, {FILE: sql}, stream=sys.stderr)
        from belvedere.spark.jvm.quiet_session import batch_session  # imports PySpark, which takes a second
        from belvedere.spark.query_files import query_window_by

        with batch_session() as spark:
            return query_window_by(spark, sql, {name: (path, columns[name]) for name, path in paths.items()})
    catalog, template = compile_query(sql, columns, project=load_project(Path.cwd()))
    from belvedere.spark.jvm.quiet_session import batch_session  # imports PySpark, which takes a second
    from belvedere.spark.query_files import query_template

    with batch_session() as spark:
        return query_template(spark, catalog, template, {i: paths[t.name] for i, t in catalog.inputs.items()})


def columns_of(paths: Mapping[str, Path]) -> dict[str, list[Column]]:
    """Return the columns of the tables' files."""
    return {name: [Column(f.name, f.type) for f in infer_file(path)] for name, path in paths.items()}


def explained(sql: str, paths: Mapping[str, Path]) -> str:
    """Return how the windows of a query are computed. Raises BelvedereError if it is not valid."""
    from belvedere.sqlpp.lower import explain_window_query  # imported when the command runs, not for its help

    if not mentions_window_by(sql):
        raise typer.BadParameter("it explains WINDOW BY, which this query does not use", param_hint="--explain")
    return explain_window_query(sql, {name: Schema(tuple(cs)) for name, cs in columns_of(paths).items()}, FILE)


def _instant(text: str) -> int | datetime:
    """Return an epoch's number or a time (naive: UTC)."""
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"`{text}` is neither an epoch nor a time", param_hint="--as-of") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
