"""Query templates: what the store cannot answer is told before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.errors import Severity

BASE = "CREATE TABLE T (k INT, s STRING, at TIMESTAMP, PRIMARY KEY (k));\nCREATE STREAM _Hidden (k INT, s STRING);\n"


@pytest.mark.parametrize(
    ("query", "code", "part"),
    [
        (
            "Q(n INT) := SELECT k, row_number() OVER (ORDER BY s) AS r FROM T WHERE k = :n;",
            "B8020",
            "a window cannot be computed",
        ),
        ("Q(n INT) := SELECT k FROM _Hidden WHERE k = :n;", "B8021", "not stored"),
    ],
)
def test_what_the_store_cannot_answer_is_a_warning(query: str, code: str, part: str) -> None:
    compiled = compile_script(BASE + query)
    assert compiled.ok, "the views are kept all the same"
    (found,) = (d for d in compiled.diagnostics if d.severity is Severity.WARNING)
    assert found.code == code
    assert part in found.message
    assert '"Q"' in found.message
    assert found.hint
    assert found.span is not None
    assert found.span.start == len(BASE)


def test_a_template_that_the_store_answers_is_fine() -> None:
    compiled = compile_script(
        BASE + "Q(n INT) := SELECT k, s FROM T WHERE k = :n ORDER BY s;\nSELECT count(*) AS n FROM T WHERE s = ?;"
    )
    assert not [d for d in compiled.diagnostics if d.severity is not Severity.NOTICE]


def test_check_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sqrl"
    script.write_text(BASE + "Q(n INT) := SELECT k FROM _Hidden WHERE k = :n;", encoding="utf-8")
    assert run(["check", str(script)]) == 0
    out = capsys.readouterr().out
    assert "warning[B8021]" in out
    assert f"{script}:3:1" in out


DEFAULTS = """
Q(n INT = -3, s STRING = 'ü', at TIMESTAMP = TIMESTAMP '2026-01-01 08:00:00', d DECIMAL(5,2) = 1.5, b BOOLEAN = TRUE,
    x DOUBLE = 2,
  day DATE = DATE '2026-01-31', given BIGINT) := SELECT k FROM T WHERE k = :n;
"""


def test_defaults_are_what_a_client_would_write() -> None:
    compiled = compile_script(BASE + DEFAULTS)
    assert compiled.ok, compiled.diagnostics
    found = {p.name: p.default for p in compiled.catalog.templates["Q"].parameters}
    assert found == {
        "n": -3, "s": "ü", "at": "2026-01-01T08:00:00Z", "d": "1.50", "b": True, "x": 2.0, "day": "2026-01-31",
        "given": None
    }  # fmt: skip


@pytest.mark.parametrize(
    "declared",
    ["n INT = 'a'", "n INT = 1 + 1", "n INT = 3000000000", "n INT = 1.5", "n DATE = '2026-02-30'", "n STRING = NULL"],
)
def test_a_default_is_a_literal_of_its_type(declared: str) -> None:
    (found,) = compile_script(BASE + f"Q({declared}) := SELECT k FROM T WHERE k = 1;").diagnostics
    assert found.code == "B4030"
    assert "literal" in (found.hint or "")
