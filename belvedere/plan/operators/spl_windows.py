"""SPL windows as policies: the meaning of a WINDOW clause of IBM Streams' SPL, without its text.

In: nothing. Out: frozen descriptions that the language front end creates, the kernel executes and `explain` prints.
Source: IBM Streams, SPL language specification, window clause. Every duration is in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Count:
    """`count(n)`: n rows. As an eviction policy, the maximum number of rows; as a trigger, every n-th row."""

    rows: int


@dataclass(frozen=True)
class Time:
    """`time(s)`: as an eviction policy, older rows leave. As a trigger (or in a tumbling window), a timer on a grid
    from 1970."""

    micros: int


@dataclass(frozen=True)
class Delta:
    """`delta(column, step)`: exceeded if `column` of a row is more than `step` above that of the reference row.

    `step` is in the column's unit, microseconds for a timestamp.
    """

    column: str
    step: int | float | Decimal
    of_time: bool = False
    """Whether the column is a timestamp."""


@dataclass(frozen=True)
class Punctuation:
    """`punct()`: a tumbling window ends with each firing of the view below."""


Policy = Count | Time | Delta


@dataclass(frozen=True)
class Tumbling:
    """Rows accumulate, fire together and leave together."""

    eviction: Policy | Punctuation


@dataclass(frozen=True)
class Sliding:
    """Rows leave one by one by `eviction`; the contents fire by `trigger`."""

    eviction: Policy
    trigger: Policy


@dataclass(frozen=True)
class Interval:
    """`timeInterval`: panes of event time, `[n * period + offset, n * period + offset + duration)`, n any integer."""

    duration: int
    period: int
    discard: int = 0
    offset: int = 0


@dataclass(frozen=True)
class PartitionAge:
    """`partitionAge(s)`: a partition without a new row for longer than this is removed."""

    micros: int


@dataclass(frozen=True)
class PartitionCount:
    """`partitionCount(n)`: if there are more than n partitions, the one without a new row for the longest time is
    removed."""

    partitions: int


@dataclass(frozen=True)
class TupleCount:
    """`tupleCount(n)`: while all partitions together hold more than n rows, the one without a new row for the longest
    time is removed."""

    rows: int


Forgetting = PartitionAge | PartitionCount | TupleCount


@dataclass(frozen=True)
class SplWindow:
    """A whole clause: the kind with its policies, the removal of partitions, and the options of the operator."""

    kind: Tumbling | Sliding | Interval
    forgetting: Forgetting | None = None
    incomplete: bool = False
    """`aggregateIncompleteWindows`: a sliding window also fires before it was full for the first time."""
    evicted: bool = False
    """`aggregateEvictedPartitions`: a removed partition fires before it leaves."""
    final: bool = False
    """`flushOnFinal`: the contents of a tumbling window fire when its input ends."""

    @property
    def policies(self) -> tuple[Policy | Punctuation, ...]:
        """Return the eviction and trigger policies that the kind has."""
        match self.kind:
            case Tumbling(eviction):
                return (eviction,)
            case Sliding(eviction, trigger):
                return (eviction, trigger)
        return ()

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the policies read."""
        return frozenset(p.column for p in self.policies if isinstance(p, Delta))

    @property
    def text(self) -> str:
        """Return the clause in SPL's words, times in seconds; the options after it."""
        words = [_kind_text(self.kind)]
        words += [_policy_text(p) for p in self.policies]
        words += [] if self.forgetting is None else [_forgetting_text(self.forgetting)]
        options = {
            "aggregateIncompleteWindows": self.incomplete,
            "aggregateEvictedPartitions": self.evicted,
            "flushOnFinal": self.final,
        }
        return ", ".join([*words, *(name for name, said in options.items() if said)])


def seconds_text(micros: int) -> str:
    """Return a duration in seconds, without trailing zeros."""
    whole, part = divmod(micros, 1_000_000)
    return f"{whole}.{part:06d}".rstrip("0") if part else str(whole)


def _kind_text(kind: Tumbling | Sliding | Interval) -> str:
    if not isinstance(kind, Interval):
        return type(kind).__name__.lower()
    parts = [f"intervalDuration({seconds_text(kind.duration)})"]
    parts += [f"creationPeriod({seconds_text(kind.period)})"] if kind.period != kind.duration else []
    parts += [f"discardAge({seconds_text(kind.discard)})"] if kind.discard else []
    parts += [f"intervalOffset({seconds_text(kind.offset)})"] if kind.offset else []
    return ", ".join(["timeInterval", *parts])


def _policy_text(policy: Policy | Punctuation) -> str:
    match policy:
        case Count(rows):
            return f"count({rows})"
        case Time(micros):
            return f"time({seconds_text(micros)})"
        case Delta(column, step, of_time):
            return f"delta({column}, {seconds_text(int(step)) if of_time else step})"
        case Punctuation():
            return "punct()"


def _forgetting_text(forgetting: Forgetting) -> str:
    match forgetting:
        case PartitionAge(micros):
            return f"partitionAge({seconds_text(micros)})"
        case PartitionCount(partitions):
            return f"partitionCount({partitions})"
        case TupleCount(rows):
            return f"tupleCount({rows})"
