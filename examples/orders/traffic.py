"""Activity in the shop: customers, orders, payments, people who move. The same number gives the same order.

In: numbers, a time. Out: rows as dicts. It sends nothing.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

CITIES = ("Berlin", "Köln", "Łódź", "Ghent", "Zürich", "Praha")
NAMES = ("Ada", "Bo", "Chloé", "Dirk", "Ewa", "Femke", "Goran", "Hana", "İnci", "Jörg", "Katja", "Lars")
DUE = timedelta(seconds=20)
"""An order is to be paid so soon."""
LATE_SHARE, NEVER_SHARE = 0.15, 0.05


def customers() -> list[dict[str, Any]]:
    """The customers as the shop begins."""
    return [{"id": n, "name": name, "city": CITIES[n % len(CITIES)]} for n, name in enumerate(NAMES, 1)]


def move(number: int) -> tuple[int, str]:
    """A customer who moves, and where to."""
    chance = random.Random(f"move {number}")
    return chance.randint(1, len(NAMES)), chance.choice(CITIES)


def order(number: int, at: datetime) -> dict[str, Any]:
    """An order."""
    chance = random.Random(f"order {number}")
    amount = f"{chance.randint(500, 20_000) / 100:.2f}"
    times = {"ordered_at": at.isoformat(), "due_at": (at + DUE).isoformat()}
    return {"id": number, "customer": chance.randint(1, len(NAMES)), "amount": amount, **times}


def payment(number: int, at: datetime) -> dict[str, Any] | None:
    """The payment of an order that was made at a time: most come soon, some too late, some never."""
    chance = random.Random(f"payment {number}")
    kind = chance.random()
    if kind < NEVER_SHARE:
        return None
    late = DUE if kind < NEVER_SHARE + LATE_SHARE else timedelta(0)
    return {"order_id": number, "paid_at": (at + late + DUE * chance.uniform(0.1, 0.9)).isoformat()}
