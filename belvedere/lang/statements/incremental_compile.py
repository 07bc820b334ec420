"""Incremental compilation for editors: a compile continues after the last statement up to which the script is
unchanged.

In: the parsed statements of a script, the lowering state after each, the answers of sources and files. Out: the state
to continue from. No state is kept after a rejected statement, because its meaning may depend on later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.errors import BelvedereError, Severity
from belvedere.functions.project_functions import OwnFunction
from belvedere.lang.names.definitions import BrokenNames, Definitions
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.project.settings import ProjectSettings
from belvedere.syntax.statement_tree import Script

KEPT = 40
"""Maximum number of states kept for a script, spread evenly over its statements."""


@dataclass(frozen=True)
class CompiledPart:
    """The lowering of the first `count` statements, the other scripts compiled for them, and how many questions they asked."""

    count: int
    lowering: ScriptLowering
    scripts: Mapping[Path, Definitions]
    asked: int


@dataclass
class Progress:
    """The states of the last compile of one script: the next compile receives them, continues from one and stores its
    own.
    """

    script: Script | None = None
    project: ProjectSettings | None = None
    functions: Mapping[str, OwnFunction] = field(default_factory=dict)
    reached: list[CompiledPart] = field(default_factory=list)
    answers: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    """Questions to sources and files, with the answers."""

    def ask(self, question: Callable[[], Any]) -> Any:
        """An answer from outside of the script; the next compile asks again, and goes on from above where it is another."""
        answer = question()
        self.answers.append((question, answer))
        return answer

    def resume(self, script: Script, project: ProjectSettings | None) -> CompiledPart | None:
        """The last state that is one of this script too. Those behind it are forgotten."""
        functions = project.functions if project is not None else {}
        same, reported = 0, 0
        if self.script is not None and (self.script.file, self.project, self.functions) == (
            script.file,
            project,
            functions,
        ):
            same = _equal(a is b for a, b in zip(self.script.statements, script.statements, strict=False))
            reported = _equal(_answers(question, answer) for question, answer in self.answers)
        self.script, self.project, self.functions = script, project, functions
        self.reached = [r for r in self.reached if r.count <= same and r.asked <= reported]
        found = self.reached[-1] if self.reached else None
        del self.answers[found.asked if found is not None else 0 :]
        return found

    def keep(self, count: int, lowering: ScriptLowering, scripts: Mapping[Path, Definitions]) -> None:
        """Note the lowering of the first `count` statements, none of which was refused, if it is one of those to keep."""
        total = len(self.script.statements) if self.script is not None else 0
        if count % (total // KEPT + 1) == 0:
            self.reached.append(CompiledPart(count, lowering.copy(), dict(scripts), len(self.answers)))


def resumed(reached: CompiledPart, script: Script) -> ScriptLowering:
    """A lowering of the script from a state of the one before: with its text, and its names that are not defined so far."""
    lowering = reached.lowering.copy()
    lowering.text = script.text
    lowering.definitions.broken = BrokenNames(script.unread - lowering.definitions.versions.keys())
    lowering.definitions.lines = {}
    return lowering


def is_refused(lowering: ScriptLowering) -> bool:
    """Whether something is wrong with a statement so far."""
    return any(d.severity is Severity.ERROR for d in lowering.diagnostics)


def _equal(found: Iterable[bool]) -> int:
    """How many are true before the first that is not."""
    return sum(1 for _ in takewhile(bool, found))


def _answers(question: Callable[[], Any], answer: Any) -> bool:
    try:
        now = question()
    except (BelvedereError, OSError, UnicodeDecodeError):
        return False
    if isinstance(now, pa.Schema) and isinstance(answer, pa.Schema):
        return bool(now.equals(answer, check_metadata=True))
    return bool(now == answer)
