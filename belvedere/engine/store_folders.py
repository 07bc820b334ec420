"""The folders of a store: their places, and opening its state for writing or reading.

In: a store, and optionally a folder. Out: a `State`, places of folders. A store's folders have its id as their name, so
two stores in one place share nothing. The store's document `_state` records the last place of the state.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import closing
from pathlib import Path

from belvedere.engine.epoch import STATE
from belvedere.errors import BelvedereError, fail
from belvedere.state.remote_files import Remote
from belvedere.state.state import COPIES, RETAIN, RUN_BYTES, State
from belvedere.store import file_of, open_reader
from belvedere.store.identity import IDENTITY, Identity, identity_of
from belvedere.store.protocol import Reader, Store

DOCUMENT = "_state"
STATE_ENDING, JOURNAL_ENDING = ".state", ".intake"
MIN_RUN_BYTES, MAX_RUN_BYTES = 1 << 20, 1 << 30
"""Limits for the maximum size of a run in bytes, for any memory: many runs are slow to look up, and Arrow's texts end
at 2 GB."""


def open_state(
    store: Store, root: Path | str | None, run_bytes: int = RUN_BYTES, retain: float = RETAIN, copies: int = COPIES
) -> State:
    """Open the state of a store for writing.

    `root` is its folder, if named, or a remote address, of which `copies` bytes are held here.

    Raises B7061 if files are missing, B7064 if they cannot be reached, B7065 if the store's file is a copy of another
    store's.
    """
    last, known, id_ = store.last_epoch(), store.document(DOCUMENT), own_identity(store).id
    remote = Remote(root, id_) if isinstance(root, str) else None
    folder = (root if isinstance(root, Path) else beside(store.url)).absolute() / id_
    at = last.extra.get(STATE) if last else None
    if at is not None and known is not None and remote is None:
        _refuse_elsewhere(folder, Path(json.loads(known)["folder"]))
    document = state_document(id_, folder, remote)
    if document != known:
        store.set_document(DOCUMENT, document)
    run_bytes = min(max(run_bytes, MIN_RUN_BYTES), MAX_RUN_BYTES)
    state = State(folder, at, run_bytes, retain, remote, copies)
    state.start_checking()
    return state


def state_document(id_: str, folder: Path, remote: Remote | None) -> str:
    """Return the store's record of its state."""
    return json.dumps({"id": id_, "folder": str(folder), **({"address": remote.address} if remote else {})})


def _refuse_elsewhere(folder: Path, before: Path) -> None:
    """Raise B7061: the state's folder is at its former place, not at the expected one."""
    if not folder.is_dir() and before.is_dir() and before != folder:
        hint = f"move it there: `mkdir -p {folder.parent} && mv {before} {folder}`"
        raise fail("B7061", f"the store's state is in {before}, but is expected in {folder}", hint=hint)


def read_state(reader: Reader, url: str, root: Path | str | None = None) -> State:
    """Open the state of a store for reading, as of its last epoch. `root` is as for `open_state`.

    Raises B7061 if files are missing, B7063 if there is no state yet.
    """
    last, known = reader.last_epoch(), reader.document(DOCUMENT)
    if last is None or known is None:
        raise fail("B7063", "the store has no state yet", hint="run its script first: `belvedere run SCRIPT`")
    folder, remote = state_place(known, url, root)
    return State(folder, last.extra.get(STATE), remote=remote)


def state_place(document: str, url: str, root: Path | str | None = None) -> tuple[Path, Remote | None]:
    """Return the place of the state according to the store's document: its folder and, for a remote state, its remote
    place."""
    found = json.loads(document)
    places = [root] if isinstance(root, Path) else []
    moved = [p.absolute() / found["id"] for p in (*places, beside(url))]
    remote = Remote(found["address"], found["id"]) if "address" in found else None
    return next((p for p in moved if p.is_dir()), Path(found["folder"])), remote


def own_identity(store: Store) -> Identity:
    """Return the identity of a store that is open for writing. Its folders follow a renamed file.

    Raises B7065 if the file is a copy of another store's: both would use the same folders.
    """
    identity, file = identity_of(store), file_of(store.url)
    if file is None or identity.file == file.name:
        return identity
    if identity.file:
        before = file.with_name(identity.file)
        if before.is_file() and _id_of(before) == identity.id:
            hint = (
                f"copy stores by `belvedere backup` and `belvedere restore`; if {before.name} is the copy, move it away"
            )
            raise fail(
                "B7065", f"{file.name} is a copy of {before.name}, and would share its state and its journal", hint=hint
            )
        for ending in (STATE_ENDING, JOURNAL_ENDING):
            _follow(before.with_suffix(ending) / identity.id, file.with_suffix(ending) / identity.id)
    store.set_document(IDENTITY, (found := identity.in_file(file.name)).text)
    return found


def _id_of(file: Path) -> str:
    """Return the id of the store in a file, or an empty text if it is not a readable store."""
    try:
        with closing(open_reader(f"sqlite:///{file}")) as reader:
            return identity_of(reader).id
    except BelvedereError:
        return ""


def _follow(before: Path, now: Path) -> None:
    """Move a folder to the new name of its store."""
    if before.is_dir() and not now.exists():
        now.parent.mkdir(parents=True, exist_ok=True)
        before.rename(now)


def others_of(folder: Path) -> tuple[str, ...]:
    """Return the ids of other stores whose folders are beside this one."""
    there = folder.parent.iterdir() if folder.parent.is_dir() else ()
    return tuple(sorted(p.name for p in there if p.is_dir() and p != folder))


def beside(url: str) -> Path:
    """Return the default folder of a store's states: beside the store's file; for a server in the temporary folder."""
    file = file_of(url)
    if file is not None:
        return file.with_suffix(STATE_ENDING)
    return Path(tempfile.gettempdir()) / f"belvedere-state-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def folder_of(url: str, script: Path, ending: str) -> Path:
    """Return a folder for files of stores of one place: beside a store's file; for stores on a server beside the
    script."""
    return (file_of(url) or script.resolve()).with_suffix(ending)


def state_root(url: str, script: Path, named: Path | str | None) -> Path | str | None:
    """Return the place of the state of a script's store: the place that the project names, or for a store on a server
    beside the script."""
    return named or (None if file_of(url) else folder_of(url, script, STATE_ENDING))
