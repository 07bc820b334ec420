"""`belvedere why`: the rows that a row of a view was made of, view by view down to the inputs.

In: a script, a view, a condition that one row of it fulfils, the store. Out: a tree for people, or JSON. Nothing is stored for it: the
view's plan is read backwards over the rows of the store; the database answers, and Spark what it does not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.tree import Tree

from belvedere.catalog import Catalog, shown_names
from belvedere.commands.output import print_json
from belvedere.commands.query_store import open_store_tables
from belvedere.commands.row_condition import show_refused, wanted_by
from belvedere.commands.under_way import UnderWay
from belvedere.errors import BelvedereError
from belvedere.lang.names import counted
from belvedere.provenance.asking import Asker
from belvedere.provenance.document import document, relation_name, rows_of, visible
from belvedere.provenance.reads import SAMPLE, Read
from belvedere.provenance.since import Since, since_text
from belvedere.provenance.why import Why, find_row, relation_named, why
from belvedere.schema import UID
from belvedere.store_queries import Vocabulary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def command(
    script: Annotated[Path, typer.Argument(help="the script (.sqrl)", metavar="SCRIPT")],
    view: Annotated[str, typer.Argument(help="the view", metavar="VIEW")],
    row: Annotated[str, typer.Argument(help="a condition that one row of it fulfils", metavar="CONDITION")],
    store: Annotated[str | None, typer.Option("--store", help="the store's URL", metavar="URL")] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, help="through how many views the shown rows are followed")] = 3,
    rows: Annotated[int, typer.Option("--rows", min=1, max=1000, help="how many rows are shown of each relation")] = SAMPLE,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Say which rows of the inputs a row of a view was made of, through every view between."""
    try:
        with UnderWay(quiet=json), open_asker(store, script) as (asker, known):
            id_ = relation_named(asker.catalog, view.replace("`", ""))
            found, epoch = find_row(asker, id_, wanted_by(view, row, known))
            answer = why(asker, id_, found, epoch, depth=depth, size=rows)
    except BelvedereError as error:
        show_refused(error, row)
        return 1
    if json:
        print_json(document(asker.catalog, answer, partial(visible, asker.catalog)))
    else:
        print_tree(tree_of(asker.catalog, answer))
    return 0


@contextmanager
def open_asker(store: str | None, script: Path) -> Iterator[tuple[Asker, Vocabulary]]:
    """A script's store as it can be asked, with what conditions may name; Spark starts where the database does not answer."""
    from belvedere.spark.plan_answers import by_spark

    with ExitStack() as opened:
        tables = opened.enter_context(open_store_tables(store, script))
        known = tables.script
        assert known is not None
        assert known.compiled is not None

        def session() -> SparkSession:
            from belvedere.spark.quiet_session import batch_session

            return opened.enter_context(batch_session())

        yield Asker(known.compiled, tables.tables(), tables.reader, by_spark(session, known.compiled)), known


def tree_of(catalog: Catalog, answer: Why) -> Tree:
    """The answer as people read it."""
    title = f"{shown_names(answer.view)}  {row_text(visible(catalog, answer.view, answer.row))}"
    tree = Tree(title if answer.epoch is None else f"{title}   (epoch {answer.epoch})")
    if answer.since is not None:
        add_since(catalog, tree, answer.view, answer.since)
    for part, name in ((answer.reads, ""), (answer.dropped, "not counted: "), (answer.late, "late: ")):
        for read in part:
            add_read(catalog, tree, read, name)
    if answer.inputs and answer.sql:
        below = tree.add("in all, of the inputs")
        for read in answer.inputs:
            below.add(f"{catalog.name_of(read.relation)}: {read.untold or counted(read.count, 'row')}")
    return tree


def add_since(catalog: Catalog, tree: Tree, view: str, found: Since) -> None:
    """Since when a row is there, below a tree."""
    words = since_text(found)
    branch = tree.add(words or "since when it is there is not known")
    for read in found.made_by:
        add_read(catalog, branch, read, "")
    for version in found.versions:
        until = "" if version.until is None else f" until {version.until}"
        below = branch.add(f"since {version.since}{until}: {row_text(visible(catalog, view, version.row))}")
        for read in version.made_by:
            add_read(catalog, below, read, "")
    if found.count > len(found.versions):
        branch.add(f"... {found.count - len(found.versions):,} earlier")
    for one in found.unknown:
        branch.add(f"not known: {one}")


def print_tree(tree: Tree) -> None:
    """Print a tree as its text is: values are no markup, and a line is cut nowhere where no terminal has a width."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    console.print(tree)


def add_read(catalog: Catalog, tree: Tree, read: Read, name: str) -> None:
    """Rows of a relation below a tree."""
    words = f", {read.words}" if read.words else ""
    title = f"{name}{relation_name(catalog, read.relation)}"
    branch = tree.add(f"{title}{words}: {read.untold}" if read.untold else f"{title}: {counted(read.count, 'row')}{words}")
    followed = dict(enumerate(read.below))
    for number, row in enumerate(rows_of(read, partial(visible, catalog))):
        if number in followed and followed[number].sql:
            branch.add(tree_of(catalog, followed[number]))
        else:
            branch.add(row_text(row))
    if read.count > len(read.rows) and read.rows:
        order = f", in the order of {', '.join(order_names(read.order))}" if read.order else ""
        branch.add(f"... {read.count - len(read.rows):,} more{order}")


def order_names(order: Sequence[str]) -> list[str]:
    """The columns of an order as people know them: rows get `_uid` as they arrive."""
    return ["their arrival" if name == UID else name for name in order]


def row_text(row: Mapping[str, Any]) -> str:
    """A row in one line."""
    return ", ".join(f"{n} = {'NULL' if v is None else v}" for n, v in row.items())
