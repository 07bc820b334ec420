"""Tables are counted where that could change an answer, and not again."""

from __future__ import annotations

from belvedere.engine.cardinalities import Costs


def test_a_table_that_had_enough_rows_is_not_counted_again() -> None:
    counted: list[str] = []

    def count(relation: str) -> int:
        counted.append(relation)
        return 100 * len(counted)

    costs = Costs(True)
    assert not costs.has_rows("T", 150, count)
    assert costs.has_rows("T", 150, count)
    assert costs.has_rows("T", 200, count)
    assert counted == ["T", "T"]
    assert costs.has_rows("T", 250, count)
    assert counted == ["T", "T", "T"]
