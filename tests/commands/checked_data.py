"""Call `belvedere check --data` and take its answer apart."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from belvedere.cli import run


def checked(folder: Path, *arguments: str, code: int = 0) -> str:
    """What `belvedere check s.sqrl --data ...` prints; it ends with `code`."""
    out = StringIO()
    with redirect_stdout(out):
        ended = run(["check", str(folder / "s.sqrl"), "--data", *arguments])
    assert ended == code, out.getvalue()
    return out.getvalue()


def looked_at(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What is told of each input, by its name."""
    answer = json.loads(checked(folder, *arguments, "--json", code=code))
    assert answer["ok"] is (code == 0)
    return {one["input"]: one for one in answer["data"]}


def reported(looked: Any, kind: str) -> list[tuple[str, int | None]]:
    """The findings of a kind: what they are, and in how many rows."""
    return [(f["what"], f.get("rows")) for f in looked["findings"] if f["kind"] == kind]


def project(folder: Path, text: str, script: str) -> None:
    """Write a project file and its script."""
    (folder / "belvedere.toml").write_text(text)
    (folder / "s.sqrl").write_text(script)
