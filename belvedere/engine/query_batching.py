"""Stages that take turns. Queries over few rows for which several stages wait are run together, as one.

In: the stages of an epoch, each with the names of the stages before it. Out: all have run. A Spark job costs about 50
ms even for few rows, so fewer jobs make an epoch faster. Only one stage runs at a time, in the caller's thread. A stage
that requests a query is suspended (a greenlet) until no other stage can continue. Shared data of stages therefore needs
no lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from belvedere.engine.relation import name_in_script
from belvedere.process.activity import NOW

Question = TypeVar("Question")
Answer = TypeVar("Answer")


@dataclass
class Task:
    """One stage. It begins when the stages in `follows` have ended."""

    name: str
    follows: Collection[str]
    run: Callable[[], None]
    seconds: float = 0.0
    """Seconds that it ran, with its share of combined queries."""
    thread: greenlet | None = field(default=None, repr=False)
    question: Any = None
    """Query that it waits for."""

    def go_on(self, resume: Callable[[], Any]) -> None:
        """Run the stage until it ends or requests a query."""
        started = time.perf_counter()
        try:
            self.question = resume()
        finally:
            self.seconds += time.perf_counter() - started

    @property
    def has_ended(self) -> bool:
        return self.thread is not None and self.thread.dead


class QueryBatching(Generic[Question, Answer]):
    """Runs tasks. `together` answers the queries of one round, each by an answer or by an error to raise."""

    def __init__(self, together: Callable[[Sequence[Question]], Sequence[Answer | Exception]]):
        self._together = together
        self._hub: greenlet | None = None
        self._all: Sequence[Task] = ()

    @property
    def is_on(self) -> bool:
        """Return whether the caller is a task, which can request a query."""
        return self._hub is not None and getcurrent().parent is self._hub

    def ask(self, question: Question) -> Answer:
        """Wait for the answer while other tasks continue. Raises the error of the query."""
        assert self._hub is not None
        answer: Answer = self._hub.switch(question)
        return answer

    def run(self, tasks: Sequence[Task]) -> None:
        """Run all tasks, in their order unless they wait. Raises the error of a task."""
        self._hub = getcurrent()
        self._all = left = list(tasks)
        try:
            while left:
                self._begin(left)
                left = [t for t in left if not t.has_ended]
                if left:
                    self._answer([t for t in left if t.thread is not None])
        finally:
            self._hub = None
            for task in tasks:
                if task.thread is not None and not task.has_ended:
                    task.thread.throw()  # ends it at the point where it waits

    def _begin(self, left: Sequence[Task]) -> None:
        """Begin each task whose predecessors have ended."""
        while True:
            names = {t.name for t in left if not t.has_ended}
            ready = next((t for t in left if t.thread is None and names.isdisjoint(t.follows)), None)
            if ready is None:
                return
            NOW.at(_shown([ready]), len(self._all) - len([t for t in left if t.thread is None]) + 1, len(self._all))
            ready.thread = greenlet(ready.run)
            ready.go_on(ready.thread.switch)

    def _answer(self, waiting: Sequence[Task]) -> None:
        assert waiting, "internal error: queries wait for each other"
        NOW.stage = _shown(waiting)
        started = time.perf_counter()
        answers = self._together([t.question for t in waiting])
        share = (time.perf_counter() - started) / len(waiting)
        for task, answer in zip(waiting, answers, strict=True):
            task.seconds += share
            assert task.thread is not None
            resume = task.thread.throw if isinstance(answer, Exception) else task.thread.switch
            task.go_on(partial(resume, answer))


def _shown(tasks: Sequence[Task]) -> str:
    """Return the stages by the names of their views, for people."""
    names = list(dict.fromkeys(name_in_script(t.name) for t in tasks))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
