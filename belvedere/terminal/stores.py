"""The store of a script: its URL, and the stored columns of the script's sources.

In: the command line's options, the project file, the script's path. Out: a URL; a project with the columns from the
store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.project.settings import ProjectSettings
from belvedere.terminal.output import has_errors


@dataclass(frozen=True)
class OverStore:
    """A script compiled over a store: the store's URL, the project with the stored columns, all diagnostics."""

    url: str
    project: ProjectSettings
    catalog: Catalog
    diagnostics: tuple[Diagnostic, ...]


def compile_over_store(
    script: Path, text: str, given: str | None, project: ProjectSettings, *, starting: bool = False
) -> OverStore:
    """Compile a script with the columns of sources that its store knows. `given` is the store of the command line.

    `starting`: also use columns that were accepted since, or that sources add by themselves, as a start does.
    """
    from belvedere.compiler import compile_script  # commands that need no store do not load it
    from belvedere.connectors.new_columns import with_starting_columns
    from belvedere.store.source_columns import with_stored_columns

    url = store_url(given, project, script)
    project = with_starting_columns(project, url) if starting else with_stored_columns(project, url)
    compiled = compile_script(text, path=script, project=project, store=url)
    return OverStore(
        url, project, compiled.catalog, tuple(dict.fromkeys((*project.diagnostics, *compiled.diagnostics)))
    )


def sound_project(script: Path) -> ProjectSettings:
    """Return the project of a script, for commands that do not compile it.

    Raises errors in its file, since it could name another store.
    """
    project = load_project(script.parent)
    if has_errors(project.diagnostics):
        raise BelvedereError(project.diagnostics)
    return project


def store_url(given: str | None, project: ProjectSettings, script: Path) -> str:
    """Return the requested store, else the project file's (relative files lie beside it), else a file beside the
    script."""
    from belvedere.store import located  # commands that need no store do not load it

    if given:
        return given
    if project.store is None:
        return f"sqlite:///{script.resolve().with_suffix('.db')}"
    return located(project.store, project.directory)


def with_columns_at_hand(project: ProjectSettings, script: Path) -> ProjectSettings:
    """Return the project with the columns of a store in a file. No server is queried."""
    from belvedere.store import file_of  # commands that need no store do not load it

    url = store_url(None, project, script)
    file = file_of(url)
    if file is None or not file.is_file():
        return project
    from belvedere.store.source_columns import with_stored_columns  # not needed by a script without a store

    try:
        return with_stored_columns(project, url)
    except BelvedereError:  # of another version: files supply the columns that it does not
        return project
