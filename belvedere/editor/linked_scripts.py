"""The scripts whose names an edit may touch: those that import each other.

In: folders, a document. Out: paths of scripts; `LinkedScripts`: the documents of the scripts beside one; of these those that
are linked with it by imports. Imports are read from tokens, so a broken script is linked too, and nothing is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from belvedere.editor.document import SUFFIX, Document

MAX_SCRIPTS, MAX_FOLDERS = 2_000, 20_000
"""Maximum numbers of scripts and folders that are searched: an editor's folder may be a whole disk."""


@dataclass(frozen=True)
class LinkedScripts:
    """The scripts beside one. `unread` are those whose files cannot be read; not `whole`: there were too many folders to look through."""

    documents: Sequence[Document] = ()
    unread: Sequence[Path] = ()
    whole: bool = True


ALONE = LinkedScripts()


def scripts_in(folders: Iterable[Path]) -> tuple[list[Path], bool]:
    """The scripts in folders and below them, and whether these are all. Hidden folders are left out."""
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
    """A document and those of the others that it imports or that import it, directly or through others."""
    found, waiting = [document], list(others)
    for reached in found:  # grows
        near = [d for d in waiting if _imports(d, reached) or _imports(reached, d)]
        waiting = [d for d in waiting if d not in near]
        found += near
    return found


def _imports(document: Document, other: Document) -> bool:
    """Whether a document may import another: an import of its own has the other's name, or one that the project file says."""
    words = document.now.imported_words
    return other.path.stem.casefold() in words or "{" in words
