"""Versions of a row in a history, with the input rows that caused each.

In: a relation WITH HISTORY, one of its rows. Out: its newest versions, their number, and when the row appeared. A
version comes with the input rows that arrived in the epoch in which it began; deleted ones are known if the input has a
history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from belvedere.catalog.views import View
from belvedere.errors import Diagnostic
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Node, Order, Scan, TopK
from belvedere.provenance.constants import row_tests
from belvedere.provenance.epoch_lookup import Moment, arrived_in
from belvedere.provenance.findings import FoundRows, Version
from belvedere.provenance.found_rows import COUNT, Question, answered, counted, not_stored, sample_order
from belvedere.provenance.narrowing import restricted
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate, matching, other, same, test
from belvedere.provenance.why.backward import trace
from belvedere.provenance.why.input_rows import grouped, is_chosen, root_predicate, rows_named, to_inputs
from belvedere.provenance.why.traces import Backward, Traced, Trail
from belvedere.schema import HISTORY, SINCE_EPOCH, SINCE_TIME, UNTIL_EPOCH, UNTIL_TIME, Schema
from belvedere.store.protocol import EpochRow
from belvedere.store.read.query import is_ordered
from belvedere.store.stage_memory import HistoryMemory, Memories

NEWEST = (Order(column(SINCE_EPOCH), descending=True),)
ARRIVED, WENT = "arrived", "were deleted or replaced"


@dataclass(frozen=True)
class Versions:
    """Versions of a row in a history: the newest ones, newest first, and the number of all."""

    newest: tuple[Version, ...]
    count: int
    changed: Moment | None
    """Start of the newest version; None if the history starts with it, since the row may be older."""
    appeared: Moment | None
    """Start of the first version of an unbroken sequence up to the newest; None if the history does not reach back to
    it."""
    unknown: tuple[str, ...] = ()


def versions_of(past: QueryRunner, id_: str, row: Mapping[str, Any], size: int) -> Versions:
    """Return the versions of a row. `past` has the tables of histories."""
    own, history = past.catalog.schema_of(id_), past.tables[id_ + HISTORY]
    key = {n: own[n].type for n in own.key or ()}
    rows = restricted(Scan(history.name, history.schema), RowPredicate(row_tests(row, key)))
    follows = exp.EQ(this=column(SINCE_EPOCH), expression=other(UNTIL_EPOCH))
    first = restricted(rows, matching(rows, follows, negated=True))
    begun, ended = _changes(rows, own)
    answers = past.ask([counted(begun), TopK(begun, NEWEST, size), TopK(ended, NEWEST, size), TopK(first, NEWEST, 1)])
    found = [a for a in answers.rows if not isinstance(a, Diagnostic)]
    if len(found) < len(answers.rows):
        untold = next(a.message for a in answers.rows if isinstance(a, Diagnostic))
        return Versions((), 0, None, None, (f"its versions: {untold}",))
    count, newest, last, began = found
    pairs = zip(newest.to_pylist(), last.to_pylist(), strict=True)
    versions = [_version({**v, **{n: end[n] for n in (UNTIL_EPOCH, UNTIL_TIME)}}, own.names) for v, end in pairs]
    if id_ in past.catalog.views:
        versions = _with_rows(past, past.catalog.views[id_], versions, size)
    appeared = next((_version(v, ()).since for v in began.to_pylist()), None)
    changed = versions[0].since if versions else None
    unknown: tuple[str, ...] = ()
    if appeared is not None and not _is_known(history.name, appeared, answers.epoch):
        changed, appeared, unknown = (
            None if changed == appeared else changed,
            None,
            (_too_early(history.name, answers.epoch),),
        )
    return Versions(tuple(versions), count[COUNT][0].as_py(), changed, appeared, unknown)


def _changes(rows: Node, own: Schema) -> tuple[Node, Node]:
    """Return the versions that differ from the previous one, and those that differ from the next one.

    An input row that arrives again has another `_ingest_time`, which is no change. If values are not comparable, every
    version counts.
    """
    if not all(is_ordered(c.type) for c in own.visible):
        return rows, rows
    equal = same(None, [c.name for c in own.visible])
    sides = ((SINCE_EPOCH, UNTIL_EPOCH), (UNTIL_EPOCH, SINCE_EPOCH))
    begun, ended = (
        restricted(rows, matching(rows, exp.EQ(this=column(mine), expression=other(theirs)), *equal, negated=True))
        for mine, theirs in sides
    )
    return begun, ended


def questions(past: QueryRunner, inputs: Iterable[Sequence[Traced]], moment: Moment) -> Iterator[Question]:
    """Yield questions on the input rows of a row that arrived or were deleted in an epoch."""
    arrived = arrived_in(past, moment)
    for traces in inputs:
        relation = traces[0].relation
        came = [t for t in traces if not t.ahead]
        read = FoundRows(relation.relation, ARRIVED, order=sample_order(relation.schema))
        history = past.tables.get(relation.relation + HISTORY)
        if history is not None and moment.epoch is not None:
            scan = Scan(history.name, history.schema)
            for name, words in ((SINCE_EPOCH, ARRIVED), (UNTIL_EPOCH, WENT)):
                then = test(exp.EQ(this=column(name), expression=exp.Literal.number(moment.epoch)))
                if found := came if words == ARRIVED else traces:
                    yield Question(replace(read, words=words), rows_named(past, _narrower(found, scan, then)))
        elif past.is_there(relation.relation):
            if came:
                yield Question(read, rows_named(past, _narrower(came, relation, arrived)))
        else:
            yield Question(not_stored(past, read), None)


def rows_of_inputs(
    past: QueryRunner, view: View, row: Mapping[str, Any], *, is_there: bool = True, version: bool = False
) -> list[list[Traced]]:
    """Return a row's input rows by input, with all their columns.

    `is_there`: the row exists now. `version`: the row is a first state, so changes of rows sorted before it count.
    """
    back = Backward(past.definition)
    requested = root_predicate(view.plan, row, whole=version and is_chosen(past.catalog, view.plan))
    ways = trace(back, view.plan, requested, Trail(certain=is_there, past=version))
    found = [i for w in ways if isinstance(w, Traced) for i in to_inputs(past, back, w, past=version)]
    whole = [replace(t, relation=Scan(t.relation.relation, past.catalog.schema_of(t.relation.relation))) for t in found]
    return list(grouped(whole, lambda t: t.relation.relation))


def _narrower(traces: Sequence[Traced], relation: Scan, more: RowPredicate) -> list[Traced]:
    return [replace(t, relation=relation, requested=t.requested + more) for t in traces]


def _version(row: Mapping[str, Any], names: Sequence[str]) -> Version:
    until = None if row[UNTIL_EPOCH] is None else Moment(row[UNTIL_EPOCH], row[UNTIL_TIME])
    return Version({n: row[n] for n in names}, Moment(row[SINCE_EPOCH], row[SINCE_TIME]), until)


def _with_rows(past: QueryRunner, view: View, versions: list[Version], size: int) -> list[Version]:
    """Return the versions with the input rows that arrived or were deleted when each began."""
    inputs = [rows_of_inputs(past, view, v.row, is_there=v.until is None, version=True) for v in versions]
    asked = [list(questions(past, i, v.since)) for i, v in zip(inputs, versions, strict=True)]
    _, found = answered(past, [q for part in asked for q in part], size)
    answers = iter(found)
    made = [tuple(r for _ in part if (r := next(answers)).count or r.untold) for part in asked]
    return [replace(v, made_by=m) for v, m in zip(versions, made, strict=True)]


def _began(history: str, row: EpochRow | None) -> int | None:
    """Return the first epoch of a history."""
    return Memories.of(row.extra).recall(history, HistoryMemory).began if row is not None else None


def _is_known(history: str, appeared: Moment, row: EpochRow | None) -> bool:
    """Return whether no earlier version can exist: the history is as old as the store, or dropped nothing that ended
    then."""
    began = _began(history, row)
    return began is not None and (began == 1 or (appeared.epoch or 0) > began)


def _too_early(history: str, row: EpochRow | None) -> str:
    began = _began(history, row)
    return "when a row of its key appeared: its history " + (f"begins with epoch {began}" if began else "is incomplete")
