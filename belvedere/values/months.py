"""Year-month intervals: whole months, in Arrow a number with a separate type.

In: a number of months, or a text. Out: the other form, and tables with months as texts. For intervals of days see
`belvedere.values.intervals`.
"""

from __future__ import annotations

import re

import pyarrow as pa

from belvedere.schema import MONTHS

FORM = "an interval such as P1Y2M or '1-2'"
MAX_MONTHS = 2**31
"""First number of months that Spark cannot hold, in 32 bits."""
_ISO = re.compile(r"([+-]?)P(?=[\d+-])(?:([+-]?\d{1,9})Y)?(?:([+-]?\d{1,10})M)?")
_SPARK = re.compile(r"([+-]?)(\d{1,9})-(\d{1,2})")
_WRITTEN = re.compile(r"(?i)INTERVAL\s+'([^']*)'\s+YEAR\s+TO\s+MONTH")


def months_text(months: int) -> str:
    """Return months like `P1Y2M`: years and months, with the sign before the P."""
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else ''}P{years}Y{rest}M"


def months_of(text: str) -> int:
    """Return the months of an ISO 8601 duration of years and months, or of Spark's text form `1-2`.

    Raises ValueError for any other text, and for numbers beyond 32 bits.
    """
    written = _WRITTEN.fullmatch(text.strip())
    text = (written[1] if written else text).strip()
    iso = _ISO.fullmatch(text)
    found = iso or _SPARK.fullmatch(text)
    if found is None or (iso is None and int(found[3]) > 11):
        raise ValueError(f"expected {FORM}, not {text!r}")
    months = (int(found[2] or 0) * 12 + int(found[3] or 0)) * (-1 if found[1] == "-" else 1)
    if not -MAX_MONTHS <= months < MAX_MONTHS:
        raise ValueError(f"an interval beyond 32 bits of months: {text!r}")
    return months


def with_month_texts(table: pa.Table) -> pa.Table:
    """Return the same rows with months as ISO 8601 texts, since Python has no type for months."""
    for place, field in enumerate(table.schema):
        if field.type == MONTHS:
            numbers = table.column(place).cast(pa.int64()).to_pylist()
            texts = pa.array([None if n is None else months_text(n) for n in numbers], pa.string())
            table = table.set_column(place, field.with_type(pa.string()), texts)
    return table
