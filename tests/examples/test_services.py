"""The examples `cards` and `logistics`: views, answers and alerts equal DuckDB's over the same rows, in any epochs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.depth import at_night
from tests.examples.example_answers import EXAMPLES, answers, duckdb_over, duckdb_queries, load_prepare
from tests.examples.test_views import check_views, folder, open_example

__all__ = ["folder"]

pytestmark = pytest.mark.spark

CUTS = [(1, 2), *at_night([(1, 1), (1, 28), (2, 9), (3, 14)])]
"""Seeds of the data and numbers of epochs."""


def ends_of_epochs(seed: int, days: int, epochs: int) -> list[int]:
    """After which days an epoch ends: some days at random, and the last one."""
    return sorted([*random.Random(seed).sample(range(1, days), min(epochs, days) - 1), days])


def check_queries(wb: Any, example: str, database: duckdb.DuckDBPyConnection) -> None:
    """The answer to each `queries/*.graphql`, which has one field, is what the file `.sql` beside it gives in
    DuckDB."""
    for path in sorted((EXAMPLES / example / "queries").glob("*.graphql")):
        answer = wb.graphql(path.read_text())
        assert "errors" not in answer, (path.name, answer)
        (found,) = answer["data"].values()
        assert found == as_json(answers(database, path.with_suffix(".sql").read_text())), path.name
        assert found, path.name


def as_json(value: Any) -> Any:
    """A value of DuckDB as the API writes it."""
    if isinstance(value, dict):
        return {name: as_json(v) for name, v in value.items()}
    if isinstance(value, list):
        return [as_json(v) for v in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value) if isinstance(value, Decimal) else value


def database_of(example: str, tables: dict[str, pa.Table], clock: datetime) -> duckdb.DuckDBPyConnection:
    """A database with the rows so far, and each view of `duckdb.sql`, in its order."""
    database = duckdb_over({}, clock)
    for name, rows in tables.items():
        database.register(f"_{name}", rows)
        database.execute(f"CREATE TABLE {name} AS FROM _{name}")
    for view, query in duckdb_queries(example).items():
        database.execute(f'CREATE VIEW "{view}" AS {query}')
    return database


@pytest.mark.parametrize(("seed", "epochs"), CUTS)
def test_cards(folder: Path, seed: int, epochs: int) -> None:
    cards = load_prepare("cards")
    days = cards.days(seed)
    wb = open_example("cards", folder)
    done = 0
    for number, end in enumerate(ends_of_epochs(seed, len(days), epochs)):
        for day in range(done, end):
            for name, table in CARD_INPUTS.items():
                wb.insert(table, days[day][name])
                wb.bound(table, cards.START + (day + 1) * cards.DAY)
        wb.clock(cards.START + timedelta(days=end))
        wb.step()
        done = end
        database = cards_database(cards, days[:done])
        check_views(wb, "cards", database)
        if number == (epochs - 1) // 2:
            wb.restart()
    check_queries(wb, "cards", database)
    for alert in ("OverLimit", "Suspicious"):
        assert len(wb.rows(alert)) > 3
        assert {e["_op"] for e in wb.rows(alert)} == {"ADD"}
    wb.close()


CARD_INPUTS = {
    "Cardholders": "_CardholderChanges",
    "Cards": "_CardChanges",
    "Merchants": "_MerchantChanges",
    "Transactions": "_Transactions",
}


def cards_database(cards: Any, days: list[dict[str, list[dict[str, Any]]]]) -> duckdb.DuckDBPyConnection:
    end = cards.START + len(days) * cards.DAY
    tables = {name: pa.Table.from_pylist(list(arrived(cards, name, days))) for name in CARD_INPUTS}
    return database_of("cards", tables, end)


def arrived(cards: Any, table: str, days: list[dict[str, list[dict[str, Any]]]]) -> Iterator[dict[str, Any]]:
    """Rows of a table with their types, their place and the day on which they came."""
    number = 0
    for day, tables in enumerate(days):
        for row in tables[table]:
            yield {**with_types(row), "_arrival": number, "_day": cards.START + day * cards.DAY}
            number += 1


@pytest.mark.parametrize(("seed", "epochs"), CUTS)
def test_logistics(folder: Path, seed: int, epochs: int) -> None:
    logistics = load_prepare("logistics")
    end = datetime(2024, 5, 15, 12, tzinfo=UTC)
    days = logistics.days(end, seed)
    logistics.write(folder / "data" / "shipping", end)  # columns come from the files
    wb = open_example("logistics", folder)
    done, reported = 0, set()
    for number, upto in enumerate(ends_of_epochs(seed, len(days), epochs)):
        for day in days[done:upto]:
            for name, rows in day.items():
                wb.insert(LOGISTICS_INPUTS.get(name, name), rows)
        clock = end - (len(days) - upto) * logistics.DAY
        wb.clock(clock)
        wb.step()
        done = upto
        database = database_of("logistics", logistics_tables(days[:done]), clock)
        check_views(wb, "logistics", database, {"CurrentCustomers", "PricedOrders"})
        reported |= {r["shipment_id"] for r in answers(database, "SELECT shipment_id FROM LateShipments")}
        if number == (epochs - 1) // 2:
            wb.restart()
    check_queries(wb, "logistics", database)
    assert sorted(e["shipment_id"] for e in wb.rows("Delayed")) == sorted(reported)
    assert [r["promised_at"] for r in wb.rows("LateShipments")] == sorted(
        r["promised_at"] for r in wb.rows("LateShipments")
    )
    wb.close()


LOGISTICS_INPUTS = {"Customers": "_CustomerChanges", "Carriers": "_CarrierChanges", "Warehouses": "_WarehouseChanges"}


def logistics_tables(days: list[dict[str, list[dict[str, Any]]]]) -> dict[str, pa.Table]:
    tables = {}
    for name in days[0]:
        rows = [with_types(row) for day in days for row in day[name]]
        tables[name] = pa.Table.from_pylist(rows)
    return tables


def with_types(row: dict[str, Any]) -> dict[str, Any]:
    """Times and prices of a row, nested ones too, as values."""
    typed = {n: datetime.fromisoformat(v) if n.endswith("_at") else v for n, v in row.items()}
    money = {n: Decimal(v) for n, v in row.items() if n in ("amount", "weekly_limit", "price")}
    nested = {n: [with_types(item) for item in v] for n, v in row.items() if isinstance(v, list)}
    return typed | money | nested
