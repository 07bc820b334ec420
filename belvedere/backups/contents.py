"""Description of a backup: `backup.json`, which is written last, so that an incomplete backup has none.

In: a folder. Out: `BackupContents`. The files are in the folders `database`, `state` and `intake`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from belvedere.errors import BelvedereError, fail
from belvedere.process.durable_files import sync_folder

NAME = "backup.json"
VERSION = 2
DATABASE, STATE, INTAKE = "database", "state", "intake"
CHUNK = 1 << 20


@dataclass(frozen=True)
class BackupContents:
    """Contents of a backup. `files` are path, bytes and SHA-256 of each file; times are ISO 8601, in UTC."""

    version: int
    belvedere: str
    """Version of Belvedere that took the backup."""
    dialect: str
    format: str
    epoch: int
    clock: str
    taken_at: str
    files: Mapping[str, tuple[int, str]]
    store: str
    """Id of the original store."""
    journal: str
    """Id of its journal."""
    sequence: int
    """Number of the last journal record that the epoch has processed."""

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())


def write_contents(folder: Path, contents: BackupContents) -> None:
    """Write `backup.json`, which marks the backup as complete."""
    path = folder / NAME
    with path.open("x", encoding="utf-8") as file:
        json.dump(asdict(contents), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def read_contents(folder: Path) -> BackupContents:
    """Return the contents of a backup.

    Raises B7102 if there is none, or an incomplete one, B7103 if another version took it.
    """
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "name a folder written by `belvedere backup`; an interrupted backup has no backup.json"
        raise fail("B7102", f"{folder} is not a complete backup", hint=hint) from error
    except (OSError, ValueError) as error:
        raise damaged(folder, f"{NAME} cannot be read", str(error)) from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise fail(
            "B7103", f"{folder} is a backup of another version of Belvedere", hint="restore it with that version"
        )
    try:
        return BackupContents(
            **{**found, "files": {name: (size, check) for name, (size, check) in found["files"].items()}}
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder, f"{NAME} was changed after it was written", str(error)) from error


def check_files(folder: Path, contents: BackupContents) -> None:
    """Compare each file with its recorded size and digest. Raises B7102."""
    for name, (size, check) in contents.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size or digest(path) != check:
            raise damaged(folder, f"the file {name} was changed or is missing")


def damaged(folder: Path, what: str, detail: str | None = None) -> BelvedereError:
    """Return the diagnostic for an unusable backup."""
    return fail("B7102", f"the backup {folder} is damaged: {what}", hint="restore another backup", detail=detail)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copied(source: BinaryIO, target: Path) -> None:
    """Copy an open file from its beginning, and sync the copy."""
    source.seek(0)
    with target.open("xb") as file:
        while block := source.read(CHUNK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
