"""`belvedere check --data` over tables of another database: types, keys, the publication; no slot is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.connectors.postgres.server import next_slot
from tests.commands.checked_data import looked_at, project, reported
from tests.postgres.conftest import Shop

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def source(shop: Shop, tables: str = "") -> str:
    return f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\nslot = "{shop.slot}"\n{tables}'


def test_values_that_have_no_place(shop: Shop, tmp_path: Path) -> None:
    shop.run(
        'CREATE TABLE "Öl" (id bigint PRIMARY KEY, n text, at timestamptz, more jsonb)',
        "INSERT INTO \"Öl\" SELECT i, i::text, '2024-01-01', '{}' FROM generate_series(1, 500) i",
        "INSERT INTO \"Öl\" VALUES (501, 'many', NULL, NULL), (502, '1', 'infinity', NULL), (5000000000, '1', NULL, "
        "NULL)",
        'ALTER PUBLICATION belvedere ADD TABLE "Öl"',
    )
    columns = '[sources.crm.tables."Öl"]\ncolumns = { id = "INT", n = "INT", at = "TIMESTAMP" }\nprimary_key = ["id"]\n'
    project(tmp_path, source(shop, columns), "IMPORT crm.`Öl` AS Oil;")
    (oil,) = looked_at(tmp_path).values()
    assert (oil["rows"], oil["fit"]) == (503, 500)
    assert reported(oil, "refused") == [
        (f'column "{n}" is not of type {t}', 1) for n, t in (("n", "INT"), ("at", "TIMESTAMP"), ("id", "INT"))
    ]
    assert reported(oil, "type") == [
        ('column "id" is INT, and BIGINT in the source', None),
        ('column "n" is INT, and STRING in the source', None),
    ]
    assert reported(oil, "unnamed") == [("the data has 1 column that the table does not declare: more", None)]
    (few,) = looked_at(tmp_path, "--rows", "5").values()
    assert (few["rows"], few["fit"]) == (5, 3), "the first three, and two that do not fit"
    assert shop.ask("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]


def test_what_would_end_a_run(shop: Shop, tmp_path: Path) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'Köln', 1)", "CREATE TABLE notes (id bigint PRIMARY KEY)")
    project(tmp_path, source(shop), "IMPORT crm.customers;\nIMPORT crm.notes;\nIMPORT crm.orders;")
    looked = looked_at(tmp_path, code=1)
    assert (looked["customers"]["fit"], looked["customers"].get("failures")) == (1, None)
    (missing,) = looked["notes"]["failures"]
    assert missing["code"] == "B6224"
    assert "ADD TABLE" in missing["hint"]
    assert looked["orders"]["note"] == "has no rows yet"
    shop.run("DROP PUBLICATION belvedere")
    looked = looked_at(tmp_path, code=1)
    assert looked["customers"]["failures"][0]["code"] == "B6224"
    assert looked["customers"]["fit"] == 1, "its rows are looked at all the same"


def test_keys_that_differ(shop: Shop, tmp_path: Path) -> None:
    shop.run("INSERT INTO orders VALUES (1, 1, 1)", "ALTER TABLE customers REPLICA IDENTITY NOTHING")
    tables = """[sources.crm.tables.orders]
columns = { customer = "BIGINT", number = "INT", amount = "INT" }
primary_key = ["number"]
[sources.crm.tables.customers]
columns = { id = "BIGINT" }
primary_key = ["id"]
"""
    project(tmp_path, source(shop, tables), "IMPORT crm.orders;\nIMPORT crm.customers;")
    looked = looked_at(tmp_path, code=1)
    (other,) = looked["orders"]["failures"]
    assert (other["code"], other["hint"]) == (
        "B6223",
        'write `primary_key = ["customer", "number"]`, or leave `columns` out',
    )
    assert looked["customers"]["failures"][0]["code"] == "B6223"


def test_a_slot_that_is_lost(shop: Shop, tmp_path: Path) -> None:
    """The server removes what a slot had still to read, where it would keep more than it may."""
    shop.run(
        "INSERT INTO customers VALUES (1, 'Köln', 1)",
        f"SELECT pg_create_logical_replication_slot('{shop.slot}', 'pgoutput')",
    )
    project(tmp_path, source(shop), "IMPORT crm.customers;\nIMPORT crm.orders;")
    assert looked_at(tmp_path)["customers"]["fit"] == 1
    try:
        shop.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for _ in range(3):
            shop.run("CREATE TABLE filling AS SELECT 1", "DROP TABLE filling", "SELECT pg_switch_wal()")
        shop.run("CHECKPOINT")
        looked = looked_at(tmp_path, code=1)
    finally:
        shop.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    for table in ("customers", "orders"):
        (failure,) = looked[table]["failures"]
        assert failure["code"] == "B6225"
        assert "has removed log that the slot" in failure["message"]
        assert failure["hint"].startswith(f'changes are lost: write `slot = "{next_slot(shop.slot)}"` for source "crm"')
    assert looked["customers"]["fit"] == 1, "its rows are looked at all the same"
    shop.run(
        f"SELECT pg_drop_replication_slot('{shop.slot}')", f"SELECT pg_create_physical_replication_slot('{shop.slot}')"
    )
    (failure,) = looked_at(tmp_path, code=1)["customers"]["failures"]
    assert (failure["code"], failure["message"]) == ("B6222", f'the slot "{shop.slot}" is a physical slot')
