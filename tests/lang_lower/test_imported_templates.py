"""Query templates imported from another script, with the relations that they read; private ones stay private."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.compiler import Compiled, compile_script
from belvedere.plan.operators.nodes import Scan

SHARED = """
CREATE STREAM _Payments (card INT, amount DOUBLE) KEEP 7 DAYS;
Cards := SELECT card, sum(amount) AS spent FROM _Payments GROUP BY card;
_Hidden := SELECT card, spent FROM Cards WHERE spent > 1;
Rich(least DOUBLE) := SELECT card, spent FROM Cards WHERE spent > :least;
Hidden(card INT) := SELECT spent FROM _Hidden WHERE card = :card;
_Own(card INT) := SELECT spent FROM Cards WHERE card = :card;
Alerts(card INT) := SUBSCRIBE SELECT card, spent FROM Cards WHERE spent > 10 AND card = :card;
SELECT card FROM Cards WHERE spent = ?;
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "shared.sqrl").write_text(SHARED)
    (tmp_path / "outer.sqrl").write_text("IMPORT shared.Rich;\nIMPORT shared.Cards;\n")
    return tmp_path


def compiled(home: Path, text: str) -> Compiled:
    return compile_script(text, path=home / "main.sqrl")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("IMPORT shared.Rich;", ["Rich"]),
        ("IMPORT shared.rich AS Wealthy;\nIMPORT shared.Rich;", ["Rich", "Wealthy"]),
        ("IMPORT shared.Hidden;", ["Hidden"]),
        ("IMPORT shared.*;", ["Alerts", "Hidden", "Rich"]),
        ("IMPORT shared.* AS s;", ["s_Alerts", "s_Hidden", "s_Rich"]),
        ("IMPORT shared AS _s;", []),
        ("IMPORT outer.Rich;\nIMPORT shared.Rich;\nIMPORT outer.*;", ["Rich"]),
        ("IMPORT shared.Alerts;\nV := SELECT card FROM Alerts;", ["Alerts"]),
    ],
)
def test_what_comes(home: Path, text: str, names: list[str]) -> None:
    found = compiled(home, text)
    assert found.ok, found.diagnostics
    assert sorted(n for n, t in found.catalog.templates.items() if t.parameters) == names
    relations = {**found.catalog.inputs, **found.catalog.views, **found.catalog.subscriptions}
    for template in found.catalog.templates.values():
        assert all(n.relation in relations for n in template.plan.walk() if isinstance(n, Scan))
    assert not any("_Hidden" in i for i in found.catalog.public)


def test_a_template_and_a_view_read_one_instance(home: Path) -> None:
    for text in ("IMPORT shared.Rich;\nIMPORT shared.Cards;", "IMPORT shared.Cards;\nIMPORT shared.Rich;"):
        found = compiled(home, text)
        assert found.ok, found.diagnostics
        read = {n.relation for n in found.catalog.templates["Rich"].plan.walk() if isinstance(n, Scan)}
        assert read == {"Cards"}
        assert len([i for i in found.catalog.inputs.values() if i.late_of is None]) == 1


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("IMPORT shared._Own;", "B2009", "`_Own`"),
        ("IMPORT shared.Ritch;", "B2009", "`Ritch`"),
        ("Rich(a INT) := SELECT 1 AS one WHERE 1 = :a;\nIMPORT shared.Rich;", "B2008", "`Rich`"),
        ("IMPORT shared.Rich;\nRich(a INT) := SELECT 1 AS one WHERE 1 = :a;", "B2008", "`Rich`"),
    ],
)
def test_refused(home: Path, text: str, code: str, said: str) -> None:
    (error,) = (d for d in compiled(home, text).diagnostics if d.severity == "error")
    assert error.code == code
    assert said in error.message
    assert "~" not in error.message + (error.hint or "")
