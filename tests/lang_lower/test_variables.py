"""`{{name}}` and sections of Mustache anywhere in a script, with diagnostics at the script's own places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from belvedere.cli import run
from belvedere.compiler import Compiled, compile_script
from belvedere.connectors.project_file import load_project
from belvedere.project.settings import ProjectSettings
from belvedere.syntax.fmt.script_layout import format_script

TABLE = "CREATE TABLE Orders (id INT, price DOUBLE, name STRING, PRIMARY KEY (id));\n"
VARIABLES = {
    "n": "10", "city": "O\\'Neil é", "col": "price", "table": "Orders", "prod": "true", "off": "false",
    "part": "price * 2 AS twice",
    "empty": "",
}  # fmt: skip


def compiled(text: str) -> Compiled:
    return compile_script(TABLE + text, project=ProjectSettings(Path("/nowhere"), variables=VARIABLES))


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("V := SELECT id, {{col}} FROM {{table}} WHERE price > {{n}};", "SELECT id, price FROM Orders WHERE price > "
                                                                        "10;"),
        ("V := SELECT id, `{{col}}` FROM `{{table}}` WHERE name = '{{city}}';",
         "SELECT id, price FROM Orders WHERE name = 'O\\'Neil é';"),
        ("V := SELECT id, {{ part }} FROM Orders;", "SELECT id, price * 2 AS twice FROM Orders;"),
        ("V := SELECT id, {{{part}}}, {{&n}} AS n FROM Orders;", "SELECT id, price * 2 AS twice, 10 AS n FROM Orders;"),
        ("V := SELECT id{{#off}}, nosuch{{/off}}{{^off}}, name{{/off}} FROM Orders;", "SELECT id, name FROM Orders;"),
        ("V := SELECT id{{#prod}}, price{{#never}}, nosuch{{/never}}{{/prod}} FROM Orders;",
         "SELECT id, price FROM Orders;"),
        ("V := SELECT id{{^empty}}, price{{/empty}} FROM Orders; -- {{nosuch}}", "SELECT id, price FROM Orders;"),
        ("V := SELECT id FROM Orders {{! a note }}ORDER BY price LIMIT {{n}};", "SELECT id FROM Orders ORDER BY price "
                                                                                "LIMIT 10;"),
    ],
)  # fmt: skip
def test_a_script_is_read_with_the_values(text: str, plan: str) -> None:
    found, same = compiled(text), compiled(f"V := {plan}")
    assert found.ok, found.diagnostics
    assert found.catalog.views["V"].plan == same.catalog.views["V"].plan


def test_a_name_may_be_made_of_a_variable() -> None:
    found = compiled("Top_{{n}} := SELECT id FROM Orders;\nW := SELECT id FROM Top_10;")
    assert found.ok, found.diagnostics
    assert {"Top_10", "W"} <= set(found.catalog.views)


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ("V := SELECT id, {{coll}} FROM Orders;\nW := SELECT id FROM V;", "B6109", "{{coll}}", "`col`"),
        ("V := SELECT id FROM Orders WHERE name = 'in {{nosuch}}';", "B6109", "{{nosuch}}", "--var nosuch="),
        ("V := SELECT id FROM Orders WHERE {{col}} > 1 AND nosuch = {{n}};", "B2002", "nosuch", None),
        ("V := SELECT id FROM Or{{n}};", "B2001", "Or{{n}}", "`Orders`"),
        ("{{#prod}}V := SELECT id FROM Orders;", "B1025", "{{#prod}}", "{{/prod}}"),
        ("V := SELECT id FROM Orders;{{/prod}}", "B1025", "{{/prod}}", "{{#prod}}"),
        ("{{#prod}}{{^off}}V := SELECT id FROM Orders;{{/prod}}{{/off}}", "B1025", "{{/prod}}", "`off`"),
        ("{{> other}}", "B1025", "{{> other}}", "IMPORT"),
        ("V := FROM Orders AS o WINDOW BY w START WHEN o.id > {{n}} SELECT w;", "B1025", "{{n}}", "view"),
    ],
)
def test_mistakes_have_their_place(text: str, code: str, place: str, hint: str | None) -> None:
    errors = [d for d in compiled(text).diagnostics if d.severity == "error"]
    assert errors
    assert all(d.code == code for d in errors), errors
    span, said = errors[0].span, errors[0].hint or ""
    assert span is not None
    assert (TABLE + text)[span.start : span.end] == place
    assert hint is None or hint in said


def test_the_command_line_comes_before_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "belvedere.toml").write_text('[variables]\ncol = "nosuch"\nn = 3\nprod = true\n')
    script = tmp_path / "s.sqrl"
    script.write_text(TABLE + "{{#prod}}V := SELECT {{col}} AS x FROM Orders LIMIT {{n}};{{/prod}}\n")
    assert run(["check", str(script), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [d["code"] for d in found if d["severity"] == "error"] == ["B2002"]
    assert run(["check", str(script), "--var", "col=price"]) == 0
    assert run(["check", str(script), "--var", "col"]) == 2
    project = load_project(tmp_path, {"BELVEDERE_VAR_col": "price"})
    assert project.variables == {"col": "price", "n": "3", "prod": "true"}


def test_scripts_with_variables_keep_their_layout() -> None:
    text = TABLE + "V := SELECT id,{{col}} FROM data_{{table}} {{#prod}}WHERE id>1{{/prod}};\n"
    assert format_script(text) == text
