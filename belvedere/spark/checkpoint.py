"""Spark's checkpoint of the one streaming query, and whether it agrees with the store.

In: a directory, the store's last epoch, the ids of the sources. Out: a checkpoint to start from: the one that is there where
it agrees with the store, else an empty one. An empty one costs a new listing of the sources and nothing else, because the
store says what was read.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from belvedere.store.protocol import EpochRow

MARK = "belvedere.json"
QUERY = "query"


@dataclass(frozen=True)
class Checkpoint:
    """A directory with Spark's own files in `query/` and ours beside them."""

    directory: Path
    id: str
    sources: tuple[str, ...]
    resumed: bool

    @property
    def location(self) -> str:
        """What Spark is given as checkpointLocation."""
        return (self.directory / QUERY).as_uri()

    def mark(self, epoch: int) -> None:
        """Note the epoch that the store has committed: the two agree as long as this is the store's last epoch."""
        text = json.dumps({"id": self.id, "sources": self.sources, "epoch": epoch})
        scratch = self.directory / f"{MARK}.new"
        scratch.write_text(text)
        os.replace(scratch, self.directory / MARK)


def open_checkpoint(directory: Path, last: EpochRow | None, sources: Sequence[str]) -> Checkpoint:
    """The checkpoint in `directory` if it agrees with the store and has the same sources, else an empty one there."""
    found = _read_mark(directory)
    agrees = (
        last is not None
        and found.get("id") == last.checkpoint
        and found.get("epoch") == last.epoch
        and found.get("sources") == list(sources)
    )
    if agrees and last is not None:
        return Checkpoint(directory, last.checkpoint, tuple(sources), resumed=True)
    return empty_checkpoint(directory, sources)


def empty_checkpoint(directory: Path, sources: Sequence[str]) -> Checkpoint:
    """A new checkpoint in place of whatever lies there."""
    if directory.exists() and not directory.is_dir():
        directory.unlink()
    shutil.rmtree(directory / QUERY, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    return Checkpoint(directory, uuid.uuid4().hex, tuple(sources), resumed=False)


def _read_mark(directory: Path) -> dict[str, object]:
    try:
        found = json.loads((directory / MARK).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
