"""What is accepted stays accepted, with the same columns and the same plan.

The lists in `tests/fixtures/compatibility` have a line for each script and query that is written in this repository or
made by `forms`. After a change of the language that is meant, `pytest tests/compatibility --update` writes the lists
anew: read in their diff what is refused now, and which columns (the first four digits) and plans (the last four) are
others. A text that was changed has a line of its own: no line is compared with that of another text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.plan.plan_text import plan_text
from tests.compatibility.scripts import examples, golden_scripts, pages, query_lists, random_scripts
from tests.compatibility.shown_plans import SHOWN
from tests.compatibility.verdicts import CRASH, Queries, Script, of_queries, of_script

FOLDER = Path(__file__).parents[1] / "fixtures" / "compatibility"
STILL_TRIED = 0.9
"""The part of the lines whose scripts must be there still: pages and golden files change."""


def compared(name: str, tried: dict[str, str], update: bool) -> None:
    """Compare lines with those of a file, or write them."""
    path = FOLDER / f"{name}.txt"
    if update:
        path.write_text("".join(f"{k}: {v}\n" for k, v in tried.items()), encoding="utf-8")
    stored = dict(line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    changed = [f"{k}\n  was {v}\n  is  {tried[k]}" for k, v in stored.items() if tried.get(k, v) != v]
    assert not changed, "\n".join(changed)
    assert not [k for k, v in tried.items() if CRASH in v.split()]
    shared = stored.keys() & tried.keys()
    assert len(shared) >= STILL_TRIED * max(len(stored), len(tried)), (
        "the list is old: pytest tests/compatibility --update"
    )


@pytest.mark.parametrize("of", [golden_scripts, examples, pages, random_scripts])
def test_scripts_are_accepted_as_before(of: Callable[[], Iterator[Script]], request: pytest.FixtureRequest) -> None:
    compared(of.__name__, dict(map(of_script, of())), request.config.getoption("--update"))


@pytest.mark.parametrize("queries", [pytest.param(q, id=q.name) for q in query_lists()])
def test_queries_are_accepted_as_before(queries: Queries, request: pytest.FixtureRequest) -> None:
    compared(queries.name, of_queries(queries), request.config.getoption("--update"))


def test_plans_are_printed_as_before(request: pytest.FixtureRequest) -> None:
    compiled = compile_script(SHOWN)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    text = "".join(f"{v.name}\n{plan_text(v.plan, '  ')}\n\n" for v in compiled.catalog.views.values())
    if request.config.getoption("--update"):
        (FOLDER / "plans.txt").write_text(text, encoding="utf-8")
    assert text == (FOLDER / "plans.txt").read_text(encoding="utf-8")
