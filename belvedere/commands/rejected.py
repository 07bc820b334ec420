"""`belvedere rejected`: rows that no input accepted. `list` shows them, `retry` inserts them again.

In: a script, its store. Out: the rows with their reasons; or an epoch with the rows that the present script accepts.
The others remain. `retry` needs exclusive access to the store, so stop a run of the script first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from belvedere.connectors.project_file import load_project
from belvedere.engine.relation import name_in_script
from belvedere.errors import BelvedereError
from belvedere.spark.jvm.java import use_java
from belvedere.spark.run.stop_flag import stop_on_signals
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, print_json, print_table, read_script, show
from belvedere.terminal.stores import OverStore, compile_over_store

SHOWN = ("table", "file", "line", "reason", "text", "epoch", "rejected_at")
MAX_SHOWN_LENGTH = 60


def command(
    what: Annotated[str, typer.Argument(help="`list`, or `retry`", metavar="list|retry")],
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="continue even if the start drops served data (`belvedere plan`)")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """List the rejected rows, or retry them with the present script."""
    if what not in ("list", "retry"):
        raise typer.BadParameter("write `belvedere rejected list SCRIPT` or `belvedere rejected retry SCRIPT`")
    text, project = read_script(script), load_project(script.parent)
    over = compile_over_store(script, text, store, project, starting=what == "retry")
    if has_errors(over.diagnostics):
        show(over.diagnostics, {str(script): text}, stream=sys.stderr)
        return 1
    return _list(over, json) if what == "list" else _retry(script, over, json, yes)


def _list(over: OverStore, json: bool) -> int:
    rows = _rejected(over.url)
    if json:
        print_json(
            {
                "rejected": [
                    {**r, "table": name_in_script(r["table"]), "rejected_at": r["rejected_at"].isoformat()}
                    for r in rows
                ]
            }
        )
        return 0
    table = Table(box=None, pad_edge=False)
    for name in ("table", "where", "reason", "row"):
        table.add_column(name)
    for row in rows:
        where = f"{row['file'] or ''}{'' if row['line'] is None else ':' + str(row['line'])}"
        table.add_row(name_in_script(row["table"]), where, row["reason"], (row["text"] or "")[:MAX_SHOWN_LENGTH])
    if rows:
        print_table(table, sys.stdout)
    typer.echo(
        f"{len(rows):,} rejected; a file without a line is rejected as a whole" if rows else "nothing was rejected"
    )
    return 0


def _retry(script: Path, over: OverStore, json: bool, yes: bool) -> int:
    from belvedere.commands.plan import confirm_deployment, deployment_of  # imports PySpark, which takes a second
    from belvedere.engine.store_folders import state_root
    from belvedere.spark.run.runner import Runner

    root = state_root(over.url, script, over.project.state)
    if not yes and not confirm_deployment(deployment_of(over.catalog, over.url, root=root)):
        return 1
    if not _rejected(over.url):
        typer.echo("nothing was rejected")
        return 0
    use_java()
    with stop_on_signals() as stopped, Runner(script, over.catalog, over.project, over.url, once=True) as runner:
        runner.retries = True
        runner.run(lambda progress: None, stopped, lambda reported: typer.echo(reported, err=True))
        found = runner.retried
    taken, stay = (0, 0) if found is None else (found.taken, found.stay)
    if json:
        print_json({"taken": taken, "stay": stay})
    else:
        typer.echo(f"{taken:,} taken in, {stay:,} stay rejected")
    return 0


def _rejected(url: str) -> list[dict[str, Any]]:
    """Return all rejected rows, in the order of their epochs. Raises B7014 if there is no store."""
    from belvedere.connectors.run_records import REJECTED  # imported when the command runs, not for its help
    from belvedere.store import open_reader

    reader = open_reader(url)
    try:
        found = reader.rows(REJECTED).select(list(SHOWN)).to_pylist()
    except BelvedereError as error:
        if error.diagnostics[0].code != "B7014":
            raise
        found = []  # a store that has had no sources
    finally:
        reader.close()
    return sorted(found, key=lambda r: (r["epoch"], r["table"], r["file"] or "", r["line"] or 0))
