"""Snapshots: one arrangement at a moment within an epoch, for tasks in other processes.

In: an arrangement with this epoch's changes. Out: a small piece of a file that names its runs and their dead rows; in a
task, the arrangement over the same files, and the places of the task's own runs. A task's changes count once the driver
takes over the places (`State.take_over`). No manifest names the files of retried tasks.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from belvedere.state.arrangement import Arrangement, by_run
from belvedere.state.dead_rows import dead_batch
from belvedere.state.files import Files, Writer
from belvedere.state.manifest import Manifest, ManifestEntry, read_manifest, runs_of
from belvedere.state.merge import together
from belvedere.state.remote_files import Remote
from belvedere.state.sorted_run import ANYWHERE, FileRange, Run, fences_of, with_indexes


@dataclass(frozen=True)
class ArrangementSnapshot:
    """Place of a snapshot, of a state in this folder. `remote` is the place of a remote state."""

    folder: Path
    place: FileRange
    run_bytes: int
    remote: Remote | None = None


@dataclass(frozen=True)
class NewRun:
    """A run that a task has written."""

    place: FileRange
    rows: int
    fences: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Died:
    """Positions that a task has marked as dead in a run, by its number in the snapshot."""

    run: int
    place: FileRange
    rows: int


@dataclass
class ArrangementChanges:
    """Changes of one arrangement by tasks."""

    runs: list[NewRun] = field(default_factory=list)
    died: list[Died] = field(default_factory=list)
    asked: int = 0
    found: int = 0

    @property
    def files(self) -> set[str]:
        """Return the files that tasks have written."""
        return {r.place.file for r in self.runs} | {d.place.file for d in self.died}


def write_changes(arrangement: Arrangement, writer: Writer, write: Callable[[Run], Run]) -> None:
    """Write those changes of this epoch that only the driver has: new runs without their dead rows (by `write`), and
    marks."""
    fresh = [r for r in arrangement.new if r.place is None and r.alive]
    placed = [r for r in arrangement.new if r.place is not None]
    if fresh:
        arrangement.new = [*placed, write(together(fresh))]
    marked = by_run(arrangement.killed[arrangement.filed :])
    for run in (*arrangement.runs, *placed):
        if len(run.carried) and run.carried_place is None:
            run.carried_place = writer.add(dead_batch(run.carried, len(run)))
        if died := marked.get(id(run)):
            assert run.dead is not None  # they are marked already
            run.died_apart = (*run.died_apart, writer.add(dead_batch(np.concatenate(died), len(run))))
    arrangement.filed = len(arrangement.killed)


def entry_of(run: Run, before: bool = False) -> ManifestEntry:
    """Return the entry of a run as it is, or as it was `before` the epoch. Its marks are in files."""
    assert run.place is not None
    dead = (*run.dead_places, *([run.carried_place] if run.carried_place else []), *(() if before else run.died_apart))
    fences = tuple(run.fences.get(n, ANYWHERE) for n in run.arranged.fenced)
    return ManifestEntry(run.place, dead, run.alive, run.size, run.depth, fences)


def manifest_of(arrangement: Arrangement, runs: list[Run], before: bool) -> Manifest:
    """Return the runs of one arrangement as a manifest of their own."""
    entries = tuple(entry_of(r, before) for r in runs)
    return Manifest({arrangement.arranged.name: (arrangement.arranged, entries)})


# --- in a task


@cache
def _files_of(folder: Path, remote: Remote | None) -> Files:
    """Return the files as this process has read them, so that their checksums are verified only once."""
    if folder.is_dir() or remote is None:
        return Files(folder, remote)
    return Files(Path(tempfile.mkdtemp(prefix="belvedere-copies-")), remote)


@dataclass
class TaskArrangement:
    """An arrangement in a task, whose new runs go into one file of the task's own."""

    arrangement: Arrangement
    writer: Writer
    write: Callable[[Run], Run]

    def changes(self) -> ArrangementChanges:
        """Write and sync the changes, and return them."""
        own = self.arrangement
        fresh = [r for r in own.new if r.place is None and r.alive]
        if fresh:
            own.new = [*(r for r in own.new if r.place is not None), self.write(together(fresh))]
        found = ArrangementChanges(asked=own.asked, found=own.found)
        for run in own.new:
            assert run.place is not None
            fences = tuple(run.fences.get(n, ANYWHERE) for n in run.arranged.fenced)
            found.runs.append(NewRun(run.place, len(run), fences))
        killed = by_run(own.killed)
        for number, run in enumerate(own.runs):
            if died := killed.get(id(run)):
                positions = np.concatenate(died)
                found.died.append(Died(number, self.writer.add(dead_batch(positions, len(run))), len(positions)))
        self.writer.finish()
        return found


@contextmanager
def opened(snapshot: ArrangementSnapshot, part: tuple[int, int] = (0, 1)) -> Iterator[TaskArrangement | None]:
    """Open the arrangement of a snapshot; None if this process cannot see the folder.

    `part`: index of a part of its runs, and number of parts.
    """
    files = _files_of(snapshot.folder, snapshot.remote)
    if snapshot.remote is None and not (snapshot.folder / snapshot.place.file).exists():
        yield None
        return
    manifest = read_manifest(snapshot.place, files.read)
    (stored,) = manifest.relations.values()
    arranged, entries = stored
    if entries:  # there are none for a task that only appends
        files.keep_only(arranged.name, {snapshot.place.file, *manifest.files})
    is_seen = snapshot.remote is None or snapshot.folder.is_dir()
    own = snapshot.folder if is_seen else Path(tempfile.mkdtemp(prefix="belvedere-runs-"))
    writer, mine = Writer(own, snapshot.remote), Files(own)
    runs = runs_of(arranged, (arranged, entries[part[0] :: part[1]]), files)

    def write(run: Run) -> Run:
        place = mine.trust(writer.add(with_indexes(run)))
        return Run(None, arranged, place, read=mine.read, size=len(run), fences=fences_of(run), depth=run.depth)

    def spill(run: Run) -> Run:
        return write(run) if run.bytes >= snapshot.run_bytes // 2 else run

    try:
        yield TaskArrangement(Arrangement(arranged, spill, snapshot.run_bytes, runs), writer, write)
    except BaseException:
        writer.discard()
        raise
    finally:
        if not is_seen:
            shutil.rmtree(own, ignore_errors=True)
