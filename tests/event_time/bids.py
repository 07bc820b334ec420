"""The paper's bids: the script with every form of EMIT over both of its queries, and its timeline."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from belvedere.workbench.workbench import Workbench
from tests.event_time.cases import at, bid_cases

INPUT = "CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);\n"
SUM = """SELECT MAX(wstart) AS wstart, wend, SUM(price) AS price
FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES) GROUP BY wend"""
Q7 = """SELECT MaxBid.wstart, MaxBid.wend, Bid.bidtime, Bid.price, Bid.item
FROM Bid, (SELECT MAX(TumbleBid.price) maxPrice, TumbleBid.wstart wstart, TumbleBid.wend wend
           FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTE) TumbleBid
           GROUP BY TumbleBid.wend) MaxBid
WHERE Bid.price = MaxBid.maxPrice AND Bid.bidtime >= MaxBid.wend - INTERVAL '10' MINUTE AND Bid.bidtime < MaxBid.wend"""
FORMS = {
    "table": "",
    "table_after_watermark": "EMIT AFTER WATERMARK",
    "table_after_delay": "EMIT AFTER DELAY INTERVAL '6' MINUTES",
    "table_after_both": "EMIT AFTER DELAY INTERVAL '6' MINUTES AND AFTER WATERMARK",
    "emit_stream": "EMIT STREAM",
    "emit_stream_after_watermark": "EMIT STREAM AFTER WATERMARK",
    "emit_stream_after_delay_6m": "EMIT STREAM AFTER DELAY INTERVAL '6' MINUTES",
    "emit_stream_after_delay_6m_and_after_watermark": "EMIT STREAM AFTER DELAY INTERVAL '6' MINUTES AND AFTER "
    "WATERMARK",
}
STREAMS = [f for f in FORMS if f.startswith("emit")]
QUERIES = {"sum": SUM, "q7": Q7}
HOP = (
    "Hop(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '5' "
    "MINUTES)"
)
LISTINGS = {
    "tumble_10": "SELECT * FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' "
    "MINUTES, offset => INTERVAL '0' MINUTES)",
    "hop_10_5": f"SELECT * FROM {HOP}",
    "hop_10_5_sum": f"SELECT wstart, wend, SUM(price) AS price FROM {HOP} GROUP BY wend",
}
"""The windows by themselves (listings 5, 7 and 8)."""


def script() -> str:
    """One view per query and form, called `sum_emit_stream` and so on."""
    views = [f"{q}_{f} := {text} {clause};" for q, text in QUERIES.items() for f, clause in FORMS.items()]
    return INPUT + "\n".join([*views, *(f"{name} := {text};" for name, text in LISTINGS.items())])


def feed(wb: Workbench, kind: str, value: Any) -> None:
    """One entry of the timeline."""
    if kind == "WM":
        wb.bound("Bid", at(value))
    else:
        time, price, item = value
        wb.insert("Bid", [{"bidtime": at(time), "price": price, "item": item}])


def play(wb: Workbench) -> Iterator[str]:
    """Run the timeline, an epoch per entry and one at 8:19; gives the time after each."""
    entries = {time: (kind, value) for time, kind, value in bid_cases()["timeline"]}
    for time in sorted([*entries, "8:19", "8:20"], key=at):
        wb.clock(at(time))
        if time in entries:
            feed(wb, *entries[time])
        wb.step()
        yield time


def shown(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Rows as the recorded cases write them."""
    return [[_cell(n, v) for n, v in row.items()] for row in rows]


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.hour}:{value.minute:02}"
    return ("undo" if value else "") if name == "undo" else value
