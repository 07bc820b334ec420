"""Day-time intervals as text: ISO 8601 durations.

In: a `timedelta`, or a text. Out: the other form. Days have 24 hours. Months and years have no fixed length and are
rejected.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

FORM = "an interval such as P1DT2H30M or '1 02:30:00'"
_NUMBER = r"([+-]?\d{1,12}(?:\.\d{1,6})?)"
_ISO = re.compile(
    rf"([+-]?)P(?=[\d+T-])(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=[\d+-])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_SPARK = re.compile(r"([+-]?)()(\d{1,9}) (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)")
_WRITTEN = re.compile(r"(?i)INTERVAL\s+'([^']*)'\s+DAY\s+TO\s+SECOND")
_UNITS = (7 * 86_400, 86_400, 3_600, 60, 1)


def iso_text(interval: timedelta) -> str:
    """Return an interval like `P1DT2H30M0S`: days, hours, minutes and seconds; a fraction has six digits."""
    length = abs(interval)
    (hours, rest), micros = divmod(length.seconds, 3_600), length.microseconds
    fraction = f".{micros:06d}" if micros else ""
    sign = "-" if interval < timedelta() else ""
    return f"{sign}P{length.days}DT{hours}H{rest // 60}M{rest % 60}{fraction}S"


def interval_of(text: str) -> timedelta:
    """Return the interval of an ISO 8601 duration (weeks, days, hours, minutes, seconds) or of Spark's text form `1
    02:30:00`.

    Raises ValueError for any other text, and for intervals beyond 64 bits of microseconds.
    """
    written = _WRITTEN.fullmatch(text.strip())
    text = (written[1] if written else text).strip()
    found = _ISO.fullmatch(text) or _SPARK.fullmatch(text)
    if found is None:
        raise ValueError(f"expected {FORM}, not {text!r}")
    sign, *numbers = found.groups()
    seconds = sum(Decimal(n or 0) * unit for n, unit in zip(numbers, _UNITS, strict=True))
    micros = int(seconds * 1_000_000) * (-1 if sign == "-" else 1)
    if not -(2**63) <= micros < 2**63:
        raise ValueError(f"an interval beyond 64 bits of microseconds: {text!r}")
    return timedelta(microseconds=micros)
