"""Incremental compilation for editors: a compile continues after the last statement before the first change of the
script.

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
    """Lowering of the first `count` statements, the other scripts compiled for them, and the number of
    questions asked."""

    count: int
    lowering: ScriptLowering
    scripts: Mapping[Path, Definitions]
    asked: int


@dataclass
class Progress:
    """States of the last compile of one script: the next compile receives them, continues from one and stores
    its own."""

    script: Script | None = None
    project: ProjectSettings | None = None
    functions: Mapping[str, OwnFunction] = field(default_factory=dict)
    reached: list[CompiledPart] = field(default_factory=list)
    answers: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    """Questions to sources and files, with the answers."""

    def ask(self, question: Callable[[], Any]) -> Any:
        """Return an answer from outside of the script. The next compile asks again, and continues from an earlier state
        if it differs."""
        answer = question()
        self.answers.append((question, answer))
        return answer

    def resume(self, script: Script, project: ProjectSettings | None) -> CompiledPart | None:
        """Return the last state that is also valid for this script, and discard later ones."""
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
        """Save the lowering of the first `count` statements, none of which was rejected, if this state is selected to
        be kept."""
        total = len(self.script.statements) if self.script is not None else 0
        if count % (total // KEPT + 1) == 0:
            self.reached.append(CompiledPart(count, lowering.copy(), dict(scripts), len(self.answers)))


def resumed(reached: CompiledPart, script: Script) -> ScriptLowering:
    """Return a lowering of the script from a state of its earlier text, with the new text and its names that are not
    yet defined."""
    lowering = reached.lowering.copy()
    lowering.text = script.text
    lowering.definitions.broken = BrokenNames(script.unread - lowering.definitions.versions.keys())
    lowering.definitions.lines = {}
    return lowering


def is_refused(lowering: ScriptLowering) -> bool:
    """Return whether a statement so far has an error."""
    return any(d.severity is Severity.ERROR for d in lowering.diagnostics)


def _equal(found: Iterable[bool]) -> int:
    """Return the number of true values before the first false one."""
    return sum(1 for _ in takewhile(bool, found))


def _answers(question: Callable[[], Any], answer: Any) -> bool:
    try:
        now = question()
    except (BelvedereError, OSError, UnicodeDecodeError):
        return False
    if isinstance(now, pa.Schema) and isinstance(answer, pa.Schema):
        return bool(now.equals(answer, check_metadata=True))
    return bool(now == answer)
