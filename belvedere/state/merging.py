"""The merges of a state that are under way: some at a time, each in a thread, of runs that no other one has.

In: arrangements after an epoch. Out: their runs before the next one. The runs of a merge are replaced all at once or
not at all. After a crash no manifest names what a merge has written.
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
"""Number of merges that run side by side."""


class _StoppedError(Exception):
    """The state is closed."""


@dataclass(frozen=True)
class _UnderWay:
    relation: str
    merge: Merge
    future: Future[list[MergedRun]]


class Merging:
    """The merges of all arrangements."""

    def __init__(self, files: Files, write: Callable[[Run, Writer], Run], run_bytes: int):
        """`write` puts a run into a file, and gives the one that is read from there."""
        self.files, self.write, self.run_bytes = files, write, run_bytes
        self.seconds = 0.0
        self._threads = ThreadPoolExecutor(AT_ONCE, "merge")
        self._under_way: list[_UnderWay] = []
        self._last: str | None = None
        self._stopped = Event()

    def has(self, runs: Iterable[Run]) -> bool:
        """Whether one of these runs is being merged."""
        taken = {r for m in self._under_way for r in m.merge.runs}
        return any(r in taken for r in runs)

    def start(self, arrangements: Mapping[str, Arrangement]) -> None:
        """Begin merges, relation by relation in turns, while there are threads."""
        names = list(arrangements)
        after = names.index(self._last) + 1 if self._last in names else 0
        for name in [*names[after:], *names[:after]]:
            while len(self._under_way) < AT_ONCE and self._start_one(name, arrangements[name]):
                self._last = name

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
        """Replace the runs of merges that are done. Raises what a merge of current runs has raised."""
        for done in [m for m in self._under_way if m.future.done()]:
            self._under_way.remove(done)
            arrangement = arrangements.get(done.relation)
            merged = set(done.merge.runs)
            if arrangement is None or not merged <= set(arrangement.runs):
                if done.future.exception() is None:  # its runs have left, maybe before it read them
                    self._forget(done.future.result())
                continue
            found = done.future.result()
            for one in found:
                done.merge.carry_over(one)
            arrangement.runs = (*(r for r in arrangement.runs if r not in merged), *(m.run for m in found))

    def wait(self) -> int:
        """Wait for what is under way; how many merges that were."""
        for one in self._under_way:
            one.future.exception()
        return len(self._under_way)

    def close(self) -> None:
        """End what is under way behind the run that it writes; no epoch names what it has written."""
        self._stopped.set()
        self._threads.shutdown(wait=True)
