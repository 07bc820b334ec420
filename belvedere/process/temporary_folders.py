"""Temporary folders of a process, all in one folder that is deleted when the process ends.

In: a prefix. Out: a new folder, or a diagnostic if none can be created. A killed process leaves its folder behind; the
next process that needs a folder deletes it. A lock on the folder shows that its process is alive: the system releases
it when the process ends, so process ids are not compared. Folders of other users, of other machines (on a shared disk)
and without the mark of a lock are left alone.

Scratch files for Spark's executors are in `scratch_folder`s: in a cluster below a root that all machines see (`share`).
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from belvedere.errors import BelvedereError, fail

PREFIX = "belvedere-"
MARK = "machine"
"""File that names the machine on which the folder is locked; written after the lock is taken."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers for no space on the disk or in the user's quota, and for a file above the process's size limit."""
FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large", "No usable temporary directory")

_own: tuple[int, Path] | None = None
_shared: Path | None = None


def temporary_folder(prefix: str) -> Path:
    """Return a new folder in the folder of this process. Raises B7032 if it cannot be created."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=process_folder()))
    except OSError as error:
        raise _unusable(error) from error


def share(root: Path | None) -> None:
    """Set the root of scratch folders, which executors on other machines see; None: the temporary folder."""
    global _shared  # noqa: PLW0603
    _shared = root


def is_shared() -> bool:
    """Return whether scratch folders have a root that other machines see."""
    return _shared is not None


def scratch_folder(prefix: str) -> Path:
    """Return a new folder that executors see too, under any user. Raises B7032 if it cannot be created."""
    if _shared is None:
        return temporary_folder(prefix)
    folder = _shared / f"{prefix}{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True)  # with the rights that the umask leaves
    except OSError as error:
        raise _unusable(error) from error
    return folder


def full_folder(error: BaseException) -> BelvedereError | None:
    """Return the diagnostic B7032 if an error or one of its causes means that the temporary folder is full, else
    None."""
    for cause in _causes(error):
        full = cause.errno in FULL if isinstance(cause, OSError) and cause.errno else False
        if full or any(text in str(cause) for text in FULL_TEXTS):
            return _unusable(cause)
    return None


def _unusable(error: BaseException) -> BelvedereError:
    with contextlib.suppress(OSError):
        kind, setting = ("scratch", "`scratch` under [run]") if _shared is not None else ("temporary", "TMPDIR")
        return fail(
            "B7032",
            f"the {kind} folder {_shared or tempfile.gettempdir()} is full or not writable",
            hint=f"free some space on its disk, or set {setting} to a folder with more space; the store is at its "
            "last good epoch",
            detail=next((text for text in FULL_TEXTS if text in str(error)), str(error)),
        )
    return fail(
        "B7032", "no temporary folder is writable", hint="set TMPDIR to a folder with free space", detail=str(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def process_folder() -> Path:
    """Return this process's folder, which is created on first use; forked processes have their own. Raises B7032 if it
    cannot be created."""
    global _own  # noqa: PLW0603
    if _own is None or _own[0] != os.getpid() or not _own[1].is_dir():
        sweep()
        try:
            _own = (os.getpid(), _make())
        except OSError as error:
            raise _unusable(error) from error
    return _own[1]


def _make() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(_remove, folder, os.getpid())
    with contextlib.suppress(OSError):  # a file system without locks: a folder without a mark is never deleted
        fcntl.flock(
            os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB
        )  # never closed: the lock ends with the process
        (folder / MARK).write_text(socket.gethostname())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Delete folders that ended processes left behind."""
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                _sweep(folder)


def _sweep(folder: Path) -> None:
    """Delete a folder of Belvedere that no process has locked. Raises OSError if it is another's, or locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid == os.getuid() and (folder / MARK).read_text() == socket.gethostname():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
