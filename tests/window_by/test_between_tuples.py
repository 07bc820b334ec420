"""Conditions between two tuples over decimals, arrays and texts, and aggregates of SQL over a window: as plain Python
says.

A sliding window goes from each row to the first row, itself included, that fulfils END; without one it is not closed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from belvedere.workbench.workbench import Workbench

Row = dict[str, Any]
Test = Callable[[Row, Row, Row | None], bool | None]

TABLE = "CREATE TABLE O (id INT, k STRING, v INT, xs ARRAY<INT>, m DECIMAL(10,2), p DECIMAL(4,1), PRIMARY KEY (id));\n"
SLIDING = (
    "FROM O AS t WINDOW BY w ORDER BY t.id TYPE SLIDING START AS s END AS e NEXT AS n WHEN {} SELECT s.id, e.id AS last"
)


def joined(*texts: str | None) -> str | None:
    return None if None in texts else "".join(t for t in texts if t is not None)


def contains(values: list[Any] | None, value: Any) -> bool | None:
    if values is None or value is None:
        return None
    return True if value in values else None if None in values else False


def known(value: Any, test: Callable[[Any], bool]) -> bool | None:
    return None if value is None else test(value)


def less(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a - b


CASES: dict[str, tuple[str, Test]] = {
    "Decimals": (
        "n.m - s.m > 2.5",
        lambda s, e, n: n is not None and known(less(n["m"], s["m"]), lambda d: d > Decimal("2.5")),
    ),
    "Scales": (
        "e.m - s.p >= CAST(1.25 AS DECIMAL(5,2))",
        lambda s, e, n: known(less(e["m"], s["p"]), lambda d: d >= Decimal("1.25")),
    ),
    "Twice": ("e.m * 2 - s.m > 8", lambda s, e, n: known(less(e["m"] and e["m"] * 2, s["m"]), lambda d: d > 8)),
    "Whole": ("e.m > s.v", lambda s, e, n: None if e["m"] is None or s["v"] is None else e["m"] > s["v"]),
    "Half": (
        "abs(e.m - s.m) / 2 > 1.25",
        lambda s, e, n: known(less(e["m"], s["m"]), lambda d: abs(d) / 2 > Decimal("1.25")),
    ),
    "Member": ("e.v IN s.xs", lambda s, e, n: contains(s["xs"], e["v"])),
    "Other": ("NOT (e.v IN s.xs)", lambda s, e, n: known(contains(s["xs"], e["v"]), lambda found: not found)),
    "Listed": (
        "e.k IN [s.k, 'c'] AND e.id > s.id",
        lambda s, e, n: e["id"] > s["id"] and e["k"] in (s["k"], "c") and bool(e["k"]),
    ),
    "Texts": ("s.k || e.k = 'ab'", lambda s, e, n: known(joined(s["k"], e["k"]), lambda t: t == "ab")),
    "Concat": (
        "CONCAT(s.k, '-', e.k) > 'b-a'",
        lambda s, e, n: known(joined(s["k"], "-", e["k"]), lambda t: t > "b-a"),
    ),
}
AGGREGATES = (
    "FROM O AS t WINDOW BY w ORDER BY t.id TYPE TUMBLING START AS s ONLY END AS e WHEN e.v > 6 "
    "SELECT s.id, SUM(w.v) AS total, COUNT(*) AS n, MAX(w.v - s.v) AS most, COUNT(w.k) AS ks, AVG(w.v) AS mean"
)


def rows_of(count: int) -> list[Row]:
    random = Random(11)

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.1 else value

    return [
        {
            "id": n,
            "k": maybe(random.choice("abc")),
            "v": maybe(random.randrange(10)),
            "xs": maybe([maybe(random.randrange(10)) for _ in range(random.randrange(4))]),
            "m": maybe(Decimal(random.randrange(1000)) / 100),
            "p": maybe(Decimal(random.randrange(100)) / 10),
        }
        for n in range(count)
    ]


def sliding(rows: list[Row], test: Test) -> list[tuple[int, int | None]]:
    found = []
    for place, start in enumerate(rows):
        following = [*rows[1:], None]
        ends = (r["id"] for r, n in zip(rows[place:], following[place:], strict=True) if test(start, r, n) is True)
        found.append((start["id"], next(ends, None)))
    return found


def test_conditions_and_aggregates_are_what_python_says(executor: Any) -> None:
    rows = rows_of(60)
    script = TABLE + "".join(f"{name} := {SLIDING.format(text)};\n" for name, (text, _) in CASES.items())
    wb = Workbench(f"{script}Sums := {AGGREGATES};", spark=executor)
    wb.insert("O", rows)
    wb.step()
    found = {name: sorted((r["id"], r["last"]) for r in wb.rows(name)) for name in CASES}
    sums = sorted(wb.rows("Sums"), key=lambda r: r["id"])
    wb.close()
    for name, (_, test) in CASES.items():
        assert found[name] == sliding(rows, test), name
        assert len({last for _, last in found[name]}) > 2, name
    assert sums == tumbling(rows)


def tumbling(rows: list[Row]) -> list[Row]:
    found, window = [], []
    for row in rows:
        window.append(row)
        if row["v"] is not None and row["v"] > 6:
            values = [r["v"] for r in window if r["v"] is not None]
            first = window[0]["v"]
            found.append(
                {
                    "id": window[0]["id"],
                    "total": sum(values),
                    "n": len(window),
                    "most": None if first is None else max(values) - first,
                    "ks": sum(r["k"] is not None for r in window),
                    "mean": sum(values) / len(values),
                }
            )
            window = []
    return found
