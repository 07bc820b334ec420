"""The interface of connectors: a module, or any object, with the functions of `Connector`.

A connector serves its sources (`[sources.name]` with its name): it lists their tables and columns, and opens a `Feed`
for each input of a script. An epoch asks every feed for new data (`look`), reads exactly that (`read`), and commits the
rows together with the feed's offset in one transaction. The offset in the last epoch's row is the only record of
progress: after a crash a feed is opened with it, and uncommitted data is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from belvedere.catalog.inputs import Input
from belvedere.connectors.run_records import RejectedRow, SourceFile
from belvedere.engine.epoch_row.source_spans import PastSpan
from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.errors import Diagnostic
from belvedere.project.settings import Sink, Source
from belvedere.schema import Column
from belvedere.time.arrival_columns import NO_TIMES, ArrivalTimes
from belvedere.time.intake_entries import BoundMark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FormerRows: TypeAlias = Callable[[pa.Table], pa.Table]
"""The stored rows whose primary keys a table has."""


class NoteStore(Protocol):
    """Texts that the store keeps by name, beside its epochs."""

    def document(self, name: str) -> str | None:
        """A text, None where there is none."""

    def set_document(self, name: str, text: str) -> None:
        """Keep a text, on disk when this returns."""


Offset: TypeAlias = Mapping[str, Any]
"""How far a feed has been read, as JSON data; empty before its first epoch."""


@dataclass(frozen=True)
class OffsetRange:
    """New data: everything after the feed's offset up to `end`. `content` belongs to the feed, for `read`."""

    end: Offset
    content: Any = None


@dataclass(frozen=True)
class Arrived:
    """Rows of one feed for an epoch: accepted rows with the input's columns, and rejected ones.

    `refused` is the number of rejected rows (and files); `rejected` may have only the first of them.
    """

    rows: pa.Table | Rows | DataFrame
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0
    files: tuple[SourceFile, ...] = ()
    """The files that were read: the store notes their names."""
    marks: Iterable[BoundMark] = ()
    """The bounds that the source carries, in order; true where there is any."""
    notices: tuple[str, ...] = ()
    """Notices for people, each shown once."""
    is_emptied: bool = False
    """All rows of the table that were there before go: only for tables with a primary key."""
    producers: tuple[tuple[int, str], ...] = ()
    """Producers of the rows: pairs of a number of rows and their producer, in order; empty for the default producer."""
    times: ArrivalTimes = NO_TIMES
    """When the rows arrived, as the source says, in order; none: with their epoch. What is before the last epoch's clock counts as that."""


@dataclass(frozen=True)
class FeedRequest:
    """Parameters for opening a feed: an input of a script, fed by `table` of `source`."""

    input: Input
    source: Source
    table: str
    columns: Sequence[Column]
    """The columns that rows have; those of a primary key are not nullable."""
    options: Mapping[str, Any] = field(default_factory=dict)
    offset: Offset = field(default_factory=dict)
    """The offset in the last epoch's row."""
    files: frozenset[str] = frozenset()
    """The names of the files that the store has noted for this input."""
    memory: Memory = field(default_factory=lambda: Memory(1 << 30))
    """How many bytes of rows the feed may give in the driver: shared by all feeds of a run, until their epoch is done."""
    former: FormerRows | None = None
    """Access to the input's rows as of the last epoch; None if they are not stored."""
    notes: NoteStore | None = None
    """Notes that the store keeps for feeds; None if there is no store."""
    noted: Callable[[], Sequence[SourceFile]] = tuple
    """The files that the store has noted, each as it was when it was read."""


class Feed(Protocol):
    """One input's side of a source."""

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the range of new data, or None.

        It must be cheap: it is called at every trigger. With `once` the run ends when nothing is new.
        """

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Exactly the rows of a span: the same call gives the same rows again."""

    def committed(self, span: OffsetRange) -> None:
        """The epoch that took the span is in the store: the feed's offset is its end now."""

    def close(self) -> None:
        """The run is over."""


@runtime_checkable
class RenamingFeed(Protocol):
    """The feed of a connector that knows files under other names than those that the store has noted."""

    def renames(self) -> Mapping[str, str]:
        """Noted names with the present ones, once `look` was asked; the next epoch changes them."""

    def renamed(self) -> None:
        """The epoch that changed them is in the store."""

    def notices(self) -> Sequence[str]:
        """Return notices for people, each once."""


class RereadableFeed(Feed, Protocol):
    """The feed of a connector that has `reads_again = True`: what epochs have taken can be read once more."""

    def past(self, past: PastSpan, files: Sequence[SourceFile]) -> Iterable[OffsetRange]:
        """Yield the input of a past epoch, in parts that are read and committed one after the other, with the same rows
        in the same order.

        The feed must have been opened without an offset; all epochs are read in turn.

        `files` are those that the store has recorded for the epoch. Raises B7070 if the rows are no longer available
        unchanged.
        """


@dataclass(frozen=True)
class Sampled:
    """Some rows of a table as an epoch would take them, and what the source says of the table. For people."""

    arrived: Arrived
    names: tuple[str, ...] | None = None
    """Column names of the data, in the table's spelling if its format ignores case; None if unknown."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of the columns, if the source declares them and they are not inferred from a sample."""
    problems: tuple[Diagnostic, ...] = ()
    """Problems that would end a run although rows can be read."""
    order: Literal["rows", "parts", "none"] = "rows"
    """Which rows of one key have an order: all; those of one part, which are those of one producer; none."""


@dataclass(frozen=True)
class Imported:
    """An input of a script that is fed by `table` of a source, and how far a store has it."""

    name: str
    """The input's name in the script."""
    table: str
    offset: Offset = field(default_factory=dict)
    """The offset in the last epoch's row; empty where there is no store, or no epoch yet."""
    files: frozenset[str] = frozenset()
    """The names of the files that the store has noted for it."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """How many bytes of each of these were read."""


@dataclass(frozen=True)
class SourcePart:
    """A table of a source, or a part of one that is read by itself: what is there, and how far a store has it. For people."""

    table: str
    part: str = ""
    imported: str = ""
    """The name of the input that it feeds."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Counts and states by what they are of: `{"messages": 3, "published": True, "wal_status": "reserved"}`."""
    first: int | str | None = None
    end: int | str | None = None
    taken: int | str | None = None
    """The offset of the store's last epoch."""
    behind: int | None = None
    """How much is there that no epoch has taken."""
    unit: str = ""
    """Unit of `behind`."""
    note: str = ""
    """Problem of this part, for people."""


class Connector(Protocol):
    """A kind of source. A connector that only writes (`WritingConnector`) has none of these functions; one that cannot
    write has no `write`.

    It may have `parts(source, imports)`: the `SourcePart`s that `belvedere sources` prints; and `sample(wanted, rows,
    spark)`: `Sampled`, about `rows` of the first and last rows, without any change to the source (`spark()` starts a
    session if one is needed). With `reads_again = True` its feeds are `RereadableFeed`s, and a new view can be filled
    from the source.
    """

    def tables(self, source: Source) -> Sequence[str]:
        """The tables that a source has; without a JVM, and soon: `belvedere check` asks."""

    def columns(self, source: Source, table: str) -> pa.Schema:
        """The columns of a table where the project file declares none. Raises BelvedereError where they cannot be found."""

    def open_feed(self, requested: FeedRequest) -> Feed:
        """Go on with an input from its offset."""


@dataclass(frozen=True)
class Outgoing:
    """Parameters for opening an outlet: an export of a script to `target` of `sink`."""

    sink: Sink
    target: str
    store: str
    """The identity of the store whose events these are."""
    key: tuple[str, ...] = ()
    """The columns that say which row a change is of; empty where none that show do, and for events of a subscription."""
    relation: str = ""
    """Relation with the events: one relation may be exported to several targets."""
    again: int = 0
    """How often somebody has asked for all events to be sent again."""
    notes: NoteStore | None = None
    """Notes that the store keeps for outlets; None if there is no store."""

    @property
    def name(self) -> str:
        """Return the name of an outlet's mark: resent events have the same target but a new numbering."""
        return f"{self.target} {self.again}" if self.again else self.target


class Outlet(Protocol):
    """One export's side of a sink that knows itself how far it has come.

    One that is `lasting = True` never forgets it while its events are there: where it knows of less than it was sent, events are lost.
    """

    def reached(self) -> int | None:
        """The `_seq` of the last event that the sink has; None for none. Asked before the first `write`, and after one that failed."""

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Write events, all of which are behind `reached`, in the order of `_seq`."""

    def close(self) -> None:
        """The run is over."""


class SharedOutlet(Protocol):
    """The side of a sink of all exports to it, which it takes together. They are called by their places, from 0 on."""

    def reached(self) -> Sequence[int | None]:
        """As `Outlet.reached`, of each export."""

    def write(self, events: Iterable[tuple[int, pa.Table]]) -> None:
        """Write events of exports, named by their places, all of which are behind `reached`; those of one export in the order of `_seq`."""

    def close(self) -> None:
        """The run is over."""


class WritingConnector(Protocol):
    """A kind of sink. One whose sinks know how far they have come has `open_outlet` or `open_shared_outlet` in place of `write`.

    It may have `place(sink, target)`: the text of where an export goes, which two exports may not share; None where they may. Without it
    that is the target.
    """

    def write(self, sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
        """Write an epoch's events under the name `target`. The same epoch may come again after a crash."""

    def open_outlet(self, outgoing: Outgoing) -> Outlet:
        """An export's side of a sink."""

    def open_shared_outlet(self, outgoings: Sequence[Outgoing]) -> SharedOutlet:
        """The side of a sink of all exports to it."""
