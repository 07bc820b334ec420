"""Where the rows of missing rows vanish, from the Workbench and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.cli import run
from belvedere.provenance.findings import PruningKind, PruningOperator
from tests.provenance.test_why import SCRIPT, TIMES, filled

MORE = """
CREATE TABLE Person (id INT, name STRING, tags ARRAY<STRING>, PRIMARY KEY (id));
CREATE TABLE Banned (id INT, PRIMARY KEY (id));
Allowed := SELECT id FROM Person EXCEPT SELECT id FROM Banned;
Free := SELECT p.id, p.name FROM Person p WHERE NOT EXISTS (SELECT 1 FROM Banned b WHERE b.id = p.id);
Named := SELECT name, count(*) AS n FROM Person GROUP BY name HAVING count(*) > 1;
Oldest := SELECT id, name FROM Person ORDER BY id LIMIT 2;
Tagged := SELECT p.id, t.tag FROM Person p LATERAL VIEW explode(p.tags) t AS tag;
Both := SELECT id, 'a' AS kind FROM Person UNION ALL SELECT id, 'b' AS kind FROM Banned;
"""
PEOPLE = [(1, "Ada", ["x"]), (2, "Bob", []), (3, "Bob", None), (4, None, ["y"])]


def places(found: Any) -> list[tuple[str, str]]:
    return [(f.view, f.at.value) for f in found.lost]


def near(lost: PruningOperator) -> dict[str, int]:
    return {r.words: r.count for r in lost.near}


@pytest.mark.usefixtures("each_store")
def test_a_filter_a_partner_and_an_input_are_told(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    assert wb.why_not("ByCity", {"city": "Bern"}).there == 1
    (lost,) = wb.why_not("ByCustomer", {"customer": 9}).lost
    assert (lost.view, lost.at, lost.through) == ("Sale", PruningKind.INPUT, ("ByCustomer", "_Big"))
    wb.insert("Sale", [{"customer": 4, "amount": 5}, {"customer": 4, "amount": None}, {"customer": 7, "amount": 50}])
    wb.step()
    (lost,) = wb.why_not("ByCustomer", {"customer": 4}).lost
    assert (lost.view, lost.at, near(lost)) == ("_Big", PruningKind.FILTER, {"reached it": 2})
    assert "2 of 2 rows" in lost.words
    (lost,) = wb.why_not("ByCity", {"city": "Basel"}).lost
    assert (lost.view, lost.at) == ("Customer", PruningKind.INPUT)
    (lost,) = wb.why_not("ByCity", {"city": " zürich"}).lost
    assert near(lost) == {"are equal except for case or surrounding spaces": 2}
    (lost,) = wb.why_not("ByCity", {"city": None}).lost
    assert (lost.view, lost.at) == ("_Big", PruningKind.FILTER)
    assert lost.steps
    (lost,) = wb.why_not("ByCity", {"city": "Bern", "total": 41}).lost
    assert (lost.at, near(lost)) == (PruningKind.GROUP, {"the group as it is": 1})
    assert lost.unfollowed
    wb.close()


def test_what_wins_in_its_place_and_a_row_without_a_partner(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    (lost,) = wb.why_not("Best", {"customer": 1, "amount": 10}).lost
    assert (lost.at, near(lost)) == (PruningKind.TOP, {"came first instead": 1, "came after them": 1})
    assert 20 in lost.near[0].rows[0].values()
    (lost,) = wb.why_not("Quiet", {"id": 1, "amount": None}).lost
    assert (lost.at, near(lost)) == (PruningKind.JOIN, {"have a partner": 1, "their partners": 3})
    (lost,) = wb.why_not("Quiet", {"id": 4, "amount": 3}).lost
    assert lost.at in (PruningKind.JOIN, PruningKind.INPUT)
    wb.close()


@pytest.mark.usefixtures("each_store")
def test_what_is_taken_out_and_what_is_empty(executor: Any) -> None:
    wb = Workbench(MORE, spark=executor)
    wb.insert("Person", [{"id": i, "name": n, "tags": t} for i, n, t in PEOPLE])
    wb.insert("Banned", [{"id": 2}])
    wb.step()
    reported = {
        ("Allowed", "id", 2): ("Allowed", "except"),
        ("Allowed", "id", 8): ("Person", "input"),
        ("Free", "id", 2): ("Free", "except"),
        ("Named", "name", "Ada"): ("Named", "having"),
        ("Oldest", "id", 3): ("Oldest", "top"),
        ("Tagged", "id", 2): ("Tagged", "unnest"),
    }
    for (view, name, value), place in reported.items():
        assert places(wb.why_not(view, {name: value})) == [place], (view, value)
    assert places(wb.why_not("Both", {"id": 1, "kind": "b"})) == [("Banned", "input")]
    assert places(wb.why_not("Both", {"kind": "c"})) == [("Both", "values")]
    wb.close()


def test_windows_that_wait_and_late_rows(executor: Any) -> None:
    wb = Workbench(TIMES, spark=executor)
    wb.clock("2020-01-01 09:00:00")
    wb.step()
    (lost,) = wb.why_not("Tens", {"wend": "2020-01-01 08:10:00"}).lost
    assert (lost.view, lost.at) == ("Bid", PruningKind.INPUT)
    wb.insert("Bid", [{"at": "2020-01-01 08:01:00", "item": "a", "price": 1}])
    wb.step()
    (lost,) = wb.why_not("Done", {"wend": "2020-01-01 08:10:00"}).lost
    assert lost.at is PruningKind.EMIT
    assert "2020-01-01 08:10:00" in lost.words
    (lost,) = wb.why_not("Last2", {"item": "b"}).lost
    assert (lost.view, lost.at) == ("Bid", PruningKind.INPUT)
    (lost,) = wb.why_not("Pairs", {"item": "a", "total": 100}).lost
    assert lost.at is PruningKind.WINDOW
    (lost,) = wb.why_not("Sessions", {"item": "a", "wend": "2020-01-01 09:00:00"}).lost
    assert lost.at is PruningKind.WINDOW
    wb.close()


def test_why_not_from_the_command_line(tmp_path: Path, executor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = tmp_path / "shop.sqrl", f"sqlite:///{tmp_path / 'shop.db'}"
    script.write_text(SCRIPT)
    filled(store, executor).close()
    asked = ["why-not", str(script), "ByCity", "city = 'Basel'", "--store", store]
    assert run([*asked, "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert [(x["view"], x["at"]) for x in reported["lost"]] == [("Customer", "input")]
    assert run(asked) == 0
    text = capsys.readouterr().out
    assert "`Customer` has no row with city = 'Basel'; a row that was deleted or changed leaves no trace" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert run(["why-not", str(script), "ByCity", "city = 'Bern'", "--store", store]) == 0
    assert "belvedere why" in capsys.readouterr().out
