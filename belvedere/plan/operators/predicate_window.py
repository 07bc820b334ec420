"""Relational operator of WINDOW BY: a row for each window over the rows of its input.

In: an input, and the specification for the kernels (`window_specs`). Out: a relation. It contains no query text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import columns, columns_of
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.operators import window_specs as specs
from belvedere.plan.operators.node import Node, Order, Partition, pruned_below
from belvedere.schema import Column, Schema

LABEL, FROM, TO, AFTER = "_label", "_from", "_to", "_after"
"""Names of columns with ORDER BY's first key at a window's label, start and end, and at the row after the end."""


class WindowForm(Enum):
    """How the windows of a sequence of rows are found."""

    TUMBLING = auto()
    """The search for the next start begins after the end of the last window."""
    SLIDING = auto()
    """One window from every start, independent of the others."""
    LABELLED = auto()
    """One window per label; START is at a distance before it."""


class Neighbour(Enum):
    """A tuple adjacent to the current one that a condition may read."""

    PREVIOUS = auto()
    NEXT = auto()


class WindowEnd(Enum):
    """The end of a window."""

    CONDITION = auto()
    """The first tuple that fulfils END."""
    NEXT_START = auto()
    """The start of the next window: there is no END."""
    BEFORE_LABEL = auto()
    """The tuple before the label; windows without it are dropped, since no later row provides it."""


Place = tuple[str, str]
"""A tuple of a window: (side, role)."""


@dataclass(frozen=True)
class Gap:
    """Finality of windows with a gap condition. A window with an end is final if the tuple of `side` is `length`
    microseconds below the bound, because every later tuple keeps the gap."""

    side: str
    length: int


@dataclass(frozen=True, repr=False)
class Resume:
    """Finality of windows: one whose end is below a bound on `column`, ORDER BY's first key, is final.

    If END reads the NEXT tuple, that tuple must also be below the bound. `neighbours` are the adjacent tuples that
    conditions read. The search for TUMBLING windows must begin at the start of a window.
    """

    column: str
    form: WindowForm
    neighbours: frozenset[Neighbour] = frozenset()
    end: WindowEnd = WindowEnd.CONDITION
    gap: Gap | None = None
    """Gap condition, if END only tests the distance to the NEXT tuple: no later tuple can change such an end."""
    if_timed: bool = False
    """Whether this only holds if each row has a time: a NULL would come before all others."""
    looks_ahead_first: bool = False
    """Whether START or LABEL reads the NEXT tuple."""

    @property
    def opening(self) -> Place:
        """Return the tuple that identifies a window: its label or its start."""
        return ("label" if self.form is WindowForm.LABELLED else "start"), "item"

    @property
    def looks_back(self) -> bool:
        """Return whether rows must be kept after all their windows are final, since later rows read them."""
        return Neighbour.PREVIOUS in self.neighbours or self.form is WindowForm.LABELLED

    def __repr__(self) -> str:
        """Return the text that identifies a stored choice of views computed at read time (`pipeline.placement`)."""
        before, ahead, tumbling, labelled = _in_words(self)
        endless = self.end is WindowEnd.NEXT_START
        return f"Resume(column={self.column!r}, {ahead}, {tumbling}, {endless=}, {before}, {labelled})"


@dataclass(frozen=True, repr=False)
class Ranges:
    """Identification of windows that a change between two values of `column`, ORDER BY's first key, cannot affect.

    `neighbours`: rows that some condition reads. For windows other than TUMBLING, `closing` are the positions of
    certain END alternatives: their nearest tuple never moves back as the start, or the label, moves forward. TUMBLING
    windows are identified by the stored ones.
    """

    column: str
    form: WindowForm
    neighbours: frozenset[Neighbour] = frozenset()
    closing: tuple[int, ...] = ()
    closing_end: specs.BoundarySpec | None = None
    """END with only the closing alternatives."""
    descending: bool = False
    """Whether ORDER BY's first key decreases from tuple to tuple."""
    end: WindowEnd = WindowEnd.CONDITION
    """End of the window; BEFORE_LABEL only for LABELLED windows."""

    def __repr__(self) -> str:
        """Return the text that identifies a stored choice of views computed at read time (`pipeline.placement`)."""
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
    """Yield the input columns that boundaries and results read."""
    yield from spec.keys
    for boundary in (spec.label, spec.start, spec.end):
        if boundary is not None:
            yield from boundary_columns(boundary)
    for output in spec.outputs:
        yield from output_columns(output)


def boundary_columns(boundary: specs.BoundarySpec) -> Iterator[str]:
    """Yield the input columns that a boundary reads."""
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
    """Yield the input columns that a result reads."""
    if isinstance(output, specs.Members):
        yield from (c for _, c in output.fields)
    elif isinstance(output, specs.Gather | specs.Nth):
        yield output.column
    elif isinstance(output, specs.WindowAggregate):
        yield from (output.column, *(() if output.included is None else (output.included,)))


def output_names(output: specs.ResultColumn) -> tuple[str, ...]:
    """Return the columns that a result creates."""
    return (output.output, output.flag) if isinstance(output, specs.Nth) else (output.output,)


@dataclass(frozen=True)
class PredicateWindow(Node):
    """A row for each window over the input, whose boundaries are conditions on its rows (`spec`): the results, then
    hidden columns.

    `spec.keys` are the columns that partition the rows into sequences. `order` sorts each sequence; only equal rows
    tie. `partition` are the result's columns with the keys. `identity` are the columns that identify windows: the key
    of the row at the label or start (`partition` if each sequence has one window); None if the input has no key.
    `start` is ORDER BY's first key at the start.
    """

    input: Node
    spec: specs.KernelSpec
    order: tuple[Order, ...]
    columns: tuple[Column, ...]
    identity: tuple[str, ...] | None = None
    partition: tuple[str, ...] = ()
    start: str | None = None
    settling: Resume | None = None
    """Condition under which windows are final; None if any window may need rows of any age."""
    ranges: Ranges | None = None
    """How to identify the windows that a change can reach; None if any window of the partition may change."""
    why_all: str = ""
    """Reason in words why any window of the partition may change."""
    by: tuple[str, ...] = ()
    """Description of each key."""
    order_word: str = ""
    """Description of ORDER BY's first key."""
    ends: tuple[specs.Ends | None, specs.Ends | None] = (None, None)
    """Facts about END with which blocks of rows find their windows independently: if all rows have an order key, and if
    some do not."""
    why_one_task: str = ""
    """Reason in words why blocks cannot find their windows independently."""
    gap_times: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """Names of hidden columns with a time from which a `Gap` counts, and its length. A window that ends later may have
    this time below the bound.

    Such a window is final at once, but a group of windows by this time would not be.
    """
    hidden_times: frozenset[str] = field(default=frozenset(), repr=False)
    """Names of hidden columns with a time that decides whether a window is final, but is no bound for added windows."""

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.columns, self.identity)

    @property
    def resume(self) -> Resume | None:
        """Return when old rows may be dropped because their windows are final; None if any window may need them."""
        found = self.settling
        return None if found is None or (found.if_timed and found.column not in self.input.never_null) else found

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

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the bounds of its columns. A later row changes windows whose end is not below the bound, or whose next
        tuple is not, if conditions read it.

        It also adds windows whose label, or start, is not below the bound. `final_times` gives the results that hold
        these times.
        """
        resume, below = self.resume, self.input.bounds(known)
        own = {o: below[k] for o, k in zip(self.partition, self.spec.keys, strict=True) if k in below}
        bound = below.get(resume.column) if resume is not None else None
        ends = final_times(resume) if resume is not None else {}
        if resume is None or bound is None or not ends:
            return (own,)
        times = self._times(resume)
        changed = {o.output: bound for o in times if ends.get((o.side, o.role)) == 0}
        added = {o.output: bound for o in times if (o.side, o.role) == resume.opening}
        if resume.form is not WindowForm.LABELLED:  # the end of an added window is not before its start
            added |= {n: b for n, b in changed.items() if n not in self.hidden_times}
        names = {o.output for o in self.spec.outputs}
        for name, length in self.gap_times:
            if name in names:
                changed[name] = bound if bound in (NEVER, FOREVER) else bound - length
        return {**own, **changed}, {**own, **added}

    def _times(self, resume: Resume) -> list[specs.Gather]:
        """Return the results that are ORDER BY's first key of a tuple."""
        return [o for o in self.spec.outputs if isinstance(o, specs.Gather) and o.column == resume.column]

    def with_times(self, places: Mapping[Place, str], last: str | None) -> PredicateWindow:
        """Return the operator with ORDER BY's first key of tuples as hidden columns.

        `last` is the name of that of the last tuple, also of windows without an end.
        """
        resume = self.settling
        assert resume is not None
        key = self.input.schema[resume.column]
        outputs: tuple[specs.ResultColumn, ...] = tuple(
            specs.Gather(name, side, role, key.name) for (side, role), name in places.items()
        )
        hidden = tuple(Column(name, key.type, side == "end", hidden=True) for (side, _), name in places.items())
        if last is not None:
            outputs += (specs.WindowAggregate(last, "MAX", key.name),)
            hidden += (Column(last, key.type, hidden=True),)
        gap = resume.gap
        late = () if gap is None else (places.get((gap.side, "item")), last if gap.side == "end" else None)
        return replace(
            self,
            spec=replace(self.spec, outputs=(*self.spec.outputs, *outputs)),
            columns=(*self.columns, *hidden),
            gap_times=tuple((n, gap.length) for n in late if n is not None and gap is not None),
            hidden_times=frozenset(n for p, n in places.items() if p != resume.opening),
        )

    @property
    def shows_end(self) -> bool:
        """Return whether a window changes when it gets an end, even if its tuples stay the same."""
        return self.spec.only or any(_shows_end(o) for o in self.spec.outputs)

    @property
    def reads(self) -> frozenset[str]:
        """Return the input columns that it reads."""
        closing = (
            () if self.ranges is None or self.ranges.closing_end is None else boundary_columns(self.ranges.closing_end)
        )
        return frozenset((*spec_columns(self.spec), *closing)).union(*(columns_of(o.expr) for o in self.order))

    @property
    def has_rows_key(self) -> bool:
        """Return whether a window has, column by column, the key of the row at its label or start."""
        given = {o.output: o.column for o in self.spec.outputs if isinstance(o, specs.Gather)}
        return self.identity is not None and tuple(given[n] for n in self.identity) == self.input.schema.key

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the results that are not hidden columns."""
        return tuple(c.name for c in self.columns if not c.hidden)

    def with_results(self, requested: Set[str]) -> PredicateWindow:
        """Return the operator with these results, and those that maintenance needs."""
        kept = set(requested) | {
            *(self.identity or ()),
            *self.partition,
            *(() if self.start is None else (self.start,)),
        }
        outputs = tuple(o for o in self.spec.outputs if kept.intersection(output_names(o))) or self.spec.outputs[:1]
        names = {n for o in outputs for n in output_names(o)}
        return replace(
            self, spec=replace(self.spec, outputs=outputs), columns=tuple(c for c in self.columns if c.name in names)
        )


def _shows_end(output: specs.ResultColumn) -> bool:
    """Return whether a result reads the tuple at END, or the MISSING of a window without an end."""
    match output:
        case specs.Gather() | specs.BoundaryPosition() | specs.Flag():
            return output.side == "end" or (not isinstance(output, specs.BoundaryPosition) and output.role == "next")
        case specs.Nth():
            return output.index < 0
        case specs.WindowAggregate():
            return output.strict
        case _:
            return True


def final_times(resume: Resume) -> dict[Place, int]:
    """Return tuples as (side, role) with the distance below the bound from which a window with the tuple is final.

    One of them is enough; the result is empty if no tuple decides this.
    """
    if resume.end is not WindowEnd.CONDITION:
        return {}
    if Neighbour.NEXT not in resume.neighbours:
        return {("end", "item"): 0}
    if resume.form is WindowForm.LABELLED and resume.looks_ahead_first:
        return {}
    found = {("end", "next"): 0}
    if resume.gap is not None and resume.form is not WindowForm.LABELLED and not resume.looks_ahead_first:
        found[resume.gap.side, "item"] = resume.gap.length or 1
    return found


def reach_of(window: PredicateWindow, ranges: Ranges | None, column: str) -> PredicateWindow:
    """Return the operator that gives the reach of windows, including dropped ones: `column` (ORDER BY's first key) at
    LABEL, at the start (FROM), the end (TO) and AFTER it.

    With closing alternatives in `ranges` there is a window from each row, or label, to the end that these give.
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
