"""Find the new files of a table: list its folders, and compare the names with the known ones.

In: a folder, the name of a table, the files that were read. Out: files that were not. Any name that the file system
allows is accepted. A folder is listed again only after its modification time shows that a file was added or removed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from belvedere.connectors.file_names import name_text
from belvedere.connectors.run_records import SourceFile, path_text
from belvedere.errors import fail

STABLE_SECONDS = 3.0
"""Minimum seconds between a folder's last change and its listing before its modification time is trusted.

File systems count time in ticks.
"""
LISTED_AGAIN = 30.0
"""Seconds after which a folder is listed in any case: some file systems delay its modification time."""


@dataclass
class _Folder:
    """A folder and the result of its last listing."""

    path: str
    prefix: str
    """Prefix of the names of its files."""
    counts: Callable[[str], bool]
    """Function that returns whether a file of this name belongs to the table."""
    seen: set[str] = field(default_factory=set)
    """Names that need no further check: read, or not the table's files."""
    changed: int | None = None
    """Modification time in nanoseconds, if the next new file would change it."""
    listed: float = float("-inf")
    waits: bool = False
    """Whether it has a link without a target. The target may appear without a change of the folder."""


class Listing:
    """The files of one table in a folder, and those of them that are known."""

    def __init__(self, directory: str, table: str, known: Iterable[str]):
        self.table = table
        self.known = set(known)
        """Names of files as the store records them, relative to the folder."""
        self.met = 0
        """Number of known files found when the folders were listed."""
        directory = os.path.abspath(directory)
        self._folders = (
            _Folder(os.path.join(directory, table), os.path.join(table, ""), lambda name: True),
            _Folder(directory, "", lambda name: name.startswith(f"{table}.")),
        )

    def new_files(self, must_list: bool = False) -> list[SourceFile]:
        """Return the files that are not known, in no order. Raises B6023 for a folder without read permission."""
        return [file for folder in self._folders for file in self._new_in(folder, must_list)]

    def known_files(self) -> Iterator[SourceFile]:
        """Yield the known files that exist, in their present state."""
        for folder in self._folders:
            try:
                with os.scandir(folder.path) as entries:
                    for entry in entries:
                        name = name_text(folder.prefix + entry.name)
                        if name in self.known:
                            with contextlib.suppress(OSError):
                                found = entry.stat()
                                yield SourceFile(
                                    entry.path, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC), name
                                )
            except OSError:  # reported when new files are listed
                continue

    def add(self, files: Iterable[SourceFile]) -> None:
        """Mark files as read."""
        for file in files:
            self.known.add(file.name)
            folder, name = os.path.split(file.path)
            next(f for f in self._folders if f.path == folder).seen.add(name)

    def _new_in(self, folder: _Folder, must_list: bool) -> Iterator[SourceFile]:
        try:
            changed = os.stat(folder.path).st_mtime_ns
            now = time.monotonic()
            if not must_list and folder.changed == changed and now - folder.listed < LISTED_AGAIN:
                return
            final = time.time() - changed / 1e9 > STABLE_SECONDS
            folder.waits = False
            found = list(self._unknown(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise fail(
                "B6023",
                (
                    f'the folder {path_text(folder.path)} of table "{self.table}" cannot be listed: '
                    f"{error.strerror or error}"
                ),
                hint="give this user the right to read it; its files are read once it can be listed",
            ) from error
        folder.changed, folder.listed = changed if final and not found and not folder.waits else None, now
        yield from found

    def _unknown(self, folder: _Folder) -> Iterator[SourceFile]:
        with os.scandir(folder.path) as entries:
            for entry in entries:
                if entry.name in folder.seen:
                    continue
                if not self._is_new(folder, entry):
                    folder.seen.add(entry.name)
                    continue
                try:
                    found = entry.stat()
                except OSError:  # deleted, or a link without a target or to itself
                    folder.waits = folder.waits or entry.is_symlink()
                    continue
                if stat.S_ISREG(found.st_mode):  # a folder may become a file of its name
                    name = name_text(folder.prefix + entry.name)
                    yield SourceFile(entry.path, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC), name)

    def _is_new(self, folder: _Folder, entry: os.DirEntry[str]) -> bool:
        """Return whether an entry belongs to the table, is complete and not known.

        Writers start the names of incomplete files with `.` or `_`.
        """
        if entry.name.startswith((".", "_")) or not folder.counts(entry.name):
            return False
        is_known = name_text(folder.prefix + entry.name) in self.known
        self.met += is_known
        return not is_known
