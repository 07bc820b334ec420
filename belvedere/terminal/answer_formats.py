"""The answer of a query as text: a table for people, JSON, CSV.

In: Arrow rows. Out: text; `belvedere.values.row_texts` writes single values.
"""

from __future__ import annotations

import csv
import io

import pyarrow as pa

from belvedere.values.row_texts import as_table, json_text, python_rows, value_text


def as_json(rows: pa.Table) -> str:
    """Return a JSON array with one object per line."""
    lines = [json_text(row) for row in python_rows(rows)]
    return "[" + ",".join("\n" + line for line in lines) + ("\n]\n" if lines else "]\n")


def as_csv(rows: pa.Table) -> str:
    """Return CSV with a header. NULL is an empty field, nested values are JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    for row in python_rows(rows):
        writer.writerow(["" if v is None else value_text(v) for v in row.values()])
    return out.getvalue()


FORMATS = {"table": as_table, "json": as_json, "csv": as_csv}
