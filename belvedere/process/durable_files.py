"""Durability of names in folders: a file that was created, renamed or deleted is safe once its folder is synced.

In: a folder. Out: nothing. Raises OSError if it cannot be synced.
"""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
