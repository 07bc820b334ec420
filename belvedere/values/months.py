"""Year-month intervals: whole months, in Arrow a number with a type of its own.

In: a number of months, or a text. Out: the other one, and tables whose months are texts for people. Days have no place here: those are
`belvedere.values.intervals`.
"""

from __future__ import annotations

import re

import pyarrow as pa

from belvedere.schema import MONTHS

FORM = "an interval such as P1Y2M or '1-2'"
MAX_MONTHS = 2**31
"""Spark keeps the months in 32 bits."""
_ISO = re.compile(r"([+-]?)P(?=[\d+-])(?:([+-]?\d{1,9})Y)?(?:([+-]?\d{1,10})M)?")
_SPARK = re.compile(r"([+-]?)(\d{1,9})-(\d{1,2})")
_WRITTEN = re.compile(r"(?i)INTERVAL\s+'([^']*)'\s+YEAR\s+TO\s+MONTH")


def months_text(months: int) -> str:
    """`P1Y2M`: years and months, both with the sign before the P."""
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else ''}P{years}Y{rest}M"


def months_of(text: str) -> int:
    """The months of an ISO 8601 duration of years and months, or of a text as Spark writes it, `1-2`.

    Raises ValueError for any other text, and for what 32 bits do not hold.
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
    """The same rows, their months as ISO 8601: Python has no value for months."""
    for place, field in enumerate(table.schema):
        if field.type == MONTHS:
            numbers = table.column(place).cast(pa.int64()).to_pylist()
            texts = pa.array([None if n is None else months_text(n) for n in numbers], pa.string())
            table = table.set_column(place, field.with_type(pa.string()), texts)
    return table
