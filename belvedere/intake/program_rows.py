"""Rows of a program (dicts or a data frame) -> rows of an input as Arrow.

In: the input; a list of dicts, or a frame of pandas, Polars, Arrow or Spark. Out: the rows with the given columns, all
valid. Values that are neither rows nor a frame raise B6015. Late rows are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from belvedere.catalog.inputs import Input
from belvedere.errors import BelvedereError, fail
from belvedere.frames.frame_columns import NO_FRAME, REQUESTED, frame_columns, is_frame, no_frame
from belvedere.frames.frame_rows import rows_of_frame
from belvedere.frames.plain_values import plain
from belvedere.intake.request_rows import check_broken, given_columns, key_columns, refuse_made, taken_columns
from belvedere.schema import Column
from belvedere.store.row_checks import broken_checks
from belvedere.values.input_rows import NO_DEFAULTS, arrow_rows, misfit, shown

ROWS = f"a list of dicts, {REQUESTED}"


def rows_of_program(source: Input, given: Any) -> pa.Table:
    """Return new rows of an input; missing columns get their defaults. Raises B6001 to B6004, B6014, B6015."""
    columns = given_columns(source)
    if is_frame(given):
        refuse_made(source, 0, dict.fromkeys(frame_columns(given, f'"{source.name}"')))
        table = rows_of_frame(source.name, columns, given, source.defaults)
    else:
        rows = plain_rows(source.name, given, columns)
        for place, row in enumerate(rows):
            refuse_made(source, place, row)
        table = arrow_rows(source.name, columns, rows, source.defaults)
    for place, check in broken_checks(source, table).items():
        raise check_broken(source, place, check)
    return table


def deletions_of_program(source: Input, given: Any) -> pa.Table:
    """Return rows to delete: their primary keys, or all columns if there is no key. Raises B6001 to B6003, B6015."""
    columns = key_columns(source) if source.primary_key else taken_columns(source)
    if is_frame(given):
        return rows_of_frame(source.name, columns, given, only_known=bool(source.primary_key))
    rows = plain_rows(source.name, given, columns)
    if source.primary_key:
        names = {c.name.casefold() for c in columns}
        rows = [{k: v for k, v in row.items() if k.casefold() in names} for row in rows]
    return arrow_rows(source.name, columns, rows, NO_DEFAULTS)


def plain_rows(table: str, given: Any, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return the dicts with Python values in place of NumPy and pandas values.

    Raises B6015 for anything but a list of dicts.
    """
    if isinstance(given, Mapping):
        raise fail(NO_FRAME, f'"{table}" needs a list of rows, not one row', hint="write [row]")
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or hasattr(given, "to_frame"):
        raise no_frame(given, f'"{table}"', ROWS)
    return [_plain_row(table, number, row, columns) for number, row in enumerate(given)]


def _plain_row(table: str, number: int, row: Any, columns: Sequence[Column]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        names = ", ".join(f'"{c.name}": ...' for c in columns if not c.hidden)
        hint = f"write a row as a dict: {{{names}}}"
        raise fail(NO_FRAME, f'row {number + 1} of "{table}" is not a dict: {shown(row)}', hint=hint)
    found: dict[str, Any] = {}
    for name, value in row.items():
        try:
            found[str(name)] = plain(value)
        except ValueError as error:
            raise _misfit(table, number, str(name), value, error, columns) from error
    return found


def _misfit(
    table: str, number: int, name: str, value: Any, error: Exception, columns: Sequence[Column]
) -> BelvedereError | Exception:
    known = next((c for c in columns if c.name.casefold() == name.casefold()), None)
    return error if known is None else misfit(table, number, known, value, error)
