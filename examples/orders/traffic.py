"""Activity in the shop: customers, orders, payments, moves of customers. The same number gives the same order.

In: numbers, a time. Out: rows as dicts. It sends nothing.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

CITIES = ("Berlin", "Köln", "Łódź", "Ghent", "Zürich", "Praha")
NAMES = ("Ada", "Bo", "Chloé", "Dirk", "Ewa", "Femke", "Goran", "Hana", "İnci", "Jörg", "Katja", "Lars")
DUE = timedelta(seconds=20)
"""Time within which an order must be paid."""
LATE_SHARE, NEVER_SHARE = 0.15, 0.05


def customers() -> list[dict[str, Any]]:
    """Return the initial customers."""
    return [{"id": n, "name": name, "city": CITIES[n % len(CITIES)]} for n, name in enumerate(NAMES, 1)]


def move(number: int) -> tuple[int, str]:
    """Return a customer who moves, and the new city."""
    chance = random.Random(f"move {number}")
    return chance.randint(1, len(NAMES)), chance.choice(CITIES)


def order(number: int, at: datetime) -> dict[str, Any]:
    """Return an order."""
    chance = random.Random(f"order {number}")
    amount = f"{chance.randint(500, 20_000) / 100:.2f}"
    times = {"ordered_at": at.isoformat(), "due_at": (at + DUE).isoformat()}
    return {"id": number, "customer": chance.randint(1, len(NAMES)), "amount": amount, **times}


def payment(number: int, at: datetime) -> dict[str, Any] | None:
    """Return the payment of an order made at a time: most are soon, some too late, some missing (None)."""
    chance = random.Random(f"payment {number}")
    kind = chance.random()
    if kind < NEVER_SHARE:
        return None
    late = DUE if kind < NEVER_SHARE + LATE_SHARE else timedelta(0)
    return {"order_id": number, "paid_at": (at + late + DUE * chance.uniform(0.1, 0.9)).isoformat()}
