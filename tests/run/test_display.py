"""What a run prints where nobody looks at a terminal, and the live table where somebody does."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

from belvedere.connectors.run_records import RejectedRow
from belvedere.process.activity import NOW
from belvedere.spark.run.run_loop import EpochProgress
from belvedere.terminal.run_display import JsonLines, LiveTable, PlainLines, display_for, epoch_line
from belvedere.time.stream_status import StreamStatus

PROGRESS = EpochProgress(
    7,
    datetime(2024, 3, 1, tzinfo=UTC),
    {"Orders": 1200},
    {"Totals": 3, "Quiet": 0},
    {"Orders": 4},
    (
        RejectedRow("Orders", "/data/1.json", 2, '{"amount": "many"}', 'column "amount": "many" is not of type BIGINT'),
        RejectedRow("Orders", "/data/2.parquet", None, None, "is not a complete Parquet file: cut"),
    ),
    0.456,
    streams=(
        StreamStatus("Orders", "at", 1_577_865_600_000_000, True, ("p1", None), 2),
        StreamStatus("Bid", "t", None, False, (), 0),
    ),
    quarantined={"Totals": 6},
)


def test_plain_lines_begin_with_the_address() -> None:
    out = io.StringIO()
    display = display_for(False, out)
    assert isinstance(display, PlainLines)
    display.start("http://127.0.0.1:8080", "sqlite:///shop.db")
    display.phase("starting Spark")
    display.progress(PROGRESS)
    display.end()
    address, *lines = out.getvalue().splitlines()
    assert address == "http://127.0.0.1:8080"
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (INFO   |WARNING) ", line) for line in lines)
    assert [line[20:] for line in lines] == [
        "INFO    starting Spark",
        "WARNING epoch 7: Orders 1,200; 1 view changed; 0.46 s, 2,632 rows/s; 4 rejected; in quarantine: Totals; "
        "Orders waits for p1, the default producer",
        'WARNING rejected for "Orders": /data/1.json:2: column "amount": "many" is not of type BIGINT: {"amount": '
        '"many"}',
        'WARNING rejected for "Orders": /data/2.parquet: is not a complete Parquet file: cut',
        "WARNING ... and 2 more rejected",
    ]


def test_json_lines() -> None:
    out = io.StringIO()
    display = display_for(True, out)
    assert isinstance(display, JsonLines)
    display.start("http://127.0.0.1:1", "sqlite:///shop.db")
    display.phase("starting Spark")
    display.progress(PROGRESS)
    display.end()
    first, phase, epoch, last = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {"event": "api", "url": "http://127.0.0.1:1"}
    assert phase == {"event": "phase", "text": "starting Spark"}
    assert (epoch["event"], epoch["epoch"], epoch["rows_in"], epoch["clock"]) == (
        "epoch",
        7,
        {"Orders": 1200},
        "2024-03-01T00:00:00+00:00",
    )
    assert epoch["rejected_examples"][0]["line"] == 2
    assert epoch["streams"][0] == {
        "name": "Orders",
        "column": "at",
        "bound": "2020-01-01T08:00:00Z",
        "assumed": True,
        "held_back_by": ["p1", None],
        "late": 2,
    }
    assert last == {"event": "end"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_table_shows_address_views_and_rejected_rows() -> None:
    out = Terminal()
    display = display_for(False, out)
    assert isinstance(display, LiveTable)
    display.start("http://127.0.0.1:8080", "sqlite:///shop.db")
    display.phase("computing the first epoch")
    NOW.rest()
    assert str(display.table()) == "computing the first epoch; the first epochs take longest"
    NOW.begin("epoch 1")
    NOW.at("Totals", 2, 5)
    assert str(display.table()) == "epoch 1, stage 2 of 5 (Totals), 0 s; the first epochs take longest"
    NOW.rest()
    display.progress(PROGRESS)
    display.progress(replace(PROGRESS, epoch=8, rows_in={}))
    assert display.rate == 1200 / 0.456, "rows a second are those of the last epoch with rows"
    display.end()
    text = out.getvalue()
    assert text.splitlines()[0].strip() == "http://127.0.0.1:8080"
    for part in (
        "epoch 8",
        "2,632 rows/s",
        "in quarantine: Totals",
        "Totals",
        "8 rejected",
        "/data/2.parquet",
        "rows/s",
        "2020-01-01T08:00:00Z (assumed)",
        "p1",
        "none yet",
    ):
        assert part in text, part


def test_operators_state_does_not_show_and_earlier_definitions_go_under_their_name() -> None:
    counts = {"Customers~1": 3, "Customers": 2, "Customers$1": 9, "Revenue": 1}
    progress = EpochProgress(8, PROGRESS.clock, {"Customers~1": 3}, counts, {}, (), 0.5)
    assert epoch_line(progress) == "epoch 8: Customers 3; 2 views changed; 0.50 s, 6 rows/s"
