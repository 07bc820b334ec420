"""`belvedere lsp`: the language server for editors, on standard input and output.

In: messages of an editor. Out: answers, until the editor sends `exit` or disconnects.
"""

from __future__ import annotations

from pathlib import Path

from belvedere.connectors.project_file import load_project
from belvedere.editor.garbage_collection import collect_when_asked
from belvedere.errors import fail
from belvedere.project.settings import ProjectSettings
from belvedere.terminal.stores import store_url, with_columns_at_hand


def command() -> int:
    """Serve an editor on standard input and output: diagnostics, completion, hover, definitions, renames,
    formatting."""
    try:
        from belvedere.language_server.server import make_server  # imported when the command runs, not for its help
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise fail("B9157", "`belvedere lsp` needs pygls", hint='write `pip install "belvedere[lsp]"`') from error
    server = make_server(_project, _store)
    collect_when_asked()
    server.start_io()
    return 0


def _project(script: Path) -> ProjectSettings:
    """Return the project of a script, with the columns that a store in a file has recorded."""
    return with_columns_at_hand(load_project(script.parent), script)


def _store(script: Path, given: str | None) -> str:
    """Return the URL of a script's store: the editor's setting (a relative path starts at the project file), else the
    project's."""
    from belvedere.store import located  # imported when the command runs, not for its help

    project = load_project(script.parent)
    return store_url(located(given, project.directory) if given else None, project, script)
