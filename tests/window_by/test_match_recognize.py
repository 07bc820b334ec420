"""The examples of MATCH_RECOGNIZE in docs/how-to/coming-from.md give the results that Flink's documentation shows."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from belvedere.workbench.workbench import Workbench

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "coming-from.md"
BEGIN = datetime(2018, 9, 17, 10)
PRICES: dict[str, list[int]] = {
    "Falls": [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19],
    "Averages": [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30],
    "Greedy": [10, 11, 12, 13, 14, 16],
    "Drops": [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19],
    "Tops": [10, 12, 13, 11],
    "Sums": [10, 15, 20, 31, 35],
    "Maybe": [10, 15, 20],
    "Maybe not": [10, 20],
    "PastLast": [7, 9, 10, 5, 10, 7, 14],
    "Bounded": [9, 12, 25, 11, 15, 20, 30, 12, 22, 21],
}
"""The prices of each example in the order of time: twenty minutes apart for Drops, else a second."""
RESULTS: dict[tuple[str, str], list[tuple[Any, ...]]] = {
    ("Falls", "Falls"): [(4, 7, 8)],
    ("Averages", "Averages"): [(0, 3, 14.5), (5, 10, 13.5)],
    ("Greedy", "Greedy"): [(16,)],
    ("Reluctant", "Greedy"): [(13,), (16,)],
    ("Drops", "Drops"): [(9, 14)],
    ("Tops", "Tops"): [(10, 13, 11)],
    ("Sums", "Sums"): [([10, 15, 20, 31], 76)],
    ("Offsets", "Sums"): [([10, 15, 20, 31],)],
    ("Maybe", "Maybe"): [([10, 15, 20],)],
    ("Maybe", "Maybe not"): [([10, 20],)],
    ("PastLast", "PastLast"): [(26, 0, 3), (17, 4, 6)],
    ("NextRow", "PastLast"): [(26, 0, 3, 2), (24, 1, 4, 3), (25, 2, 5, 4), (22, 3, 6, 5), (17, 4, 6, 5)],
    ("LastA", "PastLast"): [(26, 0, 3), (25, 2, 5), (17, 4, 6)],
    ("Bounded", "Bounded"): [([25, 11, 15, 20, 30],)],
    ("Shortest", "Bounded"): [([12, 25, 11, 15, 20, 30],), ([12, 22, 21],)],
}
"""By view and symbol; times as places of their rows."""


def script() -> str:
    """Return the examples' script."""
    return next(str(b) for b in re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if "_Ticker" in b)


def step_of(symbol: str) -> timedelta:
    return timedelta(minutes=20) if symbol == "Drops" else timedelta(seconds=1)


def shown(value: Any, symbol: str) -> Any:
    """Return a time as the place of its row."""
    return round((value.replace(tzinfo=None) - BEGIN) / step_of(symbol)) if isinstance(value, datetime) else value


def test_the_examples_of_match_recognize(executor: Any) -> None:
    bench = Workbench(script())
    try:
        rows = [
            {"symbol": symbol, "price": price, "tax": 1, "rowtime": str(BEGIN + n * step_of(symbol))}
            for symbol, prices in PRICES.items()
            for n, price in enumerate(prices)
        ]
        rows.sort(key=lambda row: str(row["rowtime"]))
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            bench.insert("_Ticker", half)
            names = ["a", "b", "c", "a", "b", "b", "c"] if half[0] is rows[0] else ["b", "a", "b", "c"]
            number = 0 if half[0] is rows[0] else 7
            bench.insert(
                "_Events",
                [
                    {"userid": 1, "id": number + n, "name": name, "ts": str(BEGIN + timedelta(seconds=number + n))}
                    for n, name in enumerate(names)
                ],
            )
            bench.step()
            views = ["Abc", *dict.fromkeys(view for view, _ in RESULTS)]
            for view, batch in bench.batches(views).items():
                assert sorted(map(str, bench.rows(view))) == sorted(map(str, batch)), view
        assert sorted(tuple(row.values()) for row in bench.rows("Abc")) == [(0, 1, 2), (8, 9, 10)]
        for (view, symbol), expected in RESULTS.items():
            own = [row for row in bench.rows(view) if row["symbol"] == symbol]
            found = [tuple(shown(v, symbol) for n, v in row.items() if n != "symbol") for row in own]
            assert sorted(found, key=str) == sorted(expected, key=str), view
    finally:
        bench.close()


def test_each_view_of_the_page_is_compared() -> None:
    views = set(re.findall(r"^(\w+) :=", script(), re.MULTILINE))
    assert {v for v in views if not v.startswith("_")} == {"Abc", *(view for view, _ in RESULTS)}
