"""The owner of a journal: a small file in its folder, overwritten in place.

In: a folder. Out: the process that has the journal open, or that ended without closing it, and its term. The file is
overwritten, not replaced: network file systems show a changed file to the next process that opens it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from belvedere.intake.segments import ENDING, term_of
from belvedere.process.durable_files import sync_folder

NAME = "owner"
BYTES = 256
"""Fixed length of the file in bytes, so one write changes all of it."""


@dataclass(frozen=True)
class Claim:
    """`owner` is empty if the last process closed the journal. Otherwise the next process increments `term`."""

    owner: str
    term: int


def read_claim(directory: Path) -> Claim:
    """Return the owner of the journal in a folder. If a crash damaged the file, the owner is unknown."""
    try:
        found = json.loads((directory / NAME).read_bytes())
        return Claim(str(found["owner"]), int(found["term"]))
    except FileNotFoundError:
        return Claim("", _last_term(directory))
    except (ValueError, KeyError, TypeError):
        return Claim("unknown", _last_term(directory) + 1)


def write_claim(directory: Path, claim: Claim) -> None:
    """Write the owner, and return when it is on disk. Raises OSError."""
    path = directory / NAME
    is_new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, json.dumps(asdict(claim)).encode().ljust(BYTES), 0)
        os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        sync_folder(directory)


def _last_term(directory: Path) -> int:
    return max(map(term_of, directory.glob(f"*{ENDING}")), default=0)
