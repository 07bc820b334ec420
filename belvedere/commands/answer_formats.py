"""The answer of a query as text: a table for people, JSON, CSV.

In: Arrow rows. Out: text. Instants are written in UTC (`2024-03-01T06:00:00Z`), decimals with all their digits,
intervals in ISO 8601 (`P1DT2H30M0S`).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from belvedere.intervals import iso_text
from belvedere.months import with_month_texts


def as_json(rows: pa.Table) -> str:
    """A JSON array with one object per line."""
    lines = [_json(row) for row in _rows(rows)]
    return "[" + ",".join("\n" + line for line in lines) + ("\n]\n" if lines else "]\n")


def as_csv(rows: pa.Table) -> str:
    """CSV with a header; NULL is an empty field, nested values are JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    for row in _rows(rows):
        writer.writerow(["" if v is None else _text(v) for v in row.values()])
    return out.getvalue()


def as_table(rows: pa.Table) -> str:
    """Columns side by side; numbers to the right."""
    names = rows.column_names
    right = [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in rows.schema.types]
    cells = [["NULL" if v is None else _one_line(_text(v)) for v in row.values()] for row in _rows(rows)]
    widths = [max([len(n), *(len(row[i]) for row in cells)]) for i, n in enumerate(names)]

    def line(values: Iterable[str]) -> str:
        return "  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)).rstrip()

    count = f"({rows.num_rows} row{'' if rows.num_rows == 1 else 's'})"
    return "\n".join([line(names), "  ".join("-" * w for w in widths), *map(line, cells), count]) + "\n"


FORMATS = {"table": as_table, "json": as_json, "csv": as_csv}


def _rows(rows: pa.Table) -> Iterable[dict[str, Any]]:
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from with_month_texts(pa.Table.from_batches([batch])).to_pylist()


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)}: {_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):  # Arrow gives maps as pairs
            return _json(dict(value))
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bool | int) or value is None or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return json.dumps(_text(value), ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        instant = value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
        return instant.replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta):
        return iso_text(value)
    return _json(value) if isinstance(value, dict | list) else str(value)


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
