"""Scripts that an editor has open, and neighbouring ones.

In: URIs and texts. Out: `Document`s; a script that is not open is read from its file. All share the cached tables of
sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from belvedere.editor.document import Document, Opened
from belvedere.editor.linked_scripts import LinkedScripts, scripts_in
from belvedere.editor.source_tables import CachedTables
from belvedere.project.settings import read_file


def path_of(uri: str) -> Path:
    """Return the path of a URI. The path of a document that was never saved does not exist."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme != "file":
        return Path.cwd() / f"{Path(path).name or 'untitled'}"
    drive = path[1:] if len(path) > 2 and path[2] == ":" else path  # Windows: /C:/folder
    return Path(drive).resolve()


class OpenDocuments:
    """Open documents by path."""

    def __init__(self, open_project: Opened):
        self._open_project, self._tables = open_project, CachedTables()
        self.opened: dict[Path, Document] = {}
        self._read: dict[Path, tuple[int, Document]] = {}

    def open(self, uri: str, text: str) -> Document:
        """Return a document whose text the editor owns from now on."""
        path = path_of(uri)
        self.opened[path] = self._made(path, text)
        return self.opened[path]

    def at(self, uri: str) -> Document:
        """Return an open document. Raises KeyError."""
        return self.opened[path_of(uri)]

    def close(self, uri: str) -> None:
        """Close a document: from now on its text is that of its file."""
        self.opened.pop(path_of(uri), None)

    def text(self, path: Path) -> str:
        """Return a script's text from its editor, else from its file. Raises OSError and UnicodeDecodeError."""
        opened = self.opened.get(path)
        return opened.text if opened is not None else read_file(path)

    def beside(self, document: Document, folders: Iterable[Path]) -> LinkedScripts:
        """Return the scripts that a document may import, or that may import it: in its folder, the editor's folders and
        the search path."""
        inside = (f for f in folders if document.path.is_relative_to(f))
        paths, whole = scripts_in((*inside, document.path.parent, *document.project.script_path))
        paths = [p for p in dict.fromkeys((*self.opened, *paths)) if p != document.path]
        found = {p: self.opened.get(p) or self._from_file(p) for p in paths}
        unread = [p for p, d in found.items() if d is None]
        return LinkedScripts([d for d in found.values() if d is not None], unread, whole)

    def _from_file(self, path: Path) -> Document | None:
        try:
            changed = path.stat().st_mtime_ns
            known = self._read.get(path)
            if known is None or known[0] != changed:
                known = self._read[path] = (changed, self._made(path, read_file(path)))
        except (OSError, UnicodeDecodeError):
            return None
        return known[1]

    def _made(self, path: Path, text: str) -> Document:
        return Document(path, text, self._open_project, self._tables, self.text)

    def forget(self) -> None:
        """Discard all compiled scripts, after a change of a script, the project file or data. They are recompiled on
        demand."""
        for document in (*self.opened.values(), *(d for _, d in self._read.values())):
            document.forget()
