"""Inputs with new columns and wider types: earlier rows and unaffected views are kept, others are recomputed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from belvedere.commands.plan import deployment_of
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.store import open_store
from belvedere.workbench.workbench import Workbench

BEFORE = """
CREATE STREAM Visits (page STRING, visitor INT, seconds DOUBLE);
CREATE STREAM _Clicks (page STRING, n INT);
CREATE STREAM Brief (page STRING, n INT) KEEP 1 DAY;
CREATE TABLE Items (id INT NOT NULL, price INT, PRIMARY KEY (id)) WITH HISTORY;
CREATE TABLE Bag (x INT, y STRING);
Pages := SELECT page, count(*) AS n, sum(seconds) AS total FROM Visits GROUP BY page;
Clicked := SELECT page, count(*) AS n FROM _Clicks GROUP BY page;
Counted := SELECT page, sum(n) AS n, count(*) AS clicks FROM Brief WHERE n > 0 GROUP BY page;
All := SELECT * FROM Visits;
Prices := SELECT sum(price) AS total FROM Items;
Bagged := SELECT y, count(*) AS n FROM Bag GROUP BY y;
"""
AFTER = (
    BEFORE.replace("visitor INT,", "visitor BIGINT, wo STRING,")
    .replace("_Clicks (page STRING, n INT)", "_Clicks (page STRING, n BIGINT, at TIMESTAMP)")  # which nobody reads
    .replace("Brief (page STRING, n INT)", "Brief (page STRING, n INT, at TIMESTAMP)")
    .replace("price INT,", "price DECIMAL(20, 2), née DOUBLE,")
    .replace("x INT, y", "x DOUBLE, z INT, y")
    + "Where := SELECT wo, count(*) AS n FROM Visits GROUP BY wo;\n"
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own, on each database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/s.db"


def filled(spark: Any, url: str) -> None:
    wb = Workbench(BEFORE, url, spark=spark)
    wb.insert("Visits", [{"page": p, "visitor": n, "seconds": n * 1.5} for n, p in enumerate(("a", "b", "ü"))])
    wb.insert("_Clicks", [{"page": "a"}, {"page": None}])
    wb.insert("Brief", [{"page": "a", "n": 1}, {"page": "b", "n": -1}])
    wb.insert("Items", [{"id": 1, "price": 5}, {"id": 2, "price": None}])
    wb.insert("Bag", [{"x": 1, "y": "p"}, {"x": None, "y": "p"}, {"x": 1, "y": "p"}])
    wb.step()
    wb.insert("Items", [{"id": 1, "price": 7}])
    wb.step()
    wb.close()


def changes(script: str, url: str) -> dict[str, tuple[str, str]]:
    found = deployment_of(compile_script(script).catalog, url)
    return {c.name: (c.change.value, c.reason) for c in found.changes}


def test_rows_stay_and_views_that_read_nothing_new_are_kept(
    executor: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(executor, url)
    planned = changes(AFTER, url)
    assert {n for n, (change, _) in planned.items() if change == "kept"} == {"Pages", "Clicked", "Bagged", "Counted"}
    assert planned["Visits"] == (
        "changed",
        'column "visitor" INT becomes BIGINT; new column "wo" STRING, NULL so far',
    )
    assert planned["All"] == ("changed", "Visits has changed; computed from stored rows (Visits)")
    assert planned["Where"] == ("added", "computed from stored rows (Visits)")

    wb = Workbench(AFTER, url, spark=executor)
    with monkeypatch.context() as failing:  # the first epoch fails at its very end: nothing has happened
        failing.setattr(type(wb.engine.state), "prepare", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            wb.step()
    wb.close()
    assert set(changes(BEFORE, url).values()) == {("kept", "")}

    wb = Workbench(AFTER, url, spark=executor)
    wb.insert("Visits", [{"page": "a", "visitor": 2**40, "seconds": 1.0, "wo": "Köln"}])
    wb.insert("_Clicks", [{"page": "a", "at": "2024-01-01 00:00:00"}])
    wb.insert("Brief", [{"page": "a", "n": 2}])
    wb.insert("Items", [{"id": 2, "price": "0.25", "née": 1.5}, {"id": 3, "price": 1}])
    wb.delete("Bag", [{"x": 1.0, "z": None, "y": "p"}])
    wb.insert("Bag", [{"x": 0.5, "z": 3, "y": "q"}])
    wb.step()
    assert [(r["page"], r["visitor"], r["wo"]) for r in wb.rows("Visits")] == [
        ("a", 0, None),
        ("b", 1, None),
        ("ü", 2, None),
        ("a", 2**40, "Köln"),
    ]
    assert {r["page"]: (r["n"], r["total"]) for r in wb.rows("Pages")} == {"a": (2, 1.0), "b": (1, 1.5), "ü": (1, 3.0)}
    assert {r["page"]: r["n"] for r in wb.rows("Clicked")} == {"a": 2, None: 1}
    assert wb.rows("Counted") == [{"page": "a", "n": 3, "clicks": 2}]
    assert {r["wo"]: r["n"] for r in wb.rows("Where")} == {None: 3, "Köln": 1}
    assert wb.rows("Prices") == [{"total": Decimal("8.25")}]
    assert sorted((r["x"] is None, r["x"] or 0, r["z"], r["y"]) for r in wb.rows("Bag")) == [
        (False, 0.5, 3, "q"),
        (False, 1.0, None, "p"),
        (True, 0, None, "p"),
    ]
    assert len(wb.rows("All")) == 4
    wb.close()
    store = open_store(url)
    reader = store.reader()
    versions = reader.rows(next(t for t in store.tables() if t.name == "Items$history"))
    reader.close()
    store.close()
    assert sorted((r["id"], str(r["price"]), r["née"]) for r in versions.to_pylist()) == [
        (1, "5.00", None),
        (1, "7.00", None),
        (2, "0.25", 1.5),
        (2, "None", None),
        (3, "1.00", None),
    ]
    assert set(changes(AFTER, url).values()) == {("kept", "")}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("visitor INT", "visitor STRING", 'column "visitor" was INT and is STRING now'),
        ("seconds DOUBLE", "seconds INT", 'column "seconds" was DOUBLE and is INT now'),
        ("page STRING, visitor", "visitor", 'column "page" is gone'),
        ("page STRING, visitor", "page STRING NOT NULL, visitor", 'column "page" is no longer nullable'),
        ("seconds DOUBLE", "seconds DOUBLE, z INT NOT NULL", 'column "z" is new and NOT NULL'),
        ("id INT NOT", "id DOUBLE NOT", 'column "id" was INT and is DOUBLE now'),
    ],
)
def test_what_would_lose_rows_is_refused(executor: Any, tmp_path: Path, old: str, new: str, why: str) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    script = BEFORE[: BEFORE.index("Pages")]
    wb = Workbench(script, url, spark=executor)
    wb.step()
    wb.close()
    refused = [c for c in deployment_of(compile_script(script.replace(old, new)).catalog, url).changes if c.hint]
    assert any(why in c.reason for c in refused), refused
    assert all("a new store loses them" in c.hint for c in refused)


def test_a_view_of_rows_that_were_not_kept_stays_refused(executor: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    wb = Workbench(BEFORE, url, spark=executor)
    wb.insert("_Clicks", [{"page": "a"}])
    wb.step()
    wb.close()
    changed = AFTER.replace("FROM _Clicks GROUP BY page", "FROM _Clicks WHERE at IS NULL GROUP BY page")
    with pytest.raises(BelvedereError, match="B7030"):
        Workbench(changed, url, spark=executor)
