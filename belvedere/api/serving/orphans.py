"""API processes of a run that was killed: they end when they see that its pipe is closed, and may hold its port until then.

In: the list of processes, where the system has one in `/proc`. Out: whether there are such orphans. Nothing is ended here.
"""

from __future__ import annotations

import os
from pathlib import Path

CHILD = "belvedere.api.serving.child"


def has_orphans(root: Path = Path("/proc")) -> bool:
    """Whether an API process of this user is there whose run is not; False where the system does not say it."""
    return (
        any(_is_orphan(root, entry) for entry in root.iterdir() if entry.name.isdecimal()) if root.is_dir() else False
    )


def _is_orphan(root: Path, process: Path) -> bool:
    try:
        if CHILD.encode() not in _words(process) or process.stat().st_uid != os.getuid():
            return False
        parent = root / _parent_of(process)
        return not any(b"belvedere" in word for word in _words(parent))
    except (OSError, ValueError, IndexError):  # it ended meanwhile
        return False


def _words(process: Path) -> list[bytes]:
    return (process / "cmdline").read_bytes().split(b"\0")


def _parent_of(process: Path) -> str:
    """The number of the parent: the second word behind the name, which may have spaces and is in brackets."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
