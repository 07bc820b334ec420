"""The running merges of a state: a few at a time, each in a thread, over disjoint sets of runs.

In: arrangements after an epoch. Out: their runs before the next one. The runs of a merge are replaced all at once or
not at all. After a crash no manifest names the files that a merge has written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from belvedere.state.arrangement import Arrangement
from belvedere.state.files import Files, Writer
from belvedere.state.merge import Merge, MergedRun, decided, to_merge
from belvedere.state.sorted_run import Run

AT_ONCE = 2
"""Maximum number of merges that run in parallel."""


class _StoppedError(Exception):
    """Raised if the state is closed."""


@dataclass(frozen=True)
class _UnderWay:
    relation: str
    merge: Merge
    future: Future[list[MergedRun]]


class Merging:
    """The merges of all arrangements."""

    def __init__(self, files: Files, write: Callable[[Run, Writer], Run], run_bytes: int):
        """`write` writes a run to a file, and returns the run that is read from there."""
        self.files, self.write, self.run_bytes = files, write, run_bytes
        self.seconds = 0.0
        self._threads = ThreadPoolExecutor(AT_ONCE, "merge")
        self._under_way: list[_UnderWay] = []
        self._last: str | None = None
        self._due: set[str] | None = None
        """The relations that have changed since they had nothing to merge; None: all."""
        self._stopped = Event()

    def has(self, runs: Iterable[Run]) -> bool:
        """Return whether one of these runs is being merged."""
        taken = {r for m in self._under_way for r in m.merge.runs}
        return any(r in taken for r in runs)

    def start(self, arrangements: Mapping[str, Arrangement], changed: Iterable[str]) -> None:
        """Begin merges, one relation after the other, while threads are free."""
        self._due = set(arrangements) if self._due is None else self._due.union(changed) & arrangements.keys()
        names = [n for n in arrangements if n in self._due or n == self._last]
        after = names.index(self._last) + 1 if self._last in names else 0
        for name in [*names[after:], *names[:after]]:
            while len(self._under_way) < AT_ONCE and name in self._due:
                if self._start_one(name, arrangements[name]):
                    self._last = name
                else:
                    self._due.discard(name)

    def _start_one(self, name: str, arrangement: Arrangement) -> bool:
        taken = {r for m in self._under_way for r in m.merge.runs}
        free = [r for r in arrangement.runs if r not in taken] if taken else arrangement.runs
        chosen, cut = to_merge(free, self.run_bytes)
        if chosen:
            merge = decided(chosen, self.run_bytes if cut else None)
            self._under_way.append(_UnderWay(name, merge, self._threads.submit(self._run, merge)))
        return bool(chosen)

    def _run(self, merge: Merge) -> list[MergedRun]:
        started = time.perf_counter()
        found: list[MergedRun] = []
        try:
            for piece in merge.pieces():
                if self._stopped.is_set():
                    raise _StoppedError
                found.append(self._written(merge.make(piece)))
        except BaseException:
            self._forget(found)
            raise
        self.seconds += time.perf_counter() - started
        return found

    def _written(self, merged: MergedRun) -> MergedRun:
        writer = self.files.writer()
        try:
            run = self.write(merged.run, writer)
            writer.finish()
        except BaseException:
            writer.discard()  # half a file would fill the disk until the next start
            raise
        return MergedRun(run, merged.piece, merged.places)

    def _forget(self, found: Iterable[MergedRun]) -> None:
        self.files.forget(m.run.place.file for m in found if m.run.place is not None)

    def install(self, arrangements: Mapping[str, Arrangement]) -> None:
        """Replace the runs of finished merges. Raises the error of a merge of current runs."""
        for done in [m for m in self._under_way if m.future.done()]:
            self._under_way.remove(done)
            arrangement = arrangements.get(done.relation)
            if self._due is not None:
                self._due.add(done.relation)
            merged = set(done.merge.runs)
            if arrangement is None or not merged <= set(arrangement.runs):
                if done.future.exception() is None:  # its runs have been replaced, maybe before it read them
                    self._forget(done.future.result())
                continue
            found = done.future.result()
            for one in found:
                done.merge.carry_over(one)
            arrangement.runs = (*(r for r in arrangement.runs if r not in merged), *(m.run for m in found))

    def wait(self) -> int:
        """Wait for the running merges, and return their number."""
        for one in self._under_way:
            one.future.exception()
        return len(self._under_way)

    def close(self) -> None:
        """Stop the running merges after their present run. No epoch names the files that they have written."""
        self._stopped.set()
        self._threads.shutdown(wait=True)
