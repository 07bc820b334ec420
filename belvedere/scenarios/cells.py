"""Rows as a small text table, written and parsed.

In: lines `a | b` with a header, or JSON lines; or rows and their columns. Out: dicts of values; or aligned lines. A
cell is JSON if it is valid JSON, otherwise text; so texts such as `12` or `null` are written in quotes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from belvedere.errors import counted
from belvedere.schema import MONTHS, Column
from belvedere.values.input_rows import convert
from belvedere.values.months import months_text

BAR = "|"


class BadLine(ValueError):
    """A line that is not a row; `line` counts from 0 within the given lines."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


def read_rows(lines: Sequence[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns of the header (none for JSON lines) and the rows.

    Comments and blank lines are ignored. Raises BadLine.
    """
    requested = [(n, line) for n, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    if requested and requested[0][1].lstrip().startswith("{"):
        return [], [_json_line(n, line) for n, line in requested]
    if not requested:
        return [], []
    names = [name.strip() for name in requested[0][1].split(BAR)]
    return names, [_row(n, line, names) for n, line in requested[1:]]


def _json_line(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Decimal)
    except ValueError as error:
        raise BadLine(number, f"this line is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadLine(number, "a row must be a JSON object")
    return row


def _row(number: int, line: str, names: list[str]) -> dict[str, Any]:
    cells = line.split(BAR)
    if len(cells) != len(names):
        raise BadLine(
            number, f"the row has {counted(len(cells), 'cell')}, but the header has {counted(len(names), 'column')}"
        )
    return {name: read_cell(cell.strip()) for name, cell in zip(names, cells, strict=True)}


def read_cell(text: str) -> Any:
    """Return a cell's value: JSON if it is valid JSON, otherwise text. Numbers with a decimal point are decimals."""
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return text


def write_cell(value: Any) -> str:
    """Return a value as a cell that is read back as the same value."""
    text = _plain(value)
    if not isinstance(text, str):
        return _json(text)
    return text if _is_bare(text) or not isinstance(value, str | bytes) else _json(text).replace(BAR, "\\u007c")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace(BAR, "\\u007c")


def _is_bare(text: str) -> bool:
    if not text or text != text.strip() or BAR in text or text[0] in '#"{[' or not text.isprintable():
        return False
    try:
        json.loads(text)
    except ValueError:
        return not text.startswith(("--- ", "=== "))
    return False


def _plain(value: Any) -> Any:
    """Return a value in JSON's types."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def write_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return cells as aligned lines below a header."""
    widths = [max(len(name), *(len(row[n]) for row in rows)) if rows else len(name) for n, name in enumerate(names)]
    return [
        f" {BAR} ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [names, *rows]
    ]


def same_cell(expected: Any, actual: Any, type_: pa.DataType) -> bool:
    """Return whether a cell of a file equals a value; doubles may differ by 1e-9 relative."""
    try:
        requested = convert(expected, type_)
    except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException):
        return write_cell(expected) == write_cell(actual)
    if type_ == MONTHS and requested is not None:
        return bool(actual == months_text(requested))
    if pa.types.is_map(type_) and requested is not None and actual is not None:
        return same_value(dict(requested), dict(actual))
    return same_value(requested, actual) or (isinstance(expected, str) and expected == write_cell(actual))


def same_value(left: Any, right: Any) -> bool:
    """Return whether two values are equal: NaN equals NaN, and doubles may differ by 1e-9 relative."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-9)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_value(v, right[k]) for k, v in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right)


def same_rows(
    expected: Sequence[Mapping[str, Any]],
    actual: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    ordered: bool,
) -> bool:
    """Return whether both sides have the same rows with the same multiplicity; also in the same order if `ordered`."""
    if len(expected) != len(actual):
        return False
    if ordered:
        return all(same_row(e, a, columns) for e, a in zip(expected, actual, strict=True))
    left = list(actual)
    for row in expected:
        found = next((n for n, other in enumerate(left) if same_row(row, other, columns)), None)
        if found is None:
            return False
        del left[found]
    return True


def same_row(expected: Mapping[str, Any], actual: Mapping[str, Any], columns: Sequence[Column]) -> bool:
    """Return whether a row of a file equals another row."""
    return all(same_cell(expected.get(c.name), actual[c.name], c.type) for c in columns)


def by_value(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a key that sorts rows with values of the same types; NULL first."""
    return tuple(
        (0, "")
        if v is None
        else (1, v)
        if isinstance(v, int | float | Decimal | datetime | date)
        else (2, write_cell(v))
        for v in row
    )
