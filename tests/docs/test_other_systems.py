"""The examples of `docs/how-to/coming-from.md` for other systems run. Each view has the rows of its batch."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from belvedere.workbench.workbench import Workbench
from tests.docs.test_pages import ROOT, Block, blocks_of
from tests.event_time.cases import at

PAGE = ROOT / "docs/how-to/coming-from.md"
SYSTEMS = ("feldera", "risingwave", "ksqldb", "materialize", "cql", "flink")
EXAMPLES = {n: b for b in blocks_of(PAGE) if (n := b.option("example")) is not None}


def value(name: str, number: int) -> Any:
    """A value of a column: two groups, prices that fall and rise, times three minutes apart."""
    words = {"ts": at("8:00") + timedelta(minutes=3 * number), "id": number, "price": [20, 15, 12, 30][number // 2 % 4]}
    return words.get(name, number if name == "amount" else "ab"[number % 2])


def rows_of(wb: Workbench, name: str, numbers: range) -> list[dict[str, Any]]:
    columns = wb.catalog.inputs[name].schema.visible
    return [{c.name: value(c.name, n) for c in columns} for n in numbers]


def test_each_system_has_an_example() -> None:
    assert tuple(EXAMPLES) == SYSTEMS


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_example_of_a_system_runs(executor: Any, name: str) -> None:
    block: Block = EXAMPLES[name]
    wb = Workbench(block.text, spark=executor)
    inputs = [n for n in wb.catalog.inputs if not n.startswith("LATE")]
    for numbers, time in ((range(16), "8:48"), (range(16, 20), "9:00")):
        wb.clock(at(time))
        for stream in inputs:
            wb.insert(stream, rows_of(wb, stream, numbers))
            if wb.catalog.inputs[stream].watermarks:
                wb.bound(stream, at("8:48") if time == "8:48" else at("23:00"))
        wb.step()
    views = [v for v in wb.catalog.views if not v.startswith("_")]
    assert views
    batches = wb.batches(views)
    for view in views:
        assert wb.rows(view), view
        assert Counter(map(repr, wb.rows(view))) == Counter(map(repr, batches[view])), view
    wb.close()
