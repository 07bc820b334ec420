"""Restore of a store from a backup.

In: a backup's folder, the URL of a store that does not exist yet, folders for its state and its journal. Out: the store
as of the backup's epoch. It gets a new id and folders of that id, so the original store may still be in use. The
database is written last: without it there is no store. A failed attempt deletes its files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from belvedere.backups.contents import (
    DATABASE,
    INTAKE,
    STATE,
    BackupContents,
    check_files,
    copied,
    damaged,
    read_contents,
)
from belvedere.engine.store_folders import DOCUMENT, beside, state_document
from belvedere.errors import fail
from belvedere.intake.journal import JournalPosition
from belvedere.intake.journal_transfer import read_journal, write_journal
from belvedere.process.durable_files import sync_folder
from belvedere.state.files import unwritable
from belvedere.state.remote_files import Remote
from belvedere.store.copies import check_free, put_back
from belvedere.store.dialects import dialect_of
from belvedere.store.identity import IDENTITY, new_identity
from belvedere.store.system import FORMAT


def restore_backup(source: Path, url: str, intake: Path, state: Path | str | None) -> tuple[BackupContents, int]:
    """Return the backup's contents, and how many records the original store's journal in `intake` has beyond the
    backup.

    `state` is the folder or URL for the operators' state, None for a folder beside the store. Raises B7101 if the store
    exists, B7102 if the backup is damaged, B7103 if it is of another database or version.
    """
    contents = read_contents(source)
    _check_kind(contents, url)
    check_free(url)
    check_files(source, contents)
    identity = new_identity()
    remote = Remote(state, identity.id) if isinstance(state, str) else None
    folder = (state if isinstance(state, Path) else beside(url)).absolute() / identity.id
    journal = intake / identity.id
    try:
        _put_state_back(source, folder, remote)
        more = _put_journal_back(source, contents, intake, journal)
        documents = {DOCUMENT: state_document(identity.id, folder, remote), IDENTITY: identity.text}
        put_back(url, source / DATABASE, documents)
    except BaseException:
        for own in (folder, journal):
            shutil.rmtree(own, ignore_errors=True)
        if remote is not None:
            remote.delete(remote.names())
        raise
    return contents, more


def _check_kind(contents: BackupContents, url: str) -> None:
    if contents.dialect != (requested := dialect_of(url).name):
        hint = f"name a store of {contents.dialect} with --store"
        raise fail("B7103", f"the backup is of a store in {contents.dialect}, not in {requested}", hint=hint)
    if contents.format != FORMAT:
        hint = f"restore it with Belvedere {contents.belvedere}"
        raise fail(
            "B7103", f"the backup has format {contents.format}, and this version reads format {FORMAT}", hint=hint
        )


def _put_state_back(source: Path, folder: Path, remote: Remote | None) -> None:
    """Copy the files of state."""
    files = sorted((source / STATE).iterdir()) if (source / STATE).is_dir() else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            if remote is not None:
                remote.put(path)
            else:
                with path.open("rb") as file:
                    copied(file, folder / path.name)
        sync_folder(folder)
    except OSError as error:
        raise unwritable(folder / "state", error) from error


def _put_journal_back(source: Path, contents: BackupContents, intake: Path, target: Path) -> int:
    """Restore the journal from the place that has more records: the backup, or the original store's folder if no run
    uses it."""
    position = JournalPosition(contents.journal, contents.sequence)
    backup, old = read_journal(source / INTAKE, position), read_journal(intake / contents.store, position)
    if backup is None:
        raise damaged(source, f"its journal does not continue after epoch {contents.epoch}")
    has_more = old is not None and old.last > backup.last
    try:
        write_journal(old if old is not None and has_more else backup, target, target.name)
    except OSError as error:
        raise unwritable(target / "journal", error) from error
    return old.last - max(backup.last, contents.sequence) if old is not None and has_more else 0
