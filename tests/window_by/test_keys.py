"""PARTITION BY with expressions: they are columns below WINDOW BY where the relational plan says the same, and views follow by them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import belvedere
from belvedere.compiler import compile_script
from belvedere.functions.types import type_text
from belvedere.lang.window_by.joins import variables_of
from belvedere.lang.window_by.parser import parse_window_query
from belvedere.lang.window_by.relational import Unsaid, said
from belvedere.plan.window_by import WindowBlock
from belvedere.rules import maintain, without
from belvedere.workbench import Workbench
from tests.depth import at_night

COLUMNS = (
    "id BIGINT, st STRING, el STRING, day DATE, at TIMESTAMP, o BIGINT, v INT, x DOUBLE, f BOOLEAN, a STRUCT<b: STRING, c: INT>, "
    "xs ARRAY<INT>"
)
TABLE = f"CREATE TABLE T ({COLUMNS.replace('id BIGINT', 'id BIGINT PRIMARY KEY').replace('o BIGINT', 'o BIGINT NOT NULL')});\n"
SAID = [
    "g.st", "g.a.b", "g.a", "g.A.C", "g.st || '-' || g.el", "lower(g.st)", "upper(g.st || 'x')", "trim(g.st)", "length(g.st)",
    "substr(g.st, 0, 2)", "substr(g.st, 1, 2)", "substr(g.st, 2)", "concat(g.st, ' ', g.el)", "year(g.day)", "month(g.day)", "day(g.at)",
    "hour(g.at)", "minute(g.at)", "second(g.at)", "year(g.at)", "date(g.at)", "date(g.day)", "g.o + g.v", "g.o * 9223372036854775 - g.v",
    "g.o % 10", "g.v DIV 3", "(g.v - 4) DIV 3", "(g.v - 4) % 3", "g.v > 3", "g.v >= 2 AND g.f", "g.v > 2.5", "g.x < -0.5", "g.st LIKE 'a%'",
    "g.st NOT LIKE '_'", "g.x > g.v OR NOT g.f", "g.st = 'a'",
    "g.day < g.day", "g.v BETWEEN 1 AND 3", "g.v IN (1, -1, 3)", "g.st IN ('a', 'B')", "g.v IS NULL", "g.v IS NOT UNKNOWN", "g.f",
    "CASE WHEN g.v > 3 THEN 'much' WHEN g.f THEN g.st END", "CASE g.v WHEN 1 THEN g.v ELSE g.o END", "coalesce(g.st, g.el, '?')",
    "if_null(g.v, g.o)", "to_string(g.v)", "cast(g.day AS STRING)", "cast(g.o AS STRING) || g.st", "(g.o + 1) * 2",
    "g.v * g.v - g.v", "g.v + 1",
]  # fmt: skip
UNSAID = [
    "g.xs[0]", "year(g.xs[0])", "g.nothing", "g.a.nothing", "MISSING", "g.x / 2", "g.v % g.o", "g.v % 0", "hour(g.day)",
    "g.st LIKE g.el", "g.st > 3", "CASE WHEN g.f THEN MISSING ELSE 1 END",
    "round(g.x)", "g.day + duration('P1D')", "if_missing(g.v, 1)", "(FROM g.xs AS y SELECT VALUE y)", "cast(g.x AS STRING)", "g",
    "coalesce(g.v, 'a')", "substr(g.st, g.v)", "g.v IS MISSING", "[g.v]", "g.day < g.at", "cast(g.st AS INT)", "g.v IN (g.o)", "g[\"st\"]",
]  # fmt: skip


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


def partition(key: str) -> tuple[Any, Any]:
    """The key's expression, and the table's node."""
    compiled = compile_script(TABLE + "V := FROM T AS g WINDOW BY w ORDER BY g.o TYPE TUMBLING START SELECT LEN(w) AS n;")
    (block,) = (n for n in compiled.catalog.views["V"].plan.walk() if isinstance(n, WindowBlock))
    query = parse_window_query(
        f"FROM T AS g WINDOW BY w PARTITION BY {key} ORDER BY g.o TYPE TUMBLING START SELECT LEN(w) AS n"
    )
    assert query.blocks[0].window is not None
    return query.blocks[0].window.partition[0], block.inputs[0]


@pytest.mark.parametrize("key", UNSAID)
def test_what_the_plan_cannot_say_is_left(key: str) -> None:
    expr, table = partition(key)
    with pytest.raises(Unsaid):
        said(expr, {"g": variables_of("g", table.schema)})


@pytest.mark.spark
def test_the_plan_says_the_same(spark: Any) -> None:
    """The relational plan's values are those of the language, for every row."""
    render = pytest.importorskip("belvedere.engine.render")
    random = Random(3)
    wb = Workbench(TABLE, spark=spark)
    wb.insert("T", [row(random, n) for n in range(120)])
    wb.step()
    rows = spark.createDataFrame(wb.rows("T"), COLUMNS)
    wb.close()
    items = []
    for number, key in enumerate(SAID):
        expr, table = partition(key)
        found = said(expr, {"g": variables_of("g", table.schema)})
        items.append(f"CAST({render.print_expression(found.expr)} AS {type_text(found.type)}) AS c{number}")
    rows.createOrReplaceTempView("said_rows")
    plan = {r["id"]: r for r in spark.sql(f"SELECT id, {', '.join(items)} FROM said_rows").toArrow().to_pylist()}
    own = ", ".join(f"{key.replace('g.', 's.')} AS c{number}" for number, key in enumerate(SAID))
    text = f"FROM T AS g WINDOW BY w ORDER BY g.id TYPE TUMBLING START AS s END SELECT s.id AS id, {own}"
    for found in belvedere.sql(spark, text, T=rows).toArrow().to_pylist():
        for number, key in enumerate(SAID):
            assert found[f"c{number}"] == plan[found["id"]][f"c{number}"], key


TAIL = " SELECT s.id AS id, s.o AS o, LEN(w) AS n, ARRAY_SUM(w[*].v) AS total;\n"
VIEWS = {
    "Years": "PARTITION BY year(g.day) ORDER BY g.o, g.id TYPE SLIDING START AS s WHEN s.v < 3 END NEXT AS n WHEN n.v >= 3",
    "Pairs": "PARTITION BY g.st || '-' || g.el ORDER BY g.o, g.id TYPE TUMBLING START AS s END AS e WHEN e.v > s.v",
    "Inner": "PARTITION BY g.f, g.a.b ORDER BY g.o, g.id TYPE SLIDING START AS s ONLY END AS e WHEN e.v > s.v AND e.x <> s.x",
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
    assert {n for n in TEXTS if stages[n].rule == "whole"} == {"All"}
    assert "any row may change any window: PARTITION BY g.xs[0] is no column and cannot be made one" in stages["All"].reason
    assert stages["Half"].reason.startswith("all windows of the changed f (PARTITION BY g.xs[0] is no column")
    assert stages["Ends"].reason.startswith("all windows of the changed g.o % 3 (START UNBOUNDED")
    plain = {s.output: s for s in maintain(catalog, without("windows")).stages}
    assert {plain[n].rule for n in TEXTS} == {"keyed", "whole"}
    assert len(plain) < len(stages)  # nothing is stored twice where all of a key is read


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "views"),
    [(0, ["Pairs", "Inner", "Ends"]), *at_night((n, list(TEXTS)) for n in (1, 2, 3))],
)
def test_views_follow_by_keys_that_are_expressions(
    spark: Any, seed: int, views: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = pytest.importorskip("belvedere.rules.window_by.around")
    monkeypatch.setattr(reach, "FIRST_ROWS", 8)
    monkeypatch.setattr(reach, "LEAST_ROWS", 2)
    followed(spark, seed, script(views), views, 4 if seed else 3)


def followed(spark: Any, seed: int, text: str, views: list[str], epochs: int) -> None:
    """Random changes of a table T: after every epoch the views are what batch says, and the query as written."""
    random = Random(seed)
    wb = Workbench(text, spark=spark)
    queries = {
        n: line.split(" := ", 1)[1].rstrip(";") for line in text.split("\n") for n in views if line.startswith(f"{n} := ")
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
                assert found == Counter(map(str, belvedere.sql(spark, queries[name], T=rows).toArrow().to_pylist())), name
        if epoch == 1:
            wb.restart()
    wb.close()
