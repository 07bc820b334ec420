"""Restarts of a Workbench that also move its store: renamed, with its folders, or restored from a backup beside the
original.

In: a Workbench. Out: the same, open again. A store on a server is opened again where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from belvedere import Workbench
from belvedere.backups import restore_backup, take_backup
from belvedere.engine.store_folders import read_state
from belvedere.store import file_of, open_reader

_NUMBERS = count()


def restart(wb: Workbench, turn: int) -> None:
    """Close the Workbench and open it again: by turns as it was, renamed, restored beside its original, which stays as
    it was."""
    file = file_of(wb.store.url)
    if file is None or turn % 3 == 0:
        wb.restart()
        return
    wb.engine.close()
    wb.store.close()
    after = (
        file.with_name(f"{file.stem} {next(_NUMBERS)}.db")
        if turn % 3 == 1
        else file.with_suffix(f".copy{next(_NUMBERS)}")
    )
    if turn % 3 == 1:
        file.rename(after)
    else:
        _restored(file, after)
    wb._report = None
    wb._open(f"sqlite:///{after}")


def restart_beside(wb: Workbench, plainly: Callable[[Workbench], None]) -> None:
    """Restart, after a copy of the store was restored beside it, opened and closed: what is of the one is not of the
    other."""
    file = file_of(wb.store.url)
    if file is None or wb.store.last_epoch() is None:
        plainly(wb)
        return
    url = wb.store.url
    wb.engine.close()
    wb.store.close()
    copy = file.with_suffix(f".copy{next(_NUMBERS)}")
    _restored(file, copy)
    for one in (f"sqlite:///{copy}", url):
        wb._report = None
        wb._open(one)
        if one != url:
            wb.engine.close()
            wb.store.close()
    copy.unlink()


def _restored(file: Path, after: Path) -> None:
    """Two stores of one stem, with their states in one place."""
    url, intake = f"sqlite:///{file}", file.with_suffix(".intake")
    with TemporaryDirectory() as folder:
        take_backup(url, intake, Path(folder) / "backup")
        restore_backup(Path(folder) / "backup", f"sqlite:///{after}", intake, None)


def assert_whole(file: Path) -> None:
    """The stores beside a file, restored or not, have all of their states."""
    for path in file.parent.glob("*"):
        if path.suffix == ".db" or path.suffix.startswith(".copy"):
            url = f"sqlite:///{path}"
            with closing(open_reader(url)) as reader, closing(read_state(reader, url)) as state:
                state.check()
