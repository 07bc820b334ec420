"""Findings on a sample of a table's rows: rows that an epoch rejects, and accepted rows that are probably wrong.

In: a sample, checked as an epoch checks rows. Out: findings, each with an example and a remedy. It checks no row
itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.catalog.inputs import Input, LatePolicy
from belvedere.connectors.connector import Sampled
from belvedere.connectors.feeds import columns_of
from belvedere.connectors.run_records import RejectedRow
from belvedere.errors import counted
from belvedere.functions.spark_types import type_text
from belvedere.functions.widening import is_wider
from belvedere.schema import WEIGHT
from belvedere.syntax.wording import nearest_name
from belvedere.values.instants import microseconds
from belvedere.values.rejections import Reason, RejectionKind
from belvedere.values.row_texts import python_rows

FUTURE = timedelta(days=1)
"""Maximum difference by which clocks of senders may be ahead."""
OLD = microseconds(datetime(1971, 1, 1, tzinfo=UTC))
"""Microseconds of the start of 1971. Seconds that were read as milliseconds give times in 1970."""
SHOWN_NAMES = 10
LISTED = "these rows are rejected, and `belvedere rejected list` shows them"
_HINTS = {
    RejectionKind.MISFIT: "declare the column with a fitting type, or correct the data",
    RejectionKind.NULL: "name columns in `primary_key` that each row has, or correct the data",
    RejectionKind.NOT_JSON: "check that `format` of the source matches its data",
    RejectionKind.FIELDS: "check `delimiter` and `header` of the source",
    RejectionKind.NO_VALUE: "add a `primary_key`: such messages delete the row of their key",
    RejectionKind.KEY: "set `key_format` and `metadata` of the table",
    RejectionKind.NEW_COLUMN: 'declare the columns, or write `new_columns = "ignore"`',
    RejectionKind.ENCODING: "write UTF-8",
    RejectionKind.SCHEMA: "check `format`, `schema` and `registry` of the source",
    RejectionKind.FILE: "move the file out of the folder, or write it again",
}
_OF_VALUES = {RejectionKind.MISFIT, RejectionKind.LOSS, RejectionKind.NULL}
"""Kinds of reasons that cite a value, which the row shows too."""
NO_REASON = Reason("")


@dataclass(frozen=True)
class Finding:
    """A finding in a table's data: its kind, its description, the number of rows, a remedy, and for one row its place,
    text and reason."""

    kind: str
    what: str
    rows: int | None = None
    where: str = ""
    text: str = ""
    hint: str = ""
    reason: Reason = NO_REASON

    @property
    def shown(self) -> str:
        """Return the text for people: the full reason, unless it quotes the value that `text` has."""
        return self.what if self.reason.kind in _OF_VALUES else self.reason or self.what


def findings_of(table: Input, sampled: Sampled, rows: pa.Table, late: int, late_rows: pa.Table | None) -> list[Finding]:
    """Return the findings of a sample; `rows` are the accepted ones, of which `late` ones are not used."""
    arriving = rows.filter(pc.greater(rows[WEIGHT], 0)) if WEIGHT in rows.schema.names else rows
    return [
        *_refused(sampled.arrived.rejected, sampled.arrived.refused),
        *_late(table, late, late_rows),
        *_columns(table, sampled, arriving),
        *_types(table, sampled),
        *_times(table, arriving),
        *_keys(table, sampled, rows),
    ]


def _refused(rejected: Sequence[RejectedRow], refused: int) -> Iterator[Finding]:
    """Yield the rejected rows grouped by reason."""
    by_reason: dict[str, list[RejectedRow]] = {}
    for row in rejected:
        by_reason.setdefault(row.why.general, []).append(row)
    for general, rows in sorted(by_reason.items(), key=lambda found: -len(found[1])):
        row = rows[0]
        where = f"{row.file or ''}{'' if row.line is None else f':{row.line}'}"
        hint = _HINTS.get(row.why.kind, LISTED)
        yield Finding("refused", general, len(rows), where, row.text or "", hint, row.why)
    if refused > len(rejected):
        yield Finding("refused", "further rows, whose text is not stored", refused - len(rejected), hint=LISTED)


def _late(table: Input, late: int, rows: pa.Table | None) -> Iterator[Finding]:
    if late:
        example = "" if rows is None or not rows.num_rows else _text(rows.slice(0, 1))
        how = "refused" if table.late is LatePolicy.REJECT else "dropped"
        hint = "declare a longer delay in WATERMARK FOR, or LATE KEEP"
        yield Finding("late", f"late: below the watermark of earlier rows, and {how}", late, text=example, hint=hint)


def _columns(table: Input, sampled: Sampled, rows: pa.Table) -> Iterator[Finding]:
    """Yield columns that exist only in the data or only in the table, and columns without values."""
    declared = [c.name for c in columns_of(table)]
    others = [n for n in sampled.names or () if n not in declared]
    if others:
        listed = ", ".join(others[:SHOWN_NAMES]) + (
            f" and {len(others) - SHOWN_NAMES} more" if others[SHOWN_NAMES:] else ""
        )
        hint = "they are ignored: declare the columns that you need"
        yield Finding(
            "unnamed",
            f"the data has {counted(len(others), 'column')} that the table does not declare: {listed}",
            hint=hint,
        )
    for name in declared:
        has_values = name in rows.schema.names and rows[name].null_count < rows.num_rows
        if has_values:
            continue
        if sampled.names is not None and name not in sampled.names:
            near = nearest_name(name, others)
            hint = (
                "remove it from the table, or send it"
                if near is None
                else f'the data has "{near}": names are case-sensitive'
            )
            yield Finding("missing", f'no row has the column "{name}"', hint=hint)
        elif rows.num_rows:
            yield Finding(
                "empty", f'column "{name}" is NULL in all of them', rows.num_rows, hint="check that this is intended"
            )


def _types(table: Input, sampled: Sampled) -> Iterator[Finding]:
    """Yield columns whose type cannot hold all values of the source's type."""
    for column in columns_of(table):
        there = sampled.types.get(column.name)
        if there is None or there == column.type or is_wider(column.type, there) or pa.types.is_string(column.type):
            continue
        what = f'column "{column.name}" is {type_text(column.type)}, and {type_text(there)} in the source'
        yield Finding("type", what, hint=f"declare it {type_text(there)}: a value that does not fit is rejected")


def _times(table: Input, rows: pa.Table) -> Iterator[Finding]:
    """Yield event times that no clock can have shown."""
    now = microseconds(datetime.now(UTC) + FUTURE)
    for name in dict.fromkeys(w.column for w in table.watermarks):
        if name not in rows.schema.names or not pa.types.is_timestamp(rows[name].type):
            continue
        times = rows[name].cast(pa.timestamp("us", tz=rows[name].type.tz)).cast(pa.int64())
        for wrong, what, hint in (
            (
                pc.greater(times, now),
                "in the future",
                "the watermark rises to it, and all later rows are late: check the unit",
            ),
            (pc.less(times, OLD), "before 1971", "numbers are seconds since 1970: check the unit"),
        ):
            found = rows.filter(pc.fill_null(wrong, False))
            if found.num_rows:
                most = pc.max(times) if what == "in the future" else pc.min(times)
                shown = str(np.datetime64(most.as_py(), "us"))
                yield Finding("time", f'column "{name}" is {what}', found.num_rows, text=shown, hint=hint)


def _keys(table: Input, sampled: Sampled, rows: pa.Table) -> Iterator[Finding]:
    """Yield keys with several rows whose last one is not known."""
    if not table.primary_key or sampled.order == "rows" or not rows.num_rows:
        return
    parts = [label for count, label in sampled.arrived.producers for _ in range(count)]
    if sampled.order == "parts" and len(parts) != rows.num_rows:
        return
    keys = rows.select(list(table.primary_key)).append_column(
        "__part", pa.array(parts or [""] * rows.num_rows, pa.string())
    )
    groups = keys.group_by(list(table.primary_key)).aggregate([("__part", "count"), ("__part", "count_distinct")])
    counts = groups["__part_count_distinct" if sampled.order == "parts" else "__part_count"]
    twice = groups.filter(pc.greater(counts, 1))
    if not twice.num_rows:
        return
    text, keyed = _text(twice.select(list(table.primary_key)).slice(0, 1)), ", ".join(table.primary_key)
    if sampled.order == "parts":
        what, hint = (
            "keys occur in several partitions, so their changes have no order",
            f"send messages with the key {keyed}, so that one partition has all messages of a key",
        )
    else:
        what, hint = "keys occur in several rows, which have no order", f"check that {keyed} identifies a row"
    yield Finding("keys", what, twice.num_rows, text=text, hint=hint)


def _text(row: pa.Table) -> str:
    """Return a row as JSON; times can be of any year."""
    row = row.select([n for n in row.schema.names if not n.startswith("_")])
    times = {f.name: f.type for f in row.schema if pa.types.is_timestamp(f.type)}
    shown: dict[str, object] = next(iter(python_rows(row.drop_columns(list(times)))), {})
    for name in times:
        value = row[name][0]
        shown[name] = None if not value.is_valid else str(np.datetime64(value.value, "us"))
    return json.dumps({n: shown[n] for n in row.schema.names}, ensure_ascii=False, default=str)
