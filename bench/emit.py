"""`python -m bench.emit`: the savings of EMIT and of bounds.

On a stream with hot keys it measures emitted updates and the cost of an epoch, with and without a delay. Over an hour
of event time it measures rows of state, with and without bounds. All runs get the same rows in the same epochs. The
streams are private, so their rows are only state.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from belvedere.rules.options import Options
from belvedere.schema import TIMESTAMP
from belvedere.values.instants import microseconds
from belvedere.workbench.workbench import Workbench

START = datetime(2024, 1, 1, tzinfo=UTC)
INPUTS = """CREATE STREAM _Bid (bidtime TIMESTAMP, item INT, price INT, WATERMARK FOR bidtime);
CREATE STREAM _Ask (asktime TIMESTAMP, item INT, price INT, WATERMARK FOR asktime);
"""
TOTALS = "SELECT item, sum(price) AS price, count(*) AS n FROM _Bid GROUP BY item"
FORMS = {
    "the table alone": "",
    "EMIT STREAM": "EMIT STREAM",
    "... AFTER DELAY 1 MINUTE": "EMIT STREAM AFTER DELAY INTERVAL 1 MINUTE",
    "... AFTER DELAY 10 MINUTES": "EMIT STREAM AFTER DELAY INTERVAL 10 MINUTES",
}
WINDOWS = """
Sums := SELECT wend, item, sum(price) AS price, count(DISTINCT price) AS prices
        FROM Tumble(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '5' MINUTES)
        GROUP BY wend, item;
Counts := SELECT wend, item, count(*) AS n
          FROM Tumble(data => TABLE(_Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '5' MINUTES)
          GROUP BY wend, item;
Pairs := SELECT b.item, b.bidtime, b.price, a.price AS ask FROM _Bid b JOIN _Ask a
         ON a.item = b.item AND a.price = b.price AND a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 1 MINUTE;
Unasked := SELECT b.item, b.price FROM _Bid b WHERE NOT EXISTS (SELECT 1 FROM _Ask a
         WHERE a.item = b.item AND a.price = b.price AND a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 1 MINUTE);
Runs := SELECT item, price, wstart, wend, count(*) AS n FROM Session(data => TABLE(_Bid),
    timecol => DESCRIPTOR(bidtime),
         key => DESCRIPTOR(item, price), gap => INTERVAL '1' MINUTES) GROUP BY item, price, wstart, wend;
"""


@dataclass(frozen=True)
class Load:
    """Rows per epoch, epochs, keys. An epoch covers `seconds` of event time."""

    rows: int
    epochs: int
    keys: int
    seconds: int = 30

    def batch(self, number: int, time_column: str, random: np.random.Generator) -> pa.Table:
        """Return the rows of an epoch: items by Zipf's law, so that a few keys have most rows."""
        first = microseconds(START + timedelta(seconds=number * self.seconds))
        offsets = np.sort(random.integers(0, self.seconds * 1_000_000, self.rows))
        items = np.minimum(random.zipf(1.3, self.rows), self.keys)
        columns = {
            time_column: pa.array(first + offsets, pa.int64()).cast(TIMESTAMP),
            "item": pa.array(items, pa.int32()),
            "price": pa.array(random.integers(1, 100, self.rows), pa.int32()),
        }
        return pa.table(columns)

    def end(self, number: int) -> datetime:
        """Return the end of an epoch's event time: its clock, and its bound."""
        return START + timedelta(seconds=(number + 1) * self.seconds)


def play(wb: Workbench, load: Load, tables: dict[str, str], bounds: bool) -> list[float]:
    """Run the epochs and return the seconds of each."""
    random = np.random.default_rng(7)
    seconds = []
    for number in range(load.epochs):
        arrivals = {name: load.batch(number, column, random) for name, column in tables.items()}
        if bounds:
            for name in tables:
                wb.bound(name, load.end(number))
        started = time.perf_counter()
        wb.engine.run_epoch(arrivals, load.end(number), bounds=wb._intake.clocks.as_document())
        seconds.append(time.perf_counter() - started)
    return seconds


def delays(load: Load) -> None:
    """Print emitted updates and seconds per epoch, for each form."""
    print(
        f"{load.epochs} epochs of {load.rows:,} rows, {load.keys:,} keys by Zipf's law, an epoch each {load.seconds} "
        "s of clock"
    )
    print(f"{'form':<30}{'updates':>12}{'per row':>10}{'s an epoch':>14}")
    for name, clause in FORMS.items():
        wb = Workbench(f"{INPUTS}V := {TOTALS} {clause};")
        try:
            seconds = play(wb, load, {"_Bid": "bidtime"}, bounds=False)
            updates = wb.store.size()["V"][0] if clause else 0
            median = sorted(seconds[1:])[len(seconds[1:]) // 2]
            print(f"{name:<30}{updates:>12,}{updates / (load.rows * load.epochs):>10.3f}{median:>14.3f}", flush=True)
        finally:
            wb.close()


def state(load: Load) -> None:
    """Print the rows of operators' state at the end, with and without expiry by bounds."""
    print(
        f"\n{load.epochs * load.seconds // 60} minutes of event time: windows of 5 minutes, joins and sessions within "
        "one"
    )
    print(f"{'bounds':<30}{'state rows':>12}{'of them, at most':>18}{'s an epoch':>14}")
    for name, bounds, forget in (("none", False, True), ("sent, state kept", True, False), ("sent", True, True)):
        wb = Workbench(INPUTS + WINDOWS, options=Options(expire=forget))
        try:
            seconds = play(wb, load, {"_Bid": "bidtime", "_Ask": "asktime"}, bounds)
            sizes = wb.engine.counts()
            own = {n: sizes[n] for n, r in wb.pipeline.relations.items() if r.stored and not wb.pipeline.is_served(n)}
            most = max(own, key=lambda n: own[n])
            last = sorted(seconds[len(seconds) // 2 :])
            median = last[len(last) // 2]
            print(f"{name:<30}{sum(own.values()):>12,}{f'{most} {own[most]:,}':>18}{median:>14.3f}", flush=True)
        finally:
            wb.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.emit", description="measure EMIT AFTER DELAY and state under bounds"
    )
    parser.add_argument("--rows", type=int, default=10_000, help="rows per epoch")
    parser.add_argument("--keys", type=int, default=10_000, help="different items")
    parser.add_argument("--epochs", type=int, default=120, help="epochs: 120 of 30 s are an hour of event time")
    parser.add_argument("--seconds", type=int, default=30, help="event time of an epoch")
    parser.add_argument("--only", choices=("delays", "state"), help="one of the two")
    options = parser.parse_args()
    load = Load(options.rows, options.epochs, options.keys, options.seconds)
    if options.only != "state":
        delays(load)
    if options.only != "delays":
        state(load)


if __name__ == "__main__":
    main()
