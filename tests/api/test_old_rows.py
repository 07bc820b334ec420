"""Events with old rows (`_old`): a role's condition applies to both rows, on both databases; Python is the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.api.access.callers import Caller
from belvedere.api.graphql.api import Api
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.catalog.access import Right
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import read_project
from belvedere.store import EpochRow, StoredTable, open_reader, open_store

SCRIPT = """
CREATE TABLE Orders (id INT NOT NULL, tenant STRING, level BIGINT, open BOOLEAN, amount DECIMAL(10,2),
    wide DECIMAL(30,2), ratio DOUBLE,
                     at TIMESTAMP, day DATE, `odd "name"` STRING, PRIMARY KEY (id));
CREATE SUBSCRIPTION Moved ON CHANGE AS SELECT * FROM Orders;
CREATE SUBSCRIPTION Came ON ADD AS SELECT * FROM Orders;
"""
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
Row = Mapping[str, Any]
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "tenant = claim('tenant')": lambda r: r["tenant"] == "Grün\x01\x00'\\\"",
    "tenant IN ('red', 'blue')": lambda r: r["tenant"] in ("red", "blue"),
    "level > 5 AND NOT open": lambda r: r["level"] is not None and r["level"] > 5 and r["open"] is False,
    "open": lambda r: bool(r["open"]),
    "amount >= 0.05": lambda r: r["amount"] is not None and r["amount"] >= Decimal("0.05"),
    "ratio > 1.5": lambda r: r["ratio"] is not None and r["ratio"] > 1.5,
    "at >= TIMESTAMP '2020-01-01 12:00:00.000005Z'": lambda r: (
        r["at"] is not None and r["at"] >= NOON + timedelta(microseconds=5)
    ),
    "day < DATE '1970-01-01'": lambda r: r["day"] is not None and r["day"] < date(1970, 1, 1),
    "tenant IS NULL OR _op = 'ADD'": lambda r: r["tenant"] is None,
    "true": lambda r: True,
}
HIDDEN = ("wide > 5", "`odd \"name\"` = 'a'")
"""What a database cannot ask of the row as it was."""
VALUES: dict[str, list[Any]] = {
    "tenant": ["red", "blue", None, "Grün\x01\x00'\\\"", "null"],
    "level": [None, 2**60, 5, 6],
    "open": [True, None, False],
    "amount": [Decimal("-0.05"), Decimal("0.05"), None, Decimal("12.30")],
    "ratio": [float("inf"), None, float("-inf"), 1.5, 1.75, 1e300],
    "at": [NOON, NOON + timedelta(microseconds=5), None, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    "day": [date(1969, 12, 31), None, date(1970, 1, 1)],
}


def rows() -> list[dict[str, Any]]:
    most = max(map(len, VALUES.values()))
    return [
        {"id": n, **{c: v[n % len(v)] for c, v in VALUES.items()}, "wide": None, 'odd "name"': "a"}
        for n in range(4 * most)
    ]


def catalog() -> Catalog:
    roles = "\n".join(
        f"[roles.r{n}]\nviews = ['Moved']\n[roles.r{n}.rows]\nMoved = '''{c}'''"
        for n, c in enumerate((*CONDITIONS, *HIDDEN))
    )
    file = Path("/nowhere/belvedere.toml")
    compiled = compile_script(SCRIPT, project=read_project(roles, file.parent, file, {}))
    assert compiled.ok, compiled.diagnostics
    return compiled.catalog


CATALOG = catalog()
PAIRS = Random(1).sample(list(product(rows(), rows())), 150)


@pytest.fixture(scope="module")
def postgres_url(postgres_server: str) -> Iterator[str]:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE old_rows")
    yield postgres_server.replace("/postgres?", "/old_rows?")
    with dbapi.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE old_rows WITH (FORCE)")


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    url = (
        request.getfixturevalue("postgres_url")
        if request.param == "postgres"
        else f"sqlite:///{tmp_path_factory.mktemp('old') / 's.db'}"
    )
    store, table = open_store(url), StoredTable("Moved", CATALOG.schema_of("Moved"), fingerprint="test")
    store.create([table])
    store.acquire("test", 600)
    transaction = store.begin()
    events = [
        {**new, "_op": "CHANGE", "_event_time": NOON, "_seq": n, "_old": old, "_key": str(n)}
        for n, (new, old) in enumerate(PAIRS)
    ]
    transaction.append(
        "Moved",
        pa.Table.from_pylist([{c: e.get(c) for c in table.arrow.names} for e in events], table.arrow).to_reader(),
    )
    transaction.commit(EpochRow(1, NOON))
    store.release("test")
    store.close()
    made = open_reader(url)
    yield made
    made.close()


def seen(reader: Any, number: int, text: str) -> Any:
    role = f"r{number}"
    caller = Caller({"tenant": "Grün\x01\x00'\\\""}, role, frozenset({Right.READ}))
    return json.loads(Api(role_catalog(CATALOG, CATALOG.access.grants[role]), reader).answer(text, claims=caller))[
        "data"
    ]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_change_is_told_to_who_sees_both_rows(reader: Any, condition: str) -> None:
    holds, number = CONDITIONS[condition], list(CONDITIONS).index(condition)
    found = seen(reader, number, "{ moved(limit: 1000) { _seq _old } }")["moved"]
    right = [n for n, (new, old) in enumerate(PAIRS) if holds(new) and holds(old)]
    assert [int(e["_seq"]) for e in found] == right
    assert 0 < len(right) <= len(PAIRS)
    assert [e["_old"]["id"] for e in found] == [PAIRS[n][1]["id"] for n in right]


@pytest.mark.parametrize("condition", HIDDEN)
def test_the_row_as_it_was_is_hidden_where_it_cannot_be_asked(condition: str) -> None:
    role = f"r{len(CONDITIONS) + HIDDEN.index(condition)}"
    assert "_old" in CATALOG.access.grants[role].hidden["Moved"]
    assert [
        c.name
        for c in role_catalog(CATALOG, CATALOG.access.grants[role]).schema_of("Moved").visible
        if c.name == "_old"
    ] == []
