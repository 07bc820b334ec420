"""Write the card example's tables as small files, one per day: four weeks of payments, with a fixed seed.

In: a folder, and a pause between two days. Out: JSON lines in `<folder>/Transactions`, `<folder>/Cardholders`,
`<folder>/Cards` and `<folder>/Merchants`. The last three are changes: a row is valid from `changed_at` on. Each day's
file ends with a bound, so that a day without changes is known to be complete. Payments come up to four minutes out of
order; one comes two days late.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday
DAYS = 28
DAY = timedelta(days=1)
TABLES = ("Cardholders", "Cards", "Merchants", "Transactions")
CITIES = ("Ghent", "Łódź", "Malmö", "Porto")
CATEGORIES = {"groceries": 45, "travel": 220, "restaurants": 38, "electronics": 160, "fuel": 60}
HOLDERS, CARDS, MERCHANTS = 12, 16, 20

Row = dict[str, Any]


def days(seed: int = 1) -> list[dict[str, list[Row]]]:
    """Return the rows of each table, day by day, in the order of arrival."""
    chance = random.Random(seed)
    result = [{table: [] for table in TABLES} for _ in range(DAYS)]
    result[0] |= _first_day(chance)
    for number in range(1, DAYS):
        _change(chance, result[number], START + number * DAY)
    for number, tables in enumerate(result):
        tables["Transactions"] = _transactions(chance, number)
    late = {**result[10]["Transactions"][0], "id": 9_999}
    result[12]["Transactions"].append(late)
    return result


def _first_day(chance: random.Random) -> dict[str, list[Row]]:
    holders = [_holder(chance, number, START) for number in range(1, HOLDERS + 1)]
    cards = [_row(START, card=_card(number), holder=1 + number % HOLDERS) for number in range(CARDS)]
    merchants = [_merchant(chance, number, START) for number in range(1, MERCHANTS + 1)]
    return {"Cardholders": holders, "Cards": cards, "Merchants": merchants}


def _change(chance: random.Random, tables: dict[str, list[Row]], day: datetime) -> None:
    """Change a cardholder's address, a card's holder, or a merchant's category, on some days at a random second."""
    moments = [day + timedelta(seconds=second) for second in sorted(chance.sample(range(86_400), 3))]
    if chance.random() < 0.4:
        tables["Cardholders"].append(_holder(chance, chance.randint(1, HOLDERS), moments[0]))
    if chance.random() < 0.4:
        tables["Cards"].append(
            _row(moments[1], card=_card(chance.randint(0, CARDS)), holder=chance.randint(1, HOLDERS))
        )
    if chance.random() < 0.5:
        tables["Merchants"].append(_merchant(chance, chance.randint(1, MERCHANTS), moments[2]))


def _transactions(chance: random.Random, day: int) -> list[Row]:
    # the last card has no holder until it is reassigned
    paid = [(chance.randrange(86_400), chance.randint(0, CARDS)) for _ in range(chance.randint(20, 40))]
    if day % 3 == 1:  # a stolen card
        start, card = chance.randrange(80_000), chance.randint(0, CARDS - 1)
        paid += [(start + 400 * n, card) for n in range(chance.randint(3, 6))]
    rows = [_payment(chance, 100 * day + place, *payment, day) for place, payment in enumerate(sorted(paid))]
    for place in range(1, len(rows)):
        before, row = rows[place - 1], rows[place]
        apart = datetime.fromisoformat(row["paid_at"]) - datetime.fromisoformat(before["paid_at"])
        if apart < timedelta(minutes=4) and chance.random() < 0.5:
            rows[place - 1], rows[place] = row, before
    return rows


def _payment(chance: random.Random, number: int, second: int, card: int, day: int) -> Row:
    merchant = chance.randint(1, MERCHANTS)
    usual = list(CATEGORIES.values())[merchant % len(CATEGORIES)]
    paid = START + day * DAY + timedelta(seconds=second)
    amount = f"{usual * chance.uniform(0.2, 2.5):.2f}"
    return {"id": number, "card": _card(card), "merchant": merchant, "amount": amount, "paid_at": _text(paid)}


def _holder(chance: random.Random, holder: int, moment: datetime) -> Row:
    limit = chance.choice((2000, 3000, 4000, 6000))
    return _row(moment, holder=holder, name=f"Holder {holder}", city=chance.choice(CITIES), weekly_limit=f"{limit}.00")


def _merchant(chance: random.Random, merchant: int, moment: datetime) -> Row:
    return _row(moment, merchant=merchant, name=f"Merchant {merchant}", category=chance.choice(list(CATEGORIES)))


def _card(number: int) -> str:
    return f"4000-{number:04d}"


def _row(moment: datetime, **columns: Any) -> Row:
    return {**columns, "changed_at": _text(moment)}


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def write(folder: Path, pause: float = 0) -> None:
    """Write all files; a day's changes are written before its payments."""
    for number, tables in enumerate(days()):
        day = START + number * DAY
        for table in TABLES:
            _write_lines(folder / table / f"{day:%Y-%m-%d}.jsonl", [*tables[table], {"_bound": _text(day + DAY)}])
        time.sleep(pause)


def _write_lines(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    part.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write the card example's tables as small files")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data" / "bank")
    parser.add_argument("--pause", type=float, default=0, help="seconds between two days (default: 0)")
    options = parser.parse_args()
    write(options.folder, options.pause)
