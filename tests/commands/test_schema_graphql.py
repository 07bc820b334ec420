"""`belvedere schema SCRIPT --graphql`: the schema that a server of the script answers introspection with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graphql import build_client_schema, build_schema, get_introspection_query, print_schema

from belvedere import cli
from belvedere.api.graphql.api import Api
from belvedere.compiler import compile_script
from belvedere.store import open_reader, open_store

SCRIPT = """/** Was geboten wird: Größe 😀. */
CREATE STREAM Bid (auction INT NOT NULL, price DOUBLE, `a b` STRING, at TIMESTAMP, who STRUCT<name: STRING,
    city: STRING>);
CREATE TABLE Auction (id INT NOT NULL, seller STRING, PRIMARY KEY (id));
Auction.bids := JOIN Bid b ON b.auction = _.id;
High := SELECT auction, max(price) AS top FROM Bid GROUP BY auction;
Of(least INT = 1) := SELECT auction, price FROM Bid WHERE auction > :least;
Changed := SUBSCRIBE ON CHANGE AS SELECT * FROM High;
"""
PROJECT = """[api.jwt]
key = "a key that is long enough for its algorithm"

[roles.reader]
views = ["High"]
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(["schema", *arguments]) == 0
    return capsys.readouterr().out


def test_what_a_server_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.sqrl"
    script.write_text(SCRIPT, encoding="utf-8")
    found = build_schema(printed(capsys, str(script), "--graphql"))
    catalog = compile_script(SCRIPT).catalog
    url = f"sqlite:///{tmp_path / 'other.db'}"
    open_store(url).close()
    reader = open_reader(url)
    reported = json.loads(Api(catalog, reader).answer(get_introspection_query(specified_by_url=True)))["data"]
    reader.close()
    assert print_schema(found) == print_schema(build_client_schema(reported))
    assert found.query_type is not None
    assert {"high", "auction", "of"} <= {name.casefold() for name in found.query_type.fields}
    assert found.subscription_type is not None
    assert found.mutation_type is not None


def test_what_a_role_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.sqrl"
    script.write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "belvedere.toml").write_text(PROJECT, encoding="utf-8")
    found = build_schema(printed(capsys, str(script), "--graphql", "--role", "reader"))
    assert found.query_type is not None
    assert all("auction" not in name.casefold() for name in found.query_type.fields)
    assert found.mutation_type is None
    assert cli.run(["schema", str(script), "--graphql", "--role", "nobody"]) == 2
    assert "reader" in capsys.readouterr().err


def test_a_script_without_views_and_one_with_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.sqrl"
    script.write_text("")
    assert "nothing: Boolean" in printed(capsys, str(script), "--graphql")
    script.write_text("X := SELECT a FROM B;")
    assert cli.run(["schema", str(script), "--graphql"]) == 1
    assert "B2001" in capsys.readouterr().err
    assert cli.run(["schema", str(script), "--graphql", "--json"]) == 2
    assert cli.run(["schema", str(script), "--role", "reader"]) == 2
