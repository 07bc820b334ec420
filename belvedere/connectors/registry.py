"""Connectors by their name in the project file: Belvedere's own modules, and those of other packages by an entry point.

In: a name. Out: the connector, or a diagnostic. A package adds one in its `pyproject.toml`:

    [project.entry-points."belvedere.connectors"]
    telegraph = "my_package.telegraph"
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa

from belvedere.connectors.connector import (
    Connector,
    FeedRequest,
    Imported,
    Outgoing,
    Outlet,
    Sampled,
    SharedOutlet,
    SourcePart,
    WritingConnector,
)
from belvedere.connectors.outage_backoff import is_away
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import KnownConnectors, Source
from belvedere.syntax.wording import did_you_mean

Answer = TypeVar("Answer")
CONNECTORS = "belvedere.connectors"
"""Group of entry points by which other packages add connectors."""
OWN_CONNECTORS = ("files", "console", "sensors", "kafka", "postgres", "spark", "http", "delta")
"""Modules of `belvedere.connectors`; the module of the same name in `belvedere.connectors.keys` has its keys."""


@cache
def known_connectors() -> KnownConnectors:
    """Return the connectors and keys that a project file may use."""
    keys = {name: import_module(f"belvedere.connectors.keys.{name}").KEYS for name in OWN_CONNECTORS}
    return KnownConnectors(keys, _other_connectors)


def _other_connectors() -> tuple[str, ...]:
    """Return the names that other packages have registered."""
    return tuple(sorted(entry_points(group=CONNECTORS).names))


def reading_connector(name: str) -> Connector:
    """Return the connector of that name for reading. Raises B6020."""
    found = _found(name)
    if not hasattr(found, "open_feed"):
        raise fail("B6020", f'the connector "{name}" cannot be read', hint=_names_hint(name))
    return cast(Connector, found)


def reads_again(name: str) -> bool:
    """Return whether sources of this connector can be read again for past epochs. Raises B6020."""
    return bool(getattr(_found(name), "reads_again", False))


def writing_connector(name: str) -> WritingConnector:
    """Return the connector of that name for writing. Raises B6130."""
    try:
        found = _found(name)
    except BelvedereError:
        found = None
    if not (hasattr(found, "write") or _has_outlets(found)):
        hint = 'write connector = "files" with format = "json", "csv" or "parquet", or connector = "console"'
        raise fail("B6130", f'the connector "{name}" does not support sinks', hint=hint)
    return cast(WritingConnector, found)


def opens_outlets(name: str) -> bool:
    """Return whether sinks of this connector record their own progress. Raises B6130."""
    return _has_outlets(writing_connector(name))


def _has_outlets(connector: Any) -> bool:
    return hasattr(connector, "open_outlet") or hasattr(connector, "open_shared_outlet")


def open_outlets(outgoings: Sequence[Outgoing]) -> list[tuple[list[int], SharedOutlet]]:
    """Open the outlets of exports to one sink, each with the numbers of its exports: one outlet for all, or one for
    each."""
    connector = writing_connector(outgoings[0].sink.connector)
    if hasattr(connector, "open_shared_outlet"):
        return [([*range(len(outgoings))], connector.open_shared_outlet(outgoings))]
    return [([n], _Alone(connector.open_outlet(o))) for n, o in enumerate(outgoings)]


class _Alone:
    """An outlet of one export as a `SharedOutlet`."""

    def __init__(self, outlet: Outlet):
        self._outlet = outlet
        self.close = outlet.close
        self.lasting = bool(getattr(outlet, "lasting", False))

    def reached(self) -> Sequence[int | None]:
        return [self._outlet.reached()]

    def write(self, events: Iterable[tuple[int, pa.Table]]) -> None:
        self._outlet.write(rows for _, rows in events)


class SourceTables:
    """The tables of sources according to their connectors.

    An unavailable source is queried only once, to avoid more waits.
    """

    def __init__(self) -> None:
        self._away: dict[str, BelvedereError] = {}

    def tables(self, source: Source) -> tuple[str, ...]:
        """Return the tables of a source."""
        return self._asked(source, lambda c: tuple(c.tables(source)))

    def columns(self, source: Source, table: str) -> pa.Schema:
        """Return the columns of a table."""
        return self._asked(source, lambda c: c.columns(source, table))

    def file_columns(self, file: Path) -> pa.Schema:
        """Return the columns of a file of rows, or of an Avro schema. Raises B6102, B6103, B6205."""
        if file.suffix.casefold() != ".avsc":
            from belvedere.connectors.reading.column_inference import schema_of_files  # few scripts have such inputs

            return schema_of_files(file.stem, [file], {})
        from belvedere.connectors.kafka.formats import avro  # it needs an extra

        return avro.columns(file.stem, list, {"schema": file.read_bytes()})

    def parts(self, source: Source, imports: Sequence[Imported]) -> tuple[SourcePart, ...]:
        """Return a source's parts, and the store's progress in them. Raises what the connector raises."""
        return self._asked(source, lambda c: tuple(getattr(c, "parts", partial(_parts_of_any, c))(source, imports)))

    def sample(self, requested: FeedRequest, rows: int, spark: Callable[[], Any]) -> Sampled | None:
        """Return about `rows` rows of a table; None if its connector cannot sample.

        Raises what the connector raises.
        """
        return self._asked(requested.source, lambda c: getattr(c, "sample", _no_sample)(requested, rows, spark))

    def _asked(self, source: Source, question: Callable[[Connector], Answer]) -> Answer:
        if source.name in self._away:
            raise self._away[source.name]
        try:
            return question(reading_connector(source.connector))
        except BelvedereError as error:
            if is_away(error):
                self._away[source.name] = error
            raise


def _no_sample(*_: object) -> None:
    """Return None, for a connector that cannot sample."""


def _parts_of_any(connector: Connector, source: Source, imports: Sequence[Imported]) -> Iterator[SourcePart]:
    """Yield the parts of a source whose connector does not list them: its tables, and their offsets."""
    known = {i.table for i in imports}
    for name in sorted({*connector.tables(source)} - known):
        yield SourcePart(name)
    for found in imports:
        taken = json.dumps(found.offset, ensure_ascii=False) if found.offset else None
        yield SourcePart(found.table, imported=found.name, taken=taken)


@cache
def _found(name: str) -> Any:
    if name in OWN_CONNECTORS:
        return import_module(f"belvedere.connectors.{name}")
    for entry in entry_points(group=CONNECTORS, name=name):
        try:
            return entry.load()
        except Exception as error:  # another package's code may fail in any way
            detail = f"{type(error).__name__}: {error}"
            raise fail("B6020", f'the connector "{name}" of {entry.value} cannot be loaded', detail=detail) from error
    raise fail("B6020", f'there is no connector "{name}"', hint=_names_hint(name))


def _names_hint(name: str) -> str | None:
    names = [*OWN_CONNECTORS, *_other_connectors()]
    return did_you_mean(name, names)
