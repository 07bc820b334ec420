"""Make a store from a backup.

In: a backup's folder, the URL of a store that is not there yet, where its state and its journal belong. Out: the store as of the backup's
epoch. The database comes last: before it is there, nothing is. The state gets a name of its own, so that the store that the backup was
taken from, which may still be in use, shares no file with this one.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from belvedere.backups.contents import DATABASE, INTAKE, STATE, Contents, check_files, copied, read_contents
from belvedere.durable import sync_folder
from belvedere.engine.opening import DOCUMENT, beside
from belvedere.errors import BelvedereError, fail
from belvedere.intake.desk import position_in
from belvedere.intake.journal import ENDING as SEGMENT
from belvedere.intake.journal import Journal
from belvedere.state.files import unwritable
from belvedere.state.remote import Remote
from belvedere.store import open_reader
from belvedere.store.copies import check_free, put_back
from belvedere.store.dialects import dialect_of
from belvedere.store.system import FORMAT


def restore_backup(source: Path, url: str, intake: Path, state: Path | str | None) -> tuple[Contents, Path | None]:
    """The contents of the backup, and where a journal went that was there and does not belong to it.

    `state` is the folder or address for the state of operators, None for beside the store. Raises B7101 where a store is there, B7102 where
    the backup is damaged, B7103 where it is of another database or version.
    """
    contents = read_contents(source)
    _check_kind(contents, url)
    check_free(url)
    check_files(source, contents)
    documents = _put_state_back(source, url, state)
    put_back(url, source / DATABASE, documents)
    return contents, _put_journal_back(source, url, intake)


def _check_kind(contents: Contents, url: str) -> None:
    if contents.dialect != (wanted := dialect_of(url).name):
        hint = f"name a store of {contents.dialect} with --store"
        raise fail("B7103", f"the backup is of a store in {contents.dialect}, not in {wanted}", hint=hint)
    if contents.format != FORMAT:
        hint = f"restore it with Belvedere {contents.belvedere}"
        raise fail("B7103", f"the backup has the format {contents.format}, this version reads {FORMAT}", hint=hint)


def _put_state_back(source: Path, url: str, state: Path | str | None) -> dict[str, str]:
    """Copy the files of state; the document of the store that says where they are."""
    files = sorted((source / STATE).iterdir()) if (source / STATE).is_dir() else []
    id_ = uuid.uuid4().hex[:16]
    remote = Remote(state, id_) if isinstance(state, str) else None
    folder = (state if isinstance(state, Path) else beside(url)).absolute() / id_
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            if remote is not None:
                remote.put(path)
            else:
                _copy(path, folder / path.name)
        sync_folder(folder)
    except OSError as error:
        raise unwritable(folder / "state", error) from error
    return {DOCUMENT: json.dumps({"id": id_, "folder": str(folder), **({"address": remote.address} if remote else {})})}


def _copy(path: Path, target: Path) -> None:
    with path.open("rb") as file:
        copied(file, target)


def _put_journal_back(source: Path, url: str, intake: Path) -> Path | None:
    """The journal that is there goes on if it reaches back to the backup: it may have more. Else the backup's takes its place."""
    with closing(open_reader(url)) as reader:
        position = position_in(reader.last_epoch())
    segments = sorted((source / INTAKE).glob(f"*{SEGMENT}"))
    aside = None
    if any(intake.glob(f"*{SEGMENT}")):
        try:
            Journal(intake, position).close()
            return None
        except BelvedereError as error:
            if error.diagnostics[0].code not in ("B6141", "B6142"):
                raise
        aside = intake.with_name(f"{intake.name}.{datetime.now(UTC):%Y%m%dT%H%M%S}")
        os.rename(intake, aside)
    if segments:
        intake.mkdir(parents=True, exist_ok=True)
        for path in segments:
            _copy(path, intake / path.name)
        sync_folder(intake)
    return aside
