"""Generate the events of an online auction: persons, their auctions and the bids on them, in the proportion 1 : 3 : 46.

In: a range of event numbers, a seed, a rate. Out: Arrow tables `Person`, `Auction`, `Bid`, or their files. Each event
depends only on its number and the seed, so the rows do not depend on the ranges. Half of the bids go to one hot auction
of each hundred. Three quarters of auctions and bids come from one hot person of each hundred. Event times are up to
`disorder` out of order. The model is that of the NEXMark suite (Tucker et al., 'NEXMark: a benchmark for queries over
data streams', 2002), with the hot keys of Apache Beam's edition.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PERSONS, AUCTIONS, ROUND = 1, 3, 50  # of each 50 events; the other 46 are bids
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT_EVERY, IN_FLIGHT, ACTIVE_PERSONS, AHEAD = 100, 100, 1_000, 10
START = datetime(2024, 3, 1, 0, 0, tzinfo=UTC)

FIRST_NAMES = ("Ana", "Björn", "Chloé", "Dmitri", "Emeka", "Fatima", "Hiro", "José", "Kate", "Łukasz", "Noor", "Zoë")
LAST_NAMES = ("Abbott", "Bell", "Çelik", "Dvořák", "Ito", "Jones", "Núñez", "Okafor", "Smith", "Weiß")
CITIES = ("Bend", "Boise", "Kent", "Los Angeles", "Phoenix", "Portland", "Redmond", "San Francisco", "Seattle", "Tempe")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
ITEMS = ("bicycle", "camera", "globe", "lamp", "piano", "radio", "rug", "vase", "watch")
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
COLD_CHANNELS = 10_000

Numbers = np.ndarray


@dataclass(frozen=True)
class Options:
    """Options of the events: events per second of event time, disorder in seconds, the seed of all choices."""

    rate: int = 10_000
    disorder: float = 2.0
    seed: int = 1


def events(first: int, until: int, options: Options | None = None) -> dict[str, pa.Table]:
    """Return the tables' rows of the events from `first` to before `until`."""
    chosen = options or Options()
    numbers = np.arange(first, until, dtype=np.int64)
    place = numbers % ROUND
    draw = _Draw(chosen)
    return {
        "Person": _persons(numbers[place < PERSONS], draw),
        "Auction": _auctions(numbers[(place >= PERSONS) & (place < PERSONS + AUCTIONS)], draw),
        "Bid": _bids(numbers[place >= PERSONS + AUCTIONS], draw),
    }


def side_input() -> pa.Table:
    """Return the small table that q13 joins bids with: labels for three of four auctions, by auction number modulo
    10,000."""
    keys = [k for k in range(10_000) if k % 4]
    return pa.table({"key": pa.array(keys, pa.int64()), "label": [f"label-{k}" for k in keys]})


class _Draw:
    """Random numbers that depend on the event, the purpose and the seed: SplitMix64 of their sum."""

    def __init__(self, options: Options):
        self.options = options

    def bits(self, numbers: Numbers, purpose: int) -> Numbers:
        start = (purpose * 0x9E3779B97F4A7C15 + self.options.seed * 0xD1342543DE82EF95) % 2**64
        x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    def below(self, numbers: Numbers, purpose: int, limit: int) -> Numbers:
        """Return integers from 0 to before `limit`."""
        return (self.bits(numbers, purpose) % np.uint64(limit)).astype(np.int64)

    def part(self, numbers: Numbers, purpose: int) -> Numbers:
        """Return numbers from 0 to before 1."""
        return (self.bits(numbers, purpose) >> np.uint64(11)).astype(np.float64) / 2.0**53

    def price(self, numbers: Numbers, purpose: int) -> Numbers:
        """Return prices in cents, log-uniform: as many from 1 to 10 dollars as from 10 to 100, up to a million."""
        return np.rint(10 ** (self.part(numbers, purpose) * 6) * 100).astype(np.int64)

    def time(self, numbers: Numbers) -> Numbers:
        """Return microseconds since 1970, out of order by up to the disorder, rounded to milliseconds."""
        regular = numbers * 1_000_000 // self.options.rate
        early = (self.part(numbers, 1) * self.options.disorder * 1_000_000).astype(np.int64)
        return int(START.timestamp()) * 1_000_000 + (regular - early) // 1_000 * 1_000


def _last_person(numbers: Numbers) -> Numbers:
    return numbers // ROUND


def _last_auction(numbers: Numbers) -> Numbers:
    return numbers // ROUND * AUCTIONS + np.clip(numbers % ROUND - PERSONS, -1, AUCTIONS - 1)


def _some_person(numbers: Numbers, draw: _Draw, purpose: int, hot_place: int) -> Numbers:
    """Return persons: in three of four cases the hot person of the hundred, else one of the last thousand or of the
    next few."""
    last = _last_person(numbers)
    active = np.minimum(last, ACTIVE_PERSONS)
    usual = last - active + (draw.part(numbers, purpose) * (active + AHEAD)).astype(np.int64)
    hot = last // HOT_EVERY * HOT_EVERY + hot_place
    return FIRST_ID + np.where(draw.below(numbers, purpose + 1, 4) > 0, hot, usual)


def _some_auction(numbers: Numbers, draw: _Draw) -> Numbers:
    last = np.maximum(_last_auction(numbers), 0)
    least = np.maximum(last - IN_FLIGHT, 0)
    usual = least + (draw.part(numbers, 20) * (last - least + 1 + AHEAD)).astype(np.int64)
    return FIRST_ID + np.where(draw.below(numbers, 21, 2) > 0, last // HOT_EVERY * HOT_EVERY, usual)


def _persons(numbers: Numbers, draw: _Draw) -> pa.Table:
    first, last = (_pick(words, numbers, draw, n) for n, words in ((2, FIRST_NAMES), (3, LAST_NAMES)))
    card = _join([_text(1_000 + draw.below(numbers, p, 9_000)) for p in (4, 5, 6, 7)], " ")
    return pa.table(
        {
            "id": FIRST_ID + _last_person(numbers),
            "name": _join([first, last], " "),
            "email": _join(
                [_text(draw.below(numbers, 8, 10**6)), "@mail", _text(draw.below(numbers, 9, 100)), ".example"]
            ),
            "credit_card": card,
            "city": _pick(CITIES, numbers, draw, 10),
            "state": _pick(STATES, numbers, draw, 11),
            **_times_and_extra(numbers, draw),
        }
    )


def _auctions(numbers: Numbers, draw: _Draw) -> pa.Table:
    initial = draw.price(numbers, 12)
    moment = draw.time(numbers)
    horizon = IN_FLIGHT * ROUND // AUCTIONS * 1_000_000 // draw.options.rate
    expires = moment + 1_000 + (draw.part(numbers, 13) * 2 * horizon).astype(np.int64) // 1_000 * 1_000
    item = _pick(ITEMS, numbers, draw, 14)
    return pa.table(
        {
            "id": FIRST_ID + _last_auction(numbers),
            "item_name": item,
            "description": _join(["a good ", item]),
            "initial_bid": initial,
            "reserve": initial + draw.price(numbers, 15),
            "expires": _moments(expires),
            "seller": _some_person(numbers, draw, 16, 0),
            "category": FIRST_CATEGORY + draw.below(numbers, 18, CATEGORIES),
            **_times_and_extra(numbers, draw),
        }
    )


def _bids(numbers: Numbers, draw: _Draw) -> pa.Table:
    number = draw.below(numbers, 25, COLD_CHANNELS)
    hot = pa.array(draw.below(numbers, 26, 2) > 0)
    page = _join([_text(draw.below(numbers, p, 30)) for p in (28, 29, 30)], "/")
    url = _join(["https://auction.example/", page, "/item.htm?query=1"])
    return pa.table(
        {
            "auction": _some_auction(numbers, draw),
            "bidder": _some_person(numbers, draw, 22, 1),
            "price": draw.price(numbers, 24),
            "channel": pc.if_else(hot, _pick(HOT_CHANNELS, numbers, draw, 27), _join(["channel-", _text(number)])),
            "url": pc.if_else(hot, url, _join([url, "&channel_id=", _text(number)])),
            **_times_and_extra(numbers, draw),
        }
    )


def _times_and_extra(numbers: Numbers, draw: _Draw) -> dict[str, pa.Array]:
    words = pa.array([f"{n:03x}" * 4 for n in range(4_096)])
    extra = words.take(pa.array(draw.below(numbers, 31, len(words))))
    return {"date_time": _moments(draw.time(numbers)), "extra": extra}


def _moments(micros: Numbers) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _pick(words: Sequence[str], numbers: Numbers, draw: _Draw, purpose: int) -> pa.Array:
    return pa.array(words).take(pa.array(draw.below(numbers, purpose, len(words))))


def _text(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _join(parts: Sequence[pa.Array | str], between: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*parts, between)


def write(folder: Path, count: int, each: int, options: Options | None = None, pause: float = 0.0) -> None:
    """Write `count` events in files with `each` events per table.

    File names sort by time, and files are renamed when they are complete.
    """
    _write_lines(folder / "SideInput" / "0.jsonl", side_input())
    for first in range(0, count, each):
        for name, rows in events(first, min(first + each, count), options).items():
            if rows.num_rows:
                _write_lines(folder / name / f"{first:012d}.jsonl", rows)
        time.sleep(pause)


def _write_lines(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name("." + path.name)
    stamps = [i for i, f in enumerate(rows.schema) if pa.types.is_timestamp(f.type)]
    for i in stamps:
        rows = rows.set_column(
            i, rows.schema[i].name, pc.strftime(rows[i].cast(pa.timestamp("ms", tz="UTC")), "%Y-%m-%dT%H:%M:%SZ")
        )
    half.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.to_pylist()), encoding="utf-8")
    half.rename(path)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="write the events of an online auction as files")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data" / "auctions")
    parser.add_argument("--events", type=int, default=50_000, help="how many")
    parser.add_argument("--each", type=int, default=5_000, help="events per file")
    parser.add_argument("--rate", type=int, default=1_000, help="events per second of event time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between files, as from a living source")
    given = parser.parse_args()
    write(given.folder, given.events, given.each, Options(given.rate, seed=given.seed), given.pause)


if __name__ == "__main__":
    main()
