"""State: all arrangements of a store, epoch by epoch, in one folder.

In: a folder, the manifest's place from the last epoch's row, the relations to arrange. Out: arrangements to look up and
change, and per epoch the place of the new manifest. An epoch writes one file and syncs it once; only the epoch's row
makes it valid. Merges run in a thread between epochs, and replace their runs in the next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from belvedere.errors import counted
from belvedere.state.arrangement import Arrangement, by_run
from belvedere.state.checksum_pass import ChecksumPass
from belvedere.state.dead_rows import Positions, dead_batch
from belvedere.state.files import Files, Writer, damaged
from belvedere.state.manifest import Manifest, ManifestEntry, Relation, read_manifest, runs_of
from belvedere.state.merge import MIN_ROWS, WIDTH, living_bytes, together
from belvedere.state.merging import Merging
from belvedere.state.remote_files import Remote
from belvedere.state.snapshots import ArrangementChanges, ArrangementSnapshot, entry_of, manifest_of, write_changes
from belvedere.state.sorted_run import Arranged, FileRange, Run, fences_of, read_run, with_indexes

RUN_BYTES = 64 << 20
DEAD_PLACES = 8
"""Maximum number of pieces with dead positions of a run. With more, they are rewritten as one."""
CHAIN = 32
"""Maximum number of manifests that a start reads: a complete one and differences."""
WHOLE = 8
"""Bytes of an epoch, as a multiple of the last complete manifest, above which it writes a complete one.

Later epochs then keep no large file in use.
"""
COPIES = 10 << 30
"""Maximum bytes of copies of a remote state.

After an epoch, the least recently used copies above it are deleted.
"""
MANY = 512
"""Maximum number of files with fetched blocks. Each keeps a file open."""
RETAIN = 60.0
"""Seconds for which unnamed files are kept: readers of the previous epoch may have them open."""


@dataclass(frozen=True)
class Size:
    """Size of one relation in a store: live rows, bytes of its table and its runs, the number of its runs."""

    rows: int
    bytes: int
    runs: int = 0
    asked: int = 0
    found: int = 0
    """Number of keys and ranges that stages have looked up since the start, and of the rows found."""
    jobs: int = 0
    """Number of look-ups and changes that tasks have done in other processes since the start."""

    def __str__(self) -> str:
        runs = f" in {counted(self.runs, 'run')}" if self.runs else ""
        found = (
            f"; since the start keys looked up: {self.asked:,}, rows found: {self.found:,}"
            if self.asked or self.found
            else ""
        )
        jobs = f"; by tasks: {self.jobs:,}" if self.jobs else ""
        return f"{counted(self.rows, 'row')}, {counted(self.bytes, 'byte')}{runs} now{found}{jobs}"


class State:
    """The arrangements of one store, by relation."""

    def __init__(
        self,
        folder: Path,
        at: Mapping[str, Any] | None = None,
        run_bytes: int = RUN_BYTES,
        retain: float = RETAIN,
        remote: Remote | None = None,
        copies: int = COPIES,
    ):
        """Open the state.

        `at` is the place of the last manifest, None for a new store. For a `remote` state the folder has copies, of
        about `copies` bytes.

        Raises B7061 if it cannot be read, B7064 if it cannot be reached.
        """
        self.folder, self.run_bytes, self.retain, self.copies = folder, run_bytes, retain, copies
        self.files = Files(folder, remote)
        self._before: FileRange | None = None
        self._look_ups: Mapping[str, tuple[int, ...]] = (at or {}).get("look_ups", {})
        self._at = FileRange(*(at[f.name] for f in fields(FileRange))) if at else None
        self.manifest = read_manifest(self._at, self.files.read) if self._at else Manifest()
        self.arrangements: dict[str, Arrangement] = {}
        self._writer = self.files.writer()
        self.merging = Merging(self.files, self._written, run_bytes)
        self._prepared: Manifest | None = None
        self._next: dict[str, list[Run]] = {}
        self._entries: dict[str, dict[Run, ManifestEntry]] = {}
        """The entries of the last epoch's runs, by relation."""
        self._committed: dict[str, Sequence[Run]] = {}
        """The runs of each arrangement that are those of the manifest, as long as nothing has changed them."""
        self._swept = False
        self._present: set[str] = set()
        """The files before the first commit. Later ones may belong to a process that took over the store."""
        self.is_seen = True
        """Whether other processes can see the folder, as known so far."""
        self._apart: set[str] = set()
        """The files that other processes have written in this epoch."""
        self.write_seconds = 0.0

        self._used: dict[str, int] = {}
        """Last use of each file's runs, as an increasing number."""
        self._pass: ChecksumPass | None = None

    def start_checking(self) -> None:
        """Check that all files exist, and start a check of all checksums in the background.

        Copies are verified when they are read.

        Raises B7061 if a file is missing at the state's place.
        """
        remote = self.files.remote
        if (name := self.files.missing(self.manifest.files)) is not None:
            raise damaged(
                self.folder / name, "it does not exist" if remote is None else f"it is not in {remote.address}"
            )
        if remote is None:
            self._pass = ChecksumPass(self.files, self._places, lambda file: file in self.manifest.files)

    def check(self) -> None:
        """Verify the checksums of all pieces that the manifest names. Raises B7061."""
        self.files.check(self._places)

    @property
    def _places(self) -> list[FileRange]:
        """Return all valid pieces, including that of the manifest."""
        return [*([self._at] if self._at else []), *self.manifest.places]

    def arrange(self, requested: Iterable[Arranged], kept: frozenset[str]) -> None:
        """Open the arrangements of these relations: those in `kept` with their rows, the others empty."""
        for arranged in requested:
            name, stored = arranged.name, self.manifest.relations.get(arranged.name)
            runs = runs_of(arranged, stored, self.files) if stored is not None and name in kept else []
            made = self.arrangements[name] = Arrangement(arranged, self._spill, self.run_bytes, runs)
            self._entries.pop(name, None)
            self._committed.pop(name, None)
            if stored is None or not runs or arranged.fenced != stored[0].fenced:
                continue  # else the fences of entries would be taken for those of other columns
            self._entries[name] = dict(zip(runs, stored[1], strict=True))
            if arranged == stored[0]:
                self._committed[name] = made.runs

    def stored(self, name: str) -> Arrangement | None:
        """Return a relation as the manifest has it, independent of the open arrangements and of deletions by another
        process."""
        found = self.manifest.relations.get(name)
        if found is None:
            return None
        self.files.hold(p for e in found[1] for p in (e.place, *e.dead))
        return Arrangement(found[0], self._spill, self.run_bytes, runs_of(found[0], found, self.files))

    def sizes(self) -> dict[str, Size]:
        """Return the sizes of all relations on disk."""
        return {
            name: Size(found.rows, found.bytes, found.runs, *self._look_ups.get(name, (0, 0)))
            for name, found in self.manifest.figures.items()
        }

    def _spill(self, run: Run) -> Run:
        """Write a large run before the epoch ends."""
        return self._written(run, self._writer) if run.bytes >= self.run_bytes // 2 else run

    def _written(self, run: Run, writer: Writer) -> Run:
        place = self.files.trust(writer.add(with_indexes(run)))
        found = read_run(self.files.read(place), run.arranged, place)
        found.fences, found.depth = fences_of(run), run.depth
        assert run.dead is None
        return found

    # --- look-ups and changes in other processes

    def snapshot(self, name: str, before: bool = False) -> tuple[ArrangementSnapshot, list[Run]]:
        """Write an arrangement for tasks as it is now, or as it was `before` this epoch.

        Return the snapshot and its runs in order.
        """
        arrangement, writer = self.arrangements[name], self._writer
        write_changes(arrangement, writer, lambda run: self._written(run, writer))
        runs = [r for r in (arrangement.runs if before else arrangement.all_runs) if before or r.alive]
        return self._given(manifest_of(arrangement, runs, before)), runs

    def definition(self, name: str) -> ArrangementSnapshot:
        """Write an arrangement without its runs, for tasks that only append."""
        return self._given(manifest_of(self.arrangements[name], [], before=False))

    def _given(self, manifest: Manifest) -> ArrangementSnapshot:
        """Write a manifest for tasks, with all that was written before it."""
        place = self._writer.add(manifest.whole())
        self._writer.finish()
        self._apart.add(place.file)
        self._writer = self.files.writer()
        return ArrangementSnapshot(self.folder, place, self.run_bytes, self.files.remote)

    def take_over(self, name: str, runs: Sequence[Run], changes: ArrangementChanges) -> None:
        """Apply the changes of tasks to an arrangement. `runs` are those of the tasks' snapshot."""
        arrangement = self.arrangements[name]
        self._apart |= changes.files
        for new in changes.runs:
            fences = dict(zip(arrangement.arranged.fenced, new.fences, strict=True))
            place = self.files.trust(new.place)
            arrangement.new.append(
                Run(
                    None,
                    arrangement.arranged,
                    place,
                    read=self.files.read,
                    alive=new.rows,
                    size=new.rows,
                    fences=fences,
                )
            )
        for died in changes.died:
            run = runs[died.run]
            run.read = run.read or self.files.read
            run.bury(self.files.trust(died.place), died.rows)
            arrangement.has_died_apart = True
        arrangement.jobs += 1
        arrangement.asked += changes.asked
        arrangement.found += changes.found

    def forget_apart(self, changes: ArrangementChanges) -> None:
        """Delete the files of tasks whose changes are not used."""
        self.files.forget(changes.files)

    # --- an epoch

    def begin(self) -> None:
        """Start an epoch. Finished merges replace their runs."""
        self.merging.install(self.arrangements)

    def prepare(self) -> dict[str, Any] | None:
        """Write and sync the epoch's changes.

        Return the place of the manifest, for the epoch's row, or None without state.
        """
        if self._pass is not None:
            self._pass.raise_error()  # no epoch is committed on state that is known to be damaged
        started = time.perf_counter()
        if not self._swept:
            self._present = self.files.present()
        self._next = {}
        relations: dict[str, Relation] = {}
        for name, arrangement in self.arrangements.items():
            if arrangement.is_changed or arrangement.runs is not self._committed.get(name):
                self._next[name], entries = self._next_runs(arrangement)
                relations[name] = (arrangement.arranged, entries)
            else:
                relations[name] = self.manifest.relations[name]
        if relations == self.manifest.relations:
            self._prepared = None
        else:
            prepared, at = self._write_manifest(relations)
            self._before, self._at, self._prepared = self._at, at, prepared
        self._writer.finish()
        self.write_seconds += time.perf_counter() - started
        return {**asdict(self._at), **self._figures()} if self._at else None

    def _write_manifest(self, relations: Mapping[str, Relation]) -> tuple[Manifest, FileRange]:
        """Write the difference to the last manifest, or the complete one if it is not much longer than the data read or
        retained for the difference."""
        chain = (*self.manifest.chain, *([self._at] if self._at else []))
        if 0 < len(chain) < CHAIN and self._writer.size < WHOLE * chain[0].length:
            found = self._with_retired(Manifest(relations, chain=chain, before=self.manifest))
            batch = found.difference(self.manifest)
            if 2 * (sum(p.length for p in chain[1:]) + batch.nbytes) < chain[0].length:
                return found, self._writer.add(batch)
        found = self._with_retired(Manifest(relations, before=self.manifest))
        return found, self._writer.add(found.whole())

    def _figures(self) -> dict[str, Any]:
        """Return the figures of all state for people: rows, bytes, runs, and its costs in seconds."""
        found = list((self._prepared or self.manifest).figures.values())
        return {
            "rows": sum(f.rows for f in found),
            "bytes": sum(f.bytes for f in found),
            "runs": sum(f.runs for f in found),
            "write_seconds": round(self.write_seconds, 3),
            "merge_seconds": round(self.merging.seconds, 3),
            "keys_looked_up": sum(a.asked for a in self.arrangements.values()),
            "rows_found": sum(a.found for a in self.arrangements.values()),
            "look_ups": {
                n: (a.asked, a.found, a.jobs) for n, a in self.arrangements.items() if a.asked or a.found or a.jobs
            },
        }

    def _next_runs(self, arrangement: Arrangement) -> tuple[list[Run], tuple[ManifestEntry, ...]]:
        """Return the runs after this epoch, all written, and their entries."""
        small = [r for r in arrangement.new if r.place is None and r.alive]
        written = [r for r in arrangement.new if r.place is not None and r.alive]
        kept = [r for r in arrangement.runs if r.alive]
        if small:
            few = [r for r in kept if r.alive <= MIN_ROWS and not r.depth]
            is_little = (
                sum(r.alive for r in small) <= MIN_ROWS and sum(map(living_bytes, [*few, *small])) <= self.run_bytes
            )
            if len(few) >= WIDTH and is_little and not self.merging.has(few):
                small, kept = [*few, *small], [r for r in kept if r.alive > MIN_ROWS or r.depth]
            written.append(self._written(together(small), self._writer))
        runs = [*kept, *written]
        died = by_run(arrangement.killed[arrangement.filed :])
        known = self._entries.get(arrangement.arranged.name, {})
        return runs, tuple(self._entry(r, died.get(id(r), []), known.get(r)) for r in runs)

    def _entry(self, run: Run, died: list[Positions], known: ManifestEntry | None) -> ManifestEntry:
        assert run.place is not None
        died = [*died, run.carried] if len(run.carried) and run.carried_place is None else died
        if known is not None and not died and not run.died_apart and run.carried_place is None:
            return known
        entry = entry_of(run)
        if run.dead is None:
            return entry
        places = entry.dead
        if len(places) + bool(died) > max(DEAD_PLACES, len(run.dead_places)):
            places, died = (), [run.dead.positions()]
        if died:
            places = (*places, self._writer.add(dead_batch(np.concatenate(died), len(run))))
        return replace(entry, dead=places)

    def _with_retired(self, manifest: Manifest) -> Manifest:
        now, since = time.time_ns() // 1000, manifest.left_from(self.manifest)
        if self._at is not None and not manifest.names(self._at.file):
            since.add(self._at.file)
        times = {**dict.fromkeys(since, now), **self.manifest.retired}
        late = now - int(self.retain * 1_000_000)
        retired = {f: t for f, t in times.items() if t > late and not manifest.names(f)}
        return replace(manifest, retired=retired, before=manifest)

    def committed(self) -> None:
        """Make the prepared changes current, after the epoch's row was committed."""
        for name, runs in self._next.items():
            arrangement = self.arrangements[name]
            entries = (self._prepared or self.manifest).relations[name][1]
            for run, entry in zip(runs, entries, strict=True):
                run.count_dead(entry.dead)
            self._entries[name] = dict(zip(runs, entries, strict=True))
            if len(arrangement.runs) != len(runs) or any(
                a is not b for a, b in zip(arrangement.runs, runs, strict=True)
            ):
                arrangement.runs = tuple(runs)  # only then: data computed from all runs is cached with them
            arrangement.new, arrangement.killed, arrangement.filed = [], [], 0
            arrangement.has_died_apart = False
            self._committed[name] = arrangement.runs
        old = self.manifest
        if self._prepared is not None:
            self.manifest, self._prepared = self._prepared, None
        # in the first epoch all files, whatever it changes: later a merge may be writing one that no manifest names
        known = self.manifest.left_from(old) | old.retired.keys() if self._swept else self._present
        self._swept = True
        self.files.forget(f for f in known | self._apart if not self._is_named(f))  # tasks' snapshots among them
        self._writer, self._apart = self.files.writer(), set()
        self._let_go()
        self.merging.start(self.arrangements, self._next.keys())

    def _is_named(self, file: str) -> bool:
        """Whether a file counts, or may still be read."""
        is_last = self._at is not None and file == self._at.file
        return is_last or file in self.manifest.retired or self.manifest.names(file)

    def _let_go(self) -> None:
        """Delete copies above the limit of their size."""
        if self.files.remote is None:
            return
        runs: dict[str, list[Run]] = {}
        for run in (r for a in self.arrangements.values() for r in a.runs):
            assert run.place is not None
            run.read, run.blocks = self.files.read, self.files.blocks
            runs.setdefault(run.place.file, []).append(run)
        sizes, now = self.files.copies(self.copies // MANY), max(self._used.values(), default=0) + 1
        self._used = {f: now if any(r.is_used for r in found) else self._used.get(f, 0) for f, found in runs.items()}
        over = sum(sizes.values()) - self.copies
        for name in sorted(runs.keys() & sizes.keys(), key=self._used.__getitem__):
            if over <= 0:
                break
            for run in runs[name]:
                run.let_go()
            self.files.let_go(name)
            over -= sizes[name]
        for found in runs.values():
            for run in found:
                run.is_used = False

    def rollback(self) -> None:
        """Undo the changes of the epoch."""
        if self._prepared is not None:
            self._at, self._prepared = self._before, None
        else:
            self.files.forget(self._apart)  # otherwise a commit whose answer was lost may name them
        for arrangement in self.arrangements.values():
            arrangement.undo()
        self._writer.discard()
        self._writer, self._apart = self.files.writer(), set()

    def close(self) -> None:
        """Stop the running merges. The next start deletes files that no epoch has taken over."""
        if self._pass is not None:
            self._pass.stop()
        self.merging.close()
        self._writer.discard()
