"""Rows that were found: how many, and the first of them by key.

In: plans of rows. Out: counts and samples, all of one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Diagnostic
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Aggregate, Item, Join, JoinKind, Node, Order, Scan, TopK
from belvedere.provenance.asking import Asker
from belvedere.provenance.carried import why_not_stored
from belvedere.schema import Schema
from belvedere.store.protocol import EpochRow

if TYPE_CHECKING:
    from belvedere.provenance.why import Why

SAMPLE = 5
"""How many rows are shown of each relation."""
COUNT = "n"


@dataclass(frozen=True)
class Read:
    """Rows of one relation that a row was made of: how many, and the first of them by key."""

    relation: str
    """The relation's id; of what was dropped on the way, that of the operator's first input."""
    words: str
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    order: tuple[str, ...] = ()
    """The columns by which the sample is the first rows."""
    untold: str = ""
    """Why its rows cannot be told."""
    below: tuple[Why, ...] = ()
    """For rows of views that were followed: what they were made of."""
    between: tuple[str, ...] = ()
    """Of rows between operators, which are no rows of `relation`: all relations whose columns they may have, by their ids."""


def counted(rows: Node) -> Node:
    """How many rows there are."""
    return Aggregate(rows, (), (Item(COUNT, exp.Count(this=exp.Star()), pa.int64(), nullable=False),))


def sampled(rows: Node, order: tuple[str, ...], size: int) -> Node:
    """The first rows by key."""
    return TopK(rows, tuple(Order(column(n)) for n in order), size)


def sample_order(schema: Schema) -> tuple[str, ...]:
    """The key of a relation, as far as it can be ordered."""
    return tuple(n for n in schema.key or () if not pa.types.is_nested(schema[n].type))


def relations_of(node: Node) -> tuple[str, ...]:
    """The relations whose columns the rows of an operator may have."""
    return tuple(dict.fromkeys(_scanned(node)))


def _scanned(node: Node) -> Iterator[str]:
    if isinstance(node, Scan):
        yield node.relation
    only_left = isinstance(node, Join) and node.kind in (JoinKind.SEMI, JoinKind.ANTI)
    for below in node.inputs[:1] if only_left else node.inputs:
        yield from _scanned(below)


def not_stored(asker: Asker, read: Read) -> Read:
    """That the rows of a relation are nowhere."""
    return replace(read, untold=why_not_stored(asker.catalog, read.relation))


@dataclass(frozen=True)
class Question:
    """Rows that are to be counted and sampled."""

    read: Read
    rows: Node | None


def told(asker: Asker, questions: Sequence[Question], size: int) -> tuple[EpochRow | None, list[Read]]:
    """Count and sample the rows of each question, all of one epoch, which is given too."""
    pairs = [(counted(q.rows), sampled(q.rows, q.read.order, size)) for q in questions if q.rows is not None]
    plans = list(dict.fromkeys(p for pair in pairs for p in pair))  # the rows that a view read may be those of the inputs, too
    asked = asker.ask(plans)
    answers = dict(zip(plans, asked.rows, strict=True))
    waiting = iter(pairs)
    found = []
    for question in questions:
        if question.rows is None:
            found.append(question.read)
            continue
        count, rows = (answers[p] for p in next(waiting))
        problem = next((a for a in (count, rows) if isinstance(a, Diagnostic)), None)
        if problem is not None:
            found.append(replace(question.read, untold=problem.message))
        else:
            found.append(replace(question.read, count=count[COUNT][0].as_py(), rows=tuple(rows.to_pylist())))  # type: ignore[union-attr,index]
    return asked.epoch, found
