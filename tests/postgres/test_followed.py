"""What is done to the tables of a change feed, beside their rows: it is followed, or told with a hint that works.

The feeds are opened without Spark: `Mirror` keeps the rows that they bring, which must be those of the tables.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from belvedere.connectors.postgres.server import Server, next_slot, switch_of_history
from belvedere.project.settings import Source
from tests.feeds.mirror import Mirror
from tests.postgres.conftest import Shop

pytestmark = pytest.mark.postgres

SCRIPT = "IMPORT crm.orders AS Orders;"
COLUMNS = ("customer", "number", "amount")
TWO_KEYS = "CREATE TABLE orders (customer bigint PRIMARY KEY, number int NOT NULL UNIQUE, amount int)"
PARTED = """
CREATE TABLE orders (customer bigint, number int, amount int, PRIMARY KEY (customer, number))
    PARTITION BY RANGE (customer);
CREATE TABLE orders_0 PARTITION OF orders FOR VALUES FROM (0) TO (10);
CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (10) TO (20);
CREATE TABLE orders_9 (LIKE orders INCLUDING ALL);
INSERT INTO orders_9 VALUES (91, 1, 1); INSERT INTO orders VALUES (1, 1, 1), (11, 1, 1)
"""
ADD = "ALTER PUBLICATION belvedere ADD TABLE orders"


def project(shop: Shop, slot: str = "", more: str = "") -> str:
    return f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\nslot = "{slot or shop.slot}"\n{more}\n'


@pytest.fixture
def mirror(shop: Shop, tmp_path: Path) -> Mirror:
    """What follows the table `orders`."""
    return Mirror(tmp_path, SCRIPT, project(shop))


def with_table(shop: Shop, *statements: str) -> None:
    """Another table `orders`, published."""
    shop.run("DROP TABLE orders", *(s for text in statements for s in text.split(";")), ADD)


def agrees(mirror: Mirror, shop: Shop, columns: str = ", ".join(COLUMNS)) -> None:
    assert mirror.once() is None
    assert mirror.view("Orders", *(c.split()[-1] for c in columns.split(", "))) == sorted(
        shop.ask(f"SELECT {columns} FROM orders"), key=str
    )


def go_on_by_the_hint(mirror: Mirror, shop: Shop, reported: str) -> None:
    """What the hint of B6225 says: another slot, then the old one goes."""
    (slot,) = re.findall(r'write `slot = "(\w+)"`', reported)
    (statement,) = re.findall(r"drop the old slot: (SELECT .*)\)", reported)
    mirror.project = mirror.project.replace(f'slot = "{shop.slot}"', f'slot = "{slot}"')
    agrees(mirror, shop)
    shop.run(statement, "INSERT INTO orders VALUES (77, 77, 77)")
    agrees(mirror, shop)


FIRST = "INSERT INTO orders VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)"
FOLLOWED: dict[str, tuple[str, ...]] = {
    "a column that is added": (
        "INSERT INTO orders VALUES (3, 1, 1)",
        "ALTER TABLE orders ADD COLUMN note text",
        "INSERT INTO orders VALUES (3, 2, 3, 'x')",
        "UPDATE orders SET amount = 9 WHERE customer = 1",
    ),
    "a wider type": (
        "UPDATE orders SET amount = 50",
        "ALTER TABLE orders ALTER amount TYPE bigint",
        "INSERT INTO orders VALUES (3, 2, 3)",
    ),
    "a type by USING": (
        "ALTER TABLE orders ALTER amount TYPE bigint USING amount * 100",
        "INSERT INTO orders VALUES (3, 2, 3)",
    ),
    "the same type by USING": ("ALTER TABLE orders ALTER amount TYPE int USING amount * 100",),
    "a column made anew": (
        "ALTER TABLE orders DROP COLUMN amount, ADD COLUMN amount int DEFAULT 0",
        "INSERT INTO orders VALUES (5, 5, 5)",
    ),
    "names that change places": (
        "ALTER TABLE orders ADD COLUMN other int DEFAULT 8",
        "INSERT INTO orders VALUES (5, 5, 5, 6)",
        "BEGIN; ALTER TABLE orders RENAME amount TO t; ALTER TABLE orders RENAME other TO amount;"
        "ALTER TABLE orders RENAME t TO other; COMMIT",
        "INSERT INTO orders VALUES (6, 5, 5, 6)",
    ),
    "a table made anew": (
        "DROP TABLE orders",
        "CREATE TABLE orders (customer bigint, number int, amount int, PRIMARY KEY (customer, number))",
        ADD,
        "INSERT INTO orders VALUES (1, 2, 20), (1, 3, 3)",
    ),
    "tables swapped by renaming": (
        "CREATE TABLE later (LIKE orders INCLUDING ALL)",
        "INSERT INTO later VALUES (8, 8, 8)",
        "ALTER TABLE orders RENAME TO former",
        "ALTER TABLE later RENAME TO orders",
        ADD,
        "INSERT INTO former VALUES (9, 9, 9)",
    ),
    "rows rewritten and truncated": (
        "DELETE FROM orders WHERE customer = 2",
        "VACUUM FULL orders",
        "INSERT INTO orders VALUES (5, 5, 5)",
        "TRUNCATE orders",
        "INSERT INTO orders VALUES (6, 6, 6)",
    ),
    "changes between two versions of the columns": (
        "ALTER TABLE orders ADD COLUMN a int",
        "INSERT INTO orders VALUES (5, 5, 5, 5)",
        "ALTER TABLE orders ADD COLUMN b int",
        "INSERT INTO orders VALUES (6, 6, 6, 6, 6)",
        "ALTER TABLE orders DROP COLUMN a",
        "DELETE FROM orders WHERE customer = 1",
    ),
    "a column renamed": (
        "INSERT INTO orders VALUES (3, 1, 1)",
        "ALTER TABLE orders RENAME amount TO total",
        "INSERT INTO orders VALUES (3, 2, 3)",
    ),
}


@pytest.mark.parametrize("what", FOLLOWED)
@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_what_is_followed(shop: Shop, mirror: Mirror, what: str, running: bool) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    columns = "customer, number, total AS amount" if "renamed" in what and "swapped" not in what else ", ".join(COLUMNS)
    if running:
        feeds = mirror.open()
        for statement in FOLLOWED[what]:
            shop.run(statement)
            if not statement.startswith(
                ("DROP TABLE", "ALTER TABLE later", "CREATE TABLE orders", "ALTER TABLE orders RENAME TO")
            ):
                while mirror.epoch(feeds, once=False):
                    pass
        for feed in feeds.values():
            feed.close()
        assert mirror.view("Orders", *COLUMNS) == sorted(shop.ask(f"SELECT {columns} FROM orders"), key=str)
    else:
        shop.run(*FOLLOWED[what])
    agrees(mirror, shop, columns)
    shop.run("INSERT INTO orders (customer, number) VALUES (99, 99)", "DELETE FROM orders WHERE customer = 1")
    agrees(mirror, shop, columns)


def test_partitions_come_and_go(shop: Shop, mirror: Mirror) -> None:
    with_table(shop, PARTED)
    agrees(mirror, shop)
    for statement in (
        "TRUNCATE orders_0",
        "INSERT INTO orders VALUES (2, 2, 2)",
        "ALTER TABLE orders ATTACH PARTITION orders_9 FOR VALUES FROM (90) TO (100)",
        "UPDATE orders SET customer = 92 WHERE customer = 2",
        "ALTER TABLE orders DETACH PARTITION orders_1",
        "INSERT INTO orders_1 VALUES (12, 1, 1)",
        "DROP TABLE orders_9",
        "CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM (20) TO (30); INSERT INTO orders VALUES (21, 1, 1)",
    ):
        shop.run(*statement.split(";"))
        agrees(mirror, shop)
    assert sum("a partition was" in n for n in mirror.notices) == 5


def test_rows_of_heirs_are_in_neither_read(shop: Shop, mirror: Mirror) -> None:
    shop.run("CREATE TABLE heirs () INHERITS (orders)", "INSERT INTO heirs VALUES (8, 8, 8)", FIRST)
    assert mirror.once() is None
    shop.run("INSERT INTO heirs VALUES (9, 9, 9)", "INSERT INTO orders VALUES (3, 3, 3)")
    assert mirror.once() is None
    assert mirror.view("Orders", *COLUMNS) == shop.ask("SELECT customer, number, amount FROM ONLY orders ORDER BY 1, 2")


def test_keys_and_identities(shop: Shop, mirror: Mirror) -> None:
    with_table(shop, TWO_KEYS, "INSERT INTO orders VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    agrees(mirror, shop)
    shop.run("ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_number_key", "DELETE FROM orders WHERE number = 2")
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith('B6223: table "orders" has another primary key')
    shop.run("ALTER TABLE orders REPLICA IDENTITY DEFAULT", "INSERT INTO orders VALUES (4, 4, 4)")
    agrees(mirror, shop)
    assert "its replica identity was temporarily another one" in mirror.notices[-1]
    shop.run(
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "UPDATE orders SET amount = 50, number = number + 10",
        "DELETE FROM orders WHERE customer = 4",
    )
    agrees(mirror, shop)
    assert mirror.notices[-1] == mirror.notices[0], "a whole row has the key, too"


def test_an_index_as_identity_and_then_the_whole_row(shop: Shop, mirror: Mirror) -> None:
    identity = "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_number_key"
    with_table(shop, TWO_KEYS, identity, "INSERT INTO orders VALUES (1, 1, 1), (2, 2, 2)")
    agrees(mirror, shop)
    shop.run(
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "UPDATE orders SET amount = 50",
        "DELETE FROM orders WHERE number = 1",
    )
    agrees(mirror, shop)


def test_columns_of_include_are_no_key(shop: Shop, mirror: Mirror) -> None:
    with_table(
        shop,
        "CREATE TABLE orders (customer bigint, number int, amount int, PRIMARY KEY (customer, number) INCLUDE "
        "(amount))",
        FIRST,
    )
    agrees(mirror, shop)
    shop.run("UPDATE orders SET amount = 5 WHERE number = 1", "DELETE FROM orders WHERE number = 2")
    agrees(mirror, shop)
    assert mirror.inputs["Orders"].primary_key == ("customer", "number")


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("customer bigint, number int, amount int, PRIMARY KEY (customer) DEFERRABLE", "a deferrable key"),
        (
            "customer bigint GENERATED ALWAYS AS (number * 2) STORED PRIMARY KEY, number int, amount int",
            "a generated column",
        ),
        (
            "customer bigint PRIMARY KEY, number int, amount int); ALTER TABLE orders REPLICA IDENTITY NOTHING; "
            "SELECT (1",
            "IDENTITY DEFAULT",
        ),
    ],
)
def test_keys_that_the_log_does_not_have(shop: Shop, mirror: Mirror, table: str, hint: str) -> None:
    shop.run("DROP TABLE orders", *f"CREATE TABLE orders ({table})".split(";"))
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6223")
    assert hint in reported
    shop.run(
        reported.rpartition("the owner runs: ")[2].removesuffix(")"),
        ADD,
        "INSERT INTO orders (number, customer) VALUES (1, 1)",
    )
    agrees(mirror, shop)
    shop.run("UPDATE orders SET amount = 3")
    agrees(mirror, shop)


def test_a_whole_row_with_a_generated_column(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "ALTER TABLE orders ADD COLUMN g int GENERATED ALWAYS AS (number + 1) STORED",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        FIRST,
    )
    reported = mirror.once()
    if reported is not None:
        assert reported.startswith('B6223: table "orders" of source "crm" has a generated column')
        shop.run(reported.rpartition("the owner runs: ")[2].removesuffix(")"))
    agrees(mirror, shop)
    shop.run("UPDATE orders SET amount = 5")
    agrees(mirror, shop)


OUT_OF_IT = {
    "without the table": ("ALTER PUBLICATION belvedere DROP TABLE orders", "INSERT INTO orders VALUES (8, 1, 1)", ADD),
    "without it in one transaction": (
        "BEGIN; ALTER PUBLICATION belvedere DROP TABLE orders; INSERT INTO orders VALUES (8, 1, 1);"
        "ALTER PUBLICATION belvedere ADD TABLE orders; COMMIT",
    ),
    "made anew": (
        "DROP PUBLICATION belvedere",
        "INSERT INTO orders VALUES (8, 1, 1)",
        "CREATE PUBLICATION belvedere FOR TABLE orders WITH (publish_via_partition_root = true)",
    ),
    "without kinds of changes": (
        "ALTER PUBLICATION belvedere SET (publish = 'insert')",
        "DELETE FROM orders WHERE customer = 1",
        "ALTER PUBLICATION belvedere SET (publish = 'insert, update, delete, truncate')",
    ),
    "with a filter": (
        "ALTER PUBLICATION belvedere SET TABLE orders WHERE (number > 5)",
        "INSERT INTO orders VALUES (8, 1, 1)",
        "ALTER PUBLICATION belvedere SET TABLE orders",
    ),
}


@pytest.mark.parametrize("what", OUT_OF_IT)
def test_a_publication_that_was_another_one_for_a_while(shop: Shop, mirror: Mirror, what: str) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    shop.run(*OUT_OF_IT[what], "INSERT INTO orders VALUES (9, 1, 1)")
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6225")
    assert reported == mirror.once(), "for good"
    go_on_by_the_hint(mirror, shop, reported)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER PUBLICATION belvedere DROP TABLE orders",
        "ALTER PUBLICATION belvedere SET TABLE orders WHERE (number > 5)",
        "ALTER PUBLICATION belvedere SET TABLE orders (customer, number)",
        "ALTER PUBLICATION belvedere SET (publish = 'insert, update')",
        "DROP PUBLICATION belvedere",
    ],
)
def test_a_publication_that_leaves_something_out(shop: Shop, mirror: Mirror, statement: str) -> None:
    shop.run(statement, FIRST)
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6224")
    assert not shop.ask(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{shop.slot}'"), "nothing was taken"
    shop.run(*reported.rpartition("the owner runs: ")[2].removesuffix(")").split(";"))
    agrees(mirror, shop)
    shop.run("INSERT INTO orders VALUES (3, 1, 1)", "DELETE FROM orders WHERE number = 2")
    agrees(mirror, shop)


def test_partitions_published_by_their_own_names(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "DROP TABLE orders",
        *PARTED.split(";"),
        "ALTER PUBLICATION belvedere SET (publish_via_partition_root = false)",
        ADD,
    )
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6224")
    shop.run(reported.rpartition("the owner runs: ")[2].removesuffix(")"))
    agrees(mirror, shop)
    shop.run("INSERT INTO orders VALUES (2, 1, 1)")
    agrees(mirror, shop)


@pytest.mark.parametrize("name", ["ShopFeed", 'a "b" c', "select, x"])
def test_names_of_publications_in_quotes(shop: Shop, mirror: Mirror, name: str) -> None:
    quoted = name.replace('"', '\\"')
    mirror.project = project(shop, more=f'publication = "{quoted}"')
    reported = mirror.once()
    assert reported is not None
    shop.run(reported.rpartition("the owner runs: ")[2].removesuffix(")"), FIRST)
    agrees(mirror, shop)
    shop.run("INSERT INTO orders VALUES (3, 1, 1)")
    agrees(mirror, shop)


def test_numbers_and_texts_without_a_place(logical_server: str, shop: Shop, mirror: Mirror) -> None:
    with_table(shop, "CREATE TABLE orders (customer bigint PRIMARY KEY, number int, amount numeric)")
    values = ("345000000000000000000", "123456789012345678901234567890", "1e30", "-1e30", "'NaN'", "1.5", "1e-30")
    for first in (0, 10):
        shop.run(*(f"INSERT INTO orders VALUES ({first + n}, 1, {v})" for n, v in enumerate(values)))
        assert mirror.once() is None
    assert mirror.view("Orders", "customer", "amount") == [(15, Decimal("1.5")), (5, Decimal("1.5"))]
    assert len(mirror.rejected) == 12
    shop.run(
        "UPDATE orders SET amount = 99999999999999999999.5 WHERE customer = 0",
        "UPDATE orders SET amount = 1e20 WHERE customer = 5",
    )
    assert mirror.once() is None
    assert mirror.view("Orders", "customer", "amount") == [(0, Decimal("99999999999999999999.5")), (15, Decimal("1.5"))]


def test_a_database_without_an_encoding(logical_server: str, tmp_path: Path) -> None:
    with psycopg.connect(logical_server, autocommit=True) as admin:
        admin.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    shop = Shop(logical_server.replace("/postgres?", "/ascii?") + "&client_encoding=UTF8", "ascii")
    shop.run("CREATE TABLE orders (number int PRIMARY KEY, t text)", "CREATE PUBLICATION belvedere FOR TABLE orders")
    mirror = Mirror(tmp_path, SCRIPT, project(shop).replace("&client_encoding=UTF8", ""))
    for first in (0, 10):
        shop.run(
            f"INSERT INTO orders VALUES ({first}, 'Köln\t\\'), ({first + 1}, convert_from('\\x62ff', 'SQL_ASCII'))"
        )
        assert mirror.once() is None
    assert mirror.view("Orders", "number", "t") == [(0, "Köln\t\\"), (10, "Köln\t\\")]
    assert [reason for _, reason in mirror.rejected] == ['column "t": byte 2 is not UTF-8'] * 2
    shop.run(f"SELECT pg_drop_replication_slot('{shop.slot}')")
    shop.connection.close()
    with psycopg.connect(logical_server, autocommit=True) as admin:
        admin.execute("DROP DATABASE ascii WITH (FORCE)")


def test_policies_that_hide_rows(shop: Shop, mirror: Mirror, logical_server: str) -> None:
    shop.run("ALTER TABLE orders ENABLE ROW LEVEL SECURITY", FIRST, f"CREATE ROLE r_{shop.slot} LOGIN REPLICATION")
    shop.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO r_{shop.slot}")
    mirror.project = mirror.project.replace("postgres:@", f"r_{shop.slot}:@")
    try:
        reported = mirror.once()
        assert reported is not None
        assert reported.startswith('B6222: policies of table "orders" of source "crm" hide rows')
        shop.run(f"ALTER ROLE r_{shop.slot} BYPASSRLS")
        agrees(mirror, shop)
    finally:
        shop.run(f"DROP OWNED BY r_{shop.slot}", f"DROP ROLE r_{shop.slot}")


def test_a_slot_of_another_store(shop: Shop, mirror: Mirror, tmp_path: Path) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    (tmp_path / "second").mkdir()
    second = Mirror(tmp_path / "second", SCRIPT, mirror.project)
    reported = second.once()
    assert reported is not None
    assert reported.startswith(f'B6222: the slot "{shop.slot}" exists already, and was not created by this store')
    second.project = mirror.project.replace(shop.slot, next_slot(shop.slot))
    agrees(second, shop)
    shop.run("INSERT INTO orders VALUES (3, 3, 3)")
    agrees(mirror, shop)
    agrees(second, shop)
    shop.run(f"SELECT pg_drop_replication_slot('{shop.slot}')")
    third = Mirror(tmp_path, SCRIPT, mirror.project)
    assert third.once(commits=False) is None, "as a process that is killed in its first epoch"
    agrees(third, shop)


def test_two_sources_with_one_slot(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders (LIKE orders INCLUDING ALL)",
        "ALTER PUBLICATION belvedere ADD TABLE sales.orders",
    )
    other = project(shop, more='schema = "sales"').replace("sources.crm", "sources.sal")
    mirror.project, mirror.script = mirror.project + other, SCRIPT + "\nIMPORT sal.orders AS Sales;"
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6222")
    assert f'`slot = "{next_slot(shop.slot)}"` for source "sal"' in reported
    mirror.project = mirror.project.replace(other, other.replace(shop.slot, next_slot(shop.slot)))
    shop.run("INSERT INTO sales.orders VALUES (1, 1, 1)", FIRST)
    agrees(mirror, shop)
    assert mirror.view("Sales", *COLUMNS) == [(1, 1, 1)]


def test_a_table_that_leaves_the_script_for_a_while(shop: Shop, mirror: Mirror) -> None:
    both = SCRIPT + "\nIMPORT crm.customers AS Customers;"
    mirror.script = both
    shop.run(FIRST, "INSERT INTO customers VALUES (1, 'Ulm', 1)")
    agrees(mirror, shop)
    mirror.script = "IMPORT crm.customers AS Customers;"
    shop.run("INSERT INTO orders VALUES (3, 3, 3)", "INSERT INTO customers VALUES (2, 'Bonn', 1)")
    assert mirror.once() is None
    mirror.script = both
    agrees(mirror, shop)
    assert "the slot has skipped changes of it" in mirror.notices[-1]


def test_a_slot_behind_the_store(shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a crash of the server, which keeps slots at checkpoints; or of a run between its commit and the slot's
    advance."""
    from belvedere.connectors.postgres import slot

    monkeypatch.setattr(slot, "MAX_CHANGES", 10)
    shop.run(FIRST)
    agrees(mirror, shop)
    monkeypatch.setattr(Server, "advance", lambda self, to: None)
    for first in (100, 200):
        shop.run(
            f"INSERT INTO orders SELECT 2, {first} + n, 1 FROM generate_series(1, 30) n",
            "DELETE FROM orders WHERE customer = 1",
        )
        agrees(mirror, shop)
    shop.run("INSERT INTO orders VALUES (4, 1, 1)")
    agrees(mirror, shop)


def test_many_changes_of_other_tables_are_passed(shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.connectors.postgres import slot

    monkeypatch.setattr(slot, "MAX_CHANGES", 5)
    agrees(mirror, shop)
    shop.run(*(f"INSERT INTO customers VALUES ({n}, 'x', 1)" for n in range(9)), FIRST)
    agrees(mirror, shop)


def test_another_server(shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    with monkeypatch.context() as patched:
        patched.setattr(Server, "system", lambda self: ("1", 1))
        reported = mirror.once()
        assert reported is not None
        assert reported.startswith('B6225: source "crm": its database is on another server')
        go_on_by_the_hint(mirror, shop, reported)


@pytest.mark.parametrize(("switch", "is_reported"), [(1 << 60, False), (1, True), (None, True)])
def test_a_server_that_has_taken_over(
    shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, switch: int | None, is_reported: bool
) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    system = Server(Source("crm", "postgres", options={"url": shop.url})).system()
    monkeypatch.setattr(Server, "system", lambda self: (system[0], 2))
    monkeypatch.setattr(Server, "switch_of", lambda self, timeline, now: switch)
    shop.run("INSERT INTO orders VALUES (3, 3, 3)")
    reported = mirror.once()
    assert (reported is not None) == is_reported
    assert reported is None or "replaced one" in reported
    assert switch_of_history(b"1\t0/1A000060\tno recovery target specified\n2\t1/0\tx\n", 1) == 0x1A000060
    assert switch_of_history(b"1\t0/1A000060\tx\n", 3) is None


def test_a_log_that_ends_before_the_store(shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(mirror, shop)
    monkeypatch.setattr(Server, "flushed", lambda self: 1)
    reported = mirror.once()
    assert reported is not None
    assert "the log of its server ends before the position that the store has read" in reported


def test_an_open_transaction_is_named(shop: Shop, mirror: Mirror) -> None:
    shop.run(FIRST)
    with psycopg.connect(shop.url) as other:
        other.execute("INSERT INTO orders VALUES (5, 5, 5)")
        reported = mirror.once()
        assert reported is not None
        pid = other.info.backend_pid
        assert reported.startswith(
            f'B6227: source "crm": slot "{shop.slot}" waits for an open transaction of process {pid} (user "'
        )
        waiting = (
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%create_logical%' AND state = 'active' AND pid "
            "<> pg_backend_pid()"
        )
        assert shop.ask(waiting) == [], "no process of the server stays behind"
        feeds = mirror.open()
        for _ in range(2):
            with pytest.raises(Exception, match="B6227"):
                mirror.epoch(feeds)
        other.commit()
        while mirror.epoch(feeds):
            pass
        for feed in feeds.values():
            feed.close()
    agrees(mirror, shop)


def test_a_locked_table_is_waited_for(shop: Shop, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.connectors.postgres import server

    monkeypatch.setitem(server.SETTINGS, "lock_timeout", "100ms")
    shop.run(FIRST)
    with psycopg.connect(shop.url) as other:
        assert mirror.once(commits=False) is None
        other.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        reported = mirror.once()
        assert reported is not None
        assert reported.startswith("B6227")
        other.rollback()
    agrees(mirror, shop)


def test_no_slot_is_free(shop: Shop, mirror: Mirror) -> None:
    made: list[str] = []
    try:
        while True:
            name = f"fill_{len(made)}"
            shop.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
            made.append(name)
    except psycopg.errors.ConfigurationLimitExceeded:
        pass
    reported = mirror.once()
    assert reported is not None
    assert reported.startswith("B6222")
    assert "max_replication_slots" in reported
    shop.run(*(f"SELECT pg_drop_replication_slot('{n}')" for n in made))
    agrees(mirror, shop)


def test_a_column_that_is_gone(shop: Shop, mirror: Mirror) -> None:
    shop.run(FIRST)
    agrees(mirror, shop)
    shop.run("ALTER TABLE orders DROP COLUMN amount")
    reported: Any = mirror.once()
    assert reported.startswith('B6226: column "amount" of table "orders" is gone')
    assert 'ALTER TABLE "public"."orders" ADD COLUMN "amount" ...' in reported
    shop.run('ALTER TABLE "orders" ADD COLUMN "amount" int DEFAULT 3')
    agrees(mirror, shop)
