"""WINDOW BY between blocks that pass rows on: views find the windows around a change there too, and rows leave once
windows are final."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.sqlpp.parser import parse_window_query
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.depth import at_night
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.test_keys import TABLE, followed
from tests.window_by.test_views import STREAM, streamed

OVER = "WINDOW BY w PARTITION BY x.f ORDER BY x.o, x.id TYPE "
BELOW = "SLIDING START AS s WHEN s.v < 3 END NEXT AS n WHEN n.v >= 3"
RISES = "SLIDING START AS s END AS e NEXT AS n WHEN e.v > s.v AND n.v <> s.v"
TUMBLES = "TUMBLING START AS s WHEN s.v < 4 END AS e WHEN e.v > s.v"
TAIL = " SELECT s.id AS id, s.o AS o, LEN(w) AS n, w[*].v AS vs"
SOME = "(FROM T AS g WHERE g.v <> 4 AND g.st <> 'a' SELECT VALUE g) AS x "
PARTS = "(FROM T AS g LET half = g.v DIV 2 WHERE g.v <> 4 SELECT g.id, g.o, g.v, g.a.b AS f, half) AS x "
TEXTS = {
    "Let": "FROM T AS x LET z = x.v + 1 " + OVER + "SLIDING START AS s WHEN s.z < 3 END NEXT AS n WHEN n.x.v >= 3 "
    "SELECT s.x.id AS id, s.z AS z, LEN(w) AS n",
    "LetTumbles": "FROM T AS x LET z = x.v + 1, k = x.o % 3 WINDOW BY w PARTITION BY k ORDER BY x.o, x.id TYPE "
    "TUMBLING START AS s WHEN s.z < 5 END AS e WHEN e.z > s.z SELECT s.x.id AS id, s.z AS z, LEN(w) AS n",
    "Above": f"FROM (FROM T AS x WHERE x.v <> 4 {OVER}{RISES}{TAIL}) AS y LET m = y.n * 2 WHERE m > 4 SELECT y.id, m, "
             "y.vs",
    "Tumbled": f"FROM (FROM T AS x {OVER}{TUMBLES}{TAIL}) AS y WHERE y.n > 1 SELECT VALUE y",
    "Some": f"FROM {SOME}{OVER}{RISES}{TAIL}",
    "Parts": f"FROM {PARTS}{OVER}{TUMBLES}{TAIL}",
    "Between": f"FROM (FROM (FROM {SOME}SELECT *, x.o % 2 AS odd) AS q WINDOW BY w PARTITION BY q.odd, q.x.f ORDER BY "
               "q.x.o, q.x.id TYPE SLIDING START AS s ONLY END NEXT AS n WHEN n.x.v > s.x.v SELECT s.x.id AS id, "
               "LEN(w) AS n) AS y WHERE y.n > 1 SELECT y.id, y.n",
    "Members": f"FROM (FROM T AS x {OVER}{BELOW}{TAIL}) AS y, y.vs AS v AT i WHERE v > 1 SELECT y.id, v, i",
    "Counts": f"FROM (FROM T AS x {OVER}{BELOW}{TAIL}) AS y UNNEST y.vs AS v SELECT v",
    "Items": "FROM T AS x, x.xs AS i WINDOW BY w PARTITION BY x.f, x.v ORDER BY x.o, x.id TYPE SLIDING START AS s END "
             "AS e WHEN e.x.o > s.x.o + 100 SELECT s.i AS i, LEN(w) AS n",
}  # fmt: skip
REACHED = {"Let", "LetTumbles", "Tumbled", "Parts", "Members$1", "Counts$1", "Items"}
NIGHTLY = [pytest.param(n, list(TEXTS), marks=pytest.mark.nightly) for n in range(1, 6)]


def script(names: Any = TEXTS) -> str:
    return TABLE + "".join(f"{n} := {TEXTS[n]};\n" for n in names)


def test_by_which_rule_they_are_kept() -> None:
    stages = {s.output: s for s in maintain(compile_script(script()).catalog).stages}
    assert {n for n in stages if stages[n].rule == "windows"} == REACHED
    assert {stages[n].rule for n in TEXTS} == {"keyed", "windows", "linear"}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (
            "FROM T AS x GROUP BY x.f AS f, x.o AS o GROUP AS q WINDOW BY w PARTITION BY f ORDER BY o TYPE TUMBLING "
            "START AS s END SELECT LEN(w) AS n",
            {"merge", "windows"},
        ),
        ("FROM T AS x {} TUMBLING START AS s END SELECT DISTINCT s.o AS o", {"windows", "merge"}),
        ("FROM T AS x {} TUMBLING START AS s END SELECT s.o AS o LIMIT 3", {"windows", "first", "whole"}),
        (
            "FROM (FROM T AS x {} TUMBLING START AS s END SELECT s.o AS o LIMIT 3) AS y SELECT y.o",
            {"windows", "first", "whole"},
        ),
        ("WITH v AS 3 FROM T AS x {} TUMBLING START AS s END SELECT s.o + v AS o", {"windows"}),
        (
            "FROM T AS x {} TUMBLING START AS s END SELECT s.o AS o UNION ALL FROM T AS x SELECT x.o",
            {"windows", "linear"},
        ),
    ],
)
def test_what_is_around_windows_has_rules_of_its_own(text: str, rules: set[str]) -> None:
    compiled = compile_script(f"{TABLE}V := {text.format(OVER)};")
    assert compiled.ok, compiled.diagnostics
    assert {s.rule for s in maintain(compiled.catalog).stages if s.owner == "V"} == rules


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "views"), [(0, ["Above", "Parts", "LetTumbles", "Counts"]), *NIGHTLY])
def test_views_follow_between_blocks(spark: Any, seed: int, views: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reach = pytest.importorskip("belvedere.rules.window_by.affected_windows")
    monkeypatch.setattr(reach, "FIRST_ROWS", 8)
    monkeypatch.setattr(reach, "MIN_ROWS", 2)
    followed(spark, seed, script(views), views, 4 if seed else 3)


INNER = "(FROM _Raw AS r WHERE r.val < 6 SELECT lower(r.k) AS k, r.ts, r.val)"
OUTER = "FROM ({}) AS x WHERE x.n > 1 SELECT x.k, x.first, x.n, x.vals"


def test_rows_leave_between_blocks_too() -> None:
    frame = "WINDOW BY w PARTITION BY g.k ORDER BY g.ts TYPE SLIDING START AS s END AS e WHEN e.val > 3 "
    text = OUTER.format(f"FROM {INNER} AS g {frame}SELECT s.k, s.ts AS first, LEN(w) AS n, w[*].val AS vals")
    (stage,) = (s for s in maintain(compile_script(f"{STREAM}V := {text};").catalog).stages if s.output == "V")
    assert stage.rule == "open windows"
    assert stage.reason.startswith(
        "the open windows of the changed k; rows leave once their windows end below the watermark of ts"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, *at_night([1, 2])])
@pytest.mark.usefixtures("executor")
def test_rows_of_final_windows_between_blocks_leave(seed: int) -> None:
    streamed(
        seed, 3, ["Cold", "Sessions"] if not seed else ["Cold", "Three", "Blocks", "Sessions", "Week"], INNER, OUTER
    )


WITHIN = """
CREATE TABLE R (k INT, g STRING, vs ARRAY<INT>, tags ARRAY<STRUCT<at INT, name STRING>>, PRIMARY KEY (k));
Rises := FROM R AS r SELECT r.k, (FROM r.vs AS v AT i WINDOW BY w ORDER BY i TYPE TUMBLING START AS s END AS e NEXT AS n
    WHEN n.v < e.v OR n IS MISSING
    SELECT VALUE LEN(w)) AS rises;
Tags := FROM R AS r WHERE LEN(r.tags) > 0 SELECT r.k, LEN(r.tags) AS n, (FROM r.tags AS t WINDOW BY w
    PARTITION BY t.name ORDER BY t.at
    TYPE SLIDING START AS s ONLY END AS e WHEN e.at - s.at >= 2 SELECT VALUE e.at - s.at ORDER BY s.at DESC, s.name
        LIMIT 2) AS apart;
Around := FROM R AS r WINDOW BY w PARTITION BY r.g ORDER BY r.k TYPE TUMBLING START AS s END UNBOUNDED SELECT s.g AS g,
    ARRAY_MAX((FROM w AS x AT i WINDOW BY u ORDER BY i TYPE SLIDING START AS b AT p END AT q WHEN q - p = 1
        SELECT VALUE LEN(u))) AS most;
"""


def rises(values: list[int] | None) -> list[int]:
    """The lengths of the stretches in which values do not fall."""
    found: list[int] = []
    for n, value in enumerate(values or []):
        if n == 0 or value < (values or [])[n - 1]:
            found.append(0)
        found[-1] += 1
    return found


def apart(tags: list[dict[str, Any]]) -> list[int]:
    """For each tag how far the first one of its name is that is two or more away, of the last two tags that have
    one."""
    found = []
    for tag in sorted(tags, key=lambda t: (-t["at"], t["name"])):
        after = [t["at"] - tag["at"] for t in tags if t["name"] == tag["name"] and t["at"] - tag["at"] >= 2]
        found += [min(after)] if after else []
    return found[:2]


@pytest.mark.spark
@pytest.mark.deep
def test_windows_within_expressions_follow_changes(spark: Any) -> None:
    """And rows that are arrays of objects are known to them."""
    random = Random(3)
    wb = Workbench(WITHIN, spark=spark)
    rows: dict[int, dict[str, Any]] = {}
    for epoch in range(2 if depth.quick else 4):
        new = []
        for k in random.sample(range(6), 4):
            places = random.sample(range(9), random.choice([0, 1, 4, 6]))
            tags = [{"at": at, "name": random.choice("ab")} for at in places]
            vs = random.choice([None, [], [random.randint(0, 4) for _ in range(5)]])
            new.append({"k": k, "g": random.choice("xy"), "vs": vs, "tags": tags})
        rows |= {r["k"]: r for r in new}
        wb.insert("R", new)
        if epoch:
            gone = random.choice(sorted(rows))
            wb.delete("R", [{"k": gone}])
            del rows[gone]
        wb.step()
        for name, batch in wb.batches(("Rises", "Tags", "Around")).items():
            assert sorted(map(repr, wb.rows(name))) == sorted(map(repr, batch)), (name, epoch)
        assert {r["k"]: r["rises"] for r in wb.rows("Rises")} == {k: rises(r["vs"]) for k, r in rows.items()}
        reported = {k: (len(r["tags"]), apart(r["tags"])) for k, r in rows.items() if r["tags"]}
        assert {r["k"]: (r["n"], r["apart"]) for r in wb.rows("Tags")} == reported
        groups = Counter(r["g"] for r in rows.values())
        assert {r["g"]: r["most"] for r in wb.rows("Around")} == {g: min(2, n) for g, n in groups.items()}
        if epoch % 2 == 0:
            wb.restart()
    wb.close()


APART = "WINDOW BY w ORDER BY at TYPE TUMBLING START AS s END AS e NEXT AS n WHEN n.at > e.at + 1"
EACH = "WINDOW BY w ORDER BY i TYPE TUMBLING START AS s END AS e NEXT AS n WHEN n.v < e.v"
AROUND = {
    "Grouped": "FROM R AS r SELECT r.k, (FROM r.tags AS t GROUP BY t.at AS at LET c = COUNT(*), m = MIN(t.name) "
    f"{APART} SELECT s.c AS c, s.m AS m, r.g AS g, LEN(w) AS n) AS x",
    "Having": "FROM R AS r SELECT r.k, (FROM r.tags AS t GROUP BY t.name AS name HAVING COUNT(*) > 1 WINDOW BY w "
    "ORDER BY name TYPE SLIDING START AS s END AS e WHEN e > s SELECT VALUE LEN(w)) AS x",
    "Members": f"FROM R AS r SELECT r.k, (FROM r.tags AS t GROUP BY t.at AS at GROUP AS q {APART} SELECT VALUE "
    "LEN(w)) AS x",
    "Related": "FROM R AS r SELECT r.k, (FROM S AS y WHERE y.k = r.k GROUP BY y.v AS v LET c = COUNT(*) WINDOW BY w "
    "ORDER BY v TYPE TUMBLING START AS s END AS e NEXT AS n WHEN n.c > e.c SELECT s.v AS v, LEN(w) AS n) "
    "AS x",
    "Within": "FROM R AS r SELECT r.k, (FROM S AS y WHERE y.k = r.k GROUP BY y.v AS v GROUP AS q SELECT v, (FROM q AS "
    "z WINDOW BY w ORDER BY z.y.id TYPE TUMBLING START AS s SELECT VALUE s.y.id) AS ids ORDER BY v) AS x",
    "Unioned": f"FROM R AS r SELECT r.k, (FROM r.vs AS v AT i {EACH} SELECT VALUE LEN(w) UNION ALL FROM r.vs AS y "
    "SELECT VALUE y) AS x",
    "Ordered": f"FROM R AS r SELECT r.k, (FROM r.vs AS v AT i {EACH} SELECT s.v AS v UNION ALL FROM r.vs AS v AT i "
    f"{EACH} SELECT LEN(w) AS v ORDER BY v DESC LIMIT 2) AS x",
    "Named": "FROM R AS r SELECT r.k, (WITH z AS (FROM r.tags AS y WHERE y.at > 1 SELECT y.at, y.name) FROM z AS v "
    "WINDOW BY w ORDER BY v.at, v.name TYPE TUMBLING START AS s SELECT VALUE s.at) AS x",
    "Twice": f"FROM R AS r SELECT r.k, (WITH z AS (FROM r.vs AS v AT i {EACH} SELECT VALUE LEN(w)) FROM z AS y SELECT "
    "VALUE y + r.k) AS x",
    "Over": f"FROM R AS r SELECT r.k, (FROM (FROM r.vs AS v AT i {EACH} SELECT s.v AS v, LEN(w) AS n) AS q GROUP BY "
    "q.n AS n SELECT n, COUNT(*) AS c, SUM(q.v) AS total ORDER BY n) AS x",
    "Keyed": f"FROM R AS r SELECT r.k, (FROM r.tags AS t GROUP BY LEN((FROM r.vs AS v AT i {EACH} SELECT VALUE 1)) + "
    "t.at AS g SELECT g, COUNT(*) AS n ORDER BY g) AS x",
    "Sorted": "FROM R AS r SELECT r.k, (FROM r.vs AS y AT j SELECT VALUE y ORDER BY LEN((FROM r.vs AS v AT i WHERE v "
    f"> y {EACH} SELECT VALUE 1)), j) AS x",
    "Ranked": f"FROM R AS r WINDOW BY all ORDER BY LEN((FROM r.vs AS v AT i {EACH} SELECT VALUE 1)), r.k TYPE SLIDING "
    "START AS s END UNBOUNDED SELECT s.k AS k, all[*].k AS x",
}
"""Over rows with a map, which none of them reads."""


@pytest.mark.spark
@pytest.mark.deep
def test_what_stands_around_windows_within_expressions(spark: Any) -> None:
    """GROUP BY, UNION ALL, WITH and queries in FROM, as the interpreter answers them, and after changes as batch
    does."""
    inputs = "CREATE TABLE S (id INT, k INT, v INT, PRIMARY KEY (id));\n" + WITHIN[: WITHIN.index("Rises")].replace(
        "PRIMARY", "m MAP<STRING, INT>, PRIMARY"
    )
    chosen = list(AROUND)[:: 3 if depth.quick else 1]
    wb = Workbench(inputs + "".join(f"{n} := {AROUND[n]};\n" for n in chosen), spark=spark)
    random = Random(5)
    tables: dict[str, dict[int, dict[str, Any]]] = {"R": {}, "S": {}}
    for epoch in range(1 if depth.quick else 2):
        for k in random.sample(range(6), 4):
            tags = [{"at": random.randint(0, 6), "name": random.choice("abc")} for _ in range(random.choice([0, 1, 5]))]
            vs = [random.randint(0, 4) for _ in range(random.choice([0, 1, 6]))]
            tables["R"][k] = {"k": k, "g": random.choice("xy"), "vs": vs, "tags": tags}
        for n in random.sample(range(20), 12):
            tables["S"][n] = {"id": n, "k": random.randrange(6), "v": random.randint(0, 3)}
        for name, rows in tables.items():
            wb.insert(name, list(rows.values()))
        wb.step()
        known = {n: list(rows.values()) for n, rows in tables.items()}
        for name, batch in wb.batches(tuple(chosen)).items():
            requested = compile_query(parse_window_query(AROUND[name]))(known)
            found = {r["k"]: r["x"] for r in wb.rows(name)}
            assert found == {r["k"]: r["x"] for r in requested}, (name, epoch)
            assert found == {r["k"]: r["x"] for r in batch}, (name, epoch)
    wb.close()


def test_what_windows_within_expressions_cannot_be_told() -> None:
    inner = (
        "(FROM (FROM r.vs AS y SELECT VALUE y) AS v{} WINDOW BY w ORDER BY v TYPE TUMBLING START AS s SELECT "
        "VALUE s.v{})"
    )
    for given, code in ((" AT i", ""), "B3622"), (("", " LIMIT LEN([1])"), "B3624"):
        compiled = compile_script(f"{WITHIN}V := FROM R AS r SELECT r.k, {inner.format(*given)} AS n;")
        assert [d.code for d in compiled.diagnostics if d.severity == "error"] == [code], given
