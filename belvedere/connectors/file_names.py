"""Names of a source's files, as a store notes them: relative to the source's folder, which is no part of them.

In: paths, names that a store has noted. Out: names, paths. So a folder may be moved, mounted, linked or restored elsewhere, and its files
stay known. Stores of before noted absolute paths: these are recognised below the folder, and elsewhere by what the files are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote_from_bytes

from belvedere.connectors.run_records import SourceFile, path_of


def name_text(relative: str) -> str:
    """The name of a file by its path below the folder: itself, or escaped bytes behind `file:` where these are no UTF-8."""
    try:
        os.fsencode(relative).decode()
    except UnicodeError:
        return f"file:{quote_from_bytes(os.fsencode(relative))}"
    return relative


def name_below(directory: str, name: str) -> str | None:
    """The relative name of a noted one; None for an absolute path of another place."""
    path = path_of(name)
    if not os.path.isabs(path):
        return name
    prefix = os.path.join(directory, "")
    return name_text(path[len(prefix) :]) if path.startswith(prefix) else None


def place_of(directory: str, name: str, table: str) -> str:
    """The path of a file that a store has noted. One of another place is looked for under its name in the folder."""
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
    """Names that were noted as absolute paths below the folder, with their relative ones."""
    return {n: below for n in names if (below := name_below(directory, n)) is not None and below != n}


def recognised(noted: Sequence[SourceFile], found: Iterable[SourceFile]) -> Mapping[str, str]:
    """Which of the found files are noted ones of another place: of the same name, length and time. Old names with new ones."""
    there: dict[tuple[str, int, int], list[str]] = {}
    for file in found:
        there.setdefault(_marks(file), []).append(file.name)
    return {f.name: names.pop() for f in noted if (names := there.get(_marks(f)))}


def _marks(file: SourceFile) -> tuple[str, int, int]:
    return os.path.basename(path_of(file.name)), file.length, round(file.modified.timestamp() * 1_000_000)
