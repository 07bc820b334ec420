"""A pipeline: how every view is kept, as data that `explain` prints and the engine runs.

In: nothing. Out: immutable stages in the order in which an epoch runs them. A stage's plan is a tree over `Scan`s of its
slots; a slot names the relation that feeds it and the access path by which old rows are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from belvedere.catalog import ChangeKind
from belvedere.engine.relation import Relation, Slot
from belvedere.plan.nodes import Aggregate, Expr, Node
from belvedere.rules.emit.emission import Emission
from belvedere.rules.frames.frames import Frames
from belvedere.rules.window_by.settling import Reach, Settling
from belvedere.schema import SINCE_EPOCH, SINCE_TIME, TIMESTAMP, UNTIL_EPOCH, UNTIL_TIME, Column

WAITING = "$waiting"
"""Suffix of the relation that holds the rows of a CLOCK stage whose time to enter has not come."""


STATE = "$state"
"""Suffix of the relation that holds the accumulators of a MERGE stage, or where the windows of WINDOW BY end."""


OWN = "own"
"""The scan by which a TOP, FIRST or SESSIONS stage reads its own rows."""


OPERATION, EVENT_TIME, SEQUENCE, OLD = "_op", "_event_time", "_seq", "_old"
EVENT_COLUMNS = (
    Column(OPERATION, pa.string(), nullable=False),
    Column(EVENT_TIME, TIMESTAMP, nullable=False),
    Column(SEQUENCE, pa.int64(), nullable=False),
)
"""What every event has besides its row: ADD, CHANGE or DELETE, the epoch's clock, an ever-growing number."""

VERSION_COLUMNS = (
    Column(SINCE_EPOCH, pa.int64(), nullable=False, hidden=True),
    Column(UNTIL_EPOCH, pa.int64(), hidden=True),
    Column(SINCE_TIME, TIMESTAMP, nullable=False, hidden=True),
    Column(UNTIL_TIME, TIMESTAMP, hidden=True),
)
"""What a version of a row has besides the row."""

CHANGES = "$changes"
"""Suffix of the relation that holds an exported relation's changes until they are delivered."""


class Rule(StrEnum):
    """How a stage turns the changes of its inputs into the changes of its output."""

    INGEST = "ingest"
    CONSTANT = "constant"
    LINEAR = "linear"
    KEYED = "keyed"
    WHOLE = "whole"
    JOIN = "join"
    EXISTENCE = "existence"
    MERGE = "merge"
    TOP = "top"
    FIRST = "first"
    CLOCK = "clock"
    EVENTS = "events"
    EMIT = "emit"
    ORDER = "order"
    WINDOWS = "windows"
    SESSIONS = "sessions"
    HISTORY = "history"


@dataclass(frozen=True)
class Accumulator:
    """One aggregate kept as columns: what an epoch adds, how two states become one, and the result.

    `partials` are aggregates over the rows of a delta (they may read `_weight`); `merge` gives, per state column, an
    expression over `old.<column>` and `new.<column>`; `result` is the aggregate's value over the state columns.
    """

    columns: tuple[tuple[str, pa.DataType], ...]
    partials: tuple[Expr, ...]
    merge: tuple[Expr, ...]
    result: Expr


@dataclass(frozen=True)
class Following:
    """How a stage goes on behind a stored row of its output, for window functions whose frames grow.

    `plan` computes the output for rows that have the columns of `last` beside them; each of these is a column of the output at the row
    before, which is the one of its `partition` with the greatest `number` among those of the nearest `order`.
    """

    plan: Node
    order: str
    number: str
    partition: tuple[str, ...]
    last: tuple[tuple[str, Column], ...]


@dataclass(frozen=True)
class Stage:
    """One step of an epoch: computes the change of `output` from the changes of its slots' relations."""

    output: str
    rule: Rule
    plan: Node
    slots: tuple[Slot, ...] = ()
    path: str | None = None
    """The output's access path that corresponds to the slots' paths (KEYED, MERGE)."""
    owner: str = ""
    """The id of the view that this stage is a part of."""
    reason: str = ""
    reads_clock: bool = False
    """Whether time alone changes the output: the stage runs in every epoch."""
    state: str | None = None
    """The relation that holds the accumulators (MERGE: `plan` is then over `Scan("state")` alone), where windows end (KEYED), or from
    where on they are not final (WINDOWS)."""
    partial: Aggregate | None = None
    """What an epoch adds to the accumulators, over the slots' changes with `_weight` (MERGE)."""
    merge: tuple[Expr, ...] = ()
    """Per state column after the keys how `old` and `new` become one (MERGE)."""
    least: int = 0
    """How many of the first rows are shown; the others are there to follow when some of them go (FIRST)."""
    keep: int | None = None
    """Microseconds for which versions stay that are over (HISTORY); None = always."""
    on: ChangeKind | None = None
    """Which changes of the slot's relation make events (EVENTS); None = all."""
    emission: Emission | None = None
    """By what rows are grouped and completed (EMIT), or by which time they come out (ORDER)."""
    settling: Settling | None = None
    """When rows leave the state of windows (WINDOWS)."""
    frames: Frames | None = None
    """Which rows of a key a change can reach (KEYED, for window functions)."""
    following: Following | None = None
    """How rows from a change on are computed from the row before them (with `frames`)."""
    reach: Reach | None = None
    """Which rows of a key a change can reach (KEYED, for WINDOW BY); None where all of them are computed again."""


@dataclass(frozen=True)
class Pipeline:
    """All relations by name and the stages in order: a stage comes after those that feed it."""

    relations: Mapping[str, Relation] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    served: Mapping[str, str] = field(default_factory=dict)
    """Which relation holds each public id."""
    unsettled: frozenset[str] = frozenset()
    """Inputs whose rows may change below their bounds: these make nothing final."""
    by_cost: bool = True
    """Whether keyed operators and joins are recomputed whole in epochs in which most of their input changes."""

    def is_served(self, relation: str) -> bool:
        """Whether somebody outside the pipeline reads a relation: then its rows are results."""
        return relation in self.served.values()

    @property
    def reads_clock(self) -> bool:
        """Whether time alone changes some view, so that the clock must start epochs."""
        return any(s.reads_clock for s in self.stages)

    @property
    def delays(self) -> frozenset[int]:
        """The delays after which changes are emitted, in microseconds."""
        return frozenset(s.emission.delay for s in self.stages if s.emission is not None and s.emission.delay is not None)
