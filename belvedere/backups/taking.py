"""Backup of a store, also while a run writes it: the run never waits for it.

In: a store's URL, the folder of its journal, an empty folder. Out: the backup in it. The database is read as of one
epoch. State files never change, and an open file remains readable after its deletion: so all files of the epoch are
opened at once, and then copied. The journal's files are opened at the same moment; later pushes may be in it, and are
processed after a restore.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from belvedere.backups.contents import DATABASE, INTAKE, STATE, VERSION, BackupContents, copied, digest, write_contents
from belvedere.engine.epoch import STATE as PLACE
from belvedere.engine.store_folders import DOCUMENT, state_place
from belvedere.errors import BelvedereError, fail
from belvedere.intake.ingest_service import position_in
from belvedere.intake.journal import ENDING as SEGMENT
from belvedere.process.durable_files import sync_folder
from belvedere.state.files import Files, damaged
from belvedere.state.manifest import read_manifest
from belvedere.state.remote_files import Remote
from belvedere.state.sorted_run import FileRange
from belvedere.store import open_reader
from belvedere.store.copies import snapshot
from belvedere.store.dialects import dialect_of
from belvedere.store.identity import identity_of
from belvedere.store.migrations import refuse_other_format
from belvedere.store.protocol import EpochRow, Snapshot
from belvedere.store.system import FORMAT_OF, WRITTEN_BY

TRIES = 50
"""Maximum attempts to open the files, as an epoch may be committed meanwhile."""


@dataclass(frozen=True)
class _Origin:
    """A store and the locations of its parts."""

    url: str
    intake: Path
    root: Path | str | None


def take_backup(url: str, intake: Path, target: Path, root: Path | str | None = None) -> BackupContents:
    """Copy the store into an empty or new folder; `intake` is the folder that contains its journal, by its id.

    `root` is the location of its state if the project file sets one.

    Raises B7001, B7005 or B7014 if there is no store, and B7063 before its first epoch. Raises B7061 if state files are
    missing, and B7104 if the folder cannot hold the backup.
    """
    _empty(target)
    try:
        with ExitStack() as stack:
            for part in (DATABASE, STATE, INTAKE):
                (target / part).mkdir()
            origin = _Origin(url, intake, root)
            taken, row, opened = _moment(origin, target, stack)
            for path, file in opened:
                copied(file, path)
                file.close()
            _fetch(taken, row, origin, target)
            taken.write(target / DATABASE)
            return _finished(url, taken, row, target)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)  # it was empty
        if not isinstance(error, OSError):
            raise
        hint = "name a writable folder with free space, and start again"
        raise fail("B7104", f"the backup could not be written to {target}", hint=hint, detail=str(error)) from error


def _empty(target: Path) -> None:
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = any(target.iterdir())
    except OSError as error:
        hint = "name a folder that this user can create"
        raise fail("B7104", f"the backup folder {target} cannot be created", hint=hint, detail=str(error)) from error
    if there:
        raise fail("B7104", f"the folder {target} is not empty", hint="name a new folder for each backup")


def _moment(origin: _Origin, target: Path, stack: ExitStack) -> tuple[Snapshot, EpochRow, list[tuple[Path, BinaryIO]]]:
    """Return the store as of one epoch, and the open files of that epoch with the paths for their copies."""
    _allow_many_files()
    for _ in range(TRIES):
        with ExitStack() as attempt:
            taken = attempt.enter_context(contextlib.closing(snapshot(origin.url)))
            refuse_other_format(taken.document(FORMAT_OF), taken.document(WRITTEN_BY))
            row = taken.last_epoch()
            if row is None:
                raise fail("B7063", "the store has no epoch yet", hint="run its script first: `belvedere run SCRIPT`")
            opened = _opened(taken, row, origin, target, attempt)
            if _is_last(origin.url, row):
                if isinstance(opened, BelvedereError):
                    raise opened
                stack.enter_context(attempt.pop_all())
                return taken, row, opened
    hint = "set a larger `trigger` under [spark], or take the backup when fewer rows arrive"
    raise fail("B7104", f"the backup failed {TRIES} times: epochs follow each other too fast", hint=hint)


def _opened(
    taken: Snapshot, row: EpochRow, origin: _Origin, target: Path, stack: ExitStack
) -> list[tuple[Path, BinaryIO]] | BelvedereError:
    """Return the open files, each with the path for its copy, or an error if one is missing.

    A missing file may have been deleted after its epoch.
    """
    try:
        journal = origin.intake / identity_of(taken).id
        opened = [(target / INTAKE / p.name, _open(p, stack)) for p in sorted(journal.glob(f"*{SEGMENT}"))]
        return opened + [(target / STATE / p.name, _open(p, stack)) for p in _state_files(taken, row, origin)]
    except FileNotFoundError as error:
        return damaged(Path(error.filename), "it is not there")
    except BelvedereError as error:
        if error.diagnostics[0].code != "B7061":
            raise
        return error


def _open(path: Path, stack: ExitStack) -> BinaryIO:
    return stack.enter_context(path.open("rb"))


def _allow_many_files() -> None:
    """Raise the limit of open files to the system's maximum."""
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_last(url: str, row: EpochRow) -> bool:
    """Return whether this is still the last epoch: then none of its files can have been deleted."""
    with contextlib.closing(open_reader(url)) as reader:
        last = reader.last_epoch()
    return last is not None and last.epoch == row.epoch


def _state_files(taken: Snapshot, row: EpochRow, origin: _Origin) -> list[Path]:
    """Return the state files of the epoch; none if the state is remote."""
    folder, remote = _state_place(taken, origin)
    if folder is None or remote is not None:
        return []
    return [folder / name for name in _named(row, Files(folder))]


def _fetch(taken: Snapshot, row: EpochRow, origin: _Origin, target: Path) -> None:
    """Copy the files of a remote state, which remain for `[run] retain` after their epoch."""
    _, remote = _state_place(taken, origin)
    if remote is None:
        return
    files = Files(target / STATE, remote)
    for name in _named(row, files):
        try:
            remote.get(target / STATE / name)
        except FileNotFoundError as error:
            what = f"it was removed from {remote.address} during the backup: set a longer `retain` under [run]"
            raise damaged(target / STATE / name, what, str(error)) from error


def _state_place(taken: Snapshot, origin: _Origin) -> tuple[Path | None, Remote | None]:
    document = taken.document(DOCUMENT)
    return (None, None) if document is None else state_place(document, origin.url, origin.root)


def _named(row: EpochRow, files: Files) -> list[str]:
    """Return the names of the epoch's state files, including its manifest."""
    at = row.extra.get(PLACE)
    if at is None:
        return []
    place = FileRange(*(at[f.name] for f in fields(FileRange)))
    return sorted({place.file, *read_manifest(place, files.read).files})


def _finished(url: str, taken: Snapshot, row: EpochRow, target: Path) -> BackupContents:
    """Sync everything to disk, and write the description of the backup."""
    files = {}
    for path in sorted(p for p in target.glob("*/*") if p.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        files[f"{path.parent.name}/{path.name}"] = (path.stat().st_size, digest(path))
    for folder in (target / DATABASE, target / STATE, target / INTAKE):
        sync_folder(folder)
    identity = identity_of(taken)
    position = position_in(row, identity.journal)
    contents = BackupContents(
        VERSION,
        version("belvedere"),
        dialect_of(url).name,
        taken.document(FORMAT_OF) or "",
        row.epoch,
        row.clock.astimezone(UTC).isoformat(),
        datetime.now(UTC).isoformat(timespec="seconds"),
        files,
        identity.id,
        position.journal,
        position.sequence,
    )
    write_contents(target, contents)
    return contents
