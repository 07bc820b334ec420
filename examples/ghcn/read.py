"""Read the two formats of the GHCN-Daily archive (NOAA) into `station, date, dataType, val` and flags.

In: lines of a `.dly` file (fixed width, a month each) or of a by-year CSV. Out: rows as dicts, or a Spark DataFrame.
Missing values (-9999) and days that a month does not have give no row; the time of observation (the CSV's last field)
is ignored. Values are unchanged: README.md has their units and the flags. Format: the archive's readme.txt, sections
III and "by_year".
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

MISSING = -9999
COLUMNS = "station string, date date, dataType string, val bigint, mflag string, qflag string, sflag string"


def read_dly(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a `.dly` file: ID 1-11, YEAR 12-15, MONTH 16-17, ELEMENT 18-21, then 31 times VALUE(5) M Q
    S."""
    for line in lines:
        if not line.strip():
            continue
        try:
            yield from _month(line.rstrip("\r\n").ljust(269))
        except ValueError as reason:
            raise ValueError(f'no line of a .dly file, {reason}: "{line.strip()}"') from None


def _month(text: str) -> Iterator[dict[str, Any]]:
    station, year, month, element = text[:11], int(text[11:15]), int(text[15:17]), text[17:21]
    for day in range(31):
        cell = text[21 + 8 * day : 29 + 8 * day]
        value = int(cell[:5]) if cell[:5].strip() else MISSING
        when = _date(year, month, day + 1)
        if value != MISSING and when is not None:
            flags = (c if c != " " else None for c in cell[5:8])
            yield _row(station, when, element, value, *flags)


def read_by_year(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a by-year CSV; a header is skipped.

    Its fields are ID, DATE (YYYYMMDD), ELEMENT, DATA_VALUE, M_FLAG, Q_FLAG, S_FLAG, OBS_TIME.
    """
    for cells in csv.reader(lines):
        if not cells or cells[0] == "ID":
            continue
        try:
            station, day, element, number = cells[:4]
            if len(day) != 8 or not day.isdigit():
                raise ValueError("its date is not YYYYMMDD")
            when, value = _date(int(day[:4]), int(day[4:6]), int(day[6:8])), int(number)
        except ValueError as reason:
            raise ValueError(f'no line of a by-year CSV file, {reason}: "{",".join(cells)}"') from None
        if when is not None and value != MISSING:
            flags = [c or None for c in [*cells[4:7], "", "", ""][:3]]
            yield _row(station, when, element, value, *flags)


def read_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of lines of both formats; lines of a `.dly` file have no comma."""
    given = list(lines)
    yield from read_dly(line for line in given if "," not in line)
    yield from read_by_year(line for line in given if "," in line)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _row(station: str, day: date, element: str, value: int, *flags: str | None) -> dict[str, Any]:
    return {
        "station": station,
        "date": day,
        "dataType": element,
        "val": value,
        **dict(zip(("mflag", "qflag", "sflag"), flags, strict=True)),
    }


def ghcn(spark: Any, path: str) -> Any:
    """Return a DataFrame of files or folders of either format, also compressed (`.gz`), parsed line by line in
    parallel.

    A line in neither format ends the query with a `ValueError` that shows it.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so workers do not need this file

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            found = list(read_lines(batch.column(0).to_pylist()))
            if found:
                yield from pa.Table.from_pylist(found, _schema()).to_batches()

    return spark.read.text(path).mapInArrow(rows, COLUMNS)


def _schema() -> Any:
    import pyarrow as pa

    text = [(n, pa.string()) for n in ("mflag", "qflag", "sflag")]
    return pa.schema(
        [("station", pa.string()), ("date", pa.date32()), ("dataType", pa.string()), ("val", pa.int64()), *text]
    )
