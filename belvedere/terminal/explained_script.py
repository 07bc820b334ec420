"""`belvedere explain SCRIPT`: how each view is maintained, its state, its plan, or its standard SQL.

In: a script. Out: text or JSON; no Spark. `--state` adds the rows and bytes that the state takes in a store now.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import typer

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.engine.store_folders import read_state, state_root
from belvedere.errors import BelvedereError, fail
from belvedere.lang.select.standard_sql import expand
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import ViewExplanation, explain, explanation_text
from belvedere.pipeline.placement import DOCUMENT, PlacedViews, with_choice
from belvedere.state.state import Size
from belvedere.store import open_reader, open_store
from belvedere.syntax.wording import did_you_mean
from belvedere.terminal.output import has_errors, print_json, read_script, show
from belvedere.terminal.stores import with_columns_at_hand

Sizes = Mapping[str, Size]


def explain_script(path: Path, *, view: str | None, sql: str | None, json: bool, state: str | None = None) -> int:
    """Print how the views of a script are maintained.

    `sql` names a view to print as standard SQL, `state` a store to measure.
    """
    text = read_script(path)
    project = load_project(path.parent)
    compiled = compile_script(text, path=path, project=with_columns_at_hand(project, path), store=state)
    if has_errors(compiled.diagnostics):
        show(compiled.diagnostics, {str(path): text}, stream=sys.stderr)
        return 1
    if sql is not None:
        return print_sql(compiled.catalog, sql)
    catalog = compiled.catalog if state is None else with_stored_choice(compiled.catalog, state)
    found = explain(catalog, maintain(catalog))
    if view is not None:
        found = tuple(e for e in found if e.name.casefold() == view.casefold())
        if not found:
            raise unknown_view(compiled.catalog, view)
    sizes = measure(state, state_root(state, path, project.state)) if state is not None else {}
    if json:
        print_json([with_sizes(e, sizes) for e in found])
    else:
        typer.echo("\n\n".join(explanation_text(e, sizes) for e in found))
    return 0


def print_sql(catalog: Catalog, name: str) -> int:
    """Print a view's expansion in standard SQL."""
    id_ = catalog.find(name)
    if id_ is None or id_ not in catalog.views:
        raise unknown_view(catalog, name)
    typer.echo(expand(catalog, id_))
    return 0


def with_stored_choice(catalog: Catalog, url: str) -> Catalog:
    """Return the catalog with the views that the store does not hold, as `belvedere advise --apply` left it."""
    reader = open_reader(url)
    try:
        return with_choice(catalog, PlacedViews.of_text(reader.document(DOCUMENT)))
    finally:
        reader.close()


def unknown_view(catalog: Catalog, name: str) -> BelvedereError:
    """Return the error for a name that is not a view."""
    return fail("B2001", f'the script defines no view "{name}"', hint=did_you_mean(name, tuple(catalog.views)))


def measure(url: str, root: Path | str | None = None) -> Sizes:
    """Return rows and bytes of each relation: of its table, and of its runs.

    `root` is the place of its state, if named.
    """
    store, reader = open_store(url), open_reader(url)
    try:
        sizes = {n: Size(rows, size) for n, (rows, size) in store.size().items()}
        state = read_state(reader, url, root)
        for name, found in state.sizes().items():
            table = sizes.get(name)
            sizes[name] = Size(
                found.rows, found.bytes + (table.bytes if table else 0), found.runs, found.asked, found.found
            )
        state.close()
        return sizes
    finally:
        reader.close()
        store.close()


def with_sizes(explanation: ViewExplanation, sizes: Sizes) -> dict[str, object]:
    """Return the explanation as JSON data, with the state's sizes if they are known."""
    data = explanation.as_dict()
    for entry, state in zip(data["state"], explanation.state, strict=True):
        if state.relation in sizes:
            entry.update(asdict(sizes[state.relation]))
    return data
