"""A script that is imported by several statements, in any order, is one instance; what is private in it stays there."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from belvedere.compiler import Compiled, compile_script

SHARED = """
CREATE STREAM _Payments (card INT, amount DOUBLE) KEEP 7 DAYS;
CREATE TABLE Holders (card INT, name STRING, tags ARRAY<STRUCT<t STRING>>, PRIMARY KEY (card));
Cards := SELECT card, sum(amount) AS spent FROM _Payments GROUP BY card;
Cards.holder := JOIN Holders h ON h.card = _.card;
Holders.cards := JOIN Cards c ON c.card = _.card;
Cards._secret := spent * 2;
Cards.shown := _secret + 1;
Cards._code := card;
Holders.byKey := JOIN Cards c ON c._code = _.card;
"""
IMPORTS = ("IMPORT shared.Cards;", "IMPORT shared.Holders;", "IMPORT outer.Top;", "IMPORT shared.*;")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "shared.sqrl").write_text(SHARED)
    (tmp_path / "outer.sqrl").write_text("IMPORT shared.Cards;\nTop := SELECT card, spent FROM Cards;\n")
    return tmp_path


def compiled(home: Path, text: str) -> Compiled:
    return compile_script(text, path=home / "main.sqrl")


def test_imports_of_one_script_are_one_instance_in_any_order(home: Path) -> None:
    read = (
        "X := SELECT c.card, c.holder.name FROM Cards c;\nY := SELECT h.name, c.shown FROM Holders h JOIN h.byKey c;\n"
    )
    for chosen in [*permutations(IMPORTS[:3]), (*IMPORTS, IMPORTS[0]), ("IMPORT shared.*;", "IMPORT outer.Top;")]:
        found = compiled(home, "\n".join([*chosen, read]))
        assert found.ok, (chosen, found.diagnostics)
        catalog = found.catalog
        inputs = [t.name for t in catalog.inputs.values() if t.late_of is None]
        assert sorted(n.removesuffix("~imported") for n in inputs) == ["Holders", "__Payments"], chosen
        assert {"Cards", "Holders", "Holders.tags", "Top", "X", "Y"} <= catalog.public, chosen
        links = {(r.owner, r.name): r.target for r in catalog.relationships}
        assert (links["Cards", "holder"], links["Holders", "cards"], links["Holders", "byKey"]) == (
            "Holders",
            "Cards",
            "Cards",
        )
        assert links["Holders.tags", "parent"] == "Holders", chosen
        assert not any(d.code == "B8023" for d in found.diagnostics), chosen


def test_a_second_name_reads_the_same_input(home: Path) -> None:
    found = compiled(
        home,
        "IMPORT shared.Holders;\nIMPORT shared.Holders AS People;\nV := SELECT p.name, c.spent FROM People p JOIN "
        "p.cards c;",
    )
    assert found.ok, found.diagnostics
    assert [t.name for t in found.catalog.inputs.values() if "ayments" not in t.name] == ["Holders"]
    assert found.catalog.views["People"].schema.visible == found.catalog.inputs["Holders"].schema.visible
    again = compiled(
        home,
        "IMPORT shared.Holders;\nHolders := SELECT card FROM Holders;\nIMPORT shared.Holders;\nV := SELECT name FROM "
        "Holders;",
    )
    assert again.ok, "the import gives the name back"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT card, _secret FROM Cards",
        "SELECT c._SECRET FROM Cards c",
        "SELECT max(_secret) AS m FROM Cards",
        "SELECT card FROM Cards WHERE _secret > 1",
        "SELECT h.card, c._secret FROM Holders h JOIN h.cards c",
        "SELECT x.card FROM Cards x JOIN Cards y USING (_code)",
        "DISTINCT Cards ON _code",
    ],
)
def test_private_columns_of_another_script_cannot_be_read(home: Path, query: str) -> None:
    found = compiled(home, f"IMPORT shared.*;\nV := {query};")
    assert [d.code for d in found.diagnostics if d.severity == "error"] == ["B2002"], found.diagnostics
    assert not any("~" in d.message + (d.hint or "") for d in found.diagnostics)


def test_what_rests_on_them_works(home: Path) -> None:
    found = compiled(
        home,
        "IMPORT shared.*;\nCards.more := shown + 1;\nV := SELECT * FROM Cards;\nN := SELECT * FROM Cards NATURAL JOIN "
        "V;",
    )
    assert found.ok, found.diagnostics
    for view in ("V", "N"):
        assert [c.name for c in found.catalog.views[view].schema.visible] == ["card", "spent", "shown", "more"]
    assert compiled(home, "IMPORT shared.Cards AS C;\nC._own := 1;\nV := SELECT _own FROM C;").ok, (
        "a private column of this script"
    )


def test_messages_name_what_the_other_script_calls_it(home: Path) -> None:
    found = compiled(home, "IMPORT shared.Cards;")
    (reported,) = (d for d in found.diagnostics if d.code == "B8023")
    assert "`Holders` is not stored" in reported.message
    assert "import it" in (reported.hint or "")
    assert not any("~" in d.message + (d.hint or "") for d in found.diagnostics)
