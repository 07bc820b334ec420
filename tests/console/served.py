"""A small service for the console's tests, without Spark: a store with rows, the API's processes, and epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.api.serving.processes import Serving, start_api
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.last_changes import DOCUMENT as CHANGED
from belvedere.engine.epoch_row.last_changes import with_changes
from belvedere.engine.errors.failed_stages import Failed, failures_document
from belvedere.intake.ingest_service import OFFSET, IngestService
from belvedere.intake.journal import JournalPosition
from belvedere.intake.wire import IngestServer
from belvedere.store import EpochRow, StoredTable, open_store
from belvedere.time.event_time import Clocks, send_bound
from belvedere.values.instants import microseconds

SCRIPT = """
/** What people offer. */
CREATE STREAM Bid (/** When it was made. */ bidtime TIMESTAMP NOT NULL, price INT, item STRING, serial BIGINT,
                   WATERMARK FOR bidtime AS bidtime - INTERVAL 1 MINUTE) LATE DROP;
CREATE TABLE Items (item STRING NOT NULL, name STRING, size STRUCT<cm: DOUBLE, of: STRUCT<part: STRING>>,
    PRIMARY KEY (item));
_Dear := SELECT * FROM Bid WHERE price > 900;
/** The best price of each item and hour. */
Hourly := SELECT item, hour(bidtime) AS h, max(price) AS best, count(*) AS n FROM Bid GROUP BY item, h;
Items.hours := JOIN Hourly h ON h.item = _.item ORDER BY h.h DESC;
/** The hours of one item. */
HoursOf(item STRING) := SELECT item, h, best FROM Hourly WHERE item = :item;
CREATE SUBSCRIPTION Dear ON ADD AS SELECT item, price FROM _Dear;
EXPORT Hourly TO console.hourly;
"""
CATALOG = compile_script(SCRIPT).catalog
NAMES = ("Bid", "Items", "Hourly", "Dear")
TABLES = {n: StoredTable(n, CATALOG.schema_of(n), fingerprint="test") for n in NAMES}
START = datetime(2024, 3, 1, 8, tzinfo=UTC)
BIDS = 120
HUGE = 2**53 + 1


def bid(number: int) -> dict[str, Any]:
    """A bid: its item is one of four, one of which has a name that is hard to write."""
    item = ("anvil", "bell", 'Größe, "XL" 🎈', None)[number % 4]
    price = None if number % 10 == 9 else (number * 37) % 100
    return {"bidtime": START + timedelta(minutes=3 * number), "price": price, "item": item, "serial": HUGE + number}


class Service:
    """The store, the desk and the API. `commit` makes an epoch."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None, catalog: Catalog = CATALOG):
        self.catalog = catalog
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.settings = settings
        self.store = open_store(self.url)
        self.store.create(list(TABLES.values()))
        self.store.acquire("test", 3600)
        self.clocks = _clocks()
        self.ingest_service = IngestService(catalog, folder / "journal", self.clocks, JournalPosition())
        self.server = IngestServer(self.ingest_service)
        self.epoch, self.uid, self.sequence, self.changed = 0, 1, 1, {}
        self.offset: Any = None
        self.failed: tuple[Failed, ...] = ()
        """What is in quarantine in the epochs to come."""
        self._lock, self._ended = threading.Lock(), threading.Event()
        self.commit(
            {
                "Bid": [bid(n) for n in range(BIDS)],
                "Items": [
                    {"item": "anvil", "name": "Anvil", "size": {"cm": 30.5, "of": {"part": "horn"}}},
                    {"item": "bell", "name": None},
                ],
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.api = self.start()

    def start(self, port: int = 0) -> Serving:
        """Start the API, again at its own port where it is given."""
        self.api = start_api(
            self.catalog, self.url, port, processes=1, settings=self.settings, ingest_service=self.server
        )
        self.api.wait_until_listening()
        return self.api

    def commit(self, rows: Mapping[str, list[dict[str, Any]]], events: int = 0, clocks: Clocks | None = None) -> None:
        """An epoch in which these rows come, and so many events of `Dear`."""
        with self._lock:
            given = {**rows, "Hourly": _hours(rows.get("Bid", [])), "Dear": [self._event(n) for n in range(events)]}
            transaction = self.store.begin()
            for name, table in TABLES.items():
                if given.get(name):
                    transaction.append(
                        name,
                        pa.Table.from_pylist(
                            [self._row(table, r) for r in given[name]], schema=table.arrow
                        ).to_reader(),
                    )
            now = datetime.now(UTC)
            self.changed = with_changes(
                self.changed, [n for n in NAMES if given.get(n)], NAMES, self.epoch, microseconds(now)
            )
            self.clocks = clocks or self.clocks.counted("Bid", len(rows.get("Bid", [])))
            extra = {CHANGED: self.changed, "sequences": {"Dear": self.sequence}, **failures_document(self.failed)}
            offsets = {} if self.offset is None else {OFFSET: self.offset}
            transaction.commit(EpochRow(self.epoch, now, offsets, self.clocks.as_document(), extra, now))
            self.epoch += 1

    def _event(self, number: int) -> dict[str, Any]:
        self.sequence += 1
        return {"item": "anvil", "price": 901 + number, "_op": "ADD", "_event_time": START, "_seq": self.sequence - 1}

    def _row(self, table: StoredTable, row: Mapping[str, Any]) -> dict[str, Any]:
        self.uid += 1
        made = {"_uid": self.uid, "_ingest_time": datetime.now(UTC), **row}
        key = table.schema.key or ()
        return {c: made.get(c) for c in table.arrow.names} | {"_key": "/".join(str(made.get(k)) for k in key)}

    def _run(self) -> None:
        """Epochs for what is pushed."""
        while not self._ended.is_set():
            self.ingest_service.wait(0.05)
            if not self.ingest_service.has_waiting:
                continue
            waiting = self.ingest_service.waiting()
            rows = {n: table.to_pylist() for n, table in waiting.arrivals(CATALOG).items()}
            self.offset = self.ingest_service.offset(waiting)
            self.commit(
                {n: [{k: v for k, v in r.items() if k != "_weight"} for r in given] for n, given in rows.items()},
                clocks=waiting.clocks,
            )
            self.ingest_service.committed(waiting, waiting.clocks)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.api.close()
        self.server.close()
        self.ingest_service.close()
        self.store.close()


def _clocks() -> Clocks:
    """Two late rows and one malformed; a slow producer holds the stream back."""
    clocks = Clocks().counted("Bid", 3, 2, 1)
    for producer, minutes in (("slow", 60), ("fast", 360)):
        bound = microseconds(START + timedelta(minutes=minutes))
        clocks = send_bound(clocks, CATALOG.inputs["Bid"], "bidtime", bound, microseconds(START), producer, False)
    return clocks


def _hours(bids: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The hours of new bids; those of pushes are later than all before, so that no hour comes twice."""
    groups: dict[Any, list[int | None]] = {}
    for row in bids:
        groups.setdefault((row["item"], row["bidtime"].replace(minute=0, second=0, microsecond=0)), []).append(
            row["price"]
        )
    return [
        {"item": item, "h": h, "best": max((p for p in prices if p is not None), default=None), "n": len(prices)}
        for (item, h), prices in groups.items()
    ]


@contextmanager
def serving(folder: Path, settings: Mapping[str, Any] | None = None, catalog: Catalog = CATALOG) -> Iterator[Service]:
    made = Service(folder, settings, catalog)
    try:
        yield made
    finally:
        made.close()
