"""Write the shipping example's tables as small files: two weeks of orders, their parcels, and the parcels' stops.

In: a folder, the time at which the data ends (default: now, so that it is recent for `now()`), and a pause between two
days. Out: JSON lines in `<folder>/Customers`, `Carriers`, `Warehouses`, `Orders`, `Shipments` and `Stops`, one file per
day. The same seed gives the same rows.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DAYS = 14
DAY = timedelta(days=1)
TABLES = ("Customers", "Carriers", "Warehouses", "Orders", "Shipments", "Stops")
CITIES = ("Ghent", "Łódź", "Malmö", "Porto", "Turku")
CARRIERS = {1: "Blue Van", 2: "Night Train", 3: "Pigeon & Sons"}
PRODUCTS = {f"SKU-{n:02d}": 5 + 7 * n for n in range(1, 16)}
CUSTOMERS, ORDERS_A_DAY = 25, 12

Row = dict[str, Any]


def days(end: datetime, seed: int = 1) -> list[dict[str, list[Row]]]:
    """Return the rows of each table, day by day, in the order of arrival; the last day ends at `end`."""
    chance = random.Random(seed)
    start = end - DAYS * DAY
    moments: dict[str, list[tuple[datetime, Row]]] = {table: [] for table in TABLES}
    _reference_data(chance, start, moments)
    for number in range(DAYS * ORDERS_A_DAY):
        _order(
            chance,
            1 + number,
            start + timedelta(minutes=number * 1440 / ORDERS_A_DAY + chance.randint(0, 100)),
            moments,
        )
    result = [{table: [] for table in TABLES} for _ in range(DAYS)]
    for table, rows in moments.items():
        for moment, row in sorted(rows, key=lambda pair: pair[0]):
            if moment < end:
                result[(moment - start) // DAY][table].append(row)
    return result


def _reference_data(chance: random.Random, start: datetime, moments: dict[str, list[tuple[datetime, Row]]]) -> None:
    for place, city in enumerate(CITIES, start=1):
        moments["Warehouses"].append(
            (start, {"warehouse_id": place, "city": city, "docks": chance.randint(2, 9), "updated_at": _text(start)})
        )
    for number, name in CARRIERS.items():
        moments["Carriers"].append((start, {"carrier_id": number, "name": name, "updated_at": _text(start)}))
    for number in range(1, CUSTOMERS + 1):
        moments["Customers"].append((start, _customer(chance, number, start)))
    for day in range(1, DAYS):  # a customer moves
        moved = start + day * DAY + timedelta(hours=chance.randint(0, 23))
        moments["Customers"].append((moved, _customer(chance, chance.randint(1, CUSTOMERS), moved)))


def _customer(chance: random.Random, number: int, moment: datetime) -> Row:
    return {
        "customer_id": number,
        "name": f"Customer {number}",
        "city": chance.choice(CITIES),
        "updated_at": _text(moment),
    }


def _order(
    chance: random.Random, number: int, moment: datetime, moments: dict[str, list[tuple[datetime, Row]]]
) -> None:
    """Create an order of one to four products, and its one or two parcels some hours later."""
    skus = chance.sample(list(PRODUCTS), chance.randint(1, 4))
    items = [
        {"sku": sku, "quantity": chance.randint(1, 5), "price": f"{PRODUCTS[sku] + chance.randint(0, 99) / 100:.2f}"}
        for sku in skus
    ]
    customer = chance.randint(1, CUSTOMERS - 2)  # two customers never order
    moments["Orders"].append(
        (moment, {"order_id": number, "customer_id": customer, "ordered_at": _text(moment), "items": items})
    )
    for part in range(1 + (len(items) > 2)):
        sent = moment + timedelta(minutes=chance.randint(60, 900))
        carrier = chance.choice(list(CARRIERS))
        row = {"shipment_id": 10 * number + part, "order_id": number, "carrier_id": carrier, "sent_at": _text(sent)}
        promised = sent + timedelta(hours=chance.choice((24, 48, 72)))
        moments["Shipments"].append((sent, {**row, "promised_at": _text(promised)}))
        _stops(chance, row["shipment_id"], sent, promised, 1 + carrier // 3, moments)


def _stops(
    chance: random.Random,
    shipment: int,
    sent: datetime,
    promised: datetime,
    slowness: int,
    moments: dict[str, list[tuple[datetime, Row]]],
) -> None:
    """Create the stops of a parcel: some warehouses, then the destination. One in twelve parcels is lost."""
    seen, places = sent, chance.sample(range(1, len(CITIES) + 1), chance.randint(1, 4))
    statuses = ["sorted"] * len(places) + (["lost"] if chance.random() < 1 / 12 else ["out for delivery", "delivered"])
    for place, status in enumerate(statuses):
        seen += (promised - sent) * chance.uniform(0.05, 0.2) * slowness
        row = {"shipment_id": shipment, "seen_at": _text(seen), "status": status}
        moments["Stops"].append((seen, {**row, "warehouse_id": places[min(place, len(places) - 1)]}))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def write(folder: Path, end: datetime, pause: float = 0) -> None:
    """Write all files."""
    for number, tables in enumerate(days(end.astimezone(UTC).replace(microsecond=0))):
        for table, rows in tables.items():
            if rows:
                _write_lines(folder / table / f"day-{number + 1:02d}.jsonl", rows)
        time.sleep(pause)


def _write_lines(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    part.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write the shipping example's tables as small files")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data" / "shipping")
    parser.add_argument(
        "--end", type=datetime.fromisoformat, default=datetime.now(UTC), help="when the data ends (default: now)"
    )
    parser.add_argument("--pause", type=float, default=0, help="seconds between two days (default: 0)")
    options = parser.parse_args()
    write(options.folder, options.end, options.pause)
