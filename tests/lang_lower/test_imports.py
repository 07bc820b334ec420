"""IMPORT under a namespace, with variables in its path, and what `*` brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import Compiled, compile_script
from belvedere.connectors.project_file import load_project
from belvedere.workbench.workbench import Workbench

CARDS = """
CREATE STREAM _Payments (card INT, amount DOUBLE, at TIMESTAMP, WATERMARK FOR at AS at) KEEP 1 DAY;
CREATE TABLE Merchant (id INT, name STRING, PRIMARY KEY (id));
CREATE STREAM Visits (card INT, tags ARRAY<STRUCT<t STRING>>, at TIMESTAMP, WATERMARK FOR at AS at) KEEP 1 DAY;
Cards := SELECT card, sum(amount) AS spent FROM _Payments GROUP BY card;
Cards.visits := JOIN Visits v ON v.card = _.card ORDER BY v.at;
"""
SCRIPT = """
IMPORT lib.cards AS ctl;
CREATE TABLE Merchant (id INT, city STRING, PRIMARY KEY (id));
Cards := SELECT c.card, c.spent * 2 AS twice FROM ctl.Cards c;
Tags := SELECT v.card, t.t FROM ctl.Visits v JOIN v.tags t;
Visited := SELECT c.card, v.at FROM ctl.Cards c JOIN c.visits v;
Last := DISTINCT ctl.Visits ON card ORDER BY at DESC;
Refused := SELECT card FROM LATE(ctl.Visits) l;
Hours := SELECT window_start, count(*) AS n FROM TABLE(TUMBLE(TABLE ctl.Visits, DESCRIPTOR(at), INTERVAL '1' HOUR))
         GROUP BY window_start, window_end EMIT AFTER WATERMARK;
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "cards.sqrl").write_text(CARDS)
    (tmp_path / "outer.sqrl").write_text("IMPORT lib.cards AS low;\nTop := SELECT * FROM low.Cards;\n")
    (tmp_path / "belvedere.toml").write_text(
        '[variables]\nvariant = "${env:NO_SUCH_VARIANT:-cards}"\nwhole = "lib.cards"\n'
    )
    return tmp_path


def compiled(home: Path, text: str) -> Compiled:
    return compile_script(text, path=home / "main.sqrl")


def test_names_do_not_clash_and_what_stands_behind_them_comes_along(home: Path) -> None:
    found = compiled(home, SCRIPT)
    assert found.ok, found.diagnostics
    catalog = found.catalog
    names = {"ctl.Cards", "ctl.Merchant", "ctl.Visits", "ctl.Visits.tags", "Cards", "Merchant", "Tags", "Hours"}
    assert names <= catalog.public
    assert not any("_Payments" in i for i in catalog.public)
    assert catalog.late_of("ctl.Visits") is not None
    owned = {(r.owner, r.name): r.target for r in catalog.relationships}
    assert owned["ctl.Cards", "visits"] == "ctl.Visits"
    assert owned["ctl.Visits.tags", "parent"] == "ctl.Visits"
    private = compiled(home, "IMPORT lib.cards AS _ctl;\nV := SELECT * FROM _ctl.Cards;")
    assert private.catalog.public == {"V"}
    nested = compiled(home, "IMPORT outer AS o;\nV := SELECT * FROM o.Top;\nW := SELECT * FROM o.low.Cards;")
    assert nested.ok, nested.diagnostics
    assert {"o.Top", "o.low.Cards", "V", "W"} <= nested.catalog.public


@pytest.mark.parametrize(
    "text", ["IMPORT lib.{{variant}}.Cards;", "IMPORT {{ whole }}.Cards;", "IMPORT {{whole}}.{{variant}} AS Cards;"]
)
def test_variables_stand_for_names(home: Path, text: str) -> None:
    found = compiled(home, text + "\nV := SELECT card FROM Cards;")
    assert found.ok, found.diagnostics
    assert {"Cards", "V"} <= found.catalog.public


def test_a_star_says_what_it_brings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [d for d in compiled(home, "IMPORT lib.{{variant}}.*;").diagnostics if d.code == "B6108"]
    assert [d.message for d in found] == ["`lib.cards` imports `Merchant`, `Visits`, `Cards`"]
    found = [d for d in compiled(home, "IMPORT lib.cards.* AS c;").diagnostics if d.code == "B6108"]
    assert [d.message for d in found] == ["`lib.cards` imports `c.Merchant`, `c.Visits`, `c.Cards`"]
    monkeypatch.setenv("NO_SUCH_VARIANT", "elsewhere")
    assert [d.code for d in compiled(home, "IMPORT lib.{{variant}}.*;").diagnostics] == ["B6100"]


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("IMPORT lib.{{varian}}.*;", "B6109", "`variant`"),
        ("IMPORT lib.{variant}.*;", "B1001", "{{name}}"),
        ("IMPORT lib.{{variant}.*;", "B1001", ""),
        ("IMPORT lib.cards;", "B1016", "IMPORT lib.cards AS name"),
        ("IMPORT cards;", "B1016", "cards.*"),
        ("IMPORT nothing AS n;", "B6100", "nothing.sqrl"),
        ("IMPORT lib.cards AS c;\nV := SELECT * FROM c.Card;", "B2001", "`c.Cards`"),
        ("IMPORT lib.cards AS c;\nc := SELECT 1 AS one;", "B2013", "another name"),
        ("CREATE TABLE c (a INT);\nIMPORT lib.cards AS c;", "B2013", "another name"),
        ("IMPORT lib.cards AS c KEEP 7 DAYS;", "B6107", "that IMPORT"),
    ],
)
def test_refusals(home: Path, text: str, code: str, hint: str) -> None:
    found = [d for d in compiled(home, text).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code], found
    assert hint in (found[0].hint or "")


def test_views_over_a_namespace_are_what_batch_says(executor: Any, home: Path) -> None:
    wb = Workbench(SCRIPT, spark=executor, project=load_project(home))
    try:
        for hour in (8, 9):
            for card in (1, 2):
                at = f"2024-03-01 {hour:02}:00:0{card}"
                wb.insert("ctl.Visits", [{"card": card, "tags": [{"t": f"{hour}"}, {"t": "x"}], "at": at}])
                wb.insert("_Payments", [{"card": card, "amount": hour, "at": at}])
            wb.step()
            wb.restart()
        for view in ("Cards", "Tags", "Visited", "Last", "Hours", "ctl.Cards"):
            assert sorted(map(str, wb.rows(view))) == sorted(map(str, wb.batch(view))), view
        assert [r["n"] for r in wb.rows("Hours")] == [2]
        answer = wb.graphql(
            "{ ctl_Cards(order: [{card: ASC}]) { card spent visits(limit: 1) { tags { t } } } cards { twice } }"
        )
        assert answer["data"]["ctl_Cards"][0] == {
            "card": 1,
            "spent": 17.0,
            "visits": [{"tags": [{"t": "8"}, {"t": "x"}]}],
        }
    finally:
        wb.close()


def test_a_table_with_dots_in_its_name_stands_in_backticks(home: Path) -> None:
    (home / "belvedere.toml").write_text('[sources.bus]\nconnector = "files"\npath = "bus"\nformat = "json"\n')
    (home / "bus").mkdir()
    (home / "bus" / "shop.eu.orders.json").write_text('{"id": 1}\n')
    project = load_project(home)
    (reported,) = compile_script(
        "IMPORT bus.shop.eu.orders AS O;", path=home / "main.sqrl", project=project
    ).diagnostics
    assert (reported.code, reported.hint) == (
        "B6100",
        "write `IMPORT bus.` and the name in backticks: `shop.eu.orders`",
    )
