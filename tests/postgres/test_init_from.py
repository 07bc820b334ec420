"""`belvedere init --from postgres://...`: a project over the tables of a database, which checks and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import run
from tests.postgres.conftest import Shop
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_project_is_made_of_tables(
    shop: Shop, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.run(
        "INSERT INTO customers VALUES (1, 'Köln', 1.5)",
        'CREATE TABLE "Late Ones" (id uuid PRIMARY KEY, at timestamptz)',
        "CREATE TABLE notes (text text)",
    )
    folder = tmp_path / "p"
    assert run(["init", str(folder), "--from", shop.url]) == 0
    said = capsys.readouterr()
    assert "notes is skipped" in said.err
    statement = 'ALTER PUBLICATION "belvedere" ADD TABLE "public"."Late Ones";'
    assert f"the owner of the tables runs: {statement}" in said.out
    shop.run(statement)
    script = next(folder.glob("*.sqrl"))
    assert "-- id BIGINT, city STRING, score DECIMAL(8, 2)\nIMPORT " in script.read_text()
    assert run(["check", str(script)]) == 0
    loop = Loop(spark, folder, script.read_text(), (folder / "belvedere.toml").read_text())
    loop.once()
    assert [r["rows_so_far"] for r in loop.rows("customersCount")] == [1]
    shop.run(
        "DELETE FROM customers", """INSERT INTO "Late Ones" VALUES ('00000000-0000-0000-0000-000000000001', now())"""
    )
    loop.once()
    assert [r["rows_so_far"] for r in loop.rows("customersCount")] == [0]
    assert [r["rows_so_far"] for r in loop.rows("Late_OnesCount")] == [1]


def test_what_the_owner_has_to_run_and_a_password(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run("DROP PUBLICATION belvedere")
    address = shop.url.replace("postgres:@", "postgres:gehe%2Fim@", 1)
    assert address != shop.url
    assert run(["init", str(tmp_path / "p"), "--from", address]) == 0
    said = capsys.readouterr().out
    assert 'CREATE PUBLICATION "belvedere" FOR TABLE "public"."customers", "public"."orders" WITH' in said
    text = (tmp_path / "p" / "belvedere.toml").read_text()
    assert "gehe" not in text
    variable = text.partition("${env:")[2].partition("}")[0]
    assert f"set the environment variable {variable}" in said
    monkeypatch.setenv(variable, "gehe%2Fim")
    assert run(["check", str(next((tmp_path / "p").glob("*.sqrl")))]) == 0


def test_a_database_without_tables(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop.run("DROP TABLE customers, orders")
    assert run(["init", str(tmp_path / "p"), "--from", shop.url]) == 1
    assert "B9113" in capsys.readouterr().err
