"""Write the market example's tables as small files: half an hour of trades and quotes of four shares.

In: a folder. Out: `<folder>/Trades/*.jsonl` and `<folder>/Quotes/*.jsonl`, one file per five minutes. Prices rise and
fall, one share is rarely traded, and trades are in order of time. Nothing is random: a second run writes the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2024, 3, 1, 14, 30, tzinfo=UTC)
END = START + timedelta(minutes=30)
SHARES = {"ALP": 40.0, "BER": 85.0, "CIM": 12.5, "DOM": 230.0}
SELDOM = "DOM"
EVERY = timedelta(seconds=4)

Row = dict[str, Any]


def trades(since: datetime, until: datetime) -> Iterator[Row]:
    """Yield the rows of `Trades` in a half-open range of time, in order."""
    moment = since
    while moment < until:
        step = int((moment - START) / EVERY)
        for place, sym in enumerate(SHARES):
            if (step + place) % (9 if sym == SELDOM else 2 + place) == 0:
                yield {
                    "sym": sym,
                    "time": (moment + timedelta(milliseconds=250 * place)).isoformat(timespec="milliseconds"),
                    "price": _price(sym, place, step),
                    "shares": 10 * (1 + (step * 7 + place * 3) % 13),
                }
        moment += EVERY


def quotes(since: datetime, until: datetime) -> Iterator[Row]:
    """Yield the rows of `Quotes` in a half-open range of time, in order."""
    moment = since
    while moment < until:
        step = int((moment - START) / EVERY)
        for place, sym in enumerate(SHARES):
            if (step + place) % 5 == 0:
                price = _price(sym, place, step)
                spread = round(0.01 * (1 + step % 3), 2)
                time = moment + timedelta(milliseconds=100 * place)
                yield {
                    "sym": sym,
                    "time": time.isoformat(timespec="milliseconds"),
                    "bid": round(price - spread, 2),
                    "ask": round(price + spread, 2),
                }
        moment += EVERY


def _price(sym: str, place: int, step: int) -> float:
    return round(SHARES[sym] + 2 * math.sin(step / 40 + place) + (step * 17 % 11) / 50, 2)


def write(folder: Path) -> None:
    """Write all files."""
    moment = START
    while moment < END:
        upto = moment + timedelta(minutes=5)
        _write_lines(folder / "Trades" / f"{moment:%Y-%m-%dT%H-%M}.jsonl", trades(moment, upto))
        _write_lines(folder / "Quotes" / f"{moment:%Y-%m-%dT%H-%M}.jsonl", quotes(moment, upto))
        moment = upto


def _write_lines(path: Path, rows: Iterator[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    part.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write the market example's tables as small files")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data" / "market")
    write(parser.parse_args().folder)
