"""`belvedere resend`: make the next run send a whole export again, to a sink that has lost it.

In: a script, its store, the name of an export. Out: a note in the store. The command sends nothing, and removes nothing
from the sink.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from belvedere.connectors.project_file import load_project
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, print_json, read_script, show
from belvedere.terminal.stores import compile_over_store

LEASE_SECONDS = 30.0


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    export: Annotated[str, typer.Argument(help="the export as in the script: `lake.Orders`", metavar="SINK.TARGET")],
    store: StoreOption = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Make the next run send all rows of an export again."""
    from belvedere.connectors.exporting.exports import send_again  # imported when the command runs, not for its help
    from belvedere.store import open_reader, open_store

    text, project = read_script(script), load_project(script.parent)
    over = compile_over_store(script, text, store, project)
    if has_errors(over.diagnostics):
        show(over.diagnostics, {str(script): text}, stream=sys.stderr)
        return 1
    open_reader(over.url).close()  # raises if there is no store, instead of creating one
    with closing(open_store(over.url)) as found:
        found.acquire(f"resend {uuid4().hex}", LEASE_SECONDS)
        names = send_again(over.catalog, over.project.sinks, found, export)
    if json:
        print_json({"again": list(names)})
    else:
        typer.echo("\n".join(f"the next run sends all of {name} again" for name in names))
    return 0
