"""Names of a source's files as a store records them, relative to the source's folder.

In: paths, names that a store has recorded. Out: names, paths. A folder may be moved, mounted, linked or restored
elsewhere, and its files stay known. Earlier stores recorded absolute paths. These are recognized below the folder, and
elsewhere by name, length and time of the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote_from_bytes

from belvedere.connectors.run_records import SourceFile, path_of


def name_text(relative: str) -> str:
    """Return the name of a file by its path below the folder; `file:` and escaped bytes if it is not UTF-8."""
    try:
        os.fsencode(relative).decode()
    except UnicodeError:
        return f"file:{quote_from_bytes(os.fsencode(relative))}"
    return relative


def name_below(directory: str, name: str) -> str | None:
    """Return the relative form of a recorded name; None for an absolute path outside the folder."""
    path = path_of(name)
    if not os.path.isabs(path):
        return name
    prefix = os.path.join(directory, "")
    return name_text(path[len(prefix) :]) if path.startswith(prefix) else None


def place_of(directory: str, name: str, table: str) -> str:
    """Return the path of a recorded file. A file recorded elsewhere is searched by its name in the folder."""
    path = path_of(name)
    below = name_below(directory, name)
    if below is not None:
        return os.path.join(directory, path_of(below))
    if not os.path.lexists(path):
        base = os.path.basename(path)
        for moved in (os.path.join(directory, table, base), os.path.join(directory, base)):
            if os.path.lexists(moved):
                return moved
    return path


def renamed_below(directory: str, names: Iterable[str]) -> dict[str, str]:
    """Return names that were recorded as absolute paths below the folder, with their relative names."""
    return {n: below for n in names if (below := name_below(directory, n)) is not None and below != n}


def recognised(noted: Sequence[SourceFile], found: Iterable[SourceFile]) -> Mapping[str, str]:
    """Return old and new names of found files that were recorded elsewhere with the same name, length and time."""
    there: dict[tuple[str, int, int], list[str]] = {}
    for file in found:
        there.setdefault(_marks(file), []).append(file.name)
    return {f.name: names.pop() for f in noted if (names := there.get(_marks(f)))}


def _marks(file: SourceFile) -> tuple[str, int, int]:
    return os.path.basename(path_of(file.name)), file.length, round(file.modified.timestamp() * 1_000_000)
