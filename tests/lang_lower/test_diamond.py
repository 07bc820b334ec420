"""Two scripts that import a third: it is compiled once, and its relations are there once."""

from __future__ import annotations

from pathlib import Path

from belvedere.compiler import compile_script
from belvedere.plan.operators.nodes import Scan

COMMON = "CREATE STREAM _E (k INT, v INT);\nBig := SELECT k, v FROM _E WHERE v > 10;\n"


def test_a_diamond_of_imports_has_its_bottom_once(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text(COMMON, encoding="utf-8")
    (tmp_path / "a.sqrl").write_text(
        "IMPORT base.Big;\nBig.w := v * 2;\nA := SELECT k, sum(w) AS w FROM Big GROUP BY k;", encoding="utf-8"
    )
    (tmp_path / "b.sqrl").write_text(
        "IMPORT base.*;\nB := SELECT k, max(v) AS v FROM Big GROUP BY k;", encoding="utf-8"
    )
    main = tmp_path / "main.sqrl"
    text = "IMPORT a.A;\nIMPORT b.B;\nV := SELECT a.k, a.w, b.v FROM A a JOIN B b ON a.k = b.k;"
    main.write_text(text, encoding="utf-8")
    compiled = compile_script(text, path=main)
    assert compiled.ok, compiled.diagnostics
    catalog = compiled.catalog
    assert len(catalog.inputs) - sum(i.late_of is not None for i in catalog.inputs.values()) == 1
    assert (
        sum(
            any(isinstance(n, Scan) and n.relation in catalog.inputs for n in v.plan.walk())
            for v in catalog.views.values()
        )
        == 1
    )
    assert catalog.public >= {"A", "B", "V"}
    assert not [i for i in catalog.public if "Big" in i]


def test_what_is_wrong_at_the_bottom_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text(COMMON + "W := SELECT nothing FROM _E;", encoding="utf-8")
    for name in "ab":
        (tmp_path / f"{name}.sqrl").write_text(
            f"IMPORT base.Big;\n{name.upper()} := SELECT k FROM Big;", encoding="utf-8"
        )
    main = tmp_path / "main.sqrl"
    text = "IMPORT a.A;\nIMPORT b.B;"
    main.write_text(text, encoding="utf-8")
    compiled = compile_script(text, path=main)
    assert [d.code for d in compiled.diagnostics].count("B2002") == 1


def test_late_rows_stay_those_of_their_input(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text(
        "CREATE STREAM E (k INT, ts TIMESTAMP, WATERMARK FOR ts);\nL := SELECT k FROM LATE(E);", encoding="utf-8"
    )
    main = tmp_path / "main.sqrl"
    main.write_text("IMPORT base.L;", encoding="utf-8")
    catalog = compile_script("IMPORT base.L;", path=main).catalog
    (late,) = (i for i in catalog.inputs.values() if i.late_of is not None)
    assert late.late_of in catalog.inputs
    assert late.late_of != late.id
