"""Facts about operators: which are linear, by which expressions the others work key by key, what only ever grows.

In: plan nodes. Out: answers; nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, columns_of, conjuncts, reads_clock
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Window,
)
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.time_nodes import TimeWindow, TimeWindowKind


@dataclass(frozen=True)
class Partition:
    """How an operator splits: per input the expressions of its key; `output` over the operator's own columns.

    None instead of a Partition means that any change may touch all of the output.
    """

    inputs: tuple[tuple[Expr, ...], ...]
    output: tuple[Expr, ...]
    types: tuple[pa.DataType, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """`output` as columns to carry to where the operator's rows are stored."""
        return tuple(Item(f"_by{n}", e, t) for n, (e, t) in enumerate(zip(self.output, self.types, strict=True)))


def needs_clock(node: Node) -> bool:
    """Whether the operator itself reads `now()`."""
    return any(reads_clock(e) for e in node.expressions)


def is_linear(node: Node) -> bool:
    """Whether the operator applied to a delta is the delta of the operator."""
    if isinstance(node, TimeWindow):
        return node.kind is not TimeWindowKind.SESSION
    return isinstance(node, (Project, Filter, Union, Unnest)) and not needs_clock(node)


def partition_of(node: Node) -> Partition | None:
    """By which expressions a nonlinear operator works key by key; None where it does not."""
    if needs_clock(node):
        return None
    match node:
        case Aggregate(grouping_sets=None):
            keys = node.keys
            return Partition((tuple(i.expr for i in keys),), _columns(i.name for i in keys), tuple(i.type for i in keys))
        case Distinct():
            return _by_columns(node, node.schema.names)
        case SetOperation():
            types = tuple(c.type for c in node.schema)
            return Partition(tuple(_columns(i.schema.names) for i in node.inputs), _columns(node.schema.names), types)
        case Join():
            return _join_partition(node)
        case Window():
            return _window_partition(node)
        case TopK() | TimeWindow() if node.partition:
            return _by_columns(node, node.partition)
        case PredicateWindow() if node.partition:
            types = tuple(node.schema[n].type for n in node.partition)
            return Partition((_columns(node.spec.keys),), _columns(node.partition), types)
        case _:
            return None


def _columns(names: Iterable[str]) -> tuple[Expr, ...]:
    return tuple(column(n) for n in names)


def _by_columns(node: Node, names: tuple[str, ...]) -> Partition:
    exprs = _columns(names)
    return Partition((exprs,), exprs, tuple(node.inputs[0].schema[n].type for n in names))


def _window_partition(node: Window) -> Partition | None:
    """The PARTITION BY columns that all window functions share."""
    shared: list[str] | None = None
    for item in node.items:
        for window in item.expr.find_all(exp.Window):
            own = [e.name for e in window.args.get("partition_by") or [] if isinstance(e, exp.Column)]
            shared = own if shared is None else [n for n in shared if n in own]
    return _by_columns(node, tuple(shared)) if shared else None


def equalities(node: Join) -> tuple[tuple[Expr, Expr, pa.DataType], ...]:
    """The pairs (left, right) of a join's condition that are columns of equal type compared by `=` or `<=>`."""
    left, right = node.left.schema, node.right.schema
    pairs = []
    for part in conjuncts(node.condition):
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        a, b = part.this.unnest(), part.expression.unnest()
        if columns_of(a) <= set(right.names) and columns_of(b) <= set(left.names):
            a, b = b, a
        if isinstance(a, exp.Column) and isinstance(b, exp.Column) and a.name in left.names and b.name in right.names:
            type_ = comparable_type(left[a.name].type, right[b.name].type)
            if type_ is not None:
                pairs.append((a, b, type_))
    return tuple(pairs)


def comparable_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which equality of two columns may be decided by equal hashes; None where that is not exact."""
    if a == b:
        return a
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return pa.float64()
    return None


def _join_partition(node: Join) -> Partition | None:
    pairs = equalities(node)
    if not pairs:
        return None
    left = tuple(a for a, _, _ in pairs)
    right = tuple(b for _, b, _ in pairs)
    match node.kind:
        case JoinKind.RIGHT:
            output: tuple[Expr, ...] = right
        case JoinKind.FULL:
            output = tuple(exp.Coalesce(this=a.copy(), expressions=[b.copy()]) for a, b in zip(left, right, strict=True))
        case _:
            output = left
    return Partition((left, right), output, tuple(t for _, _, t in pairs))


def base_scan(node: Node) -> Scan | None:
    """The scan at the bottom of a chain of projections and filters without `now()`; None for anything else."""
    while isinstance(node, (Project, Filter)) and not needs_clock(node):
        node = node.input
    return node if isinstance(node, Scan) else None
