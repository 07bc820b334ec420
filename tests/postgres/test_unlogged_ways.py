"""What changes the rows of a table without a word of it in the log, or with one that says less than it seems."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.feeds.mirror import Mirror
from tests.postgres.conftest import Shop

pytestmark = pytest.mark.postgres

SCRIPT = "IMPORT crm.items AS Items;"
COLUMNS = ("id", "v", "b")
ITEMS = "CREATE TABLE items (id int PRIMARY KEY, v {}, b text)"
PARTED = (
    "CREATE TABLE items (id int, v int NOT NULL, b text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
    "CREATE TABLE items_0 PARTITION OF items FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (10) TO (20)",
    "CREATE UNIQUE INDEX items_0_v ON items_0 (v)",
    "CREATE UNIQUE INDEX items_1_v ON items_1 (v)",
    "INSERT INTO items SELECT n, n, repeat(md5(n::text), 200) FROM generate_series(1, 15) n",
    "ALTER TABLE items ALTER b SET STORAGE EXTERNAL",
)
ADD = "ALTER PUBLICATION belvedere ADD TABLE items"


@pytest.fixture
def mirror(shop: Shop, tmp_path: Path) -> Mirror:
    """What follows the table `items`."""
    url = f'[sources.crm]\nconnector = "postgres"\nurl = "{shop.url}"\n'
    return Mirror(tmp_path, SCRIPT, f'{url}slot = "{shop.slot}"\n')


def agrees(mirror: Mirror, shop: Shop, reported: str | None = None) -> None:
    """A run ends with the rows of the table; the last notice says why they were read whole."""
    said = mirror.once()
    assert said is None, said
    columns = ", ".join(f"CASE WHEN {c} IS DISTINCT FROM NULL THEN format('%s', {c}) END" for c in COLUMNS)
    seen = [tuple(None if v is None else str(v) for v in row) for row in mirror.view("Items", *COLUMNS)]
    assert sorted(seen, key=str) == sorted(shop.ask(f"SELECT {columns} FROM items"), key=str)
    if reported is not None:
        assert reported in mirror.notices[-1], mirror.notices


VALUES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str | None]] = {
    "a label of an enum renamed": (
        "mood",
        ("CREATE TYPE mood AS ENUM ('sad', 'ok')", "'sad'", "'ok'"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",),
        "a value of an enum was renamed",
    ),
    "a label within an array of a domain": (
        "moods",
        ("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN moods AS mood[]", "'{sad,NULL}'", "'{}'"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",),
        "a value of an enum was renamed",
    ),
    "a label within a composite": (
        "pair",
        ("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, m mood)", "'(1,sad)'", "'(,)'"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",),
        "a value of an enum was renamed",
    ),
    "a label that is added": (
        "mood",
        ("CREATE TYPE mood AS ENUM ('sad', 'ok')", "'sad'", "'ok'"),
        ("ALTER TYPE mood ADD VALUE 'glad'", "INSERT INTO items VALUES (5, 'glad')"),
        None,
    ),
    "a field of a composite added": (
        "pair",
        ("CREATE TYPE pair AS (a int, c int)", "'(1,2)'", "'(,)'"),
        ("ALTER TYPE pair ADD ATTRIBUTE d text",),
        "a composite type has other fields",
    ),
    "a field of a composite dropped": (
        "pair[]",
        ("CREATE TYPE pair AS (a int, c int)", "'{\"(1,2)\"}'", "NULL"),
        ("ALTER TYPE pair DROP ATTRIBUTE a",),
        "a composite type has other fields",
    ),
    "a type whose bytes stay": (
        "oid",
        ("SELECT 1", "4294967295", "7"),
        (
            "INSERT INTO items VALUES (5, 4294967290)",
            "ALTER TABLE items ALTER v TYPE int",
            "INSERT INTO items VALUES (6, 3)",
        ),
        'its column "v" has another type',
    ),
    "an address that becomes another type": (
        "cidr",
        ("SELECT 1", "'10.1.1.1/32'", "'10.0.0.0/8'"),
        ("ALTER TABLE items ALTER v TYPE inet",),
        'its column "v" has another type',
    ),
    "money and the database's currency": (
        "money",
        ("SELECT 1", "1234.5", "-1"),
        ("ALTER DATABASE {database} SET lc_monetary = 'C'", "UPDATE items SET v = v * 2"),
        None,
    ),
}


@pytest.mark.parametrize("what", VALUES)
def test_values_that_are_written_otherwise(shop: Shop, mirror: Mirror, what: str) -> None:
    type_, (made, first, second), statements, reported = VALUES[what]
    shop.run(*made.split(";"), "SET lc_monetary = 'C'", ITEMS.format(type_), ADD)
    shop.run(f"INSERT INTO items VALUES (1, {first}), (2, {second}), (3, NULL)")
    agrees(mirror, shop)
    shop.run(
        f"INSERT INTO items VALUES (4, {first})", *(s.format(database=shop.connection.info.dbname) for s in statements)
    )
    agrees(mirror, shop, reported)
    read_whole = [n for n in mirror.notices if "is read completely" in n]
    assert bool(read_whole) == bool(reported)
    shop.run("UPDATE items SET b = 'x' WHERE id = 1", "DELETE FROM items WHERE id = 2")
    agrees(mirror, shop)
    assert [n for n in mirror.notices if "is read completely" in n] == read_whole, "once"


@pytest.mark.parametrize("meanwhile", ["INSERT INTO items_1 VALUES (19, 19, 'x')", "DELETE FROM items_1 WHERE id = 12"])
def test_a_partition_that_is_away_for_a_while(shop: Shop, mirror: Mirror, meanwhile: str) -> None:
    shop.run(*PARTED, ADD)
    agrees(mirror, shop)
    shop.run(
        "ALTER TABLE items DETACH PARTITION items_1",
        meanwhile,
        "ALTER TABLE items ATTACH PARTITION items_1 FOR VALUES FROM (10) TO (20)",
    )
    agrees(mirror, shop, "a partition was attached, detached")


@pytest.mark.parametrize("root", ["DEFAULT", "FULL"])
def test_a_partition_with_a_replica_identity_of_its_own(shop: Shop, mirror: Mirror, root: str) -> None:
    shop.run(*PARTED, ADD, f"ALTER TABLE items REPLICA IDENTITY {root}")
    agrees(mirror, shop)
    shop.run("ALTER TABLE items_1 REPLICA IDENTITY USING INDEX items_1_v", "UPDATE items SET id = 19 WHERE id = 11")
    shop.run("DELETE FROM items WHERE id = 12")
    said = mirror.once()
    assert said is not None
    assert said.startswith('B6223: partition "items_1" of table "items" of source "crm" does not log its key')
    shop.run(said.rpartition("the owner runs: ")[2].removesuffix(")"))
    agrees(mirror, shop, "a partition was attached, detached")
    shop.run(
        "ALTER TABLE items_1 REPLICA IDENTITY USING INDEX items_1_v",
        "UPDATE items SET id = 18 WHERE id = 13",
        "ALTER TABLE items_1 REPLICA IDENTITY DEFAULT",
    )
    agrees(mirror, shop, "a partition was attached, detached")


def test_a_partition_without_a_log(shop: Shop, mirror: Mirror) -> None:
    shop.run(*PARTED, ADD)
    agrees(mirror, shop)
    shop.run(
        "ALTER TABLE items_1 SET UNLOGGED", "DELETE FROM items WHERE id > 12", "INSERT INTO items VALUES (18, 18, 'x')"
    )
    said = mirror.once()
    assert said is not None
    assert said.startswith('B6224: partition "items_1" of table "items" of source "crm" is unlogged')
    shop.run(said.rpartition("the owner runs: ")[2].removesuffix(")"))
    agrees(mirror, shop, "a partition was attached, detached")


def test_large_values_of_partitions_of_which_a_part_logs_whole_rows(shop: Shop, mirror: Mirror) -> None:
    shop.run(*PARTED, ADD, "ALTER TABLE items REPLICA IDENTITY FULL", "ALTER TABLE items_0 REPLICA IDENTITY FULL")
    agrees(mirror, shop)
    shop.run(
        "UPDATE items SET id = 17 WHERE id = 11", "UPDATE items SET id = 0 WHERE id = 3", "UPDATE items SET v = v + 100"
    )
    shop.run("UPDATE items SET id = 16, v = 1 WHERE id = 17")
    agrees(mirror, shop)


def test_a_table_that_leaves_its_published_schema_for_a_while(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        ITEMS.format("int"),
        "CREATE SCHEMA attic",
        "DROP PUBLICATION belvedere",
        "CREATE PUBLICATION belvedere FOR TABLES IN SCHEMA public WITH (publish_via_partition_root)",
        "INSERT INTO items VALUES (1, 1)",
    )
    agrees(mirror, shop)
    shop.run(
        "ALTER TABLE items SET SCHEMA attic",
        "INSERT INTO attic.items VALUES (2, 2)",
        "ALTER TABLE attic.items SET SCHEMA public",
        "INSERT INTO items VALUES (3, 3)",
    )
    agrees(mirror, shop, "it was temporarily in another schema")
    shop.run("ALTER TABLE items ADD COLUMN c int", "INSERT INTO items VALUES (4, 4)", "CREATE INDEX ON items (v)")
    agrees(mirror, shop)
    assert sum("read completely" in n for n in mirror.notices) == 1


@pytest.mark.parametrize("what", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_publications_of_everything(shop: Shop, mirror: Mirror, what: str) -> None:
    shop.run(
        "DROP PUBLICATION belvedere", f"CREATE PUBLICATION belvedere {what} WITH (publish_via_partition_root = true)"
    )
    shop.run(ITEMS.format("int"), "INSERT INTO items VALUES (1, 1)")
    agrees(mirror, shop)
    shop.run("CREATE TABLE more (id int PRIMARY KEY)", "INSERT INTO more VALUES (1)", "UPDATE items SET v = 2")
    agrees(mirror, shop)


def test_a_table_that_is_not_logged(shop: Shop, mirror: Mirror) -> None:
    shop.run(ITEMS.format("int").replace("TABLE", "UNLOGGED TABLE"), "INSERT INTO items VALUES (1, 1)")
    said = mirror.once()
    assert said is not None
    assert said.startswith('B6224: table "items" of source "crm" is unlogged')
    shop.run(said.rpartition("the owner runs: ")[2].removesuffix(")"), ADD)
    agrees(mirror, shop)


def test_generated_columns_of_both_kinds(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "CREATE TABLE items (id int PRIMARY KEY, s int GENERATED ALWAYS AS (id * 2) STORED, v int, b text)",
        "ALTER PUBLICATION belvedere SET (publish_generated_columns = stored)",
        ADD,
        "ALTER TABLE items ADD COLUMN w int GENERATED ALWAYS AS (id * 3) VIRTUAL",
    )
    agrees(mirror, shop)
    shop.run("INSERT INTO items VALUES (1, DEFAULT, 1)", "UPDATE items SET v = 4")
    agrees(mirror, shop)
    assert not mirror.notices


@pytest.mark.parametrize(
    ("statements", "hint"),
    [
        (
            ("ALTER TABLE items REPLICA IDENTITY USING INDEX items_v_key", "DROP INDEX items_v_key"),
            "REPLICA IDENTITY DEFAULT",
        ),
        (("ALTER TABLE items DROP CONSTRAINT items_pkey",), "REPLICA IDENTITY USING INDEX"),
    ],
)
def test_a_key_that_is_gone(shop: Shop, mirror: Mirror, statements: tuple[str, ...], hint: str) -> None:
    shop.run(ITEMS.format("int NOT NULL"), "CREATE UNIQUE INDEX items_v_key ON items (v)", *statements, ADD)
    said = mirror.once()
    assert said is not None
    assert said.startswith("B6223")
    assert hint in said
    shop.run(said.rpartition("the owner runs: ")[2].removesuffix(")"), "INSERT INTO items VALUES (1, 1)")
    agrees(mirror, shop)
    shop.run("UPDATE items SET v = 2")
    agrees(mirror, shop)


def test_a_wider_type_of_the_views_brings_rows_that_were_rejected(shop: Shop, mirror: Mirror) -> None:
    shop.run(ITEMS.format("numeric(4, 2)"), ADD, "INSERT INTO items VALUES (1, 1.25)")
    agrees(mirror, shop)
    shop.run("ALTER TABLE items ALTER v TYPE numeric(8, 2)", "INSERT INTO items VALUES (2, 12345.25), (3, 2)")
    assert mirror.once() is None
    assert len(mirror.rejected) == 1
    assert len(mirror.view("Items", "id")) == 2
    mirror.forget_columns()  # as `belvedere schema accept`
    agrees(mirror, shop, 'its column "v" has another type in the views')


def test_settings_of_databases_and_roles_change_no_values(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "CREATE SCHEMA other",
        ITEMS.format("regclass"),
        ADD,
        "CREATE TABLE other.thing (id int)",
        "INSERT INTO items VALUES (1, 'other.thing'), (2, 'items')",
    )
    assert mirror.once() is None
    before = mirror.view("Items", "id", "v")
    name = shop.connection.info.dbname
    shop.run(
        f"ALTER DATABASE {name} SET search_path = other, public",
        f"ALTER DATABASE {name} SET \"DateStyle\" = 'German'",
        f"ALTER DATABASE {name} SET transaction_timeout = '50ms'",
        f"ALTER DATABASE {name} SET idle_session_timeout = '50ms'",
        "UPDATE items SET b = 'x'",
    )
    assert mirror.once() is None
    assert mirror.view("Items", "id", "v") == before == [(1, "other.thing"), (2, "public.items")]


def test_keys_whose_texts_differ_and_are_equal(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "CREATE TABLE items (id numeric PRIMARY KEY, v float8, b text)",
        ADD,
        "INSERT INTO items VALUES (1.0, '-0', repeat(md5('1'), 900)), (2, 'NaN', NULL), (3, '-Infinity', '')",
    )
    assert mirror.once() is None
    shop.run(
        "UPDATE items SET id = 1.00 WHERE id = 1",
        "UPDATE items SET v = 7 WHERE id = 1.000",
        "DELETE FROM items WHERE id = 2.0",
    )
    assert mirror.once() is None
    assert [(float(i), v, len(b)) for i, v, b in mirror.view("Items", "id", "v", "b")] == [
        (1.0, 7.0, 900 * 32),
        (3.0, float("-inf"), 0),
    ]


def test_values_of_many_types_are_their_texts_or_rejected(shop: Shop, mirror: Mirror) -> None:
    shop.run(
        "CREATE TABLE items (id int PRIMARY KEY, v timestamptz, b text, d date, a int[], r int4range, t time, f real)",
        ADD,
    )
    rows = (
        "(1, 'infinity', 'x')",
        "(2, '2024-02-29 12:00:00.123456+05:30', E'tab\\t \\\\ \\n')",
        "(3, '10000-01-01', 'x')",
        "(4, '0044-03-15 BC', 'x')",
        "(5, NULL, 'x', 'infinity')",
        "(6, NULL, 'x', '10000-01-01')",
        "(7, NULL, 'x', '0001-01-01', '{1,NULL,3}', '[1,5)', '24:00', '1e-45')",
        "(8, NULL, 'x', NULL, '{}', 'empty', NULL, 'NaN')",
    )
    shop.run(*(f"INSERT INTO items VALUES {r}" for r in rows))
    assert mirror.once() is None
    shop.run(*(re.sub(r"^\((\d)", r"INSERT INTO items VALUES (1\1", r) for r in rows))
    assert mirror.once() is None
    ids = [i for (i,) in mirror.view("Items", "id")]
    assert sorted(ids) == [2, 7, 8, 12, 17, 18]
    assert len(mirror.rejected) == 10
    shown = {i: rest for i, *rest in mirror.view("Items", "id", "v", "b", "d", "a", "r", "t")}
    assert all(shown[i] == shown[i + 10] for i in (2, 7, 8)), "of a first read, and of the log"
    assert shown[2][1] == "tab\t \\ \n"
    assert shown[7][3:] == ["{1,NULL,3}", "[1,5)", "24:00:00"]


KEYS = {
    "bool": ("true", "false"),
    "smallint": ("'-32768'", "32767"),
    "bigint": ("'-9223372036854775808'", "9223372036854775807"),
    "numeric": ("1.50", "-0.000000000000000001"),
    "numeric(20,0)": ("18446744073709551615", "0"),
    "real": ("'-0'", "1.1754944e-38"),
    "float8": ("'NaN'", "'-Infinity'"),
    "text": (r"E'tab\t\\N'", "''"),
    "varchar(5)": ("'Äé'", "' a '"),
    "char(5)": ("'a'", "'b  c'"),
    "uuid": ("gen_random_uuid()", "gen_random_uuid()"),
    "bytea": (r"'\x00ff5c'", "''"),
    "date": ("'0001-01-01'", "'9999-12-31'"),
    "timestamp": ("'2024-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'"),
    "timestamptz": ("'2024-03-31 02:30:00+01'", "'1582-10-10 00:00:00+00'"),
    "interval": ("'1 mon -3 days'", "'-00:00:00.5'"),
    "inet": ("'10.0.0.1/8'", "'::1'"),
    "int[]": ("'{1,NULL}'", "'{}'"),
    "int4range": ("'[1,5)'", "'empty'"),
    "jsonb": ("""'{"a": "\\\\n"}'""", "'null'"),
    "citext_like": ("'A'", "'a'"),
    '"Quoted Type"': ("'(1,x)'", "'(,)'"),
}


def test_keys_of_all_types_find_their_rows_and_large_values(shop: Shop, mirror: Mirror) -> None:
    shop.run("CREATE DOMAIN citext_like AS varchar(9)", 'CREATE TYPE "Quoted Type" AS (a int, b text)')
    names = [f"t{n}" for n in range(len(KEYS))]
    for name, (type_, values) in zip(names, KEYS.items(), strict=True):
        shop.run(
            f'CREATE TABLE {name} ("K" {type_} PRIMARY KEY, v int, "b c" text)',
            f'ALTER TABLE {name} ALTER "b c" SET STORAGE EXTERNAL',
            f"INSERT INTO {name} SELECT k, 1, repeat('x', 9000) FROM (VALUES ({values[0]}::{type_}), ({values[1]})) "
            "t(k)",
        )
    shop.run(f"ALTER PUBLICATION belvedere ADD TABLE {', '.join(names)}")
    mirror.script = "\n".join(f"IMPORT crm.{n} AS T{n};" for n in names)
    assert mirror.once() is None
    for name in names:
        assert len(mirror.rows[f"T{name}"]) == 2, name
        assert not mirror.rejected
    for statement in (
        "UPDATE {} SET v = 2",
        "DELETE FROM {} WHERE ctid = (SELECT max(ctid) FROM {})",
        "UPDATE {} SET v = v + 1",
    ):
        shop.run(*(statement.format(n, n) for n in names))
        assert mirror.once() is None
    for name, type_ in zip(names, KEYS, strict=True):
        ((row,),) = [mirror.rows[f"T{name}"].values()]
        assert (row["v"], len(row["b c"])) == (3, 9000), type_
    assert not mirror.rejected
    assert not mirror.notices
