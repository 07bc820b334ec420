"""The relational operator of WINDOW BY: a row for each window over the rows of its input.

In: an input, and what the kernels are told (`window_specs`). Out: a relation. No text of a query is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from enum import Enum, auto

from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import columns, columns_of
from belvedere.plan.operators import window_specs as specs
from belvedere.plan.operators.node import Node, Order, Partition, pruned_below
from belvedere.schema import Column, Schema

LABEL, FROM, TO, AFTER = "_label", "_from", "_to", "_after"
"""ORDER BY's first key at a window's label, start and end, and at the row after the end."""


class WindowForm(Enum):
    """How the windows of a sequence of rows are found."""

    TUMBLING = auto()
    """The next start is looked for behind the end of the last window."""
    SLIDING = auto()
    """From every start, each for itself."""
    LABELLED = auto()
    """For every label; START lies at a distance before it."""


class Neighbour(Enum):
    """A tuple beside its own that a condition may read."""

    PREVIOUS = auto()
    NEXT = auto()


class WindowEnd(Enum):
    """What ends a window."""

    CONDITION = auto()
    """The first tuple that fulfils END."""
    NEXT_START = auto()
    """The start of the next window: there is no END."""
    BEFORE_LABEL = auto()
    """The tuple before the label; windows without it are dropped, since no later row brings it."""


@dataclass(frozen=True, repr=False)
class Resume:
    """Windows with an end below a bound on `column`, ORDER BY's first key, are final; where END reads the NEXT tuple, with that below it.

    `neighbours`: those that some condition reads. TUMBLING windows must be looked for from the start of one on.
    """

    column: str
    form: WindowForm
    neighbours: frozenset[Neighbour] = frozenset()
    end: WindowEnd = WindowEnd.CONDITION

    @property
    def looks_back(self) -> bool:
        """Whether rows stay of which all windows are final, since later ones read them."""
        return Neighbour.PREVIOUS in self.neighbours or self.form is WindowForm.LABELLED

    def __repr__(self) -> str:
        """The text by which a store knows its choice of what is computed when it is read (`pipeline.placement`)."""
        before, ahead, tumbling, labelled = _in_words(self)
        endless = self.end is WindowEnd.NEXT_START
        return f"Resume(column={self.column!r}, {ahead}, {tumbling}, {endless=}, {before}, {labelled})"


@dataclass(frozen=True, repr=False)
class Ranges:
    """Windows that no change between two values of `column`, ORDER BY's first key, can reach can be told from the others.

    `neighbours`: those that some condition reads. Where windows are not TUMBLING, `closing` are the places of the alternatives of END whose
    nearest tuple never moves back as the start, or the label, moves on. TUMBLING windows are told by the stored ones.
    """

    column: str
    form: WindowForm
    neighbours: frozenset[Neighbour] = frozenset()
    closing: tuple[int, ...] = ()
    closing_end: specs.BoundarySpec | None = None
    """END by the closing alternatives alone."""
    descending: bool = False
    """Whether ORDER BY's first key falls from tuple to tuple."""
    end: WindowEnd = WindowEnd.CONDITION
    """Of LABELLED windows, whether END is BEFORE_LABEL."""

    def __repr__(self) -> str:
        """The text by which a store knows its choice of what is computed when it is read (`pipeline.placement`)."""
        before, ahead, tumbling, labelled = _in_words(self)
        closing, end = f"closing={self.closing!r}", f"end={self.closing_end!r}"
        pinned, descending = self.end is WindowEnd.BEFORE_LABEL, self.descending
        tail = f"{closing}, {end}, {descending=}, {labelled}, {pinned=}"
        return f"Ranges(column={self.column!r}, {before}, {ahead}, {tumbling}, {tail})"


def _in_words(of: Resume | Ranges) -> tuple[str, str, str, str]:
    before, ahead = Neighbour.PREVIOUS in of.neighbours, Neighbour.NEXT in of.neighbours
    tumbling, labelled = of.form is WindowForm.TUMBLING, of.form is WindowForm.LABELLED
    return f"{before=}", f"{ahead=}", f"{tumbling=}", f"{labelled=}"


def spec_columns(spec: specs.KernelSpec) -> Iterator[str]:
    """The columns of the input that boundaries and results read."""
    yield from spec.keys
    for boundary in (spec.label, spec.start, spec.end):
        if boundary is not None:
            yield from boundary_columns(boundary)
    for output in spec.outputs:
        yield from output_columns(output)


def boundary_columns(boundary: specs.BoundarySpec) -> Iterator[str]:
    """The columns of the input that a boundary reads."""
    terms = [*boundary.local, *(() if boundary.scan is None else (boundary.scan,))]
    for conjunction in boundary.search or ():
        terms += [*conjunction.known, *conjunction.local]
        terms += [t for c in conjunction.compares for t in (c.searched, c.known)]
    while terms:
        term = terms.pop()
        if isinstance(term, specs.OperationTerm):
            terms += term.parts
        elif term.column is not None:
            yield term.column
        if isinstance(term, specs.ColumnTerm):
            terms.append(term.missing)


def output_columns(output: specs.ResultColumn) -> Iterator[str]:
    """The columns of the input that a result reads."""
    if isinstance(output, specs.Members):
        yield from (c for _, c in output.fields)
    elif isinstance(output, specs.Gather | specs.Nth):
        yield output.column
    elif isinstance(output, specs.WindowAggregate):
        yield from (output.column, *(() if output.included is None else (output.included,)))


def output_names(output: specs.ResultColumn) -> tuple[str, ...]:
    """The columns that a result makes."""
    return (output.output, output.flag) if isinstance(output, specs.Nth) else (output.output,)


@dataclass(frozen=True)
class PredicateWindow(Node):
    """A row for each window over the input, whose boundaries are conditions on its rows (`spec`): the results, hidden columns behind.

    `spec.keys` are the columns by which rows are in one sequence, `order` says in which order there: equal rows alone tie.
    `partition` are the result's columns that hold the keys, `identity` those that tell windows apart: the key of the row at the label or
    start (`partition` where each sequence has one window); None where the input has no key. `start` is ORDER BY's first key at the start.
    """

    input: Node
    spec: specs.KernelSpec
    order: tuple[Order, ...]
    columns: tuple[Column, ...]
    identity: tuple[str, ...] | None = None
    partition: tuple[str, ...] = ()
    start: str | None = None
    resume: Resume | None = None
    """Whether old rows may go once their windows are final; None where any window may need them."""
    ranges: Ranges | None = None
    """How the windows that a change can reach are told from the others; None where any window of the partition may change."""
    why_all: str = ""
    """Why any window of the partition may change, in words."""
    by: tuple[str, ...] = ()
    """What each of the keys is, in words."""
    order_word: str = ""
    """What ORDER BY's first key is, in words."""
    ends: tuple[specs.Ends | None, specs.Ends | None] = (None, None)
    """What blocks of rows must know of END to find their windows alone, where all rows have an order key and where some do not."""
    why_one_task: str = ""
    """Why blocks cannot find their windows alone, in words."""

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.columns, self.identity)

    @property
    def text(self) -> str:
        return "window by" + (f" per [{', '.join(self.by)}]" if self.by else "")

    @property
    def key_by_key(self) -> Partition | None:
        if not self.partition:
            return None
        types = tuple(self.schema[n].type for n in self.partition)
        return Partition((columns(self.spec.keys),), columns(self.partition), types)

    def pruned(self, requested: frozenset[str]) -> Node:
        kept = self.with_results(requested)
        return pruned_below(kept, kept.reads.union(self.input.schema.key or ()))

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the input that are read."""
        closing = () if self.ranges is None or self.ranges.closing_end is None else boundary_columns(self.ranges.closing_end)
        return frozenset((*spec_columns(self.spec), *closing)).union(*(columns_of(o.expr) for o in self.order))

    @property
    def has_rows_key(self) -> bool:
        """Whether a window has the key of the row at its label or start, column by column."""
        given = {o.output: o.column for o in self.spec.outputs if isinstance(o, specs.Gather)}
        return self.identity is not None and tuple(given[n] for n in self.identity) == self.input.schema.key

    @property
    def shown(self) -> tuple[str, ...]:
        """The results that are no hidden columns."""
        return tuple(c.name for c in self.columns if not c.hidden)

    def with_results(self, requested: Set[str]) -> PredicateWindow:
        """The operator with those of its results, and what maintenance needs."""
        kept = set(requested) | {*(self.identity or ()), *self.partition, *(() if self.start is None else (self.start,))}
        outputs = tuple(o for o in self.spec.outputs if kept.intersection(output_names(o))) or self.spec.outputs[:1]
        names = {n for o in outputs for n in output_names(o)}
        return replace(
            self, spec=replace(self.spec, outputs=outputs), columns=tuple(c for c in self.columns if c.name in names)
        )


def reach_of(window: PredicateWindow, ranges: Ranges | None, column: str) -> PredicateWindow:
    """How far windows reach, dropped ones too: `column`, ORDER BY's first key, at LABEL, at the start (FROM), the end (TO) and AFTER it.

    With closing alternatives in `ranges` there is one from each row, or label, to where these end it.
    """
    spec, key = replace(window.spec, only=False), window.input.schema[column]
    if ranges is not None and ranges.closing_end is not None:
        every = specs.BoundarySpec()
        spec = replace(spec, start=every) if spec.label is None else replace(spec, label=every)
        spec = replace(spec, end=ranges.closing_end)
    places = [(FROM, "start", "item")]
    if spec.label is not None:
        places.insert(0, (LABEL, "label", "item"))
    if spec.end is not None:
        places += [(TO, "end", "item"), (AFTER, "end", "next")]
    hidden = window.with_results(frozenset())
    outputs = tuple(specs.Gather(name, side, role, column) for name, side, role in places)
    columns = tuple(Column(name, key.type) for name, _, _ in places)
    spec = replace(spec, outputs=(*outputs, *hidden.spec.outputs))
    return replace(window, spec=spec, columns=(*columns, *hidden.columns), ranges=None, start=None)
