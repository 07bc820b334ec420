"""Tables of Postgres that Spark reads by JDBC: their types, appended rows, and independence of the time zone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from tests.connectors.conftest import PASSWORD, Served
from tests.depth import at_night
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SOURCE = """[sources.shop]
connector = "spark"
format = "jdbc"
options = {{ url = "{url}", driver = "org.postgresql.Driver", user = "reader", password = "${{env:SHOP_PASSWORD}}" }}

[sources.shop.tables.Payments]
options = {{ dbtable = "{table}" }}
columns = {{ {columns} }}
{read}
"""


@pytest.fixture
def shop(spark: Any, served_postgres: Served, postgres_driver: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    spark.sql(f"ADD JAR '{postgres_driver}'")
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    served_postgres.run("DROP TABLE IF EXISTS payments")
    return served_postgres


def loop(spark: Any, folder: Path, shop: Served, columns: str, read: str, table: str = "payments") -> Loop:
    folder.mkdir(exist_ok=True)
    project = SOURCE.format(url=shop.jdbc, columns=columns, read=read, table=table)
    names = ", ".join(part.split("=")[0].strip() for part in columns.split(", ") if "=" in part)
    return Loop(
        spark, folder, f"IMPORT shop.Payments;\nSeen := SELECT {names.replace(chr(34), '`')} FROM Payments;", project
    )


def rows(loop: Loop) -> list[tuple[Any, ...]]:
    found = [tuple(v for n, v in r.items() if n[0] != "_") for r in loop.rows("Seen")]
    return sorted(found, key=lambda r: r[0])


@contextmanager
def machine_in(spark: Any, zone: str) -> Iterator[None]:
    """As if the machine that Spark runs on were there."""
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


TYPES = (
    'id = "BIGINT", amount = "DECIMAL(12, 3)", free = "DECIMAL(30, 2)", at = "TIMESTAMP", day = "DATE", note = "STRING"'
)
TYPES += ', paid = "BOOLEAN", "Größe" = "DOUBLE", tags = "STRING"'


@pytest.mark.parametrize(
    "read", ['increasing = "id"', 'primary_key = ["id"]\nversion = "concat(max(id), \' \', count(*))"']
)
def test_types(spark: Any, tmp_path: Path, shop: Served, read: str) -> None:
    shop.run(
        """CREATE TABLE payments (id bigint PRIMARY KEY, amount numeric(12, 3), free numeric, at timestamptz, day date,
    note text,
           paid boolean, "Größe" double precision, tags jsonb)""",
        """INSERT INTO payments VALUES
           (1, -123456789.125, 12345678901234567890.5, '2024-01-01 12:00:00.123456+02', '0001-01-01', 'Köln 🚲', true,
               'NaN', '{"a": [1]}'),
           (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
           (3, 0, -0.01, '1900-01-01 00:00:00+00', '9999-12-31', '', false, '-Infinity', 'null')""",
    )
    made = loop(spark, tmp_path, shop, TYPES, read)
    made.once()
    first, second, third = rows(made)
    assert str(first[7]) == "nan"
    assert (first[:7], first[8:]) == (
        (
            1,
            Decimal("-123456789.125"),
            Decimal("12345678901234567890.50"),
            datetime(2024, 1, 1, 10, 0, 0, 123456, UTC),
            date(1, 1, 1),
            *("Köln 🚲", True),
        ),
        ('{"a": [1]}',),
    )
    assert second == (2, *[None] * 8)
    assert third == (
        *(3, Decimal("0.000"), Decimal("-0.01"), datetime(1900, 1, 1, tzinfo=UTC), date(9999, 12, 31), "", False),
        *(float("-inf"), "null"),
    )
    shop.run("INSERT INTO payments (id, note) VALUES (9, 'later')")
    made.once()
    assert [r[0] for r in rows(made)] == [1, 2, 3, 9]


def test_a_value_that_does_not_fit(spark: Any, tmp_path: Path, shop: Served) -> None:
    values = "(1, 1e20), (2, 1.555), (3, 1.5)"
    shop.run("CREATE TABLE payments (id bigint, free numeric(30, 5))", f"INSERT INTO payments VALUES {values}")
    made = loop(spark, tmp_path, shop, 'id = "BIGINT", free = "DECIMAL(12, 2)"', 'increasing = "id"')
    made.once()
    assert rows(made) == [(3, Decimal("1.50"))]
    assert sorted(str(r["reason"]) for r in made.rows("_belvedere_rejected")) == [
        'column "free": 1.55500 has more digits than DECIMAL(12, 2) keeps',
        'column "free": 100000000000000000000.00000 is not of type DECIMAL(12, 2)',
    ]
    shop.run("ALTER TABLE payments ALTER free TYPE numeric", "INSERT INTO payments VALUES (4, 1e25)")
    with pytest.raises(BelvedereError, match=r'B6251.*table "Payments" of source "shop" cannot be read'):
        made.once()  # Spark's reader of JDBC has 38 digits, 18 of them behind the point


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamptz", "infinity"), *at_night([("date", "infinity"), ("double precision", "Infinity")])],
)
def test_a_value_behind_which_nothing_grows(spark: Any, tmp_path: Path, shop: Served, kind: str, value: str) -> None:
    shop.run(f"CREATE TABLE payments (id bigint, v {kind})", f"INSERT INTO payments VALUES (1, '{value}')")
    made = loop(spark, tmp_path, shop, 'id = "BIGINT"', 'increasing = "v"')
    with pytest.raises(
        BelvedereError, match=r'B6250: column "v" of table "Payments" has the value .*, after which no value can follow'
    ):
        made.once()


def test_a_password_that_is_wrong_and_a_table_that_is_missing(
    spark: Any, tmp_path: Path, shop: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = loop(spark, tmp_path, shop, 'id = "BIGINT"', 'increasing = "id"')
    for said in ('relation "payments" does not exist', "password authentication failed"):
        with pytest.raises(BelvedereError, match="B6251") as caught:
            made.once()
        assert said in str(caught.value.diagnostics[0].detail)
        monkeypatch.setenv("SHOP_PASSWORD", "wrong")


GROWING = {
    "numeric": ["-1.5", "0", "2.25", "10"],
    "timestamptz": [
        "2024-10-27 00:30:00.5+00",
        "2024-10-27 01:30:00.123456+00",
        "2024-10-27 01:30:00.123457+00",
        "2024-10-27 03:00+00",
    ],
    "timestamp": ["2024-03-31 02:30:00", "2024-10-27 02:30:00.123456", "2024-10-27 02:30:00.123457", "2024-12-01"],
    "date": ["1999-12-31", "2024-01-01", "2024-01-02", "2024-03-31"],
}


@pytest.mark.parametrize("kind", GROWING)
@pytest.mark.parametrize("zone", [*at_night(["UTC", "America/New_York"]), "Europe/Berlin"])
def test_what_grows(spark: Any, tmp_path: Path, shop: Served, kind: str, zone: str) -> None:
    """Each value is above the one before, in whatever zone the machine is."""
    shop.run(f"CREATE TABLE payments (id bigint, v {kind})")
    with machine_in(spark, zone):
        made = loop(spark, tmp_path, shop, 'id = "BIGINT"', 'increasing = "v"')
        for number, value in enumerate(GROWING[kind]):
            shop.connection.execute("INSERT INTO payments VALUES (%s, %s)", (number, value), prepare=False)
            made.once()
            made.once()
            assert [r[0] for r in rows(made)] == list(range(number + 1)), value


def test_a_time_without_a_zone_is_read_as_it_stands(spark: Any, tmp_path: Path, shop: Served) -> None:
    assert spark._jvm.java.util.TimeZone.getDefault().getID() == "UTC", "and not that of the machine"
    shop.run(
        "CREATE TABLE payments (id bigint, at timestamp)", "INSERT INTO payments VALUES (1, '2024-03-31 02:30:00.5')"
    )
    made = loop(spark, tmp_path, shop, 'id = "BIGINT", at = "TIMESTAMP"', 'increasing = "id"')
    made.once()
    assert rows(made) == [(1, datetime(2024, 3, 31, 2, 30, 0, 500000, UTC))]
