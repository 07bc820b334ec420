"""Declarations of a project's functions, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project

HEAD = "import belvedere\n"
TABLE = "CREATE TABLE T (id INT, price DOUBLE, s STRING, PRIMARY KEY (id));\n"
SHOUT = HEAD + '@belvedere.function("s STRING", "STRING")\ndef shout(s):\n    return s\n'


def codes(folder: Path, module: str, script: str = "") -> list[str]:
    (folder / "belvedere.toml").write_text('[functions]\nmodule = "own.py"\n')
    (folder / "own.py").write_text(module)
    found = compile_script(TABLE + script, project=load_project(folder))
    return [d.code for d in found.diagnostics if d.severity == "error"]


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("import nowhere_at_all\n", "B9130"),
        ("def (:\n", "B9130"),
        (HEAD + '@belvedere.function("x INT", "INT")\ndef f(x, y): ...\n', "B9131"),
        (HEAD + '@belvedere.function("x NONSENSE", "INT")\ndef f(x): ...\n', "B9131"),
        (HEAD + '@belvedere.function("x INT", "VOID")\ndef f(x): ...\n', "B9131"),
        (HEAD + '@belvedere.function("", "INT")\ndef f(): ...\n', "B9131"),
        (HEAD + '@belvedere.function("x STRING", "STRING")\ndef upper(x): ...\n', "B9132"),
    ],
)
def test_a_wrong_declaration_is_told(tmp_path: Path, module: str, code: str) -> None:
    assert codes(tmp_path, module) == [code]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id, SHOUT(s) AS u FROM T", []),
        ("SELECT id, shout(price) AS u FROM T", ["B3002"]),
        ("SELECT id, shout(s, s) AS u FROM T", ["B3040"]),
        ("SELECT id, transform(array(s), x -> shout(x)) AS u FROM T", ["B3074"]),
        ("SELECT a.id FROM T a LEFT JOIN T b ON shout(a.s || b.s) = 'x'", ["B3074"]),
    ],
)
def test_calls_are_checked(tmp_path: Path, query: str, found: list[str]) -> None:
    assert codes(tmp_path, SHOUT, f"V := {query};") == found


def test_changed_code_is_another_function(tmp_path: Path) -> None:
    def name() -> str:
        project = load_project(tmp_path)
        return compile_script(TABLE, project=project).catalog.functions[0].registered

    (tmp_path / "beside_it.py").write_text("FACTOR = 1\n")
    codes(tmp_path, "import beside_it\n" + SHOUT)
    first = name()
    assert name() == first
    (tmp_path / "beside_it.py").write_text("FACTOR = 2\n")
    assert name() != first
