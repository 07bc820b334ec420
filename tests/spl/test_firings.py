"""Counts over all groups of a firing, windows by a decimal and sorted rows against the plain simulator."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

from belvedere import Workbench
from tests.spl.clauses import clause
from tests.spl.simulator import Simulator, Tuple

SCRIPT = """
CREATE STREAM Trades (id INT, sym STRING, kind INT, level INT, price DECIMAL(12, 3));
Counted := SELECT STREAM kind, count(*) AS n, CountGroups() AS groups, CountAll() AS total, CountByGroup() AS each
    FROM Trades WINDOW (sliding, count(4), count(3), partitioned BY sym) GROUP BY kind HAVING count(*) > 1;
Last := SELECT sym, kind, CountGroups() AS groups, CountByGroup() AS each
    FROM Trades WINDOW (sliding, count(4), count(3), partitioned BY sym) GROUP BY sym, kind;
Sums := SELECT STREAM kind, min(id) AS id, sum(level) AS total FROM Trades WINDOW (tumbling, count(5)) GROUP BY kind;
Leaps := SELECT STREAM collect_list(id) AS ids FROM Trades WINDOW (tumbling, delta(price, 0.25));
Near := SELECT STREAM collect_list(id) AS ids
    FROM Trades WINDOW (sliding, delta(price, 0.5), delta(price, 0.25), aggregateIncompleteWindows);
Sorted := SELECT STREAM *, firing() AS number
    FROM Trades WINDOW (tumbling, count(3), partitioned BY sym) ORDER BY kind DESC, level % 3;
Soon := SELECT STREAM id, firing() AS number
    FROM Trades WINDOW (sliding, count(3), partitioned BY sym) ORDER BY kind, level % 3 DESC;
OfFiring := SELECT STREAM id, total FROM Sums WINDOW (tumbling, punct()) ORDER BY total DESC;
"""


def firings(window: str, rows: list[dict[str, Any]], partitioned: bool) -> list[list[dict[str, Any]]]:
    """The contents of each firing."""
    simulator = Simulator(clause(window))
    for row in rows:
        simulator.tuple(Tuple(row["id"], 0, row["sym"] if partitioned else None, row))
    return [[rows[n] for n in fired.contents] for fired in simulator.firings]


def soonest(rows: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """What a progressive sort lets go, row by row."""
    held: dict[str, list[dict[str, Any]]] = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        own = held.setdefault(row["sym"], [])
        if len(own) == size:
            own.sort(key=lambda r: (r["kind"], -(r["level"] % 3), r["id"]))
            found.append({"id": own.pop(0)["id"], "number": len(found) + 1})
        own.append(row)
    return found


def test_counts_decimals_and_sorted_rows(executor: Any) -> None:
    pick = random.Random(5)
    rows: list[dict[str, Any]] = []
    level = 0
    wb = Workbench(SCRIPT, spark=executor)
    try:
        for size in (7, 1, 9):
            new: list[dict[str, Any]] = []
            for _ in range(size):
                level += pick.choice([0, 1, 3])
                row = {"id": len(rows) + len(new), "sym": pick.choice("ab"), "kind": pick.randint(0, 2), "level": level}
                new.append(row | {"price": Decimal(level) / 8})
            wb.insert("Trades", [r | {"price": str(r["price"])} for r in new])
            wb.step()
            rows += new
            wb.restart()
        counted, last = [], {}
        for contents in firings("sliding, count(4), count(3)", rows, True):
            by = Counter(r["kind"] for r in contents)
            reported = {"groups": len(by), "each": list(by.values())}
            counted += [{"kind": k, "n": n, **reported, "total": len(contents)} for k, n in by.items() if n > 1]
            last[contents[0]["sym"]] = [{"sym": contents[0]["sym"], "kind": k, **reported} for k in by]
        assert wb.rows("Counted") == counted == wb.batch("Counted")
        expected = sorted((r for rows in last.values() for r in rows), key=repr)
        assert sorted(wb.rows("Last"), key=repr) == expected == sorted(wb.batch("Last"), key=repr)
        in_order = []
        for number, contents in enumerate(firings("tumbling, count(3)", rows, True), 1):
            contents.sort(key=lambda r: (-r["kind"], r["level"] % 3, r["id"]))
            in_order += [r | {"number": number} for r in contents]
        assert wb.rows("Sorted") == in_order == wb.batch("Sorted")
        assert wb.rows("Soon") == soonest(rows, 3) == wb.batch("Soon")
        sums = []
        for contents in firings("tumbling, count(5)", rows, False):
            own = [[r for r in contents if r["kind"] == k] for k in dict.fromkeys(r["kind"] for r in contents)]
            sums += sorted(
                ({"id": rs[0]["id"], "total": sum(r["level"] for r in rs)} for rs in own), key=lambda r: -r["total"]
            )
        assert wb.rows("OfFiring") == sums == wb.batch("OfFiring")
        for view, window in (
            ("Leaps", "tumbling, delta(level, 2)"),
            ("Near", "sliding, delta(level, 4), delta(level, 2), incomplete"),
        ):
            fired = [{"ids": [r["id"] for r in contents]} for contents in firings(window, rows, False)]
            assert wb.rows(view) == fired == wb.batch(view)
    finally:
        wb.close()
