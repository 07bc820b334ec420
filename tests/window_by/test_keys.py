"""PARTITION BY with expressions: they are columns below WINDOW BY, and views follow by them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import belvedere
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain, without
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

COLUMNS = (
    "id BIGINT, st STRING, el STRING, day DATE, at TIMESTAMP, o BIGINT, v INT, x DOUBLE, f BOOLEAN, a STRUCT<b: "
    "STRING, c: INT>, xs ARRAY<INT>"
)
TABLE = (
    "CREATE TABLE T "
    f"({COLUMNS.replace('id BIGINT', 'id BIGINT PRIMARY KEY').replace('o BIGINT', 'o BIGINT NOT NULL')});\n"
)


def row(random: Random, number: int) -> dict[str, Any]:
    word = lambda: random.choice([None, "", "a", "A", "b ", "ßx", "\u00e9t\u00e9", "x'|~\\"])  # noqa: E731
    day = f"20{random.randrange(10, 14)}-0{random.randrange(1, 10)}-1{random.randrange(10)}"
    return {
        "id": number,
        "st": word(),
        "el": word(),
        "day": random.choice([None, day]),
        "at": random.choice([None, f"{day} {random.randrange(10, 24)}:05:59.250"]),
        "o": random.randrange(1000) - 20,
        "v": random.choice([None, 0, 1, 2, 3, 4, 5]),
        "x": random.choice([None, 0.0, 2.5, 3.0]),
        "f": random.choice([None, True, False]),
        "a": random.choice([None, {"b": word(), "c": random.choice([None, 1])}]),
        "xs": random.choice([None, [], [1]]),
    }


TAIL = " SELECT s.id AS id, s.o AS o, LEN(w) AS n, ARRAY_SUM(w[*].v) AS total;\n"
VIEWS = {
    "Years": "PARTITION BY year(g.day) ORDER BY g.o, g.id TYPE SLIDING START AS s WHEN s.v < 3 END NEXT AS n WHEN n.v "
    ">= 3",
    "Pairs": "PARTITION BY g.st || '-' || g.el ORDER BY g.o, g.id TYPE TUMBLING START AS s END AS e WHEN e.v > s.v",
    "Inner": "PARTITION BY g.f, g.a.b ORDER BY g.o, g.id TYPE SLIDING START AS s ONLY END AS e WHEN e.v > s.v AND e.x "
    "<> s.x",
    "Lower": "PARTITION BY lower(g.st) ORDER BY g.o, g.id TYPE SLIDING START AS s AT p END AT q WHEN q - p = 2",
    "Ends": "PARTITION BY g.o % 3 ORDER BY g.o, g.id TYPE SLIDING START UNBOUNDED AS s END AS e WHEN e.v = 5",
    "Half": "PARTITION BY g.f, g.xs[0] ORDER BY g.o, g.id TYPE SLIDING START AS s END AS e WHEN e.v > s.v",
    "All": "PARTITION BY g.xs[0] ORDER BY g.o, g.id TYPE SLIDING START AS s END AS e WHEN e.v > s.v",
}
TEXTS = {n: "FROM T AS g WHERE g.v <> 4 WINDOW BY w " + t + TAIL for n, t in VIEWS.items()}
TEXTS["Ends"] = (
    TEXTS["Ends"].replace("UNBOUNDED AS s", "UNBOUNDED").replace(TAIL, " SELECT e.id AS id, e.o AS o, LEN(w) AS n;\n")
)


def script(names: Any = TEXTS) -> str:
    return TABLE + "".join(f"{n} := {TEXTS[n]}" for n in names)


def test_by_which_rule_they_are_kept() -> None:
    catalog = compile_script(script()).catalog
    stages = {s.output: s for s in maintain(catalog).stages}
    reached = {n for n in TEXTS if stages[n].rule == "windows"}
    assert reached == {"Years", "Pairs", "Lower"}
    assert stages["Half"].reason.startswith(
        "all windows of the changed f, g.xs[0] (END of a later start may come before"
    )
    assert stages["Ends"].reason.startswith("all windows of the changed g.o % 3 (START UNBOUNDED")
    plain = {s.output: s for s in maintain(catalog, without("windows")).stages}
    assert {plain[n].rule for n in TEXTS} == {"keyed"}
    assert len(plain) < len(stages)  # nothing is stored twice where all of a key is read


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "views"),
    [(0, ["Pairs", "Inner", "Ends"]), *at_night((n, list(TEXTS)) for n in (1, 2, 3))],
)
def test_views_follow_by_keys_that_are_expressions(
    spark: Any, seed: int, views: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = pytest.importorskip("belvedere.rules.window_by.affected_windows")
    monkeypatch.setattr(reach, "FIRST_ROWS", 8)
    monkeypatch.setattr(reach, "MIN_ROWS", 2)
    followed(spark, seed, script(views), views, 4 if seed else 3)


def followed(spark: Any, seed: int, text: str, views: list[str], epochs: int) -> None:
    """Random changes of a table T: after every epoch the views are what batch says, and the query as written."""
    random = Random(seed)
    wb = Workbench(text, spark=spark)
    queries = {
        n: line.split(" := ", 1)[1].rstrip(";")
        for line in text.split("\n")
        for n in views
        if line.startswith(f"{n} := ")
    }
    for epoch in range(epochs):
        wb.insert("T", [row(random, n) for n in random.sample(range(90), 60 if epoch == 0 else 4)])
        if epoch:
            wb.delete("T", [{"id": random.randrange(90)} for _ in range(2)])
        wb.step()
        rows = spark.createDataFrame(wb.rows("T"), COLUMNS)
        for name, batch in wb.batches(views).items():
            found = Counter(map(str, wb.rows(name)))
            assert found == Counter(map(str, batch)), (name, epoch)
            if epoch == epochs - 1:
                assert found == Counter(map(str, belvedere.sql(spark, queries[name], T=rows).toArrow().to_pylist())), (
                    name
                )
        if epoch == 1:
            wb.restart()
    wb.close()
