"""The comparison of a measurement with an older commit."""

from __future__ import annotations

import io

from rich.console import Console

from bench.against import Figures, add, table_of


def test_figures_of_the_same_measurement_stand_side_by_side() -> None:
    then: Figures = {}
    now: Figures = {}
    for seconds in (4.0, 6.0, 5.0):
        add(then, [{"query": "Q4", "events_per_epoch": 1_000, "epochs": 7, "epoch_p50": seconds, "gone": 1.0}])
    add(
        now,
        [{"query": "Q4", "events_per_epoch": 1_000, "epochs": 9, "epoch_p50": 1.0}, {"query": "Q9", "epoch_p50": 2.0}],
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table_of(then, now, "abc"))
    text = console.export_text()
    assert [cell.strip() for cell in text.splitlines()[3].strip("│").split("│")] == [
        "Q4, events_per_epoch 1,000", "epoch p50", "5.00", "1.00", "0.20",
    ]  # fmt: skip
    assert "Q9" not in text
    assert "gone" not in text
