"""Read the two formats of the GHCN-Daily archive (NOAA) into `station, date, dataType, val` and flags.

In: lines of a `.dly` file (fixed width, a month each) or of a by-year CSV. Out: rows as dicts, or a Spark DataFrame. Missing
values (-9999) and days that a month does not have give no row; the time of observation (the CSV's last field) is left out. Values stand
as in the archive: README.md has their units and the flags. Format: the archive's readme.txt, sections III and "by_year".
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
    """The rows of a `.dly` file: ID 1-11, YEAR 12-15, MONTH 16-17, ELEMENT 18-21, then 31 times VALUE(5) M Q S."""
    for line in lines:
        if not line.strip():
            continue
        text = line.rstrip("\r\n").ljust(269)
        station, year, month, element = text[:11], int(text[11:15]), int(text[15:17]), text[17:21]
        for day in range(31):
            cell = text[21 + 8 * day : 29 + 8 * day]
            value = int(cell[:5]) if cell[:5].strip() else MISSING
            when = _date(year, month, day + 1)
            if value != MISSING and when is not None:
                flags = (c if c != " " else None for c in cell[5:8])
                yield _row(station, when, element, value, *flags)


def read_by_year(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows of a by-year CSV: ID, DATE (YYYYMMDD), ELEMENT, DATA_VALUE, M_FLAG, Q_FLAG, S_FLAG, OBS_TIME; a header is skipped."""
    for cells in csv.reader(lines):
        if not cells or cells[0] == "ID":
            continue
        station, day, element, value = cells[:4]
        when = _date(int(day[:4]), int(day[4:6]), int(day[6:8]))
        if when is not None and int(value) != MISSING:
            flags = [c or None for c in [*cells[4:7], "", "", ""][:3]]
            yield _row(station, when, element, int(value), *flags)


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
    """A DataFrame of files of either format (`.dly`, else CSV), read line by line in parallel."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file
    reader = read_dly if path.rstrip("*").endswith(".dly") else read_by_year

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            found = list(reader(batch.column(0).to_pylist()))
            if found:
                yield from pa.Table.from_pylist(found, _schema()).to_batches()

    return spark.read.text(path).mapInArrow(rows, COLUMNS)


def _schema() -> Any:
    import pyarrow as pa

    text = [(n, pa.string()) for n in ("mflag", "qflag", "sflag")]
    return pa.schema([("station", pa.string()), ("date", pa.date32()), ("dataType", pa.string()), ("val", pa.int64()), *text])
