"""Record of which copy of the SQLite library has a file open in this process.

Two copies in one process (ADBC's and Python's) break each other's file locks and can corrupt the database (sqlite.org,
"How To Corrupt An SQLite Database File", section 2.2.1). In: paths. Out: a refusal if a second copy would open a file.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Lock

from belvedere.errors import fail

_lock = Lock()
_open: Counter[tuple[str, Path]] = Counter()

ADBC = "adbc"
PYTHON = "python"


def is_open(library: str, path: Path) -> bool:
    """Return whether that library has the file open in this process."""
    with _lock:
        return _open[library, path.resolve()] > 0


def opened(library: str, path: Path) -> None:
    """Record that `library` opens the file. Raises B7018 if the other library has it open."""
    other = PYTHON if library == ADBC else ADBC
    with _lock:
        if _open[other, path.resolve()]:
            raise fail(
                "B7018",
                f"this process already reads the store {path} through another SQLite library",
                hint="close that reader first, or open the store in a process of its own",
            )
        _open[library, path.resolve()] += 1


def closed(library: str, path: Path) -> None:
    """Record that `library` closed the file once."""
    with _lock:
        _open[library, path.resolve()] -= 1
