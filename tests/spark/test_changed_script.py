"""A script that changes: what means the same keeps its rows, the rest is rebuilt in the first epoch's transaction."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings
from belvedere.workbench.workbench import Workbench

BASE = """
CREATE TABLE T (k INT NOT NULL, a INT, PRIMARY KEY (k));
CREATE STREAM _S (a INT);
Sums := SELECT a % 2 AS odd, sum(a) AS total FROM T GROUP BY odd;
"""
MORE = "Big := SELECT k, a FROM T WHERE a > 10;"


def by_key(rows: list[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    return {r[key]: r for r in rows}


def shown(wb: Workbench) -> dict[str, list[str]]:
    """The views for other tools, with their columns."""
    reader = wb.store.reader()
    found = reader.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'view'"
    )
    reader.close()
    return {view: [c for v, c in found if v == view] for view in dict(found)}


def test_views_are_kept_rebuilt_added_and_dropped(executor: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    wb = Workbench(BASE + MORE, url, spark=executor)
    wb.insert("T", [{"k": k, "a": a} for k, a in ((1, 5), (2, 20), (3, 30))])
    assert not shown(wb)
    wb.step()
    views = {"views__epoch": ["epoch", "clock", "committed_at"], "views_T": ["k", "a"], "views_Sums": ["odd", "total"]}
    assert shown(wb) == {**views, "views_Big": ["k", "a"]}, "without hidden columns and private relations"
    wb.close()

    changed = (
        BASE.replace("sum(a)", "max(a)")
        + "/*+ at_read */ Small := SELECT k FROM T WHERE a <= 10; /*+ no_query */ Odd := SELECT odd FROM Sums;"
    )
    wb = Workbench(changed, url, spark=executor)
    reader = wb.store.reader()
    assert "Big" in {t.name for t in wb.store.tables()}, "the old views stay until the new ones are filled"
    reader.close()
    assert "T" not in wb.engine.tables.fresh, "an input whose meaning is unchanged keeps its rows"
    wb.insert("T", [{"k": 4, "a": 7}])
    wb.step()
    assert {(r["odd"], r["total"]) for r in wb.rows("Sums")} == {(0, 30), (1, 7)}
    assert {r["k"] for r in wb.rows("Small")} == {1, 4}
    assert "Big" not in {t.name for t in wb.store.tables()}
    assert {n: c for n, c in shown(wb).items() if n != "Small"} == {**views, "views_Small": ["k"]}
    assert wb.engine.last.row_counts == {"T": 4, "Sums": 2, "Odd": 2}
    wb.restart()
    wb.delete("T", [{"k": 2}, {"k": 3}])
    wb.insert("T", [{"k": 1, "a": 9}])
    wb.step()
    assert wb.engine.last.row_counts == {"T": 2, "Sums": 1, "Odd": 1}
    wb.close()


def test_a_new_view_over_rows_that_were_not_kept_is_refused(executor: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    wb = Workbench(BASE, url, spark=executor)
    wb.insert("_S", [{"a": 1}])
    wb.step()
    wb.close()
    with pytest.raises(BelvedereError, match="B7030") as failure:
        Workbench(BASE + "Counted := SELECT count(*) AS n FROM _S;", url, spark=executor)
    hint = failure.value.diagnostics[0].hint or ""
    assert "cannot be re-read" in hint, "what was pushed has no other source"
    assert 'a new store loses those of "T", "_S" too' in hint


@pytest.mark.spark
def test_an_epoch_that_fails_leaves_the_store_at_the_last_good_one(spark: Any) -> None:
    wb = Workbench(
        "CREATE TABLE T (k INT NOT NULL, a INT, PRIMARY KEY (k)); Q := SELECT k, 10 / a AS q FROM T;", spark=spark
    )
    wb.insert("T", [{"k": 1, "a": 5}])
    wb.step()
    wb.insert("T", [{"k": 2, "a": 0}])
    with pytest.raises(BelvedereError) as failure:
        wb.step()
    found = failure.value.diagnostics[0]
    assert found.code == "B7040"
    assert '"Q"' in found.message
    assert "divide by zero" in found.message
    assert found.hint is not None
    assert "try_divide" in found.hint
    assert [r["k"] for r in wb.rows("T")] == [1]
    wb.restart()
    assert wb.engine.last.number == 1
    wb.close()


@pytest.mark.spark
def test_expressions_that_fail_give_null_where_the_project_says_so(spark: Any, tmp_path: Path) -> None:
    script = """
    CREATE TABLE T (k INT NOT NULL, a INT NOT NULL, s STRING NOT NULL, xs ARRAY<INT>, PRIMARY KEY (k));
    Q := SELECT k, 10 / a AS quotient, 10 % a AS rest, a * 2147483647 AS product, a + 2147483647 AS total,
        CAST(s AS INT) AS n FROM T;
    Parts := SELECT k, element_at(xs, a + 1) AS one, xs[a] AS zero, map('x', 1)[s] AS m, to_timestamp(s, 'y') AS t,
        to_date(s) AS d,
             -(a - 2147483647 - 1) AS n FROM T;
    Rests := SELECT rest, count(*) AS n FROM Q GROUP BY rest;
    Seen := SUBSCRIBE ON ADD SELECT k, rest FROM Q;
    Sums := SELECT sum(CAST(a AS BIGINT) * 9000000000000000000) AS most FROM T;
    """
    wb = Workbench(script, spark=spark, project=ProjectSettings(tmp_path, on_error="null"))
    wb.insert("T", [{"k": 1, "a": 0, "s": "x", "xs": [5, 6]}, {"k": 2, "a": 3, "s": "7", "xs": [5, 6]}])
    wb.step()
    parts = [
        (p["one"], p["zero"], p["m"], p["t"], p["d"], p["n"]) for p in sorted(wb.rows("Parts"), key=lambda r: r["k"])
    ]
    assert parts[0] == (5, 5, 1, None, None, None)
    assert parts[1][:3] == (None, None, None)
    assert parts[1][5] == 2147483645
    assert sorted(map(str, wb.rows("Rests"))) == ["{'rest': 1, 'n': 1}", "{'rest': None, 'n': 1}"]
    assert sorted((r["k"], r["rest"]) for r in wb.rows("Seen")) == [(1, None), (2, 1)]
    first, second = sorted(wb.rows("Q"), key=lambda r: r["k"])
    assert (first["quotient"], first["rest"], first["product"], first["total"], first["n"]) == (
        None,
        None,
        0,
        2147483647,
        None,
    )
    assert (second["rest"], second["product"], second["total"], second["n"]) == (1, None, None, 7)
    assert wb.rows("Q") == wb.batch("Q")
    assert wb.rows("Sums") == [{"most": 0}]
    wb.close()


MAY_FAIL = {
    "made": ("make_date(2024, a, 3)", None, date(2024, 2, 3)),
    "made_time": ("CAST(make_timestamp(2024, a, 3, 0, 0, 0) AS DATE)", None, date(2024, 2, 3)),
    "seconds": ("unix_timestamp(s)", None, None),
    "years": ("unix_timestamp(s, 'y')", None, 63072000),
    "last": ("last_day(s)", None, date(1972, 1, 31)),
    "hours": ("extract(hour FROM s)", None, 0),
    "text": ("date_format(s, 'yy')", None, "72"),
    "host": ("parse_url(concat('http://x', s), 'HOST')", None, "x1972"),
    "plain": ("url_decode(concat('%4', a, s))", None, "B1972"),
    "rest": ("pmod(7, a - 13)", None, 7),
    "size": ("abs(-2147483635 - a)", None, 2147483637),
    "chosen": ("elt(a, 'x', 'y')", None, "y"),
    "first": ("element_at(array(a), a - 13)", None, None),
    "equal": ("s = 1972", None, True),
    "among": ("s IN (3, 4)", None, False),
    "between": ("s BETWEEN 3 AND 2000", None, True),
}
"""Expressions, and what they give for the row that they fail on (a = 13, s = '^ %') and for another (a = 2, s =
'1972')."""


@pytest.mark.spark
def test_functions_that_fail_give_null_where_the_project_says_so(spark: Any, tmp_path: Path) -> None:
    items = ", ".join(f"{e} AS `{n}`" for n, (e, _, _) in MAY_FAIL.items())
    script = f"CREATE TABLE T (k INT, a INT, s STRING, PRIMARY KEY (k)); V := SELECT k, {items} FROM T;"
    wb = Workbench(script, spark=spark, project=ProjectSettings(tmp_path, on_error="null"))
    wb.insert("T", [{"k": 1, "a": 13, "s": "^ %"}, {"k": 2, "a": 2, "s": "1972"}])
    wb.step()
    bad, good = sorted(wb.rows("V"), key=lambda r: r["k"])
    assert bad == {"k": 1} | {n: b for n, (_, b, _) in MAY_FAIL.items()}
    assert good == {"k": 2} | {n: g for n, (_, _, g) in MAY_FAIL.items()}
    assert sorted(wb.rows("V"), key=lambda r: r["k"]) == sorted(wb.batch("V"), key=lambda r: r["k"])
    wb.close()


@pytest.mark.spark
def test_one_expression_may_give_null_by_itself(spark: Any) -> None:
    items = (
        "try_divide(a, 0) AS d, try_add(a, 2147483647) AS p, try_subtract(a, -2147483647) AS m, try_multiply(a, "
        "2147483647) AS x"
    )
    wb = Workbench(
        f"CREATE TABLE T (k INT, a INT, PRIMARY KEY (k)); V := SELECT k, {items}, try_mod(a, 0) AS r FROM T;",
        spark=spark,
    )
    wb.insert("T", [{"k": 1, "a": 3}, {"k": 2, "a": 0}])
    wb.step()
    rows = sorted(wb.rows("V"), key=lambda r: r["k"])
    assert rows[0] == {"k": 1, "d": None, "p": None, "m": None, "x": None, "r": None}
    assert rows[1] == {"k": 2, "d": None, "p": 2147483647, "m": 2147483647, "x": 0, "r": None}
    wb.close()
