"""`belvedere plan`: the changes that starting a script would make to its store, before they are made.

In: a script, its store. Out: whether each view is kept, added, changed, dropped or refused, and why; the columns that
clients of the API will miss; rows and estimated seconds. It writes nothing and starts no Spark. `belvedere run` shows
the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.abandoned_slots import left_slots
from belvedere.connectors.file_names import place_of
from belvedere.connectors.project_file import load_project
from belvedere.connectors.replay import broken_inputs, past_of, rereadable_inputs
from belvedere.connectors.run_records import FILES, files_read
from belvedere.engine.change.stored_relations import StoredRelations, stored_now
from belvedere.engine.store_folders import read_state, state_root
from belvedere.errors import counted, fail
from belvedere.pipeline.deployment import ChangeEffect, Deployment, plan_deployment
from belvedere.pipeline.placement import DOCUMENT, PlacedViews, with_choice
from belvedere.project.settings import ProjectSettings
from belvedere.store import open_store, refusal
from belvedere.store.dialects import dialect_of
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, print_json, print_table, read_script, show
from belvedere.terminal.stores import compile_over_store

if TYPE_CHECKING:
    from belvedere.store import Store


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Show what starting the script would change in the store: views that stay, are filled, are dropped, or cannot be
    kept."""
    text, project = read_script(script), load_project(script.parent)
    over = compile_over_store(script, text, store, project, starting=True)
    if has_errors(over.diagnostics):
        show(over.diagnostics, {str(script): text}, stream=sys.stderr)
        return 1
    url, project, catalog = over.url, over.project, over.catalog
    deployment = deployment_of(catalog, url, project, state_root(url, script, project.state))
    if json:
        changes = [asdict(c) for c in deployment.changes]
        print_json(
            {
                "is_new": deployment.is_new,
                "changes": changes,
                "gone": list(deployment.gone),
                "lost_files": deployment.lost,
                "read_again": deployment.again,
                "notices": list(deployment.notices),
                "sent_again": deployment.resent,
            }
        )
    else:
        show_deployment(deployment, sys.stdout)
    return 1 if deployment.of(ChangeEffect.REFUSED) else 0


def deployment_of(
    catalog: Catalog, url: str, project: ProjectSettings | None = None, root: Path | str | None = None
) -> Deployment:
    """Return the changes that starting the script would make to the store at `url`, which may not exist yet. Raises
    B7061 if its state is damaged.

    `root` is the location of its state, if one is named. With the `project`, inputs that would be re-read are checked
    for missing files.
    """
    if not _is_there(url):
        return plan_deployment(catalog, StoredRelations(None, (), {}, dialect_of(url).name), {})
    store = open_store(url)
    try:
        reader = store.reader()
        try:
            state = read_state(reader, url, root) if store.last_epoch() is not None else None
            try:
                stored = stored_now(store, store.tables(), state)
            finally:
                if state is not None:
                    state.close()
            catalog = with_choice(catalog, PlacedViews.of_text(reader.document(DOCUMENT)))
        finally:
            reader.close()
        rows = {n: rows for n, (rows, _) in store.size().items()}
        found = plan_deployment(catalog, stored, rows, dict.fromkeys(rereadable_inputs(catalog), 1))
        last = store.last_epoch()
        left = () if project is None or last is None else left_slots(catalog, project, last.offsets)
        if found.again:  # re-reading what earlier epochs read takes long
            past = past_of(catalog, store, found.again)
            broken = {} if project is None else broken_inputs(catalog, project, past, past.spans)
            found = plan_deployment(catalog, stored, rows, {i: past.rows(i) for i in past.spans}, broken)
        found = replace(found, notices=left)
        return (
            replace(found, lost=_files_gone(store, found.read_again, catalog, project)) if found.read_again else found
        )
    finally:
        store.close()


def _files_gone(
    store: Store, ids: Iterable[str], catalog: Catalog, project: ProjectSettings | None
) -> dict[str, tuple[int, int]]:
    """Return, per input of files, the number of missing files and of all files."""
    if not any(t.name == FILES.name for t in store.tables()):
        return {}
    reader = store.reader()
    try:
        read = files_read(reader)
    finally:
        reader.close()
    found = {}
    for id_ in ids:
        names, given = read.get(id_, set()), catalog.inputs[id_].source
        source = None if given is None or project is None else given.source_in(project)
        if given is None or source is None or source.path is None:
            continue
        gone = sum(not os.path.exists(place_of(os.path.abspath(source.path), n, given.table)) for n in names)
        if gone:
            found[id_] = (gone, len(names))
    return found


def show_deployment(deployment: Deployment, stream: IO[str]) -> None:
    """Print the changes of a start, their effects, and what to do."""
    print_table(_table(deployment), stream)
    for line in _lines(deployment):
        stream.write(line + "\n")
    stream.flush()


def confirm_deployment(deployment: Deployment, shown: Callable[[str], None] | None = None) -> bool:
    """Show the changes of a start, and ask before it removes served data. Return whether the start may continue.

    It prints on standard error, or calls `shown`. Raises B7069 if there is no terminal for the question.
    """
    if deployment.is_new or (not deployment.gone and len(deployment.of(ChangeEffect.KEPT)) == len(deployment.changes)):
        return True
    if shown is None:
        show_deployment(deployment, sys.stderr)
    else:
        show_deployment(deployment, text := StringIO())
        shown(text.getvalue())
    if not deployment.takes_away and not deployment.resent:
        return True
    if not sys.stdin.isatty():
        hint = "see `belvedere plan`, and add --yes to continue"
        takes = ["removes data that clients may be reading"] if deployment.takes_away else []
        sends = [f"sends {counted(sum(deployment.resent.values()), 'event')} again"] if deployment.resent else []
        raise fail("B7069", f"this start {' and '.join(takes + sends)}", hint=hint)
    return typer.confirm("continue?", err=True)


def _table(deployment: Deployment) -> Table:
    """Return the text table, with a row per view."""
    table = Table(box=None, pad_edge=False)
    table.add_column("view", no_wrap=True)
    table.add_column("then", no_wrap=True)
    table.add_column("rows now", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("why")
    for change in deployment.changes:
        seconds = f"{change.seconds:.2g}" if change.seconds else ""
        rows = f"{change.rows:,}" if change.change is not ChangeEffect.ADDED else ""
        table.add_row(change.name, change.change.value, rows, seconds, change.reason)
    return table


def _lines(deployment: Deployment) -> Iterator[str]:
    """Yield the effects of the start, and what to do."""
    for change in deployment.of(ChangeEffect.REFUSED):
        yield f"{change.name} is refused: {change.hint}"
    for change in deployment.changes:
        if change.missed:
            yield f"clients of {change.name} will no longer find {', '.join(change.missed)}"
    if gone := ", ".join((*(c.name for c in deployment.of(ChangeEffect.DROPPED)), *deployment.gone)):
        yield f"clients will no longer find {gone}"
    yield from deployment.notices
    for name, rows in deployment.resent.items():
        yield f"{name} sends {counted(rows, 'row')} again, each as an event"
    for name, (count, whole) in deployment.lost.items():
        yield f"{name} would be re-read, but files are gone ({count:,} of {whole:,}): their rows would be lost"
    counts = ((kind, len(deployment.of(kind))) for kind in ChangeEffect)
    effects = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    seconds = sum(c.seconds for c in deployment.changes)
    yield (
        f"{effects or 'nothing is served'}; about {seconds:.2g} s of processor time to fill, besides the start of Spark"
    )


def _is_there(url: str) -> bool:
    """Return whether the store exists, since opening it for writing would create it."""
    return refusal(url, "B7014") is None
