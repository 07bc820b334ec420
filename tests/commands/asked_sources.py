"""Call `belvedere sources` and take its answer apart."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

from belvedere.cli import run


@dataclass(frozen=True)
class Said:
    """What a command has printed."""

    stdout: str
    stderr: str


def called(*arguments: str, code: int = 0) -> Said:
    """`belvedere sources ...`, which ends with `code`."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = run(["sources", *arguments])
    assert ended == code, (out.getvalue(), err.getvalue())
    return Said(out.getvalue(), err.getvalue())


def as_json(*arguments: str, code: int = 0) -> Any:
    """The answer of `--json`."""
    return json.loads(called(*arguments, "--json", code=code).stdout)


def part(found: Any, source: str, table: str, number: str | None = None) -> Any:
    """What is told of a table of a source, or of one of its partitions."""
    parts = next(s for s in found["sources"] if s["source"] == source)["parts"]
    return next(p for p in parts if p.get("table") == table and p.get("part") == number)
