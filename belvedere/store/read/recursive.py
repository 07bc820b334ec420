"""WITH RECURSIVE as SQL: the step becomes one SELECT, because a database reads the rows of a recursion once, in its
FROM, and not in subqueries.

In: a Recursion whose rows are distinct (UNION). Out: a SELECT of its rows. Duplicate rows are merged, so a semi-join is
a join here. Other steps are rejected with B8020: outer joins, NOT EXISTS, two steps side by side, groups.

Source: SQLite, "The WITH Clause", section 3; PostgreSQL 18, section 7.8.2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from belvedere.errors import BelvedereError, fail
from belvedere.plan.operators.nodes import Distinct, Expr, Filter, Join, JoinKind, Node, Project, Scan, Union
from belvedere.plan.operators.recursion import LAST, ROWS, Recursion, side_name
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.schema import Column, Schema
from belvedere.store.dialects.codec import form
from belvedere.store.identifiers import SYSTEM, identifier, quoted
from belvedere.store.read.operators import Plans, beyond_store
from belvedere.values.type_names import type_text

MARK = f"{SYSTEM}last"
"""Scan of the rows that a step reads. No relation has this name."""
Columns = Mapping[str, tuple[str, pa.DataType]]
"""The SQL of columns, and their types."""


def recursive_select(plans: Plans, node: Recursion) -> str:
    """Return all rows of a recursion, at most as many as Spark makes, so an infinite recursion ends. Raises B8020.

    Only with `sets`, for rows that a view's epochs have computed. Otherwise Spark's limits on levels and rows apply,
    too.
    """
    if plans.sets is None:
        raise beyond_store(node)
    if not node.distinct:
        raise _refused("with UNION ALL")
    for column in node.columns:
        if not plans.is_plain(column.type):
            raise _refused(f"over `{column.name}`, which is {type_text(column.type)}")
    names = ",".join(identifier(c.name) for c in node.columns)
    own = zip(map(identifier, node.base.schema.names), node.columns, strict=False)  # a base may keep its key beside
    first = f"SELECT {_cast(plans, own)} FROM {plans.source(node.base)}"
    known = {LAST: Scan(MARK, Schema(node.columns)), **{side_name(n): side for n, side in enumerate(node.sides)}}
    steps = _Steps(plans)
    flat = steps.flat(replace_scans(node.step, lambda s: known[s.relation]))
    found = zip(flat.columns.values(), node.columns, strict=True)
    step = f"SELECT {_cast(plans, ((sql, c) for (sql, _), c in found))} FROM {','.join(flat.sources)}"
    step += f" WHERE {' AND '.join(flat.conditions)}" if flat.conditions else ""
    name = quoted(f"{SYSTEM}recursion_{hashlib.sha256(f'{first} {step}'.encode()).hexdigest()[:24]}")
    step = step.replace(quoted(MARK), name)
    return f"WITH RECURSIVE {name}({names}) AS ({first} UNION {step}) SELECT {names} FROM {name} LIMIT {ROWS}"


def _refused(what: str) -> BelvedereError:
    return fail(
        "B8020",
        f"WITH RECURSIVE {what} cannot be computed at read time",
        hint="compute it in a view, and query the view",
    )


def _cast(plans: Plans, values: Iterable[tuple[str, Column]]) -> str:
    """Cast items of both parts to one form.

    Postgres accepts no column that is INTEGER in one and BIGINT in the other.
    """
    parts = ((sql, c, form(plans.dialect, c.type).sql.partition(" COLLATE ")) for sql, c in values)
    return ",".join(
        f"CAST({sql} AS {kind}){word}{order} AS {identifier(c.name)}" for sql, c, (kind, word, order) in parts
    )


@dataclass(frozen=True)
class _Flat:
    """A part of a step, as part of one SELECT."""

    columns: Columns
    sources: tuple[str, ...]
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Steps:
    plans: Plans
    numbers: Iterator[int] = field(default_factory=count)

    def flat(self, node: Node) -> _Flat:
        match node:
            case Scan(relation=name) if name == MARK:
                return self.beside(quoted(MARK), node)
            case _ if not _reads_last(node):
                return self.beside(f"({self.plans.query(node)})", node)
            case Distinct():
                return self.flat(node.input)
            case Union(branches=(only,), branch=None):
                below = self.flat(only)
                return replace(below, columns=dict(zip(node.schema.names, below.columns.values(), strict=True)))
            case Project():
                below = self.flat(node.input)
                return replace(
                    below, columns={i.name: (self.said(below.columns, i.expr, i.type), i.type) for i in node.items}
                )
            case Filter():
                below = self.flat(node.input)
                return replace(below, conditions=(*below.conditions, self.said(below.columns, node.condition)))
            case Join(kind=JoinKind.INNER | JoinKind.SEMI, there=None):
                return self.join(node)
            case _:
                raise _refused("of such a step")

    def beside(self, rows: str, node: Node) -> _Flat:
        """Add rows to FROM under their own name."""
        alias = f"s{next(self.numbers)}"
        return _Flat({c.name: (f"{alias}.{identifier(c.name)}", c.type) for c in node.schema}, (f"{rows} AS {alias}",))

    def join(self, node: Join) -> _Flat:
        if _reads_last(node.left) and _reads_last(node.right):
            raise _refused("that reads its rows twice")
        left, right = self.flat(node.left), self.flat(node.right)
        both = {**left.columns, **right.columns}
        conditions = (*left.conditions, *right.conditions, *self.matches(node, both))
        columns = both if node.kind is JoinKind.INNER else left.columns
        return _Flat({n: columns[n] for n in node.schema.names}, left.sources + right.sources, conditions)

    def matches(self, node: Join, columns: Columns) -> list[str]:
        """Return the condition of a join, in a form that lets the database find partners directly if possible."""
        dialect = self.plans.dialect
        pairs = self.plans.pairs(node, lambda name, _: dialect.column(*columns[name]))
        if pairs or node.condition is None:
            return [dialect.equal(p) for p in pairs]
        return [self.said(columns, node.condition)]

    def said(self, columns: Columns, expr: Expr, expected: pa.DataType | None = None) -> str:
        return self.plans.printed(expr, self.plans.bindings(lambda c: columns[c.name]), expected)


def _reads_last(node: Node) -> bool:
    return any(isinstance(n, Scan) and n.relation == MARK for n in node.walk())
