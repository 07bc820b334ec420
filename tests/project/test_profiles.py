"""Profiles of belvedere.toml override its tables, and their errors have the right position."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from belvedere import cli
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.project.profiles import laid_over
from belvedere.project.settings import ProjectSettings

PROJECT = """
store = "sqlite:///shop.db"

[sources.shop]
path = "data"
format = "csv"
delimiter = ";"

[sources.clicks]
path = "clicks"

[api]
port = 8080
cors_origins = ["http://localhost:3000"]

[profile.prod]
store = "postgresql://me:${env:SECRET}@db/shop"
[profile.prod.api]
host = "0.0.0.0"
cors_origins = []
[profile.prod.sources.shop]
path = "/srv/shop"
[profile.prod.sources.clicks]
connector = "sensors"
seed = 7

[profile.test.run]
driver_memory_mb = 64
"""
SCRIPT = "CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT k FROM T;\n"


@pytest.fixture(autouse=True)
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELVEDERE_PROFILE", raising=False)


def load(folder: Path, profile: str | None, text: str = PROJECT, **environ: str) -> ProjectSettings:
    (folder / "belvedere.toml").write_text(text, encoding="utf-8")
    return load_project(folder, environ | ({} if profile is None else {"BELVEDERE_PROFILE": profile}))


def test_a_profiles_tables_are_laid_over_the_others(tmp_path: Path) -> None:
    project = load(tmp_path, "prod", SECRET="s")
    assert project.diagnostics == ()
    assert project.store == "postgresql://me:s@db/shop"
    assert project.api == {"port": 8080, "host": "0.0.0.0", "cors_origins": []}  # a list is replaced
    shop = project.sources["shop"]
    assert (shop.path, shop.format, shop.options) == (Path("/srv/shop"), "csv", {"delimiter": ";"})


def test_a_source_of_another_connector_has_nothing_of_the_first(tmp_path: Path) -> None:
    clicks = load(tmp_path, "prod", SECRET="s").sources["clicks"]
    assert (clicks.connector, clicks.path, clicks.options) == ("sensors", None, {"seed": 7})


def test_a_column_called_connector_is_laid_over_as_others() -> None:
    def columns(**types: str) -> dict[str, Any]:
        return {"sources": {"a": {"tables": {"T": {"columns": types}}}}}

    assert laid_over(columns(connector="INT", b="INT"), columns(connector="STRING")) == columns(
        connector="STRING", b="INT"
    )


@pytest.mark.parametrize("profile", [None, ""])
def test_without_a_profile_none_is_read(tmp_path: Path, profile: str | None) -> None:
    """Variables of the environment that only a profile needs may be missing."""
    project = load(tmp_path, profile)
    assert (project.diagnostics, project.store, project.driver_memory) == ((), "sqlite:///shop.db", 1 << 30)


@pytest.mark.parametrize(
    ("profile", "text", "message", "hint"),
    [
        ("prdo", PROJECT, "belvedere.toml has no profile `prdo`", "did you mean `prod`? The file has `prod`, `test`"),
        ("Ω", PROJECT, "belvedere.toml has no profile `Ω`", "the file has `prod`, `test`"),
        ("a", "profile = 1", "belvedere.toml has no profile `a`", "write `[profile.a]` in it"),
    ],
)
def test_an_unknown_profile_is_refused(tmp_path: Path, profile: str, text: str, message: str, hint: str) -> None:
    with pytest.raises(BelvedereError) as caught:
        load(tmp_path, profile, text)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("B9108", message)
    assert (found.hint or "").startswith(hint)


def test_a_profile_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BelvedereError, match="B9108"):
        load_project(tmp_path, {"BELVEDERE_PROFILE": "prod"})


@pytest.mark.parametrize(
    ("profile", "text", "code", "line"),
    [
        ("p", "[api]\nport = 1\n[profile.p.api]\nport = 'x'", "B9104", 4),
        ("p", "[api]\nport = 'x'\n[profile.p.api]\nhost = 'h'", "B9104", 2),
        ("p", "[api]\nport = 'x'\n[profile.p]\nstore = 'sqlite:///a.db'", "B9104", 2),
        ("p", "[profile.p]\nstore = 1", "B9104", 2),
        ("p", "[profile.p.sources.a]\nformat = 'csv'", "B9106", 1),
        (None, "\n[profile.p]\nstor = 'x'", "B9103", 3),  # of every profile: `check` at the desk finds it
        (None, "\n[profile.p.profile.q]\nstore = 'x'", "B9103", 2),
        (None, "\n[profile]\np = 1", "B9104", 3),
    ],
)
def test_what_is_wrong_is_shown_where_it_stands(
    tmp_path: Path, profile: str | None, text: str, code: str, line: int
) -> None:
    (found,) = load(tmp_path, profile, text).diagnostics
    assert (found.code, text.count("\n", 0, found.span.start) + 1 if found.span else None) == (code, line)


def shop(folder: Path) -> Path:
    (folder / "belvedere.toml").write_text(PROJECT, encoding="utf-8")
    (folder / "shop.sqrl").write_text(SCRIPT)
    return folder / "shop.sqrl"


def test_the_option_chooses_for_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = str(shop(tmp_path))
    assert cli.run(["check", script, "--profile", "prod"]) == 1
    assert "the environment variable `SECRET` is not set" in capsys.readouterr().out
    assert "BELVEDERE_PROFILE" not in os.environ
    assert cli.run(["check", script]) == 0


def test_the_option_goes_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(shop(tmp_path))
    monkeypatch.setenv("BELVEDERE_PROFILE", "prod")
    assert cli.run(["check", script, "--profile", "test"]) == 0
    assert os.environ["BELVEDERE_PROFILE"] == "prod"
    assert cli.run(["check", script]) == 1
    assert "SECRET" in capsys.readouterr().out


OPENS_MANY = {"lsp"}
"""It reads the project of each script that an editor opens, and says there that a profile is missing."""


@pytest.mark.parametrize("command", [name for name in cli.COMMANDS if name not in cli.WITHOUT_PROJECT | OPENS_MANY])
def test_every_command_that_reads_a_project_refuses_an_unknown_profile(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that went on would work on another profile's store."""
    script = str(shop(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.test").write_text("A.\n\n=== a\n~~~\nCREATE TABLE T (k INT PRIMARY KEY);\n~~~\n--- rows T\nk\n")
    arguments = {
        "backup": [script, "away"],
        "restore": [script, "away"],
        "rejected": ["list", script],
        "quarantine": ["list", script],
        "resend": [script, "out.T"],
        "query": ["SELECT 1 AS a"],
        "why": [script, "T", "k = 1"],
        "why-not": [script, "T", "k = 1"],
        "test": ["a.test"],
    }.get(command, [script])
    assert cli.run([command, *arguments, "--profile", "nowhere"]) == 1
    out, err = capsys.readouterr()
    assert "no profile `nowhere`" in out + err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.test", "belvedere.toml", "shop.sqrl"]


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_no_copy_is_made_by_a_project_that_is_wrong(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = shop(tmp_path)
    assert cli.run([command, str(script), str(tmp_path / "away"), "--profile", "prod"]) == 1
    assert "the environment variable `SECRET` is not set" in capsys.readouterr().err
