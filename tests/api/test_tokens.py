"""Callers' tokens: which count, what a query template and an input take from them, and who is refused."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from belvedere.api.access import token_keys
from belvedere.api.access.gate import Gate, ServerSettings
from belvedere.api.access.tokens import TokenRules, TokenVerifier, token_rules
from belvedere.api.serving.processes import server_settings, start_api
from belvedere.catalog.access import Right
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.intake.ingest_service import IngestService
from belvedere.intake.journal import JournalPosition
from belvedere.intake.wire import IngestServer
from belvedere.time.event_time import Clocks
from belvedere.time.intake_entries import AcceptedRows
from belvedere.workbench.workbench import Workbench

SECRET = "a secret that only the tests know of"
SCRIPT = """
CREATE STREAM Orders (item STRING, price INT, customer STRING METADATA FROM 'auth.sub',
                      at TIMESTAMP METADATA FROM 'timestamp', id STRING METADATA
                          FROM 'uuid', WATERMARK FOR at AS at) KEEP 1 DAY;
Minutes := SELECT date_trunc('MINUTE', at) AS minute, count(*) AS orders FROM Orders GROUP BY minute
    EMIT AFTER WATERMARK;
/** The caller's own orders. */
Mine(customer STRING NOT NULL METADATA FROM 'auth.sub', least INT = 0) :=
SELECT item, price, id FROM Orders WHERE customer = :customer AND price >= :least;
Branch(number BIGINT METADATA FROM 'auth.app.branch') := SELECT item FROM Orders WHERE price = :number;
"""


def signed(claims: dict[str, Any], key: Any = SECRET, algorithm: str = "HS256", **headers: Any) -> str:
    return jwt.encode(claims, key, algorithm, headers)


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
    assert rules.claims(signed(good, SECRET[::-1])) is None
    assert rules.claims(signed(good, algorithm="HS384")) is None  # no algorithm of the rules
    assert rules.claims(signed(good | {"exp": now - 10})) is not None  # clocks differ
    assert rules.claims(signed(good | {"exp": now - 40})) is None
    for text in ("", "x", "a.b.c", signed(good)[:-3], signed(good) + "\xff"):
        assert rules.claims(text) is None
    header = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    assert rules.claims(f"{header}.{signed(good).split('.')[1]}.") is None


def test_a_token_that_counted_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, now = TokenVerifier(TokenRules(SECRET, leeway=0)), time.time()
    token = signed({"sub": "ann", "exp": int(now) + 60})
    assert rules.claims(token) is not None
    monkeypatch.setattr("belvedere.api.access.tokens.time.time", lambda: now + 61)
    assert rules.claims(token) is None


RSA, OTHER, EC = (
    rsa.generate_private_key(65537, 2048),
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP256R1()),
)


def jwk(key: Any, kid: str | None = None, **more: Any) -> dict[str, Any]:
    """A public key as a JWK."""
    kind: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return kind.to_jwk(key.public_key(), as_dict=True) | ({} if kid is None else {"kid": kid}) | more


def test_public_keys_and_key_sets() -> None:
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in (pem, json.dumps(jwk(RSA, "one")), json.dumps({"keys": [jwk(RSA, "one")]})):
        verifier = TokenVerifier(TokenRules(text, ("RS256", "ES256")))
        assert verifier.claims(signed({"sub": "ann"}, RSA, "RS256", kid="one")) == {"sub": "ann"}
        assert verifier.claims(signed({"sub": "ann"}, OTHER, "RS256", kid="one")) is None
        assert verifier.claims(signed({"sub": "ann"}, EC, "ES256", kid="one")) is None
        assert verifier.claims(signed({"sub": "ann"})) is None
        assert verifier.claims(forged(pem)) is None  # a public key is no secret
        assert verifier.claims(forged(text)) is None


def test_a_set_has_keys_for_some_algorithms_each() -> None:
    keys = [
        jwk(RSA, "rsa", alg="RS256"),
        jwk(EC, "ec", use="sig"),
        jwk(OTHER, "secret", use="enc"),
        {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET.encode()).decode(), "kid": "oct"},
        {"kty": "new"},
        7,
    ]
    verifier = TokenVerifier(TokenRules(json.dumps({"keys": keys}), ("RS256", "PS256", "ES256")))
    ann = {"sub": "ann"}
    assert verifier.claims(signed(ann, RSA, "RS256", kid="rsa")) == ann
    assert verifier.claims(signed(ann, RSA, "RS256")) == ann  # one that names no key may be of any
    assert verifier.claims(signed(ann, EC, "ES256", kid="ec")) == ann
    assert verifier.claims(signed(ann, RSA, "PS256", kid="rsa")) is None  # the key is for RS256
    assert verifier.claims(signed(ann, RSA, "RS256", kid="ec")) is None
    assert verifier.claims(signed(ann, RSA, "RS256", kid="gone")) is None
    assert verifier.claims(signed(ann, OTHER, "RS256", kid="secret")) is None
    assert verifier.claims(signed(ann, kid="oct")) is None


class _Keys(BaseHTTPRequestHandler):
    answer: bytes = b""
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200 if self.answer else 500)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def keys_address() -> Iterator[str]:
    _Keys.answer, _Keys.asked = json.dumps({"keys": [jwk(RSA, "one")]}).encode(), 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/keys.json"
    server.shutdown()
    server.server_close()


def test_keys_at_an_address_change(keys_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = TokenVerifier(TokenRules(jwks=keys_address, algorithms=("RS256",)))
    verifier.refresh()
    ann, old = {"sub": "ann"}, signed({"sub": "ann"}, RSA, "RS256", kid="one")
    new = signed(ann, OTHER, "RS256", kid="two")
    assert verifier.claims(old) == ann
    assert verifier.claims(new) is None
    assert not verifier.lacks_key(new)  # it was asked a moment ago
    monkeypatch.setattr(token_keys, "PAUSE_SECONDS", 0.0)
    assert verifier.lacks_key(new)
    assert not verifier.lacks_key(old)
    assert not verifier.lacks_key(signed(ann, kid="three"))  # of no algorithm of the rules
    _Keys.answer = json.dumps({"keys": [jwk(OTHER, "two")]}).encode()
    verifier.refresh()
    assert verifier.claims(new) == ann
    assert verifier.claims(old) is None  # its key has gone, though it counted before
    for answer in (b"", b"no JSON", b'{"keys": 7}', b"[" * 2000):
        _Keys.answer = answer
        verifier.refresh()
        assert verifier.claims(new) == ann  # those that were read last


def test_keys_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(BelvedereError, match="has no keys"):
        TokenVerifier(TokenRules(jwks=str(file), algorithms=("RS256",)))
    file.write_text(json.dumps({"keys": [jwk(RSA, "one")]}))
    verifier = TokenVerifier(TokenRules(jwks=str(file), algorithms=("RS256",)))
    assert verifier.claims(signed({"sub": "ann"}, RSA, "RS256", kid="one")) == {"sub": "ann"}


def test_an_unknown_key_is_looked_for_and_absent_keys_are_told(
    keys_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "PAUSE_SECONDS", 0.0)
    token, two = (signed({"sub": "ann"}, k, "RS256", kid=n) for k, n in ((RSA, "one"), (OTHER, "two")))
    gate = Gate(ServerSettings(tokens=TokenRules(jwks=keys_address, algorithms=("RS256",))))

    def enter(token: str) -> int:
        headers = {b"authorization": f"Bearer {token}".encode()}
        asyncio.run(gate.look_for_key(headers))
        refused = gate.enter({"type": "http", "method": "GET", "path": "/rest", "headers": []}, headers, Right.READ)
        return 200 if refused is None else refused.status

    time.sleep(0.3)
    assert enter(token) == 200
    assert enter(two) == 401
    _Keys.answer = json.dumps({"keys": [jwk(OTHER, "two")]}).encode()
    assert enter(two) == 200
    assert enter(token) == 401
    gate = Gate(
        ServerSettings(tokens=TokenRules(jwks=keys_address.replace("127.0.0.1", "127.0.0.2"), algorithms=("RS256",)))
    )
    assert enter(token) == 503  # B8018


@pytest.mark.parametrize(
    "settings",
    [
        {"key": "short"},
        {"key": "{}"},
        {"key": SECRET, "algorithm": "RS256"},
        {"key": RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()},
        {"key": json.dumps(jwk(RSA)), "algorithm": "ES256"},
        {"jwks": "/nowhere/keys.json"},
    ],
)
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
    for text in (
        'algorithms = ["HS256", "RS256"]',
        'algorithms = ["none"]',
        'algorithm = "none"',
        "algorithms = []",
        "leeway_seconds = -1",
    ):
        file.write_text(f'[api.jwt]\nkey = "{SECRET}"\n{text}\n')
        assert [d.code for d in load_project(tmp_path).diagnostics] == ["B9104"], text
    for text in (
        f'key = "{SECRET}"\njwks = "keys.json"',
        'jwks = "http://login.example/keys.json"',
        'jwks = "ftp://x/keys"',
    ):
        file.write_text(f"[api.jwt]\n{text}\n")
        assert [d.code for d in load_project(tmp_path).diagnostics] == ["B9104"], text
    file.write_text('[api.jwt]\njwks = "keys.json"\nrole_claim = "realm.role"\n')
    rules = token_rules(load_project(tmp_path).api["jwt"])
    assert rules == TokenRules(
        algorithms=("RS256", "ES256"), jwks=str(tmp_path / "keys.json"), role_claim=("realm", "role")
    )


def test_pushes_take_the_claim_and_nothing_else_does(tmp_path: Path) -> None:
    catalog = compile_script(SCRIPT).catalog
    ingest_service = IngestService(catalog, tmp_path / "j", Clocks(), JournalPosition())
    server = IngestServer(ingest_service)
    settings = {"jwt": {"key": SECRET}, "token": "monitoring"}
    api = start_api(catalog, f"sqlite:///{tmp_path / 'none.db'}", processes=1, settings=settings, ingest_service=server)
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
            "query": 'mutation { orders(rows: {item: "b"}, key: "k") { taken results { row { item customer id at '
            "price } } } }"
        }
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer)
        (result,) = answer.json()["data"]["orders"]["results"]
        made = {n: result["row"].pop(n) for n in ("id", "at")}
        assert result["row"] == {"item": "b", "customer": "bob", "price": None}
        again = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer).json()["data"]["orders"]["results"][0][
            "row"
        ]
        assert {n: again[n] for n in made} == made  # the same request counts once
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers={"Authorization": "Bearer monitoring"})
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (403, "B8036")
        asked = {"query": 'mutation { orders(rows: {item: "b", customer: "ann"}) { taken results { code } } }'}
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers=bearer)
        assert answer.json()["data"] == {"orders": {"taken": 0, "results": [{"code": "B6014"}]}}
        asked = {"query": "{ mine { item } }"}
        answer = httpx.post(f"{api.url}/graphql", json=asked, headers={"Authorization": "Bearer monitoring"})
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (
            503,
            "B8005",
        )  # there is no store yet
        text = httpx.get(f"{api.url}/schema.graphql", headers={"Authorization": "Bearer monitoring"}).text
        assert "\n  mine(\n    least: Int! = 0\n" in text
        assert "Takes the claim `app.branch` of the caller's token." in text
        assert "The claim `sub` of the caller's token" in text
    finally:
        api.close()
        server.close()
    taken = [
        e.rows.to_pylist() for e in ingest_service.waiting().entries if isinstance(e, AcceptedRows) and e.rows.num_rows
    ]
    ingest_service.close()
    assert [r["id"] for rows in taken for r in rows] == [first["id"], made["id"]]
    assert [(r["item"], r["customer"]) for rows in taken for r in rows] == [("a", "ann"), ("b", "bob")]


@pytest.mark.usefixtures("each_store")
def test_what_a_caller_sees(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
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
