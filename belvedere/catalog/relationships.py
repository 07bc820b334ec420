"""Relationships: named joins from the rows of one relation to those of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.templates import Parameter
from belvedere.errors import Span
from belvedere.plan.expressions import map_columns
from belvedere.plan.operators.nodes import Expr, Order
from belvedere.schema import Schema

OWNER, TARGET = "_", "target"


def relationship_column(side: str, name: str) -> exp.Column:
    """Return `_.name` or `target.name`, the form of columns in relationships."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(side))


@dataclass(frozen=True)
class Relationship:
    """A named join from the rows of `owner` to rows of `target` (both ids).

    `condition` refers to columns as `_.name` (the owner's row) and `target.name`: `exp.Column` with these table parts.
    `pairs` are its equalities (owner column, target column); `residual` is the rest of the condition, or None.
    """

    owner: str
    name: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    residual: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    span: Span | None = None
    doc: str | None = None
    alias: str = ""
    """Alias of the target in the definition, for messages."""
    kept: str | None = None
    """Id of the table that stores the related rows of each owner row, if the API cannot find them at read time."""
    kept_order: tuple[Order, ...] = ()
    """Sort order over columns of that table."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters of requests: values for the `exp.Placeholder`s of the condition and the order."""
    most: str = ""
    """Name of the parameter that gives the limit; `limit` is None then."""

    def leads_to_one(self, owner: Schema, target: Schema) -> bool:
        """Return whether each owner row has at most one related row: by LIMIT 1, or because the join fixes the target's
        whole key."""
        return self.limit == 1 or fixes_key(self.pairs, owner, target)

    def columns_of(self, side: str) -> set[str]:
        """Return the columns of one side (OWNER or TARGET) that the residual condition and the order read."""
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        return {c.name for e in exprs for c in e.find_all(exp.Column) if c.table == side}

    def reads_any(self, columns: Mapping[str, frozenset[str]]) -> bool:
        """Return whether its condition or its order reads one of these columns (sets of columns by id of the
        relation)."""
        own = {o for o, _ in self.pairs} | self.columns_of(OWNER)
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        theirs = {t for _, t in self.pairs} | {
            c.name for e in exprs for c in e.find_all(exp.Column) if c.table != OWNER
        }
        return not (own.isdisjoint(columns.get(self.owner, ())) and theirs.isdisjoint(columns.get(self.target, ())))

    def over(self, change: Callable[[exp.Column], Expr]) -> Relationship:
        """Return a copy in which `change` replaces the columns of the residual condition and the order."""
        residual = None if self.residual is None else map_columns(self.residual, change)
        return replace(
            self, residual=residual, order=tuple(replace(o, expr=map_columns(o.expr, change)) for o in self.order)
        )


def equal_as_they_are(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types are compared without a lossy cast."""
    return one == other or bool(pa.types.is_integer(one) and pa.types.is_integer(other))


def fixes_key(pairs: Iterable[tuple[str, str]], owner: Schema, target: Schema) -> bool:
    """Return whether the column pairs (owner, target) identify at most one row of the target. A cast between types may
    make keys equal."""
    fixed = {target[theirs].name for own, theirs in pairs if equal_as_they_are(owner[own].type, target[theirs].type)}
    return target.key is not None and fixed >= set(target.key)
