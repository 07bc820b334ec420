"""Callers' tokens: which count, what a query template and an input take from them, and who is refused."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from belvedere.api.processes import server_settings, start_api
from belvedere.api.tokens import TokenRules, TokenVerifier
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.intake.desk import Desk
from belvedere.intake.journal import Position
from belvedere.intake.wire import DeskServer
from belvedere.settings import load_project
from belvedere.time.entries import TakenRows
from belvedere.time.event_time import Clocks
from belvedere.workbench import Workbench

SECRET = "a secret that only the tests know of"
SCRIPT = """
CREATE STREAM Orders (item STRING, price INT, customer STRING METADATA FROM 'auth.sub',
                      at TIMESTAMP METADATA FROM 'timestamp', id STRING METADATA FROM 'uuid', WATERMARK FOR at AS at) KEEP 1 DAY;
Minutes := SELECT minute(at) AS minute, count(*) AS orders FROM Orders GROUP BY minute EMIT AFTER WATERMARK;
/** The caller's own orders. */
Mine(customer STRING NOT NULL METADATA FROM 'auth.sub', least INT = 0) :=
SELECT item, price, id FROM Orders WHERE customer = :customer AND price >= :least;
Branch(number BIGINT METADATA FROM 'auth.app.branch') := SELECT item FROM Orders WHERE price = :number;
"""


def signed(claims: dict[str, Any], key: Any = None, algorithm: str = "HS256") -> str:
    return jwt.encode({"alg": algorithm}, claims, key or OctKey.import_key(SECRET))


def forged(secret: str) -> str:
    """A token signed with any text, as HS256 does."""
    start = signed({"sub": "ann"}).rpartition(".")[0]
    digest = hmac.new(secret.encode(), start.encode(), "sha256").digest()
    return f"{start}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def test_which_tokens_count() -> None:
    now = int(time.time())
    rules = TokenVerifier(TokenRules(SECRET, issuer="us", audience="shop"))
    good = {"sub": "ann", "iss": "us", "aud": ["shop", "else"], "exp": now + 60}
    assert rules.claims(signed(good)) == good
    for wrong in ({"exp": now - 60}, {"nbf": now + 60}, {"iss": "them"}, {"aud": "else"}):
        assert rules.claims(signed(good | wrong)) is None
    assert rules.claims(signed({"sub": "ann", "exp": now + 60})) is None
    assert rules.claims(signed(good, OctKey.import_key(SECRET[::-1]))) is None
    for text in ("", "x", "a.b.c", signed(good)[:-3], signed(good) + "\xff"):
        assert rules.claims(text) is None
    header = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    assert rules.claims(f"{header}.{signed(good).split('.')[1]}.") is None


def test_public_keys_and_key_sets() -> None:
    key = RSAKey.generate_key(2048, {"kid": "one"})
    pem = key.as_pem(private=False).decode()
    for text in (pem, json.dumps(key.as_dict(private=False)), json.dumps(KeySet([key]).as_dict(private=False))):
        verifier = TokenVerifier(TokenRules(text, "RS256"))
        assert verifier.claims(jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": "ann"}, key)) == {"sub": "ann"}
        assert verifier.claims(signed({"sub": "ann"})) is None
        assert verifier.claims(forged(pem)) is None  # a public key is no secret


@pytest.mark.parametrize("settings", [{"key": "short"}, {"key": "{}"}, {"key": SECRET, "algorithm": "RS256"}])
def test_keys_that_are_none(settings: dict[str, str]) -> None:
    with pytest.raises(BelvedereError) as error:
        server_settings("127.0.0.1", {"jwt": settings})
    assert error.value.diagnostics[0].code == "B8014"


def test_the_project_file_says_which_tokens_count(tmp_path: Path) -> None:
    script, file = tmp_path / "shop.sqrl", tmp_path / "belvedere.toml"
    file.write_text("[api]\nport = 0\n")
    assert [d.code for d in compile_script(SCRIPT, path=script).diagnostics] == ["B8037"] * 3
    file.write_text(f'[api.jwt]\nkey = "{SECRET}"\nalgorithm = "HS257"\nrealm = "x"\n')
    assert [d.code for d in load_project(tmp_path).diagnostics] == ["B9103", "B9104"]
    file.write_text('[api.jwt]\naudience = "x"\n')
    assert "has no `key`" in load_project(tmp_path).diagnostics[0].message
    file.write_text(f'[api.jwt]\nkey = "{SECRET}"\n')
    assert not compile_script(SCRIPT, path=script).diagnostics
    assert server_settings("0.0.0.0", load_project(tmp_path).api).tokens == TokenRules(SECRET)


def test_pushes_take_the_claim_and_nothing_else_does(tmp_path: Path) -> None:
    catalog = compile_script(SCRIPT).catalog
    desk = Desk(catalog, tmp_path / "j", Clocks(), Position())
    server = DeskServer(desk)
    settings = {"jwt": {"key": SECRET}, "token": "monitoring"}
    api = start_api(catalog, f"sqlite:///{tmp_path / 'none.db'}", processes=1, settings=settings, desk=server)
    try:
        api.wait_until_listening()

        def push(row: dict[str, Any], token: str | None) -> httpx.Response:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return httpx.post(f"{api.url}/streams/Orders", json=[row], headers=headers)

        assert push({"item": "a"}, None).status_code == 401
        assert push({"item": "a"}, signed({"sub": "ann", "exp": 1})).status_code == 401
        for token in ("monitoring", signed({"name": "ann"})):
            answer = push({"item": "a"}, token)
            assert (answer.status_code, answer.json()["code"]) == (403, "B8036")
        answer = push({"item": "a", "customer": "bob"}, signed({"sub": "ann"}))
        assert (answer.status_code, answer.json()["refusals"][0]["code"]) == (202, "B6014")
        answer = push({"item": "a"}, signed({"sub": "ann"}))
        assert answer.status_code == 200
        (first,) = answer.json()["made"]
        bearer = {"Authorization": f"Bearer {signed({'sub': 'bob'})}"}
        asked = {
            "query": 'mutation { orders(rows: {item: "b"}, key: "k") { taken results { row { item customer id at price } } } }'
        }
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer)
        (result,) = answer.json()["data"]["orders"]["results"]
        made = {n: result["row"].pop(n) for n in ("id", "at")}
        assert result["row"] == {"item": "b", "customer": "bob", "price": None}
        again = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer).json()["data"]["orders"]["results"][0]["row"]
        assert {n: again[n] for n in made} == made  # the same request counts once
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers={"Authorization": "Bearer monitoring"})
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (403, "B8036")
        asked = {"query": 'mutation { orders(rows: {item: "b", customer: "ann"}) { taken results { code } } }'}
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer)
        assert answer.json()["data"] == {"orders": {"taken": 0, "results": [{"code": "B6014"}]}}
        asked = {"query": "{ mine { item } }"}
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers={"Authorization": "Bearer monitoring"})
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (503, "B8005")  # there is no store yet
        text = httpx.get(f"{api.url}/schema.graphql", headers={"Authorization": "Bearer monitoring"}).text
        assert "\n  mine(\n    least: Int! = 0\n" in text
        assert "Takes the claim `app.branch` of the caller's token." in text
        assert "The claim `sub` of the caller's token" in text
    finally:
        api.close()
        server.close()
    taken = [e.rows.to_pylist() for e in desk.waiting().entries if isinstance(e, TakenRows) and e.rows.num_rows]
    desk.close()
    assert [r["id"] for rows in taken for r in rows] == [first["id"], made["id"]]
    assert [(r["item"], r["customer"]) for rows in taken for r in rows] == [("a", "ann"), ("b", "bob")]


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_what_a_caller_sees(spark: Any) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    try:
        wb.insert("Orders", [{"item": "saw", "price": 9}, {"item": "nail", "price": 1}], claims={"sub": "ann"})
        wb.clock("2024-03-01 08:00:20")
        wb.step()
        wb.insert("Orders", [{"item": "glue", "price": 5}], claims={"sub": "bob"})
        before = wb.rows("Orders")
        wb.restart()
        assert wb.rows("Orders") == before
        wb.clock("2024-03-01 08:01:00")
        wb.insert("Orders", [{"item": "wood", "price": 5}], claims={"sub": "ann"})
        wb.step()
        assert wb.rows("Orders")[:2] == before
        assert [r["orders"] for r in wb.rows("Minutes")] == [3]
        for view in ("Orders", "Minutes"):
            assert sorted(map(str, wb.rows(view))) == sorted(map(str, wb.batch(view)))

        def seen(text: str, claims: dict[str, Any] | None) -> Any:
            answer = wb.graphql(text, claims=claims)
            return answer.get("data") or answer["errors"][0]["extensions"]["code"]

        mine = "{ mine(least: 2) { item } }"
        assert seen(mine, {"sub": "ann"}) == {"mine": [{"item": "saw"}, {"item": "wood"}]}
        assert seen(mine, {"sub": "bob"}) == {"mine": [{"item": "glue"}]}
        assert seen(mine, {"sub": "ann' OR ''='"}) == {"mine": []}
        assert [seen(mine, c) for c in (None, {}, {"sub": 7}, {"sub": None})] == ["B8036"] * 4
        assert seen('{ mine(customer: "bob") { item } }', {"sub": "ann"}) == "B8002"
        assert seen("{ branch { item } }", {"app": {"branch": 9}}) == {"branch": [{"item": "saw"}]}
        with pytest.raises(BelvedereError, match="needs the claim `sub`"):
            wb.insert("Orders", [{"item": "saw"}])
        with pytest.raises(BelvedereError, match="which is an identity"):
            wb.insert("Orders", [{"item": "saw", "id": "mine"}], claims={"sub": "ann"})
    finally:
        wb.close()
