"""WINDOW BY over several tables of FROM: their join is kept as one relation, and the windows are those of the query as
written."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import belvedere
from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.sqlpp.parser import parse_window_query
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.depth import at_night
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.without_spark import run

TABLES = """
CREATE TABLE R (sid INT, n INT, v INT, PRIMARY KEY (sid, n));
CREATE TABLE S (sid INT PRIMARY KEY, g STRING);
CREATE TABLE G (g STRING PRIMARY KEY, low INT);
"""
BOTH = "FROM R r JOIN S AS s ON s.sid = r.sid WINDOW BY w PARTITION BY s.g ORDER BY r.n, r.sid "
QUERIES = {
    "Three": BOTH
    + "TYPE SLIDING START AS q AT i END AT j WHEN j - i = 2 SELECT q.s.g, q.r.n, q.r.sid, ARRAY_SUM(w[*].r[*].v) AS "
    "total",
    "Falls": "FROM R AS r, S AS s WHERE r.v <> 3 AND r.sid = s.sid WINDOW BY w PARTITION BY r.sid ORDER BY r.n TYPE "
    "TUMBLING START AS q END NEXT AS z WHEN z.r.v < q.r.v OR z IS MISSING SELECT q AS item, LEN(w) AS n, "
    "z.s.g AS later",
    "Limits": "FROM R AS r JOIN S AS s ON s.sid = r.sid AND r.n > 2 JOIN G AS g ON g.g = s.g WINDOW BY w PARTITION BY "
    "g.g, r.sid ORDER BY r.n TYPE SLIDING START AS q WHEN q.r.v > q.g.low ONLY END AS z WHEN z.r.v <= "
    "z.g.low SELECT q.r.sid, q.r.n, w[*].r[*].v AS vs",
    "Twice": "FROM R AS a, R AS b WHERE a.n = b.n AND a.sid < b.sid WINDOW BY w PARTITION BY a.sid, b.sid ORDER BY "
    "a.n TYPE SLIDING START AS q END UNBOUNDED SELECT q.a.sid AS one, q.b.sid AS two, q.a.n, "
    "ARRAY_MAX(w[*].b[*].v) AS most",
    "Unmatched": "FROM R AS r LEFT JOIN S AS s ON s.sid = r.sid AND r.v <> 2 WHERE r.v <> 3 WINDOW BY w PARTITION BY "
    "r.sid ORDER BY r.n TYPE SLIDING START AS q WHEN q.s IS MISSING OR q.s.g IS NULL END AS z WHEN z.r.v "
    "> q.r.v AND (z.s IS MISSING OR z.s.g <> 'x') SELECT q.r.sid, q.r.n, q.s AS s, z.s.g AS g, "
    "ARRAY_COUNT(w[*].s) AS c, STRICT_COUNT(w[*].s) AS n_all",
    "Halves": "FROM R AS r JOIN S AS s ON s.sid = r.sid LET half = r.v / 2, low = r.n < 6 WHERE half > 0.5 WINDOW BY "
    "w PARTITION BY s.g, low ORDER BY r.n, r.sid TYPE TUMBLING START AS q END AS z WHEN z.half > q.half "
    "SELECT q AS item, w[*].half AS hs",
    "Chained": "FROM R AS r LEFT JOIN S AS s ON s.sid = r.sid JOIN G AS g ON g.g = s.g LEFT JOIN S AS t ON t.sid = "
    "r.v LET k = t.g WINDOW BY w PARTITION BY g.g ORDER BY r.n, r.sid TYPE SLIDING START AS q ONLY END AS "
    "z WHEN z.k = q.k AND z.r.n > q.r.n SELECT q.r.sid, q.r.n, q.k AS k, q.t.sid AS t, LEN(w) AS c",
    "Outer": "FROM R AS r LEFT JOIN S AS s ON s.sid = r.sid WINDOW BY w PARTITION BY s.g ORDER BY r.n, r.sid TYPE "
    "TUMBLING START AS q END AS z WHEN z.r.v > q.r.v SELECT q.s.g AS g, LEN(w) AS n",
}
OTHERS = {
    "Less": "R AS r LEFT JOIN S AS s ON s.sid < r.sid",
    "Like": "R AS r LEFT JOIN S AS s ON s.sid = r.sid AND s.g LIKE 'x%'",
    "Two": "R AS r LEFT JOIN S AS s ON s.sid = r.sid LEFT JOIN G AS g ON g.g = s.g",
    "Either": "R AS r, S AS s WHERE r.sid = s.sid OR r.v = 1",
    "Let": "R AS r, S AS s LET z = (FROM G AS g SELECT VALUE g.low) WHERE r.sid = s.sid",
    "Below": "R AS r, (FROM S AS x SELECT VALUE x) AS s WHERE r.sid = s.sid",
    "Listed": "R AS r, S AS s WHERE r.sid = s.sid AND r.v IN (FROM G AS g SELECT VALUE g.low)",
}
QUERIES |= {
    n: f"FROM {t} WINDOW BY w ORDER BY r.n, r.sid, s.sid TYPE TUMBLING START AS q WHEN q.r.v > 2 SELECT q.r.n AS n, "
    "q.s.g AS g, LEN(w) AS c"
    for n, t in OTHERS.items()
}
QUERIES["Again"] = BOTH + "TYPE TUMBLING START AS q SELECT (FROM G AS x SELECT VALUE x.low) AS lows, q.r.n AS n"
INNER, MORE = list(QUERIES)[:4], list(QUERIES)[4:8]
SCRIPT = TABLES + "".join(f"{name} := {text};\n" for name, text in QUERIES.items())


def test_a_join_is_one_relation_that_changes_are_followed_in() -> None:
    stages = {s.output: s for s in maintain(compile_script(SCRIPT).catalog).stages}
    assert {stages[name].rule for name in (*INNER, *MORE)} == {"keyed", "windows"}
    assert {n for n in MORE if stages[n].rule == "windows"} == {"Halves", "Outer"}
    assert stages["Three"].rule == "windows"
    assert stages["Three"].reason.startswith("of the changed g the windows around")


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(str, rows))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize("seed", [0, *at_night([1, 2, 3])])
@pytest.mark.parametrize(
    "names", [INNER, MORE, pytest.param([*OTHERS, "Again"], marks=pytest.mark.nightly)], ids=["inner", "more", "others"]
)
def test_views_are_the_query_over_the_tables(spark: Any, seed: int, names: list[str]) -> None:
    random = Random(seed)
    wb = Workbench(TABLES + "".join(f"{name} := {QUERIES[name]};\n" for name in names), spark=spark)
    some = [None, 1, 2, 3, 4, 5]
    epochs = 2 if depth.quick else 3
    for epoch in range(epochs):
        wb.insert("G", [{"g": random.choice("xyz"), "low": random.randint(0, 6)} for _ in range(2)])
        wb.insert(
            "S", [{"sid": random.randint(1, 5), "g": random.choice(["x", "y", None])} for _ in range(3 - epoch // 2)]
        )
        made = {
            (random.randint(1, 5), random.randint(1, 12)): random.choice(some) for _ in range(25 if epoch == 0 else 4)
        }
        wb.insert("R", [{"sid": s, "n": n, "v": v} for (s, n), v in made.items()])
        if epoch:
            wb.delete("R", [{"sid": random.randint(1, 5), "n": random.randint(1, 12)} for _ in range(2)])
            wb.delete("S", [{"sid": random.randint(1, 5)} for _ in range(epoch % 2)])
        wb.step()
        for name, batch in wb.batches(names).items():
            assert counted(wb.rows(name)) == counted(batch), (name, epoch)
        if epoch == epochs - 1 or not depth.quick:
            tables = {t: spark.createDataFrame(wb.rows(t), schema) for t, schema in SCHEMAS.items()}
            for name in names:
                written = belvedere.sql(spark, QUERIES[name], **tables).toArrow().to_pylist()
                assert counted(wb.rows(name)) == counted(written), (name, epoch)
        if random.random() < 0.4:
            wb.restart()
    wb.close()


SCHEMAS = {"R": "sid INT, n INT, v INT", "S": "sid INT, g STRING", "G": "g STRING, low INT"}


EACH = "WINDOW BY w ORDER BY y.id TYPE TUMBLING START END SELECT VALUE 1"
BY_QUERIES = (
    "FROM rows AS Rows JOIN rows AS q ON q.id = Rows.id AND q.v = ARRAY_MAX((FROM rows AS y WHERE y.k = 1 SELECT "
    "VALUE y.v)) SELECT q.id, Rows.v AS v",
    "FROM rows AS r JOIN rows AS q ON LEN((FROM rows AS y WHERE y.k = q.k AND y.id < 3 SELECT VALUE y)) = 1 AND q.id "
    ">= r.id SELECT q.id, r.id AS v",
    f"FROM rows AS r JOIN rows AS q ON q.id = r.id AND LEN((FROM rows AS y WHERE y.k = q.k AND y.id < 5 {EACH})) > 2 "
    "SELECT q.id, r.v",
)


@pytest.mark.parametrize("text", BY_QUERIES)
def test_inner_joins_by_queries(text: str) -> None:
    """A table in ON is the table, also where a variable has its name in other letters."""
    rows = [{"id": n, "k": n % 2, "o": n, "v": n % 3, "x": 1.0, "s": "a"} for n in range(6)]
    requested = compile_query(parse_window_query(text))({"rows": rows})
    assert requested
    assert sorted(map(repr, run(text, rows))) == sorted(map(repr, requested))
