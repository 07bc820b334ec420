"""Found rows: their number, and the first ones by key.

In: plans of rows. Out: counts and samples, all of one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Diagnostic
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Item, Join, JoinKind, Node, Order, Scan, TopK
from belvedere.provenance.findings import FoundRows
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.why.covering_views import why_not_stored
from belvedere.schema import INGEST_TIME, UID, Schema
from belvedere.store.protocol import EpochRow

SAMPLE = 5
"""Default number of rows in a sample."""
COUNT = "n"
LAST = (Order(column(INGEST_TIME), descending=True), Order(column(UID), descending=True))


def counted(rows: Node) -> Node:
    """Return the plan that counts rows."""
    return Aggregate(rows, (), (Item(COUNT, exp.Count(this=exp.Star()), pa.int64(), nullable=False),))


def sampled(rows: Node, order: tuple[str, ...], size: int) -> Node:
    """Return the plan of the first rows in an order."""
    return TopK(rows, tuple(Order(column(n)) for n in order), size)


def sample_order(schema: Schema) -> tuple[str, ...]:
    """Return the key columns of a relation that can be ordered."""
    return tuple(n for n in schema.key or () if not pa.types.is_nested(schema[n].type))


def relations_of(node: Node) -> tuple[str, ...]:
    """Return the relations whose columns an operator's rows may have."""
    return tuple(dict.fromkeys(_scanned(node)))


def _scanned(node: Node) -> Iterator[str]:
    if isinstance(node, Scan):
        yield node.relation
    only_left = isinstance(node, Join) and node.kind in (JoinKind.SEMI, JoinKind.ANTI)
    for below in node.inputs[:1] if only_left else node.inputs:
        yield from _scanned(below)


def not_stored(query_runner: QueryRunner, read: FoundRows) -> FoundRows:
    """Return the finding that the rows of a relation are not stored."""
    return replace(read, untold=why_not_stored(query_runner.catalog, read.relation))


@dataclass(frozen=True)
class Question:
    """A query for the number and a sample of rows."""

    read: FoundRows
    rows: Node | None
    with_last: bool = False
    """Whether to also return the input row that arrived last."""


def answered(
    query_runner: QueryRunner, questions: Sequence[Question], size: int
) -> tuple[EpochRow | None, list[FoundRows]]:
    """Count and sample the rows of each question in one epoch, and return that epoch."""
    parts = [_plans(q, size) for q in questions]
    plans = list(dict.fromkeys(p for part in parts for p in part))  # the rows that a view reads may also be input rows
    asked = query_runner.ask(plans)
    answers = dict(zip(plans, asked.rows, strict=True))
    return asked.epoch, [_read(q.read, [answers[p] for p in part]) for q, part in zip(questions, parts, strict=True)]


def _plans(question: Question, size: int) -> tuple[Node, ...]:
    if question.rows is None:
        return ()
    last = (TopK(question.rows, LAST, 1),) if question.with_last else ()
    return (counted(question.rows), sampled(question.rows, question.read.order, size), *last)


def _read(read: FoundRows, answers: Sequence[pa.Table | Diagnostic]) -> FoundRows:
    problem = next((a for a in answers if isinstance(a, Diagnostic)), None)
    if problem is not None:
        return replace(read, untold=problem.message)
    found = [a.to_pylist() for a in answers if isinstance(a, pa.Table)]
    if not found:
        return read
    (count,), rows, *last = found
    return replace(read, count=count[COUNT], rows=tuple(rows), last=next((r for part in last for r in part), None))
