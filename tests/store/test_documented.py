"""docs/reference/store.md names every code that the store raises, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_code_of_the_store_is_documented() -> None:
    folders = (ROOT / "belvedere" / name for name in ("store", "state"))
    sources = "".join(p.read_text() for folder in folders for p in folder.rglob("*.py"))
    raised = set(re.findall(r'"(B70\d\d)"', sources))
    page = (ROOT / "docs" / "reference" / "store.md").read_text()
    assert set(re.findall(r"^\| (B70\d\d) \|", page, re.MULTILINE)) == raised
