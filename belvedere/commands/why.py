"""`belvedere why`: the rows that a row of a view was computed from, view by view down to the inputs.

In: a script, a view, a condition that exactly one row of the view meets, the store. Out: a tree as text, or JSON. The
view's plan is traced backwards over the stored rows, by the database, or by Spark if the database cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belvedere.errors import BelvedereError
from belvedere.provenance.document import document, visible
from belvedere.provenance.found_rows import SAMPLE
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.trees import print_tree, why_tree
from belvedere.provenance.why.why import find_row, relation_named, why
from belvedere.queries.store_queries import Vocabulary
from belvedere.terminal.output import print_json
from belvedere.terminal.progress_line import UnderWay
from belvedere.terminal.row_condition import predicate_of_condition, show_refused
from belvedere.terminal.store_prompt import open_store_tables

if TYPE_CHECKING:
    from belvedere.spark.pyspark_types import SparkSession


def command(
    script: Annotated[Path, typer.Argument(help="the script (.sqrl)", metavar="SCRIPT")],
    view: Annotated[str, typer.Argument(help="the view", metavar="VIEW")],
    row: Annotated[str, typer.Argument(help="a condition that exactly one row of the view meets", metavar="CONDITION")],
    store: Annotated[str | None, typer.Option("--store", help="the store's URL", metavar="URL")] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, help="the number of views to trace through")] = 3,
    rows: Annotated[
        int, typer.Option("--rows", min=1, max=1000, help="the number of rows to show for each relation")
    ] = SAMPLE,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Trace a row of a view back to the input rows it was computed from, through every view in between."""
    try:
        with UnderWay(quiet=json), open_query_runner(store, script) as (query_runner, known):
            id_ = relation_named(query_runner.catalog, view.replace("`", ""))
            found, epoch = find_row(query_runner, id_, predicate_of_condition(view, row, known))
            answer = why(query_runner, id_, found, epoch, depth=depth, size=rows)
    except BelvedereError as error:
        show_refused(error, row, json=json)
        return 1
    if json:
        print_json(document(query_runner.catalog, answer, partial(visible, query_runner.catalog)))
    else:
        print_tree(why_tree(answer))
    return 0


@contextmanager
def open_query_runner(store: str | None, script: Path) -> Iterator[tuple[QueryRunner, Vocabulary]]:
    """Yield a query runner for a script's store, and the names that conditions may use; Spark starts on demand."""
    from belvedere.spark.plan_answers import by_spark  # imports PySpark, which takes a second

    with ExitStack() as opened:
        tables = opened.enter_context(open_store_tables(store, script))
        known = tables.script
        assert known is not None
        assert known.compiled is not None

        def session() -> SparkSession:
            from belvedere.spark.jvm.quiet_session import batch_session  # imports PySpark, which takes a second

            return opened.enter_context(batch_session())

        yield QueryRunner(known.compiled, tables.tables(), tables.reader, by_spark(session, known.compiled)), known
