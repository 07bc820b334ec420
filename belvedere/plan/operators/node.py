"""Base of all relational operators: frozen dataclasses that define the operator's meaning.

In: names, Arrow types and sqlglot expressions that the language has resolved. Out: trees that know their schema and
key. Rules that hold everywhere:

* A node's columns have distinct names; an expression refers to a column of its input by an unqualified `exp.Column`.
  The two sides of a join have disjoint names (the language names them `alias.column`).
* An expression is never changed in place. `now()` is `exp.CurrentTimestamp`.
* `Item.type` is the Arrow type of the expression's value as Spark computes it.

Each operator has its own module in this package. None prints SQL, or decides how a view is maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known, is_time
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import Expr, columns, columns_of
from belvedere.plan.monotone import FOREVER
from belvedere.plan.null_on_error import forgiving
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class Item:
    """A named, typed expression: one output column."""

    name: str
    expr: Expr
    type: pa.DataType
    nullable: bool = True
    hidden: bool = False
    doc: str | None = None

    @property
    def column(self) -> Column:
        return Column(self.name, self.type, self.nullable, self.hidden, self.doc)

    @property
    def text(self) -> str:
        """Return its name and, if different, its expression; in parentheses if it is hidden."""
        text = expression_text(self.expr)
        shown = self.name if text == self.name else f"{self.name} = {text}"
        return f"({shown})" if self.hidden else shown


@dataclass(frozen=True)
class Order:
    """One sort key. Spark's default: NULLs first ascending, last descending."""

    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def nulls_come_first(self) -> bool:
        return not self.descending if self.nulls_first is None else self.nulls_first

    @property
    def text(self) -> str:
        """Return the text of ORDER BY."""
        text = expression_text(self.expr) + (" desc" if self.descending else "")
        if self.nulls_first is None or self.nulls_come_first != self.descending:
            return text
        return f"{text} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True)
class Partition:
    """Partitioning of an operator: per input the expressions of its key; `output` over the operator's own columns.

    None instead of a Partition means that any change may affect the whole output.
    """

    inputs: tuple[tuple[Expr, ...], ...]
    output: tuple[Expr, ...]
    types: tuple[pa.DataType, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """Return `output` as columns to add to the stored rows of the operator."""
        return tuple(Item(f"_by{n}", e, t) for n, (e, t) in enumerate(zip(self.output, self.types, strict=True)))

    @classmethod
    def by_columns(cls, names: Iterable[str], source: Schema) -> Partition:
        """Return the partition of an operator with one input, `source`, that keeps these columns."""
        names = tuple(names)
        exprs = columns(names)
        return cls((exprs,), exprs, tuple(source[n].type for n in names))


Part = Item | Order | Expr
"""Part of an operator: an expression to compute, sort by or test."""


@dataclass(frozen=True)
class Node:
    """Base class of relational operators: knows its schema, key, inputs, and the properties that follow from its
    meaning.

    A subclass defines its rows (`schema`) and its text (`text`), and overrides properties that are better than the
    default. By default an operator reads all columns of its inputs, has no bounds, is not linear and cannot be computed
    key by key.
    """

    is_historic: ClassVar[bool] = False
    """Whether its rows also depend on the epoch in which each row arrived, not only on the final input."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for v in self.__dict__.values() if isinstance(v, Node))

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same operator over other inputs."""
        names = [k for k, v in self.__dict__.items() if isinstance(v, Node)]
        changes: dict[str, Any] = dict(zip(names, inputs, strict=True))
        return replace(self, **changes) if changes else self

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Return the scalar expressions in the operator's fields."""
        return tuple(
            p if isinstance(p, exp.Expr) else p.expr for p in _parts(tuple(getattr(self, f.name) for f in fields(self)))
        )

    def with_parts(self, change: Callable[[Part], Part]) -> Node:
        """Return the same operator with `change` applied to its items, sort keys and bare expressions."""
        changes: dict[str, Any] = {f.name: _changed(getattr(self, f.name), change) for f in fields(self)}
        return replace(self, **changes)

    @cached_property
    def schema(self) -> Schema:
        """Return its columns and the key of its rows."""
        raise NotImplementedError(type(self).__name__)

    @property
    def text(self) -> str:
        """Return the operator in one line, without its inputs."""
        raise NotImplementedError(type(self).__name__)

    @property
    def inner_plans(self) -> tuple[tuple[str, Node], ...]:
        """Return plans within the operator that are not inputs, with their names."""
        return ()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.inputs:
            yield from child.walk()

    # -- partial computation

    @property
    def is_linear(self) -> bool:
        """Return whether the operator applied to a delta is the delta of the operator, ignoring the clock."""
        return False

    @property
    def key_by_key(self) -> Partition | None:
        """Return the expressions by which it works key by key, ignoring the clock; None if any change may affect all of
        its rows."""
        return None

    def pruned(self, requested: frozenset[str]) -> Node:
        """Return the operator with at least the requested columns and its key, over the input columns that it reads."""
        return self.with_inputs(tuple(i.pruned(frozenset(i.schema.names)) for i in self.inputs))

    def with_key_columns(self) -> Node:
        """Return the same relation with a key among its columns."""
        return self.with_inputs(tuple(i.with_key_columns() for i in self.inputs))

    def in_arrival_order(self) -> Node:
        """Return the operator in a form in which tied rows are ordered by arrival, so that its rows are
        deterministic."""
        return self

    def forgiving(self, views: Mapping[str, Schema], expressions: bool) -> Node:
        """Return the same operator with expressions that give NULL instead of an error.

        `views` are the schemas of the relations that it scans after the same rewrite. Without `expressions` only
        nullability changes.
        """
        node = self.with_inputs(tuple(i.forgiving(views, expressions) for i in self.inputs))
        if not node.inputs:
            return node
        source = Schema(tuple(c for i in node.inputs for c in i.schema))
        return node.with_parts(lambda part: _forgiving(part, source, expressions))

    # -- properties of every row

    @property
    def never_null(self) -> frozenset[str]:
        """Return the columns that are never NULL."""
        return frozenset(c.name for c in self.schema if not c.nullable)

    @property
    def holds(self) -> tuple[Expr, ...]:
        """Return conditions over its columns that are TRUE for every row and may imply bounds."""
        return ()

    # -- bounds

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the bounds of its columns for each source of changes: a join has one per side."""
        return ({},)

    def bounds(self, known: Known) -> dict[str, int]:
        """Return the bounds of its columns for changes from any source."""
        ways = self.ways(known)
        shared = set(ways[0]).intersection(*ways[1:])
        return {n: min(w[n] for w in ways) for n in ways[0] if n in shared}

    def event_times(self, known: Known) -> frozenset[str]:
        """Return its time columns that can have a bound, now or later."""
        found = self.bounds(known)
        numbers = (
            n for n, b in found.items() if pa.types.is_integer(self.schema[n].type) and b != FOREVER
        )  # derived from times
        return frozenset((*(n for n in found if is_time(self.schema[n].type)), *numbers))

    def grouping_columns(self, known: Known) -> frozenset[str]:
        """Return its columns that identify a row's event-time group: starts and ends of windows, event-time keys of
        GROUP BY."""
        found = frozenset(c for i in self.inputs for c in i.grouping_columns(known))
        return found & frozenset(self.schema.names)


def pruned_below(node: Node, requested: frozenset[str]) -> Node:
    """Return an operator over its only input, pruned to the requested columns and those that it reads."""
    below = node.inputs[0]
    needed = requested.union(*map(columns_of, node.expressions)).intersection(below.schema.names)
    return node.with_inputs((below.pruned(needed),))


def shared_grouping_columns(node: Node, known: Known) -> frozenset[str]:
    """Return the columns that are grouping columns of every input, for an operator whose inputs have their columns by
    position.
    """
    names = node.inputs[0].schema.names
    shared = set(names)
    for branch in node.inputs:
        own = branch.grouping_columns(known)
        shared &= {n for n, c in zip(names, branch.schema.names, strict=False) if c in own}
    return frozenset(shared)


def texts(parts: Iterable[Item | Order]) -> str:
    """Return items, or sort keys, as one text."""
    return ", ".join(p.text for p in parts)


def _parts(value: object) -> Iterator[Part]:
    if isinstance(value, Item | Order | exp.Expr):
        yield value
    elif isinstance(value, tuple):
        for member in value:
            yield from _parts(member)


def _changed(value: Any, change: Callable[[Part], Part]) -> Any:
    if isinstance(value, Item | Order | exp.Expr):
        return change(value)
    return tuple(_changed(member, change) for member in value) if isinstance(value, tuple) else value


def _forgiving(part: Part, source: Schema, expressions: bool) -> Part:
    if isinstance(part, Item):
        expr = forgiving(part.expr, source) if expressions else part.expr
        read = (source.find(c.name) for c in expr.find_all(exp.Column))
        nullable = part.nullable or expr != part.expr or any(c is not None and c.nullable for c in read)
        # a value is nullable if an expression here or below may now be NULL
        return replace(part, expr=expr, nullable=nullable)
    if not expressions:
        return part
    return replace(part, expr=forgiving(part.expr, source)) if isinstance(part, Order) else forgiving(part, source)
