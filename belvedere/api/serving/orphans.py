"""API processes of a killed run. They end when they notice that their pipe is closed, and may hold the port until then.

In: the list of processes, if the system has `/proc`. Out: whether there are such processes. It ends none of them.
"""

from __future__ import annotations

import os
from pathlib import Path

CHILD = "belvedere.api.serving.child"


def has_orphans(root: Path = Path("/proc")) -> bool:
    """Return whether there is an API process of this user without its run; False if the system does not show
    processes."""
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
    """Return the parent's process id: the second word behind the name, which is in parentheses and may contain
    spaces."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
