"""Durability of names in folders: a created, renamed or deleted file survives a crash once its folder is synced.

In: a folder. Out: nothing. Raises OSError if it cannot be synced.
"""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
