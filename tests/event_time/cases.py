"""The recorded cases of rowtime bounds and of the paper's bids, and times as they are written there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "cases"
DAY = datetime(2020, 1, 1, tzinfo=UTC)


def rowtime_cases(*kinds: str) -> list[dict[str, Any]]:
    """The cases of some kinds."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / "rowtime_bounds.json").read_text())
    return [c for c in cases if c["kind"] in kinds]


def bid_cases() -> dict[str, Any]:
    """Timeline and tables of the paper's example."""
    cases: dict[str, Any] = json.loads((FOLDER / "one_sql_bid.json").read_text())
    return cases


def at(text: str) -> datetime:
    """`8:07` or `10:29:59.999` on the day of the cases; with a date as it says."""
    if "-" in text:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    hours, minutes, *seconds = text.split(":")
    return DAY + timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds[0]) if seconds else 0)
