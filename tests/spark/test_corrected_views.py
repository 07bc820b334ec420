"""A corrected script gets past a failing row in every case, without a new store. The answers are counted by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.commands.plan import deployment_of
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.engine.errors.quarantine import failure_text
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings
from tests.depth import at_night

SCRIPT = """
CREATE STREAM S (n INT, g STRING, x STRING) KEEP 1 HOUR;
CREATE STREAM _P (n INT, g STRING, x STRING);
V := SELECT n, 10 * CAST(x AS INT) AS y FROM S;
Sums := SELECT g, sum(CAST(x AS INT)) AS y, count(*) AS n FROM _P GROUP BY g;
_Parts := SELECT g, 10 * CAST(x AS INT) AS y FROM S UNION ALL SELECT g, 10 * CAST(x AS INT) AS y FROM _P;
Most := SELECT g, max(y) AS y FROM _Parts GROUP BY g;
Above := SELECT y, count(*) AS n FROM Most GROUP BY y;
Well := SELECT count(*) AS n FROM S;
CREATE SUBSCRIPTION Added ON ADD AS SELECT n, y FROM V;
CREATE SUBSCRIPTION Moved ON CHANGE AS SELECT g, y FROM Most;
"""
CORRECTED = SCRIPT.replace("CAST(", "try_cast(")
RESUMED = CORRECTED.replace("V :=", "/*+ resume */\nV :=").replace("Sums :=", "/*+ resume */\nSums :=")
RESUMED = RESUMED.replace("_Parts :=", "/*+ resume */\n_Parts :=")


def pairs(wb: Workbench, view: str, key: str, value: str) -> dict[Any, Any]:
    return {r[key]: r[value] for r in wb.rows(view)}


def put(wb: Workbench, at: str, *rows: tuple[int, str, str | None]) -> None:
    wb.clock(f"2024-01-01 {at}:00")
    for stream in ("S", "_P"):
        wb.insert(stream, [{"n": n, "g": g, "x": x} for n, g, x in rows])
    wb.step()


def held(wb: Workbench) -> Mapping[str, int | None]:
    return wb.engine.quarantined


@pytest.mark.parametrize("each_store", ["sqlite", *at_night(["postgres"])], indirect=True)
@pytest.mark.parametrize("policy", ["quarantine", "stop"])
def test_views_over_rows_that_have_left_go_on(
    executor: Any, tmp_path: Path, each_store: str, policy: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if each_store == "sqlite" else request.getfixturevalue("postgres_url")
    project = ProjectSettings(tmp_path, on_error=policy)
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    put(wb, "00:00", (1, "a", "5"), (2, "b", "2"))
    put(wb, "02:00", (3, "a", "1"))  # the first rows have left
    if policy == "stop":
        with pytest.raises(BelvedereError, match="B7040"):
            put(wb, "02:10", (4, "b", "zero"), (5, "b", "1"))
    else:
        put(wb, "02:10", (4, "b", "zero"), (5, "b", "1"))
        assert held(wb) == dict.fromkeys(("V", "Sums", "Most", "Above"), 2)
        put(wb, "03:30", (6, "c", None))
        assert [r["n"] for r in wb.rows("Well")] == [6]
    wb.close()

    with pytest.raises(BelvedereError, match="B7030") as caught:
        Workbench(CORRECTED, url, spark=executor, project=project)
    assert "/*+ resume */" in str(caught.value.diagnostics[0].hint)
    catalog = compile_script(RESUMED, project=project).catalog
    changes = {c.name: c for c in deployment_of(catalog, url).changes}
    assert {n: "continues from them" in changes[n].reason for n in ("V", "Sums", "Most", "Well")} == {
        "V": True,
        "Sums": True,
        "Most": True,
        "Well": False,
    }

    wb = Workbench(RESUMED, url, spark=executor, project=project)
    if policy == "stop":
        put(wb, "02:10", (4, "b", "zero"), (5, "b", "1"))
        put(wb, "03:30", (6, "c", None))
    else:
        wb.step()
    assert not held(wb)
    assert pairs(wb, "V", "n", "y") == {1: 50, 2: 20, 3: 10, 4: None, 5: 10, 6: None}
    assert len(wb.rows("V")) == 6
    assert sorted(r["n"] for r in wb.rows("Added")) == [1, 2, 3, 4, 5, 6], "nothing is told twice"
    assert pairs(wb, "Sums", "g", "y") == {"a": 6, "b": 3, "c": None}
    assert pairs(wb, "Sums", "g", "n") == {"a": 2, "b": 3, "c": 1}
    assert pairs(wb, "Most", "g", "y") == {"a": 50, "b": 20, "c": None}
    assert pairs(wb, "Above", "y", "n") == {50: 1, 20: 1, None: 1}
    wb.restart()
    put(wb, "03:40", (7, "c", "5"))
    assert pairs(wb, "Sums", "g", "y") == {"a": 6, "b": 3, "c": 5}
    assert pairs(wb, "Most", "g", "y") == {"a": 50, "b": 20, "c": 50}
    wb.close()


def test_what_no_epoch_has_filled_needs_no_word(executor: Any, tmp_path: Path) -> None:
    """What it has missed is all that there ever was: it is computed of that."""
    url, project = f"sqlite:///{tmp_path}/s.db", ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    put(wb, "00:00", (1, "a", "zero"), (2, "b", "2"))
    put(wb, "02:00", (3, "a", "1"))
    assert held(wb) == dict.fromkeys(("V", "Sums", "Most", "Above"))
    wb.close()
    wb = Workbench(CORRECTED.replace("sum(", "1 + sum("), url, spark=executor, project=project)
    put(wb, "02:10", (4, "b", "5"))
    assert not held(wb)
    assert pairs(wb, "V", "n", "y") == {1: None, 2: 20, 3: 10, 4: 50}
    assert pairs(wb, "Sums", "g", "y") == {"a": 2, "b": 8}
    assert pairs(wb, "Sums", "g", "n") == {"a": 2, "b": 2}
    assert pairs(wb, "Most", "g", "y") == {"a": 10, "b": 50}
    assert len(wb.rows("Added")) == 4
    wb.close()


def test_a_word_that_cannot_be_kept_changes_nothing(executor: Any, tmp_path: Path) -> None:
    """Other columns, or a view whose former one is not there: the answer in part is refused as ever."""
    url, project = f"sqlite:///{tmp_path}/s.db", ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    put(wb, "00:00", (1, "a", "5"))
    put(wb, "02:00", (2, "a", "5"))
    wb.close()
    hinted = SCRIPT.replace("V :=", "/*+ resume */\nV :=")
    wider = hinted.replace("10 * CAST(x AS INT) AS y FROM S;", "CAST(x AS BIGINT) AS y FROM S;")
    other = hinted.replace("V :=", "Vs :=").replace("FROM V", "FROM Vs")
    for script in (wider, other):
        with pytest.raises(BelvedereError, match="B7030"):
            Workbench(script, url, spark=executor, project=project)


def test_a_corrected_view_that_fails_in_its_first_epoch_ends_nothing(executor: Any, tmp_path: Path) -> None:
    """It stands still with no rows, the others go on; once it is mended what it told before is not told again."""
    script = """
    CREATE TABLE T (k INT NOT NULL, x STRING, PRIMARY KEY (k));
    V := SELECT k, x FROM T;
    Well := SELECT count(*) AS n FROM T;
    CREATE SUBSCRIPTION Added ON ADD AS SELECT k, x FROM V;
    CREATE SUBSCRIPTION Gone ON DELETE AS SELECT k, x FROM V;
    """
    failing = script.replace("SELECT k, x FROM T", "SELECT k, CAST(CAST(x AS INT) AS STRING) AS x FROM T")
    mended = script.replace(
        "SELECT k, x FROM T", "SELECT k, coalesce(CAST(try_cast(x AS INT) AS STRING), x) AS x FROM T"
    )
    url, project = f"sqlite:///{tmp_path}/s.db", ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(script, url, spark=executor, project=project)
    wb.clock("2024-01-01 00:00:00")
    wb.insert("T", [{"k": 1, "x": "1"}, {"k": 2, "x": "two"}, {"k": 3, "x": "03"}])
    wb.step()
    wb.close()
    for start in range(2):  # the second one is a restart
        wb = Workbench(failing, url, spark=executor, project=project)
        wb.insert("T", [{"k": 10 + start, "x": str(start)}])
        wb.step()
        assert (dict(held(wb)), wb.rows("Well")) == ({"V": None}, [{"n": 4 + start}])
        wb.close()
    for _ in range(2):
        wb = Workbench(mended, url, spark=executor, project=project)
        wb.step()
        assert pairs(wb, "V", "k", "x") == {1: "1", 2: "two", 3: "3", 10: "0", 11: "1"}
        reported = [(r["k"], r["x"]) for r in wb.rows("Added")]
        assert (reported[:3], sorted(reported[3:])) == ([(1, "1"), (2, "two"), (3, "03")], [(10, "0"), (11, "1")])
        assert wb.rows("Gone") == []
        assert not [n for n in wb.engine.state.arrangements if n.endswith("~former")]
        wb.close()


def test_what_is_missed_is_bounded_and_told(executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound nothing is kept any more; the word in the script lets the view go on without that, and `plan`
    says so."""
    url, project = f"sqlite:///{tmp_path}/s.db", ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    wb.engine.quarantine.missed.most = 4
    put(wb, "00:00", (1, "a", "5"))
    put(wb, "02:00", (2, "a", "zero"))
    assert [f.lost for f in wb.engine.quarantine.failed] == ["", "", ""]
    wb.clock("2024-01-01 02:10:00")
    wb.insert("S", [{"n": n, "g": "b", "x": "1"} for n in (3, 4, 5, 6)])
    reported = list[str]()
    run = wb.engine.run_epoch

    def run_epoch(*given: Any, **named: Any) -> Any:
        report = run(*given, **named)
        reported.extend(map(failure_text, report.failing))
        return report

    monkeypatch.setattr(wb.engine, "run_epoch", run_epoch)
    wb.step()
    assert sum("the maximum that is kept" in t for t in reported) == 2
    assert {f.owner for f in wb.engine.quarantine.failed if "more than 4 changes" in f.lost} == {"V", "_Parts"}
    assert not [n for n in wb.engine.state.arrangements if n == "S~missed"]
    put(wb, "02:20", (7, "b", "1"))
    wb.close()
    catalog = compile_script(RESUMED, project=project).catalog
    reasons = {c.name: c.reason for c in deployment_of(catalog, url).changes}
    assert "without the changes since epoch 2" in reasons["V"]
    assert "without" not in reasons["Sums"]
    with pytest.raises(BelvedereError, match="B7030"):
        Workbench(CORRECTED, url, spark=executor, project=project)
    wb = Workbench(RESUMED, url, spark=executor, project=project)
    put(wb, "02:30", (8, "b", "2"))
    assert not held(wb)
    assert pairs(wb, "V", "n", "y") == {1: 50, 8: 20}
    assert pairs(wb, "Sums", "g", "n") == {"a": 2, "b": 2}
    wb.close()


def test_a_failing_key_of_a_private_input_holds_what_reads_it_alone(executor: Any, tmp_path: Path) -> None:
    """The expression is a part of the key by which rows are looked up: of the views, and of the input as it arrives."""
    script = """
    CREATE STREAM _P (id INT, at STRING, note INT);
    _Clean := SELECT id, CAST(at AS INT) AS day, note FROM _P;
    Latest := DISTINCT _Clean ON id, day ORDER BY note DESC;
    Days := SELECT day, count(*) AS n FROM Latest GROUP BY day;
    Keyed := SELECT CAST(at AS INT) AS day, count(*) AS n FROM _P GROUP BY CAST(at AS INT);
    Count := SELECT count(*) AS n FROM _P;
    """
    url, project = f"sqlite:///{tmp_path}/s.db", ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(script, url, spark=executor, project=project)
    for number, (id_, at, note) in enumerate(((1, "5", 1), (2, "31/5", 1), (1, "5", 2), (3, "6", 1)), 1):
        wb.insert("_P", [{"id": id_, "at": at, "note": note}])
        wb.step()
        assert dict(held(wb)) == (dict.fromkeys(("Latest", "Days", "Keyed"), 1) if number > 1 else {})
        assert wb.rows("Count") == [{"n": number}]
        assert pairs(wb, "Days", "day", "n") == {5: 1}
        wb.restart()
    wb.close()
    mended = script.replace("CAST(", "try_cast(").replace("_Clean :=", "/*+ resume */ _Clean :=")
    wb = Workbench(mended.replace("Keyed :=", "/*+ resume */ Keyed :="), url, spark=executor, project=project)
    wb.step()
    assert not held(wb)
    assert pairs(wb, "Days", "day", "n") == {5: 1, 6: 1, None: 1}
    assert pairs(wb, "Keyed", "day", "n") == {5: 2, 6: 1, None: 1}
    assert {(r["id"], r["day"]): r["note"] for r in wb.rows("Latest")} == {(1, 5): 2, (2, None): 1, (3, 6): 1}
    wb.close()


@pytest.mark.parametrize("each_store", ["sqlite", *at_night(["postgres"])], indirect=True)
def test_what_may_not_be_null_any_more_is_told_to_be_gone(
    executor: Any, tmp_path: Path, each_store: str, request: pytest.FixtureRequest
) -> None:
    """The former rows had NULL: an export and a subscription tell that they go."""
    script = """
    CREATE TABLE T (id INT NOT NULL, price INT, PRIMARY KEY (id));
    Latest := SELECT id, price FROM T;
    ByPrice := SELECT price, count(*) AS n FROM Latest GROUP BY price;
    CREATE SUBSCRIPTION Gone ON DELETE AS SELECT price, n FROM ByPrice;
    EXPORT ByPrice TO out.ByPrice;
    """
    (tmp_path / "belvedere.toml").write_text('[sinks.out]\nconnector = "files"\npath = "out"\nformat = "json"\n')
    url = f"sqlite:///{tmp_path}/s.db" if each_store == "sqlite" else request.getfixturevalue("postgres_url")
    project = load_project(tmp_path)
    wb = Workbench(script, url, spark=executor, project=project)
    wb.insert("T", [{"id": 1, "price": 900}, {"id": 2, "price": None}])
    wb.step()
    wb.close()
    wb = Workbench(
        script.replace("id, price FROM T", "id, coalesce(price, 500) AS price FROM T"),
        url,
        spark=executor,
        project=project,
    )
    wb.step()
    assert [(r["price"], r["n"]) for r in wb.rows("Gone")] == [(None, 1)]
    wb.close()
    lines = [json.loads(x) for f in sorted((tmp_path / "out").rglob("*2.jsonl")) for x in f.read_text().splitlines()]
    assert sorted((str(x["price"]), x["_op"]) for x in lines) == [("500", "ADD"), ("None", "DELETE")], list(
        (tmp_path / "out").rglob("*")
    )
