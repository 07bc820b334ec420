"""The sink `delta`: an export appends its events to a Delta Lake table, exactly once.

In: events after the outlet's mark, in the order of `_seq`. Out: commits of a table. Each has the number of its last
event as the version of an application transaction (`txn` in Delta's protocol), so both are committed or neither is. A
missing table is created. Columns that a view gets later are added; existing columns accept only values that they hold
exactly. Needs deltalake, and no Spark (`pip install 'belvedere[delta]'`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pyarrow as pa

from belvedere.connectors.addresses import same_address
from belvedere.connectors.connector import Outgoing
from belvedere.connectors.exporting.sink_values import UnfittingValue, with_types
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import Sink
from belvedere.rules.events import SEQUENCE
from belvedere.values.intervals import iso_text
from belvedere.values.months import with_month_texts

MAX_BYTES = 64 << 20
"""Maximum bytes of one commit."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class DeltaOutlet:
    """The writer of one export to a table."""

    lasting = True

    def __init__(self, outgoing: Outgoing):
        sink, options = outgoing.sink, outgoing.sink.options
        self.sink = sink.name
        self.target, self.address = outgoing.target, address_of(sink, outgoing.target)
        self.storage = {str(k): str(v) for k, v in options.get("storage", {}).items()}
        self.application = f"belvedere-{outgoing.store}-{outgoing.name}"
        self.delta = _library()
        self.mark: int | None = None

    def reached(self) -> int | None:
        """Return the number of the last event in the table; None if there is none. Raises B6240, B6241."""
        with self._reported():
            table = self._table()
            self.mark = self._mark(table)
        return self.mark

    def _mark(self, table: Any) -> int | None:
        found = None if table is None else table.transaction_version(self.application)
        return None if found is None else int(found)

    def _table(self) -> Any:
        """Return the table as it is now; None if it does not exist."""
        if not self.delta.DeltaTable.is_deltatable(self.address, self.storage or None):
            return None
        return self.delta.DeltaTable(self.address, storage_options=self.storage or None)

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Append events, in as few commits as `MAX_BYTES` allows. Raises B6240, B6241."""
        for events in _gathered(pieces):
            last = events[SEQUENCE][-1].as_py()
            with self._reported():
                table = self._table()
                if self._mark(table) != self.mark:
                    raise OSError("another process has sent events of this store")
                mark = self.delta.Transaction(self.application, last)
                self.delta.write_deltalake(
                    table or self.address,
                    self._cast(events, table),
                    mode="append",
                    schema_mode="merge",
                    storage_options=self.storage or None,
                    commit_properties=self.delta.CommitProperties(app_transactions=[mark]),
                )
                self.mark = last

    def _cast(self, events: pa.Table, table: Any) -> pa.Table:
        """Cast the events to the types of the table. Raises B6241 for a value that its column cannot hold."""
        shown = _as_delta_has_it(events)
        found = shown if table is None else with_types(shown, pa.schema(table.schema()))
        if isinstance(found, UnfittingValue):
            raise found.refusal("B6241", self.sink, self.target)
        return found

    def close(self) -> None:
        """Do nothing: no resource is open."""

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Convert errors of the library inside the block to diagnostics."""
        from deltalake.exceptions import CommitFailedError  # comes with an extra

        try:
            yield
        except BelvedereError:
            raise
        except (OSError, CommitFailedError) as error:
            hint = "check that its storage can be reached, and that no other run sends for this store"
            raise fail(
                "B6240", f'the table of sink "{self.sink}" cannot be reached', detail=_said(error), hint=hint
            ) from error
        except Exception as error:  # the library raises its own kinds, and plain exceptions
            hint = "existing columns keep their types: export to another target, or correct the table"
            raise fail(
                "B6241", f'the table of sink "{self.sink}" does not accept events', detail=_said(error), hint=hint
            ) from error


def _gathered(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine events into batches of one commit each."""
    held: list[pa.Table] = []
    for events in pieces:
        held.append(events)
        if sum(t.nbytes for t in held) >= MAX_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _as_delta_has_it(events: pa.Table) -> pa.Table:
    """Return the events in Delta's types. Intervals become text (ISO 8601), also within nested values.

    Delta has no type for intervals. Timestamps without a time zone keep that type.
    """
    events = with_month_texts(events)
    for number, field in enumerate(events.schema):
        shown = _without_lengths(field.type)
        if shown != field.type:
            values = [_with_texts(v) for v in events[field.name].to_pylist()]
            events = events.set_column(number, field.with_type(shown), pa.array(values, shown))
    return events


def _without_lengths(type_: pa.DataType) -> pa.DataType:
    """Return the type with string in place of intervals."""
    if pa.types.is_duration(type_):
        return pa.string()
    if pa.types.is_map(type_):
        return pa.map_(_without_lengths(type_.key_type), _without_lengths(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(type_.value_field.with_type(_without_lengths(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_without_lengths(f.type)) for f in type_])
    return type_


def _with_texts(value: Any) -> Any:
    if isinstance(value, timedelta):
        return iso_text(value)
    if isinstance(value, dict):
        return {name: _with_texts(v) for name, v in value.items()}
    return type(value)(map(_with_texts, value)) if isinstance(value, list | tuple) else value


def _said(error: Exception) -> str:
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines()]
    return "; ".join(line for line in lines if line and "<unknown>" not in line)[:500]


def _library() -> Any:
    try:
        import deltalake  # comes with an extra
    except ImportError as error:
        raise fail("B6241", "exports to Delta need deltalake", hint="pip install 'belvedere[delta]'") from error
    return deltalake


def place(sink: Sink, target: str) -> str:
    """Return the canonical address of an export's table. Raises B6241."""
    return same_address(address_of(sink, target))


def address_of(sink: Sink, target: str) -> str:
    """Return the address of an export's table. Raises B6241."""
    name = str(sink.options.get("names", {}).get(target, target))
    base = sink.options.get("url") or (str(sink.path) if sink.path is not None else None)
    if not isinstance(base, str):
        hint = 'write `path = "lake"`, or `url = "s3://bucket/lake"` with `storage = { ... }`'
        raise fail("B6241", f'sink "{sink.name}" has no path and no url', hint=hint)
    return f"{base.rstrip('/')}/{name}"


def open_outlet(outgoing: Outgoing) -> DeltaOutlet:
    """Open the writer of one export to a table."""
    return DeltaOutlet(outgoing)


__all__ = ["open_outlet", "place"]
