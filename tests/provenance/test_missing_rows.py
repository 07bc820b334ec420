"""Where rows vanish that came late, were rejected, left, wait, or went through what cannot be followed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.cli import run
from belvedere.errors import BelvedereError
from belvedere.provenance.document import document
from belvedere.provenance.findings import PruningKind
from tests.provenance.test_why_not import near, places
from tests.run.loops import Loop


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2020, 1, 1, hour, minute, tzinfo=UTC)


STREAMS = """
CREATE STREAM Bid (at TIMESTAMP, item STRING, price INT, WATERMARK FOR at);
CREATE STREAM Order_ (item STRING, price INT) KEEP 1 HOUR;
CREATE STREAM _Hit (page STRING);
Best := SELECT item, max(price) AS best FROM Bid GROUP BY item;
Dear := SELECT item, price FROM Order_ WHERE price > 10;
Delayed := SELECT item, count(*) AS n FROM Bid GROUP BY item EMIT AFTER DELAY INTERVAL '10' MINUTES;
Hits := SELECT page, count(*) AS n FROM _Hit GROUP BY page;
Both := SELECT item FROM Bid INTERSECT SELECT item FROM Order_;
Sets := SELECT item, price % 3 AS third, count(*) AS n FROM Bid GROUP BY GROUPING SETS ((item), (price % 3));
Thirds := SELECT price % 3 AS third, count(*) AS n FROM Bid GROUP BY price % 3;
Big := SELECT count(*) AS n FROM Bid GROUP BY price % 3 HAVING count(*) > 5;
"""


def bid(item: str | None, price: int | None, hour: int = 9) -> dict[str, Any]:
    return {"at": at(hour), "item": item, "price": price}


@pytest.mark.usefixtures("each_store")
def test_rows_that_came_late_left_or_wait(executor: Any) -> None:
    wb = Workbench(STREAMS, spark=executor)
    wb.clock(at(8))
    wb.bound("Bid", at(9))
    with pytest.raises(BelvedereError, match="late"):
        wb.insert("Bid", [bid("a", 1), bid("late", 2, hour=7)])
    wb.insert("Order_", [{"item": "a", "price": 5}, {"item": "b", "price": 50}])
    wb.insert("_Hit", [{"page": "x"}])
    wb.step()
    (lost,) = wb.why_not("Best", {"item": "late"}).lost
    assert (lost.view, lost.at, near(lost)) == ("Bid", PruningKind.INPUT, {"arrived late": 1})
    with pytest.raises(BelvedereError, match="late"):
        wb.insert("Bid", [bid("a", 3, hour=7)])
    wb.step()
    found = wb.why("Best", {"item": "a"})
    assert [(r.relation, r.words, r.count) for r in found.late] == [("LATE(Bid)", "arrived late", 1)]
    assert "late: LATE(Bid): 1 row, arrived late\n" in str(found)
    assert "at = 2020-01-01 07:00:00+00:00, item = a, price = 3\n" in str(found)
    (late,) = document(wb.catalog, found, lambda id_, row: row if id_ in wb.catalog.public else None)["late"]
    assert (late["count"], late["rows"]) == (1, []), "no API serves them"
    (lost,) = wb.why_not("Delayed", {"item": "a"}).lost
    assert (lost.view, lost.at, near(lost)) == ("Delayed", PruningKind.EMIT, {"wait": 1})
    assert "EMIT AFTER DELAY" in lost.words
    assert "0:10:00" in lost.words
    (lost,) = wb.why_not("Hits", {"page": "y"}).lost
    assert (lost.view, lost.at) == ("_Hit", PruningKind.UNTOLD)
    assert "it is private" in lost.words
    wb.clock(at(10))
    wb.step()
    assert wb.why_not("Delayed", {"item": "a"}).there == 1
    assert wb.why_not("Dear", {"item": "b"}).there == 1
    (lost,) = wb.why_not("Dear", {"item": "a"}).lost
    assert (lost.view, lost.at) == ("Order_", PruningKind.INPUT)
    assert "KEEP" in lost.words
    wb.close()


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_intersections_and_groupings(spark: Any) -> None:
    wb = Workbench(STREAMS, spark=spark)
    wb.insert("Bid", [bid("a", 1), bid("b", 2), bid(None, None)])
    wb.insert("Order_", [{"item": "a", "price": 5}, {"item": "c", "price": 50}])
    wb.step()
    assert wb.why_not("Both", {"item": "a"}).there == 1
    (lost,) = wb.why_not("Both", {"item": "b"}).lost
    assert (lost.view, lost.at, lost.steps) == ("Order_", PruningKind.INPUT, ("the right of INTERSECT",))
    (lost,) = wb.why_not("Both", {"item": "c"}).lost
    assert (lost.view, lost.at, lost.steps) == ("Bid", PruningKind.INPUT, ("the left of INTERSECT",))
    found = wb.why_not("Sets", {"item": "z"})
    assert places(found) == [("Bid", "input")]
    (lost,) = wb.why_not("Sets", {"item": "a", "third": 1}).lost
    assert (lost.view, lost.at) == ("Sets", PruningKind.VALUES)
    assert lost.words == "no grouping set gives such a row: (item); (price % 3)"
    (lost,) = wb.why_not("Sets", {"item": "a", "n": 7}).lost
    assert (lost.at, near(lost)) == (PruningKind.GROUP, {"the group as it is": 1})
    assert lost.near[0].rows[0] == {"Bid.item": "a", "price % 3": None, "COUNT(*)": 1}
    assert lost.unfollowed == ("COUNT(*) = 7 (not below GROUP BY GROUPING SETS ((item); (price % 3)))",)
    (lost,) = wb.why_not("Sets", {"third": 0}).lost
    assert (lost.view, lost.at, lost.steps) == ("Bid", PruningKind.INPUT, ("the grouping set (price % 3)",))
    wb.close()


def test_columns_without_a_name_are_told_by_their_expressions(executor: Any) -> None:
    wb = Workbench(STREAMS, spark=executor)
    wb.insert("Bid", [bid("a", 1), bid("b", 2), bid(None, None)])
    wb.step()
    (lost,) = wb.why_not("Thirds", {"third": 1, "n": 4}).lost
    assert lost.words == "GROUP BY price % 3: the group exists, with other values"
    assert lost.condition == "(price % 3) = 1 AND COUNT(*) = 4"
    assert lost.near[0].order == ("price % 3",)
    (lost,) = wb.why_not("Big", {}).lost
    assert lost.words == "HAVING drops them: COUNT(*) > 5 is not TRUE for 3 of 3 rows"
    assert list(lost.near[0].rows[0]) == ["price % 3", "COUNT(*)", "COUNT(*) > 5"]
    for view, key in (("Thirds", {"third": 1}), ("Sets", {"third": 1})):
        (read,) = wb.why(view, key).reads
        assert (read.words, read.count) == ("its group by price % 3", 1)
    wb.close()


RIDES = """
IMPORT trips.Rides;
Fares := SELECT k, fare FROM Rides;
"""
PROJECT = """
[sources.trips]
connector = "files"
path = "data"
[sources.trips.tables.Rides]
columns = { k = "STRING", fare = "INT" }
"""


@pytest.mark.spark
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_rows_that_were_rejected(
    spark: Any, tmp_path: Path, store: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    rides = ({"k": "a", "fare": 1}, {"k": "ü", "fare": "free"}, {"k": "b", "fare": 2.5})
    (tmp_path / "data" / "Rides.json").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rides))
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None
    loop = Loop(spark, tmp_path, RIDES, PROJECT, url)
    (tmp_path / "s.sqrl").write_text(RIDES)
    loop.once()
    asked = ["why-not", str(tmp_path / "s.sqrl"), "Fares", "k = 'ü'", "--store", loop.url]
    assert run([*asked, "--json"]) == 0
    (lost,) = json.loads(capsys.readouterr().out)["lost"]
    assert (lost["view"], lost["at"]) == ("Rides", "input")
    (read,) = lost["near"]
    assert (read["how"], read["count"], read["rows"][0]["text"]) == ("were rejected", 1, '{"k": "ü", "fare": "free"}')
    assert run(asked) == 0
    assert "1 row, were rejected" in capsys.readouterr().out


TABLES = """
CREATE TABLE Edge (a STRING, b STRING, k INT, PRIMARY KEY (k));
CREATE TABLE T (k INT, n INT, PRIMARY KEY (k));
Reach := WITH RECURSIVE t AS (SELECT a FROM Edge WHERE k = 1 UNION SELECT e.b FROM t JOIN Edge e ON e.a = t.a) SELECT a
    FROM t;
Long := SELECT a FROM Reach WHERE length(a) > 1;
/*+ on_error(quarantine) */
Ratio := SELECT k, 10 / n AS r FROM T;
Small := SELECT k FROM Ratio WHERE r < 100;
"""


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_recursion_and_quarantine(spark: Any) -> None:
    wb = Workbench(TABLES, spark=spark)
    wb.insert("Edge", [{"a": "x", "b": "y", "k": 1}, {"a": "y", "b": "z", "k": 2}, {"a": "p", "b": "qq", "k": 3}])
    wb.insert("T", [{"k": 1, "n": 1}])
    wb.step()
    for view in ("Reach", "Long"):
        first, step = wb.why_not(view, {"a": "qq"}).lost
        assert (first.view, first.at) == ("Edge", PruningKind.INPUT)
        assert (step.view, step.at, near(step)) == ("Reach", PruningKind.JOIN, {"have no partner": 1})
    (lost,) = wb.why_not("Long", {"a": "z"}).lost
    assert (lost.view, lost.at, near(lost)) == ("Long", PruningKind.FILTER, {"reached it": 1})
    wb.insert("T", [{"k": 2, "n": 0}, {"k": 3, "n": 5}])
    wb.step()
    for view in ("Ratio", "Small"):
        (lost,) = wb.why_not(view, {"k": 3}).lost
        assert "`Ratio` is in quarantine: it has the rows of epoch 1" in lost.words
    (lost,) = wb.why_not("Ratio", {"k": 9}).lost
    assert (lost.view, lost.at) == ("T", PruningKind.INPUT)
    wb.close()
