"""Expressions that may fail on some row. Such an error could reveal a row that a role must not see.

In: expressions of a read. Out: whether a guard must be tested before them. A database can test conditions in any order;
`Dialect.fence` fixes the order, at the price of indexes. Expressions that are not known to be safe count as fallible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from sqlglot import exp

from belvedere.plan.operators.nodes import Expr, Node
from belvedere.schema import Schema

_SAFE = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Placeholder),
    *(exp.Paren, exp.Interval, exp.Var, exp.Star),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is),
    *(exp.In, exp.Between, exp.Like, exp.ILike),
    *(exp.And, exp.Or, exp.Not, exp.Coalesce, exp.Case, exp.If, exp.Nullif),
    *(exp.Concat, exp.DPipe, exp.Trim, exp.DataType),
    *(exp.CurrentTimestamp, exp.Count, exp.Distinct, exp.Min, exp.Max, exp.Sum, exp.Avg),  # of rows that may be seen
)  # fmt: skip


def may_fail(expressions: Iterable[Expr]) -> bool:
    """Return whether one of the expressions may fail on a row."""
    return any(not isinstance(node, _SAFE) and not _widens(node) for e in expressions for node in e.walk())


def _widens(node: Expr) -> bool:
    """Return whether a node is a cast or a literal's sign. The store prints only casts that lose nothing."""
    return isinstance(node, exp.Cast) or (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal))


def expressions_in(value: object) -> Iterator[Expr]:
    """Yield the expressions in all nested parts of a read: in relationships, and in the plans of templates."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, Node):
        yield from (e for node in value.walk() for e in node.expressions)
    elif isinstance(value, tuple):
        for member in value:
            yield from expressions_in(member)
    elif is_dataclass(value) and not isinstance(value, Schema):
        for part in fields(value):
            yield from expressions_in(getattr(value, part.name))
