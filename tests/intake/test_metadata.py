"""METADATA FROM: what the intake fills in, what a client may not give, and that a replay gives the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.intake.ingest_service import IngestService, Request
from belvedere.intake.journal import JournalPosition
from belvedere.intake.request_rows import find_input, read_rows
from belvedere.time.event_time import Clocks
from belvedere.time.intake_entries import AcceptedRows

SCRIPT = """
CREATE STREAM Orders (item STRING, at TIMESTAMP METADATA FROM 'timestamp', id STRING METADATA FROM 'uuid',
                      customer BIGINT METADATA FROM 'auth.app.user', WATERMARK FOR at AS at) KEEP 1 DAY;
CREATE TABLE Notes (owner STRING NOT NULL METADATA FROM 'auth.sub', name STRING, text STRING, PRIMARY KEY (owner,
    name));
CREATE TABLE Carts (id STRING METADATA FROM 'uuid', item STRING, PRIMARY KEY (id));
"""
CATALOG = compile_script(SCRIPT).catalog
ORDERS, NOTES, CARTS = (find_input(CATALOG, n) for n in ("Orders", "Notes", "Carts"))
NOW = datetime(2024, 3, 1, 8, tzinfo=UTC)


def test_a_client_gives_no_column_that_the_intake_fills_in() -> None:
    rows = [{"item": "a"}, {"item": "b", "AT": "2024-03-01"}, {"item": "c", "customer": 8}, {"item": "d", "id": None}]
    found = read_rows(ORDERS, rows, {"app": {"user": 7}})
    assert found.rows.select(["item", "customer"]).to_pylist() == [{"item": "a", "customer": 7}]
    assert list(found.codes) == ["B6014"] * 3
    assert "the claim `app.user` of the caller's token" in found.malformed[1].reason


@pytest.mark.parametrize("claims", [{}, {"app": {}}, {"app": 7}, {"app": {"user": "seven"}}, {"app": {"user": None}}])
def test_a_caller_without_the_claim_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(BelvedereError, match=r"`Orders\.customer` needs the claim `app\.user`") as error:
        read_rows(ORDERS, [{"item": "a"}], claims)
    assert error.value.diagnostics[0].code == "B8036"


def test_deletions_are_of_the_callers_own_rows_and_name_identities() -> None:
    found = read_rows(
        NOTES, [{"name": "n", "_delete": True}, {"owner": "bob", "name": "n", "_delete": True}], {"sub": "ann"}
    )
    assert found.rows.select(["owner", "name", "_weight"]).to_pylist() == [{"owner": "ann", "name": "n", "_weight": -1}]
    assert list(found.codes) == ["B6014"]
    found = read_rows(CARTS, [{"id": "x", "_delete": True}, {"item": "a"}, {"_delete": True}])
    assert found.rows.select(["id", "item", "_weight"]).to_pylist() == [
        {"id": "x", "item": None, "_weight": -1},
        {"id": None, "item": "a", "_weight": 1},
    ]
    assert list(found.codes) == ["B6003"]


def test_a_replay_gives_the_same_times_and_identities(tmp_path: Path) -> None:
    def taken(ingest_service: IngestService) -> list[dict[str, Any]]:
        entries = [e for e in ingest_service.waiting().entries if isinstance(e, AcceptedRows)]
        return [r for e in entries for r in e.rows.select(["at", "id", "customer"]).to_pylist()]

    ingest_service = IngestService(CATALOG, tmp_path, Clocks(), JournalPosition(), now=lambda: NOW)
    pushed = read_rows(ORDERS, [{"item": str(n)} for n in range(500)], {"app": {"user": 7}})
    reply = ingest_service.take([Request(ORDERS.id, pushed), Request(ORDERS.id, pushed)])
    assert [r.status for r in reply] == [200, 200]
    first = taken(ingest_service)
    ingest_service.close()
    again = IngestService(CATALOG, tmp_path, Clocks(), JournalPosition(), now=lambda: NOW.replace(year=2025))
    assert taken(again) == first
    again.close()
    assert {(r["at"], r["customer"]) for r in first} == {(NOW, 7)}
    assert len({r["id"] for r in first}) == 1000
    assert {UUID(r["id"]).version for r in first} == {4}


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("CREATE TABLE A (b INT METADATA FROM 'timestamp');", "B4040", "b TIMESTAMP METADATA"),
        ("CREATE TABLE A (b BIGINT METADATA FROM 'uuid');", "B4040", "b STRING METADATA"),
        ("CREATE TABLE A (b ARRAY<INT> METADATA FROM 'auth.x');", "B4040", "b STRING METADATA"),
        ("CREATE TABLE A (b BIGINT METADATA FROM 'offset');", "B1033", "send it with the row"),
        ("CREATE TABLE A (b STRING METADATA FROM 'uid');", "B1033", "'uuid'"),
        ("CREATE TABLE A (b STRING METADATA FROM 'auth.');", "B1033", "'auth.claim'"),
        ("CREATE TABLE A (b STRING METADATA FROM uuid);", "B1001", "'auth.claim'"),
        ("Q(b STRING METADATA FROM 'uuid') := SELECT * FROM Orders WHERE id = :b;", "B1033", "'auth.sub'"),
        ("Q(b STRING METADATA FROM 'auth.sub' = 'x') := SELECT * FROM Orders WHERE id = :b;", "B4040", "are rejected"),
    ],
)
def test_refusals(text: str, code: str, hint: str) -> None:
    found = [d for d in compile_script(SCRIPT + text).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code]
    assert hint in (found[0].hint or "")
