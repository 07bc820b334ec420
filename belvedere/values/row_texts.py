"""Values of rows as texts for users, and rows as tables in text and HTML.

In: values in Arrow's Python form, or Arrow rows. Out: text. Instants are in UTC (`2024-03-01T06:00:00Z`), decimals have
all digits, intervals are ISO 8601 (`P1DT2H30M0S`), nested values are JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Any

import pyarrow as pa

from belvedere.errors import counted
from belvedere.values.intervals import iso_text
from belvedere.values.months import with_month_texts


def as_table(rows: pa.Table) -> str:
    """Return rows as a text table; numbers are aligned to the right."""
    names, right = rows.column_names, _are_numbers(rows.schema)
    cells = [[_one_line(cell_text(v)) for v in row.values()] for row in python_rows(rows)]
    widths = [max([len(n), *(len(row[i]) for row in cells)]) for i, n in enumerate(names)]

    def line(values: Iterable[str]) -> str:
        return "  ".join(
            v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)
        ).rstrip()

    return (
        "\n".join([line(names), "  ".join("-" * w for w in widths), *map(line, cells), f"({rows_text(rows)})"]) + "\n"
    )


def as_html(rows: pa.Table, most: int) -> str:
    """Return the first rows as an HTML table, with the total number of rows."""
    cells = [[cell_text(v) for v in row.values()] for row in python_rows(rows.slice(0, most))]
    shown = f", of which the first {most} are shown" if rows.num_rows > most else ""
    return html_table(rows.column_names, cells, _are_numbers(rows.schema)) + f"<p>{rows_text(rows)}{shown}</p>"


def html_table(names: Iterable[str], cells: Iterable[Iterable[str]], right: Sequence[bool]) -> str:
    """Return texts as an HTML table, escaped; columns in `right` are aligned to the right."""

    def line(texts: Iterable[str], tag: str) -> str:
        sides = ("right" if r else "left" for r in right)
        made = (f'<{tag} style="text-align: {s}">{escape(t)}</{tag}>' for t, s in zip(texts, sides, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in cells)
    return f"<table><thead>{line(names, 'th')}</thead><tbody>{body}</tbody></table>"


def rows_text(rows: pa.Table) -> str:
    """Return the number of rows as text."""
    return counted(rows.num_rows, "row")


def python_rows(rows: pa.Table) -> Iterable[dict[str, Any]]:
    """Return the rows as dicts, created in pieces; months are texts."""
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from with_month_texts(pa.Table.from_batches([batch])).to_pylist()


def json_text(value: Any) -> str:
    """Return a value as JSON; values without a JSON form are the text of `value_text`."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)}: {json_text(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):  # Arrow gives maps as pairs
            return json_text(dict(value))
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bool | int) or value is None or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return json.dumps(value_text(value), ensure_ascii=False)


def value_text(value: Any) -> str:
    """Return a value other than None as text."""
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
    return json_text(value) if isinstance(value, dict | list) else str(value)


def cell_text(value: Any) -> str:
    """Return a value as text for a table cell."""
    return "NULL" if value is None else value_text(value)


def _are_numbers(schema: pa.Schema) -> list[bool]:
    return [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in schema.types]


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
