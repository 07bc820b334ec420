"""The store of a script: its URL, and what it knows of the script's sources.

In: what the command line says, the project file, the script's path. Out: a URL; a project with the columns that the store has.
"""

from __future__ import annotations

from pathlib import Path

from belvedere.settings import ProjectSettings


def store_url(given: str | None, project: ProjectSettings, script: Path) -> str:
    """The store that was asked for, else the project file's (a relative file lies beside it), else a file beside the script."""
    from belvedere.store import located

    if given:
        return given
    if project.store is None:
        return f"sqlite:///{script.resolve().with_suffix('.db')}"
    return located(project.store, project.directory)


def with_columns_at_hand(project: ProjectSettings, script: Path) -> ProjectSettings:
    """The project with the columns that a store in a file has: no server is asked."""
    from belvedere.store import file_of

    url = store_url(None, project, script)
    file = file_of(url)
    if file is None or not file.is_file():
        return project
    from belvedere.store.source_columns import with_stored_columns  # a script without a store needs none of it

    return with_stored_columns(project, url)
