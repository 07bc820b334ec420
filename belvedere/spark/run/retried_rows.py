"""Rejected rows that are retried with the present script and project file.

In: the store's rejected rows, the script's inputs. Out: the rows that are valid now, as arrivals of one epoch, and
their records, which are deleted in its transaction. Each row therefore arrives exactly once, even after a crash. The
other rows stay rejected. Pushed rows go through the intake under keys of their own: its journal accepts no row twice.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.catalog.inputs import Input
from belvedere.connectors.connector import Arrived
from belvedere.connectors.feeds import columns_of
from belvedere.connectors.file_names import place_of
from belvedere.connectors.reading.column_inference import options_of
from belvedere.connectors.reading.formats import delimiter_of, format_of, has_header
from belvedere.connectors.reading.long_lines import is_beginning
from belvedere.connectors.reading.reader import read_files
from belvedere.connectors.reading.text_records import READ_ERRORS, csv_fields, csv_rows, first_csv_record
from belvedere.connectors.run_records import REJECTED, SourceFile, is_control, is_cut, rejected_value
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD
from belvedere.errors import BelvedereError
from belvedere.intake.ingest_service import IngestService, Request
from belvedere.intake.request_rows import read_rows
from belvedere.process.temporary_folders import scratch_folder
from belvedere.project.settings import ProjectSettings
from belvedere.schema import KEY
from belvedere.store.protocol import Reader
from belvedere.values.json_numbers import loads

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Retried:
    """Rows that are valid now, by input id, and their records, which are deleted by the epoch that ingests the rows."""

    arrived: Mapping[str, Arrived]
    gone: pa.Table
    stay: int = 0

    @property
    def taken(self) -> int:
        """Return the number of rows that are valid now."""
        return int(self.gone.num_rows)


def retry_rejected(
    spark: SparkSession,
    catalog: Catalog,
    project: ProjectSettings,
    reader: Reader,
    ingest_service: IngestService | None = None,
) -> Retried:
    """Retry all rejected rows of the script's inputs."""
    rejected = reader.rows(REJECTED)
    arrived: dict[str, Arrived] = {}
    keys: list[str] = []
    pushed = pushed_inputs(catalog)
    rows: list[Row] = rejected.to_pylist()
    for id_ in dict.fromkeys(r["table"] for r in rows):
        table = catalog.inputs.get(id_)
        if table is None:
            continue
        own = (r for r in rows if r["table"] == id_ and r["text"] is not None and not is_beginning(r["reason"]))
        whole = [r for r in own if not is_control(rejected_value(r["text"]))]
        if id_ in pushed and ingest_service is not None:
            keys += [r[KEY] for r in whole if _is_pushed(table, r, ingest_service)]
        elif table.source is not None:
            found, taken = _read_again(spark, table, project, whole)
            if taken:
                arrived[id_] = Arrived(found)
                keys += taken
    left = pa.array(keys, pa.string())
    gone = rejected.filter(pc.is_in(rejected[KEY], value_set=left)) if keys else rejected.slice(0, 0)
    return Retried(arrived, gone, rejected.num_rows - gone.num_rows)


def going(gone: pa.Table) -> pa.Table:
    """Return the records as deletions from their table."""
    return gone.append_column(WEIGHT_FIELD, pa.array([-1] * gone.num_rows, pa.int64()))


def _is_pushed(table: Input, row: Row, ingest_service: IngestService) -> bool:
    """Push a row again under its own key. Return whether it is accepted, now or by an earlier retry."""
    try:
        pushed = read_rows(table, [loads(row["text"])])
    except (BelvedereError, ValueError, RecursionError):
        return False
    if pushed.malformed or any(m.claim for m in table.metadata.values()):
        return False  # the owner of the token is no longer known
    (answer,) = ingest_service.take([Request(table.id, pushed, key=f"rejected {row[KEY]}", digest=row[KEY])])
    return answer.status == 200


def _read_again(
    spark: SparkSession, table: Input, project: ProjectSettings, rows: Sequence[Row]
) -> tuple[Any, list[str]]:
    """Return the rows of a source's table that are valid now, and the keys of their records."""
    assert table.source is not None
    source = table.source.source_in(project)
    if source is None:
        return None, []
    options = {**options_of(source), **table.source.options}
    if (folder := source.path) is not None:  # it may have moved since
        place = partial(place_of, os.path.abspath(folder), table=table.source.table)
        rows = [r if r["file"] is None else {**r, "file": place(r["file"])} for r in rows]
    tables: list[pa.Table] = []
    keys: list[str] = []
    for name, (form, chosen) in enumerate(_groups(rows, options)):
        folder = scratch_folder("belvedere-retry-")
        path = folder / f"{name}.{form}"
        texts = _written(path, form, chosen, options)
        file = SourceFile(str(path), path.stat().st_size, datetime.now(UTC))
        taken = read_files(spark, table.id, [file], columns_of(table), options | {"format": form, "max_files": None})
        refused = {r.line for r in taken.rejected}
        if None not in refused:
            tables.append(pa.Table.from_batches(taken.rows.batches(), taken.rows.schema))
            keys += [r[KEY] for line, r in texts if line not in refused]
        path.unlink()
        folder.rmdir()
    return (pa.concat_tables(tables) if tables else None), keys


def _groups(rows: Iterable[Row], options: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each CSV file, whose header names the fields, and all other rows, which are JSON."""
    by_file: dict[str | None, list[Row]] = {}
    for row in rows:
        is_csv = row["file"] is not None and format_of(row["file"], options) == "csv"
        by_file.setdefault(row["file"] if is_csv else None, []).append(row)
    yield from (("json" if file is None else "csv", some) for file, some in by_file.items())


def _written(path: Path, form: str, rows: Sequence[Row], options: Mapping[str, Any]) -> list[tuple[int, Row]]:
    """Write the rows as a file. Return those written, with their lines."""
    if form == "json":
        path.write_text("".join(r["text"].replace("\n", " ").replace("\r", " ") + "\n" for r in rows), encoding="utf-8")
        return list(enumerate(rows, 1))
    file = str(rows[0]["file"])
    delimiter = delimiter_of(file, options)
    try:
        header = first_csv_record(file, delimiter) if has_header(options) else []
    except READ_ERRORS:
        header = []  # it is gone, so its fields are unknown
    records = [(r, csv_fields(r["text"], delimiter)) for r in rows if not is_cut(r["text"])]
    kept = [(r, fields) for r, fields in records if header and len(fields) == len(header)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows([header, *(fields for _, fields in kept)] if header else [])
    lines = (r.line for r in islice(csv_rows(str(path), delimiter), 1, None))  # a record can have several lines
    return [(line, r) for line, (r, _) in zip(lines, kept, strict=True)]
