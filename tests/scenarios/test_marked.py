"""What differs in a table is marked cell by cell."""

from __future__ import annotations

from belvedere.scenarios.differences import marked

EXPECTED = ["+/-  |  status  | n | worst", "+ | departed | 2 | 74", "- | departed | 1 | 75", "- | scheduled | 1 | null"]
ACTUAL = [
    "+/- | status    | n | worst",
    "+   | departed  | 2 | 75",
    "-   | departed  | 1 | 75",
    "-   | scheduled | 1 | null",
]


def test_widths_do_not_count_and_the_cell_that_differs_is_marked() -> None:
    assert marked(EXPECTED, ACTUAL, ordered=False) == [
        "  +/- | status    | n | worst",
        "- +   | departed  | 2 | 74",
        "+ +   | departed  | 2 | 75",
        "                        ^^",
        "  -   | departed  | 1 | 75",
        "  -   | scheduled | 1 | null",
    ]


def test_rows_that_are_missing_or_too_many_stand_alone() -> None:
    expected, actual = ["a | b", "1 | x", "1 | x", "2 | y"], ["a | b", "1 | x", "3 | z"]
    assert marked(expected, actual, ordered=False) == ["  a | b", "  1 | x", "+ 3 | z", "- 1 | x", "- 2 | y"]


def test_numbers_are_alike_by_value_and_an_order_is_kept() -> None:
    assert marked(["a", "1.50", "2"], ["a", "1.5", "2"], ordered=True) == ["  a", "  1.5", "  2"]
    assert marked(["a", "2", "1"], ["a", "1", "2"], ordered=True) == ["  a", "- 2", "+ 1", "  ^", "- 1", "+ 2", "  ^"]


def test_other_columns_and_lines_of_json_are_no_tables() -> None:
    assert marked(["a | b", "1 | 2"], ["a | c", "1 | 2"], ordered=False) is None
    assert marked(['{"a": 1}'], ["a", "1"], ordered=False) is None
    assert marked([], ["a", "1"], ordered=False) is None
