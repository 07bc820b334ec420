"""The paper's queries with their tables and expected rows (tests/cases/window_by_paper.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCUMENT = json.loads((Path(__file__).parent.parent / "cases" / "window_by_paper.json").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = DOCUMENT["cases"]
FIGURES = [c["figure"] for c in CASES]


def table(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(DOCUMENT["tables"][case["table"]])


def close(left: Any, right: Any) -> bool:
    """Equal, doubles within 1e-9 relative."""
    if isinstance(left, float) or isinstance(right, float):
        return left is not None and right is not None and abs(left - right) <= 1e-9 * max(1.0, abs(right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(close(left[k], right[k]) for k in left)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(close(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)
