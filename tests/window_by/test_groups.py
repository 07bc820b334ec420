"""GROUP BY before WINDOW BY: the groups are kept by themselves, and the windows over them follow those that changed."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from tests.depth import at_night
from tests.window_by.test_keys import TABLE, followed

ROWS = "FROM T AS g WHERE g.v <> 4 "
OVER = "WINDOW BY w PARTITION BY f ORDER BY d TYPE "
TEXTS = {
    "Days": f"{ROWS}GROUP BY g.f AS f, g.o DIV 20 AS d LET m = AVG(g.v), n = COUNT(*) HAVING COUNT(g.st) > 0 "
    f"{OVER}SLIDING START AS s WHEN s.m < 3 END NEXT AS e WHEN e.m >= 3 SELECT s.f AS f, s.d AS d, s.m AS m, "
    "w[*].n AS counts",
    "Rises": f"{ROWS}GROUP BY g.f AS f, g.day AS d LET m = SUM(g.v * 2) * 1.5 {OVER}TUMBLING START AS s END AS e WHEN "
    "e.m > s.m SELECT s AS item, LEN(w) AS n",
    "One": "FROM T AS g LET k = g.o DIV 9 GROUP BY k WINDOW BY w ORDER BY k TYPE SLIDING START AS s ONLY END AS e "
    "WHEN e - s > 3 SELECT s AS k, w AS ks",
    "Below": "FROM (FROM T AS g GROUP BY g.f, year(g.day) AS y, g.o DIV 20 AS o HAVING MAX(g.v) > 1 SELECT f, y, o, "
    "MIN(g.v) AS low, COUNT(g.v) AS c) AS d WHERE d.y IS NOT NULL WINDOW BY w PARTITION BY d.f, d.y ORDER BY "
    "d.o TYPE SLIDING START AS s END AS e WHEN e.low > s.low OR e.c > 2 SELECT s.f AS f, s.y AS y, s.o AS o, "
    "ARRAY_SUM(w[*].c) AS c",
    "Above": f"FROM ({ROWS}GROUP BY g.f AS f, g.o DIV 20 AS d LET m = MAX(g.v) {OVER}TUMBLING START AS s WHEN s.m > 2 "
    "SELECT s.f AS f, s.d AS d, LEN(w) AS n) AS y WHERE y.n > 1 SELECT VALUE y",
}


def script(names: Any = TEXTS) -> str:
    return TABLE + "".join(f"{n} := {TEXTS[n]};\n" for n in names)


def test_groups_are_relations_of_their_own() -> None:
    compiled = compile_script(script())
    assert compiled.ok, compiled.diagnostics
    stages = {s.output: s for s in maintain(compiled.catalog).stages}
    assert {n for n in TEXTS if stages[n].rule == "windows"} == set(TEXTS) - {"One"}  # its key may be NULL
    assert {stages[f"{n}$1"].rule for n in TEXTS} == {"keyed", "merge"}
    assert stages["Days"].reason.startswith("of the changed f the windows around the change")
    assert stages["Days$1"].reason.startswith("key by key: ")


@pytest.mark.parametrize(
    "group",
    [
        "FROM T AS g GROUP BY g.f AS f, g.o AS d GROUP AS q",
        "FROM T AS g GROUP BY g.f AS f, g.xs[0] AS d",
        "FROM T AS g GROUP BY g.f AS f, g.o + g.id AS d LET m = SUM(g.v * g.o)",
        "FROM T AS g GROUP BY g.f AS f, g.x AS d LET m = MEDIAN(g.v)",
        "FROM T AS g WHERE g.x / 2 > 1 GROUP BY g.f AS f, g.o AS d",
        "FROM T AS g, g.xs AS x GROUP BY g.f AS f, g.o AS d",
    ],
)
def test_windows_follow_groups_of_any_form(group: str) -> None:
    compiled = compile_script(f"{TABLE}V := {group} {OVER}TUMBLING START AS s END SELECT s.d AS d;")
    assert compiled.ok, compiled.diagnostics
    assert {s.rule for s in maintain(compiled.catalog).stages if s.output == "V"} <= {"windows", "keyed"}


@pytest.mark.parametrize(
    "text",
    [
        f"FROM T AS g GROUP BY g.f AS f, g.o AS d {OVER}TUMBLING START AS s END SELECT (FROM T AS t SELECT VALUE "
        "t.id) AS d",
        "FROM (FROM T AS g GROUP BY g.f AS f SELECT *) AS q WINDOW BY w ORDER BY q.f TYPE TUMBLING START AS s END "
        "SELECT s.f AS d",
        "FROM (FROM T AS g GROUP BY g.f AS f SELECT f, (SELECT VALUE 1) AS one) AS q WINDOW BY w ORDER BY q.f TYPE "
        "TUMBLING START AS s END SELECT s.f AS d",
    ],
)
def test_windows_over_other_groups(text: str) -> None:
    compiled = compile_script(f"{TABLE}V := {text};")
    assert compiled.ok, compiled.diagnostics
    assert any(s.rule == "merge" for s in maintain(compiled.catalog).stages)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "views"),
    [(0, ["Days", "One", "Below"]), *at_night((n, list(TEXTS)) for n in (1, 2, 3))],
)
def test_views_follow_their_groups(spark: Any, seed: int, views: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reach = pytest.importorskip("belvedere.rules.window_by.affected_windows")
    monkeypatch.setattr(reach, "FIRST_ROWS", 8)
    monkeypatch.setattr(reach, "MIN_ROWS", 2)
    followed(spark, seed, script(views), views, 4 if seed else 3)
