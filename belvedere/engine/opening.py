"""The state that belongs to a store: where it lies, and how it is opened, to go on with it or to look at it.

In: a store, a folder where one is named. Out: a `State`. The store's document `_state` says under which name, and where last, so that
whoever has the store's URL finds it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from pathlib import Path

from belvedere.engine.epoch import STATE
from belvedere.errors import fail
from belvedere.state.remote import Remote
from belvedere.state.state import COPIES, RETAIN, RUN_BYTES, State, clear_others
from belvedere.store import file_of
from belvedere.store.protocol import Reader, Store

DOCUMENT = "_state"
LEAST_RUN, MOST_RUN = 1 << 20, 1 << 30
"""The bound of a run is between these, whatever memory there is: many runs are slow to look up, and Arrow's texts end at 2 GB."""


def open_state(
    store: Store, root: Path | str | None, run_bytes: int = RUN_BYTES, retain: float = RETAIN, copies: int = COPIES
) -> State:
    """The state of a store that is written; `root` is the folder for it where one is named, or the address of one elsewhere,
    of which `copies` bytes are held here.

    Raises B7061 where files are missing, B7064 where they cannot be reached.
    """
    last, known = store.last_epoch(), store.document(DOCUMENT)
    id_ = json.loads(known)["id"] if known else uuid.uuid4().hex[:16]
    remote = Remote(root, id_) if isinstance(root, str) else None
    folder = (root if isinstance(root, Path) else beside(store.url)).absolute() / id_
    document = json.dumps({"id": id_, "folder": str(folder), **({"address": remote.address} if remote else {})})
    if document != known:
        store.set_document(DOCUMENT, document)
    if last is None and root is None:
        clear_others(folder)  # of a store that was deleted
    run_bytes = min(max(run_bytes, LEAST_RUN), MOST_RUN)
    state = State(folder, last.extra.get(STATE) if last else None, run_bytes, retain, remote, copies)
    state.start_checking()
    return state


def read_state(reader: Reader, url: str) -> State:
    """The state of a store to look at, as of its last epoch. Raises B7061 where files are missing, B7063 where there is none yet."""
    last, known = reader.last_epoch(), reader.document(DOCUMENT)
    if last is None or known is None:
        raise fail("B7063", "the store has no state yet", hint="run its script first: `belvedere run SCRIPT`")
    folder, remote = state_place(known, url)
    return State(folder, last.extra.get(STATE), remote=remote)


def state_place(document: str, url: str) -> tuple[Path, Remote | None]:
    """Where the state is by the store's document: its folder, and what it has copies of where it lies elsewhere."""
    found = json.loads(document)
    moved = beside(url).absolute() / found["id"]
    remote = Remote(found["address"], found["id"]) if "address" in found else None
    return moved if moved.is_dir() else Path(found["folder"]), remote


def beside(url: str) -> Path:
    """Where the state of a store lies if nobody says it: beside the store's file; for a server in the temporary folder."""
    file = file_of(url)
    if file is not None:
        return file.with_suffix(".state")
    return Path(tempfile.gettempdir()) / f"belvedere-state-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def folder_of(url: str, script: Path, ending: str) -> Path:
    """A folder that belongs to a store: beside its file; for a store on a server beside the script."""
    return (file_of(url) or script.resolve()).with_suffix(ending)
