"""Rows of a client -> Arrow rows of an input and the malformed rows; bounds, opens and closes.

In: the input, JSON values. Out: the valid rows, with `_weight` (-1 for a row with `_delete`); position, text and reason
of each malformed row; acts of producers. `belvedere.intake.ingest_service` finds the late rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Check, Input, MetadataKind
from belvedere.catalog.shown_names import IMPORTED
from belvedere.errors import BelvedereError, fail
from belvedere.functions.widening import is_wider
from belvedere.intake.claims import NO_ONE, Claims, claimed_columns
from belvedere.schema import INGEST_TIME, UID, WEIGHT, Column
from belvedere.store.row_checks import broken_checks
from belvedere.syntax.wording import did_you_mean
from belvedere.time.intake_entries import Act, Malformed, ProducerAct
from belvedere.values.input_rows import arrow_of, as_instant, converted_row, misfit, names_of, shown
from belvedere.values.instants import microseconds
from belvedere.values.json_numbers import dumps

DELETE = "_delete"
MAX_TEXT_LENGTH = 1_000
PIECE_ROWS = 10_000
REFUSED_MOST = 10_000
"""Maximum number of rejected rows of one request. Each one is reported, and stored with its reason."""
ACT_MEMBERS = {Act.BOUND: {"at", "column", "producer", "strict"}, Act.OPEN: {"at", "producer"}, Act.CLOSE: {"producer"}}
ARROW_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Pushed:
    """The rows of a request: the valid rows with their indexes in the request, and the malformed ones."""

    rows: pa.Table
    places: Sequence[int]
    malformed: Sequence[Malformed] = ()
    codes: Sequence[str] = ()
    """The diagnostic code of each malformed row."""


def find_input(catalog: Catalog, name: str) -> Input:
    """Return the input of that name, ignoring case. Imported inputs have their imported name. Raises B6012."""
    pushes = catalog.inputs.keys() if catalog.access.grant is None else catalog.access.grant.pushes
    inputs = [i for i in catalog.inputs.values() if i.late_of is None and i.id in pushes]
    for requested in (name.casefold(), f"_{name}{IMPORTED}".casefold()):
        found = next((i for i in reversed(inputs) if i.name.casefold() == requested), None)
        if found is not None:
            return found
    known = sorted({i.name.removesuffix(IMPORTED) for i in inputs})
    hint = did_you_mean(name, known) or f"its inputs: {', '.join(known) or 'none'}"
    raise fail("B6012", f'the script has no input "{name}"', hint=hint)


def taken_columns(table: Input) -> list[Column]:
    """Return the columns of an accepted row, including hidden ones such as nested data."""
    return [c for c in table.schema if c.name not in (UID, INGEST_TIME)]


def given_columns(table: Input) -> list[Column]:
    """Return the columns that a client sends: those that the intake does not fill in."""
    return [c for c in taken_columns(table) if c.name not in table.metadata]


def key_columns(table: Input) -> list[Column]:
    """Return the key columns that a deletion sends: those that do not come from the caller's token."""
    claimed = {n for n, found in table.metadata.items() if found.kind is MetadataKind.CLAIM}
    return [c for c in taken_columns(table) if c.name in table.primary_key and c.name not in claimed]


def changed_column(table: Input, rows: pa.Table) -> str | None:
    """Return a column whose stored rows no longer fit the input, or None. Wider types and new nullable columns fit."""
    known = {c.name: c for c in taken_columns(table)}
    for field in rows.schema:
        now = known.get(field.name)
        if field.name != WEIGHT and (now is None or not (now.type == field.type or is_wider(now.type, field.type))):
            return str(field.name)
    new = (c.name for c in known.values() if not c.nullable and c.name not in rows.schema.names)
    return next(new, None)


def rows_of_today(table: Input, rows: pa.Table) -> pa.Table:
    """Convert stored rows to the present types of their columns."""
    known = {c.name: c.type for c in taken_columns(table)}
    fields = [pa.field(f.name, known.get(f.name, f.type), f.nullable) for f in rows.schema]
    return rows.cast(pa.schema(fields), safe=False)  # only to wider types: a BIGINT beyond 2^53 is rounded as a DOUBLE


def refuse_made(table: Input, place: int, row: Mapping[str, Any], allowed: Container[str] = ()) -> None:
    """Raise B6014 if a row sets a column that the intake fills in."""
    folded = {n.casefold(): n for n in table.metadata if n.casefold() not in allowed}
    for name in row:
        found = folded.get(name.casefold())
        if found is not None:
            message = f'row {place + 1} of "{table.name}" sets "{found}", which is {table.metadata[found].meaning}'
            raise fail("B6014", message, hint="remove it")


def read_rows(table: Input, rows: Sequence[Any], claims: Claims = NO_ONE) -> Pushed:
    """Parse the rows of a request. Each malformed row is rejected with its reason; the others are accepted.

    `claims` are those of the caller's token. Raises B8036 if it lacks a claim that a column requires.
    """
    claimed = claimed_columns(table, claims)
    columns = given_columns(table)
    key = key_columns(table)
    names, key_names = names_of(columns), names_of(key)
    fitting: list[tuple[int, int, dict[str, Any]]] = []
    refused: list[tuple[Malformed, str]] = []
    for place, row in enumerate(rows):
        try:
            going = _is_deletion(table, place, row)
            if table.metadata:
                refuse_made(table, place, row, key_names if going else ())
            if going:
                found_key = {k: v for k, v in row.items() if k.casefold() in key_names}
                _refuse_points(table.name, place, found_key, key)
                fitting.append((place, -1, converted_row(table.name, place, found_key, key, key_names)))
            else:
                _refuse_points(table.name, place, row, columns)
                fitting.append(
                    (
                        place,
                        1,
                        converted_row(table.name, place, _without_mark(row, names), columns, names, table.defaults),
                    )
                )
        except BelvedereError as error:
            _refuse(table, refused, _refused(place, row, error))
    taken = list({c.name: c for c in (*columns, *key)}.values())  # a deletion may name an identity that was made here
    try:
        found = _arrow([r for _, _, r in fitting], taken)
    except ARROW_ERRORS:
        fitting = [k for k in fitting if _fits(table, k, rows, taken, refused)]
        found = _arrow([r for _, _, r in fitting], taken)
    broken = {n: c for n, c in broken_checks(table, found).items() if fitting[n][1] > 0}
    if broken:
        for n, check in broken.items():
            place = fitting[n][0]
            _refuse(table, refused, _refused(place, rows[place], check_broken(table, place, check)))
        kept = [n for n in range(len(fitting)) if n not in broken]
        fitting, found = [fitting[n] for n in kept], found.take(pa.array(kept, pa.int64()))
    for name, value in claimed.items():
        type_ = table.schema[name].type
        found = found.append_column(name, pa.array([value] * found.num_rows, type_))
    weights = pa.array([w for _, w, _ in fitting], pa.int64())
    refused.sort(key=lambda r: r[0].index)
    places = tuple(p for p, _, _ in fitting)
    return Pushed(
        found.append_column(WEIGHT, weights), places, tuple(m for m, _ in refused), tuple(c for _, c in refused)
    )


def _refuse_points(table: str, place: int, row: Mapping[str, Any], columns: Sequence[Column]) -> None:
    """Raise B6001 for `2.0` in a column of whole numbers, as file connectors do."""
    whole = {c.name.casefold(): c for c in columns if pa.types.is_integer(c.type)}
    for name, value in row.items():
        column = whole.get(name.casefold()) if isinstance(value, float) else None
        if column is not None:
            raise misfit(table, place, column, value, ValueError("expected a whole number, without a point"))


def _arrow(rows: list[dict[str, Any]], columns: Sequence[Column]) -> pa.Table:
    """Convert the rows to Arrow in chunks, because the conversion blocks all other threads of the process."""
    starts = range(0, max(1, len(rows)), PIECE_ROWS)
    return pa.concat_tables([arrow_of(rows[start : start + PIECE_ROWS], columns) for start in starts])


def _refuse(table: Input, refused: list[tuple[Malformed, str]], row: tuple[Malformed, str]) -> None:
    refused.append(row)
    if len(refused) > REFUSED_MOST:
        message = f'more than {REFUSED_MOST} rows do not fit "{table.name}": none was accepted'
        raise fail("B6001", message, hint=f"the first: {refused[0][0].reason}")


def _fits(
    table: Input,
    row: tuple[int, int, dict[str, Any]],
    rows: Sequence[Any],
    columns: Sequence[Column],
    refused: list[tuple[Malformed, str]],
) -> bool:
    """Return whether Arrow accepts a row; if not, append it to `refused`."""
    place, _, converted = row
    try:
        arrow_of([converted], columns)
    except ARROW_ERRORS as error:
        _refuse(table, refused, (Malformed(place, _text(rows[place]), str(error).split("\n")[0]), "B6001"))
        return False
    return True


def read_act(kind: Act, table: Input, given: Any, producer: str | None = None) -> ProducerAct:
    """Parse an act of a producer: a bound (`{"at": ..., "column": ..., "strict": ...}`, or its time alone), an open or
    a close.

    Raises B5025 for any other form.
    """
    hint = f'write {{"at": "2020-01-01T08:05:00Z"}}; it may have {", ".join(sorted(ACT_MEMBERS[kind] - {"at"}))}'
    given = {"at": given} if isinstance(given, str | int | float) else given
    if not isinstance(given, Mapping):
        raise fail("B5025", f'a {kind.value} of "{table.name}" is a JSON object', hint=hint)
    unknown = sorted(set(given) - ACT_MEMBERS[kind])
    if unknown:
        raise fail("B5025", f'a {kind.value} of "{table.name}" has no `{unknown[0]}`', hint=hint)
    if not isinstance(given.get("strict", False), bool) or not isinstance(given.get("column"), str | None):
        raise fail(
            "B5025", f'a {kind.value} of "{table.name}": `strict` must be true or false, `column` a name', hint=hint
        )
    at = given.get("at")
    if at is None and kind is Act.BOUND:
        raise fail("B5025", f'a bound of "{table.name}" has no time', hint=hint)
    try:
        time = None if at is None else microseconds(as_instant(at))
    except (ValueError, TypeError, OverflowError):
        raise fail("B5025", f'a {kind.value} of "{table.name}": {shown(at)} is not a time', hint=hint) from None
    name = given.get("producer", producer)
    if not isinstance(name, str | None):
        raise fail("B5025", f'a {kind.value} of "{table.name}": `producer` must be a name', hint=hint)
    return ProducerAct(kind, table.id, 0, name or None, time, given.get("column"), given.get("strict", False))


def check_broken(table: Input, place: int, check: Check) -> BelvedereError:
    """Return the error of a row that violates a CHECK."""
    said = f"`{check.text}`" if check.name == check.text else f"`{check.name}`: `{check.text}`"
    return fail("B6004", f'row {place + 1} of "{table.name}" breaks the CHECK {said}')


def _is_deletion(table: Input, place: int, row: Any) -> bool:
    if not isinstance(row, Mapping):
        raise fail("B6001", f'row {place + 1} of "{table.name}" is not a JSON object')
    if DELETE not in row or table.schema.find(DELETE) is not None:
        return False
    going = row[DELETE]
    if not isinstance(going, bool):
        raise fail("B6001", f'row {place + 1} of "{table.name}": `{DELETE}` must be true or false')
    if going and table.append_only:
        hint = "declare it with CREATE TABLE"
        raise fail("B6011", f'row {place + 1}: "{table.name}" is a stream: its rows cannot be deleted', hint=hint)
    if going and not table.primary_key:
        hint = f"declare one: PRIMARY KEY (...) among the columns of {table.name}"
        raise fail("B6011", f'row {place + 1}: "{table.name}" has no primary key to delete by', hint=hint)
    return going


def _without_mark(row: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    if DELETE not in row or DELETE in names:
        return row
    return {k: v for k, v in row.items() if k != DELETE}


def _refused(place: int, row: Any, error: BelvedereError) -> tuple[Malformed, str]:
    found = error.diagnostics[0]
    return Malformed(place, _text(row), found.message + (f" ({found.hint})" if found.hint else "")), found.code


def _text(row: Any) -> str:
    try:
        return dumps(row)[:MAX_TEXT_LENGTH]
    except (ValueError, TypeError, RecursionError):
        return shown(row)[:MAX_TEXT_LENGTH]
