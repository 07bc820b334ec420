"""The interface of connectors: a module, or any object, with the functions of `Connector`.

A connector serves its sources (`[sources.name]` with its name): it lists their tables and columns, and opens a `Feed`
for each input of a script. An epoch asks every feed for new data (`look`), reads exactly that (`read`), and commits the
rows together with the feed's offset in one transaction. The offset in the last epoch's row is the only record of
progress. After a crash a feed is opened with it, and reads uncommitted data again.
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
"""Function that returns the stored rows with the primary keys of the given table."""


class NoteStore(Protocol):
    """Texts that the store keeps by name, independent of its epochs."""

    def document(self, name: str) -> str | None:
        """Return a text; None if there is none."""

    def set_document(self, name: str, text: str) -> None:
        """Store a text and return when it is on disk."""


Offset: TypeAlias = Mapping[str, Any]
"""Progress of a feed as JSON data; empty before its first epoch."""


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
    """Files that were read; the store records their names."""
    marks: Iterable[BoundMark] = ()
    """Bounds that the source sends, in order; its truth value is whether there are any."""
    notices: tuple[str, ...] = ()
    """Notices for users, each shown once."""
    is_emptied: bool = False
    """Whether all earlier rows of the table are deleted first; only for tables with a primary key."""
    producers: tuple[tuple[int, str], ...] = ()
    """Producers of the rows: pairs of a number of rows and their producer, in order; empty for the default producer."""
    times: ArrivalTimes = NO_TIMES
    """Arrival times of the rows according to the source, in order; empty: the epoch's clock.

    Times before the last epoch's clock are raised to it.
    """


@dataclass(frozen=True)
class FeedRequest:
    """Parameters for opening a feed: an input of a script, fed by `table` of `source`."""

    input: Input
    source: Source
    table: str
    columns: Sequence[Column]
    """Columns of the rows; those of a primary key are not nullable."""
    options: Mapping[str, Any] = field(default_factory=dict)
    offset: Offset = field(default_factory=dict)
    """Offset in the last epoch's row."""
    files: frozenset[str] = frozenset()
    """Names of the files that the store has recorded for this input."""
    memory: Memory = field(default_factory=lambda: Memory(1 << 30))
    """Limit in bytes of rows that the feed returns in the driver, shared by all feeds of a run until their epoch
    ends."""
    former: FormerRows | None = None
    """Access to the input's rows as of the last epoch; None if they are not stored."""
    notes: NoteStore | None = None
    """Notes that the store keeps for feeds; None if there is no store."""
    noted: Callable[[], Sequence[SourceFile]] = tuple
    """Function that returns the files that the store has recorded, each as it was when it was read."""


class Feed(Protocol):
    """The reader of a source for one input."""

    def look(self, now: datetime, once: bool) -> OffsetRange | None:
        """Return the range of new data, or None.

        It must be cheap: it is called at every trigger. With `once` the run ends when nothing is new.
        """

    def read(self, spark: SparkSession, span: OffsetRange) -> Arrived:
        """Return exactly the rows of a range. A repeated call returns the same rows."""

    def committed(self, span: OffsetRange) -> None:
        """Set the feed's offset to the end of the range, after the epoch that read it was committed."""

    def close(self) -> None:
        """Release all resources at the end of the run."""


@runtime_checkable
class RenamingFeed(Protocol):
    """The feed of a connector whose file names may differ from those that the store has recorded."""

    def renames(self) -> Mapping[str, str]:
        """Return recorded names with the present ones, after `look`. The next epoch changes the records."""

    def renamed(self) -> None:
        """Forget the renames, after the epoch that recorded them was committed."""

    def notices(self) -> Sequence[str]:
        """Return notices for users, each once."""


class RereadableFeed(Feed, Protocol):
    """The feed of a connector with `reads_again = True`: data of past epochs can be read again."""

    def past(self, past: PastSpan, files: Sequence[SourceFile]) -> Iterable[OffsetRange]:
        """Yield the input of a past epoch, in parts that are read and committed one after the other.

        The rows are the same, in the same order. The feed must have been opened without an offset; all epochs are read
        in turn.

        `files` are those that the store has recorded for the epoch. Raises B7070 if the rows are no longer available
        unchanged.
        """


@dataclass(frozen=True)
class Sampled:
    """A sample of a table's rows as an epoch would read them, and what the source declares about the table."""

    arrived: Arrived
    names: tuple[str, ...] | None = None
    """Column names of the data, in the table's spelling if its format ignores case; None if unknown."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of the columns, if the source declares them and they are not inferred from a sample."""
    problems: tuple[Diagnostic, ...] = ()
    """Problems that would end a run although rows can be read."""
    order: Literal["rows", "parts", "none"] = "rows"
    """Rows of one key that are ordered: all rows, rows of one part (one producer), or none."""


@dataclass(frozen=True)
class Imported:
    """An input of a script that `table` of a source feeds, and the store's progress in it."""

    name: str
    """Name of the input in the script."""
    table: str
    offset: Offset = field(default_factory=dict)
    """Offset in the last epoch's row; empty if there is no store or no epoch yet."""
    files: frozenset[str] = frozenset()
    """Names of the files that the store has recorded for it."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Number of bytes that were read of each file."""


@dataclass(frozen=True)
class SourcePart:
    """A table of a source, or an independent part of one: its state, and the store's progress in it. For display."""

    table: str
    part: str = ""
    imported: str = ""
    """Name of the input that it feeds."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Counts and states by name: `{"messages": 3, "published": True, "wal_status": "reserved"}`."""
    first: int | str | None = None
    end: int | str | None = None
    taken: int | str | None = None
    """Offset of the store's last epoch."""
    behind: int | None = None
    """Amount of data that no epoch has read yet."""
    unit: str = ""
    """Unit of `behind`."""
    note: str = ""
    """Problem of this part, as a text for users."""


class Connector(Protocol):
    """A kind of source. A connector that only writes (`WritingConnector`) has none of these functions; one that cannot
    write has no `write`.

    Optional functions:

    - `parts(source, imports)` returns the `SourcePart`s that `belvedere sources` prints.
    - `sample(requested, rows, spark)` returns `Sampled`, about `rows` of the first and last rows. It does not change
      the source. `spark()` starts a session if one is needed.

    With `reads_again = True` its feeds are `RereadableFeed`s, and a new view can be filled from the source.
    """

    def tables(self, source: Source) -> Sequence[str]:
        """Return the tables of a source, quickly and without a JVM: `belvedere check` calls it."""

    def columns(self, source: Source, table: str) -> pa.Schema:
        """Return the columns of a table that the project file does not declare.

        Raises BelvedereError if it cannot find them.
        """

    def open_feed(self, requested: FeedRequest) -> Feed:
        """Open the feed of an input at its offset."""


@dataclass(frozen=True)
class Outgoing:
    """Parameters for opening an outlet: an export of a script to `target` of `sink`."""

    sink: Sink
    target: str
    store: str
    """Id of the store that has the events."""
    key: tuple[str, ...] = ()
    """Columns that identify the row of a change; empty if no visible columns do, and for events of a subscription."""
    relation: str = ""
    """Relation with the events: one relation may be exported to several targets."""
    again: int = 0
    """Number of times that the user has requested to send all events again."""
    notes: NoteStore | None = None
    """Notes that the store keeps for outlets; None if there is no store."""

    @property
    def name(self) -> str:
        """Return the name of an outlet's mark: resent events have the same target but a new numbering."""
        return f"{self.target} {self.again}" if self.again else self.target


class Outlet(Protocol):
    """The writer of one export to a sink that records its own progress.

    An outlet with `lasting = True` keeps this record as long as its events. If its record is behind the events that it
    received, events were lost.
    """

    def reached(self) -> int | None:
        """Return the `_seq` of the sink's last event; None if it has none.

        It is called before the first `write`, and after one that failed.
        """

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Write events in the order of `_seq`, all after `reached`."""

    def close(self) -> None:
        """Release all resources at the end of the run."""


class SharedOutlet(Protocol):
    """The writer of all exports to a sink that accepts them together. Exports are numbered from 0 on."""

    def reached(self) -> Sequence[int | None]:
        """Return `Outlet.reached` of each export."""

    def write(self, events: Iterable[tuple[int, pa.Table]]) -> None:
        """Write events with their export's number, all after `reached`; those of one export in the order of `_seq`."""

    def close(self) -> None:
        """Release all resources at the end of the run."""


class WritingConnector(Protocol):
    """A kind of sink. If its sinks record their progress, it has `open_outlet` or `open_shared_outlet` instead of
    `write`.

    It may have `place(sink, target)`: the canonical target of an export, which two exports may not share, or None if
    they may. Without `place` the target itself must be unique.
    """

    def write(self, sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
        """Write an epoch's events under the name `target`. After a crash the same epoch may be written again."""

    def open_outlet(self, outgoing: Outgoing) -> Outlet:
        """Open the writer of one export."""

    def open_shared_outlet(self, outgoings: Sequence[Outgoing]) -> SharedOutlet:
        """Open the writer of all exports to a sink."""
