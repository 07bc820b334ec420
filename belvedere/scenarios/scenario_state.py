"""State of one run of a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belvedere.compiler import Compiled
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.workbench.workbench import Workbench


@dataclass
class World:
    """World of observations: the compiled script, the Workbench, the last answer and error, the folder of sinks."""

    compiled: Compiled
    texts: dict[str, str]
    sinks: Path
    home: Path
    bench: Workbench | None = None
    answer: Any = None
    errors: tuple[Diagnostic, ...] = ()
    console: str = ""

    @property
    def workbench(self) -> Workbench:
        """Return the running Workbench. Raises BelvedereError if the script does not compile."""
        if self.bench is None:
            raise BelvedereError(self.compiled.diagnostics)
        return self.bench
