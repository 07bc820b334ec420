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
    """`_.name` or `target.name`, as relationships have them."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(side))


@dataclass(frozen=True)
class Relationship:
    """A named join from the rows of `owner` to rows of `target` (both ids).

    `condition` refers to columns as `_.name` (the owner's row) and `target.name`: `exp.Column` with these table parts.
    `pairs` are its equalities (owner column, target column); `residual` is what is left of it, or None.
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
    """The target's alias in the definition, for people."""
    kept: str | None = None
    """The id of the table that stores the related rows per row of the owner, where the API cannot find them when it reads."""
    kept_order: tuple[Order, ...] = ()
    """The order among columns of that table."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters of requests: values for the `exp.Placeholder`s of the condition and the order."""
    most: str = ""
    """The parameter that is the limit; `limit` is None then."""

    def leads_to_one(self, owner: Schema, target: Schema) -> bool:
        """Whether at most one row belongs to each row of the owner: by LIMIT 1, or since the join fixes the target's whole key."""
        return self.limit == 1 or fixes_key(self.pairs, owner, target)

    def columns_of(self, side: str) -> set[str]:
        """The columns of one side, OWNER or TARGET, that the condition beside `pairs` and the order read."""
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        return {c.name for e in exprs for c in e.find_all(exp.Column) if c.table == side}

    def reads_any(self, columns: Mapping[str, frozenset[str]]) -> bool:
        """Whether its condition or its order reads one of these columns, by the ids of relations."""
        own = {o for o, _ in self.pairs} | self.columns_of(OWNER)
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        theirs = {t for _, t in self.pairs} | {
            c.name for e in exprs for c in e.find_all(exp.Column) if c.table != OWNER
        }
        return not (own.isdisjoint(columns.get(self.owner, ())) and theirs.isdisjoint(columns.get(self.target, ())))

    def over(self, change: Callable[[exp.Column], Expr]) -> Relationship:
        """The same with other columns in its condition beside `pairs` and its order."""
        residual = None if self.residual is None else map_columns(self.residual, change)
        return replace(
            self, residual=residual, order=tuple(replace(o, expr=map_columns(o.expr, change)) for o in self.order)
        )


def equal_as_they_are(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of two types are compared without a cast that loses something."""
    return one == other or bool(pa.types.is_integer(one) and pa.types.is_integer(other))


def fixes_key(pairs: Iterable[tuple[str, str]], owner: Schema, target: Schema) -> bool:
    """Whether columns that are equal in pairs (owner, target) name one row of the target. A cast between types may make keys equal."""
    fixed = {target[theirs].name for own, theirs in pairs if equal_as_they_are(owner[own].type, target[theirs].type)}
    return target.key is not None and fixed >= set(target.key)
