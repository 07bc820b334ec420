"""Scripts that import each other: an edit of one may affect names in the others.

In: folders, a document. Out: paths of scripts; `LinkedScripts`: the documents of neighbouring scripts, and those among
them linked with a document by imports. Imports are read from tokens, so broken scripts are linked too, and nothing is
compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from belvedere.editor.document import SUFFIX, Document

MAX_SCRIPTS, MAX_FOLDERS = 2_000, 20_000
"""Maximum numbers of scripts and folders to search, because an editor's folder may be a whole disk."""


@dataclass(frozen=True)
class LinkedScripts:
    """Scripts beside a document. `unread` are those that could not be read. If not `whole`, there were too many folders
    to search."""

    documents: Sequence[Document] = ()
    unread: Sequence[Path] = ()
    whole: bool = True


ALONE = LinkedScripts()


def scripts_in(folders: Iterable[Path]) -> tuple[list[Path], bool]:
    """Return the scripts in folders and their subfolders, and whether the list is complete. Hidden folders are
    skipped."""
    found: dict[Path, None] = {}
    looked = 0
    for folder in dict.fromkeys(folders):
        for at, below, files in os.walk(folder):
            below[:] = sorted(b for b in below if not b.startswith(".") and b not in ("node_modules", "__pycache__"))
            found |= dict.fromkeys(Path(at, f).resolve() for f in sorted(files) if f.endswith(SUFFIX))
            looked += 1
            if looked > MAX_FOLDERS or len(found) > MAX_SCRIPTS:
                return list(found), False
    return list(found), True


def linked(document: Document, others: Iterable[Document]) -> list[Document]:
    """Return a document and those of the others that it imports or that import it, directly or through others."""
    found, waiting = [document], list(others)
    for reached in found:  # grows during the loop
        near = [d for d in waiting if _imports(d, reached) or _imports(reached, d)]
        waiting = [d for d in waiting if d not in near]
        found += near
    return found


def _imports(document: Document, other: Document) -> bool:
    """Return whether a document may import another: it imports a script of that name, or a name that the project file
    sets."""
    words = document.now.imported_words
    return other.path.stem.casefold() in words or "{" in words
