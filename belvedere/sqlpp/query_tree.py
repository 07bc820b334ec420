"""The syntax tree of a SQL++ query with the WINDOW BY clause.

In: nothing. Out: immutable types that `parser` creates and all later stages read. Scalar expressions are sqlglot trees
in a normal form. `Missing` and `QueryExpression` are defined here. The others are:

- variable: an unqualified `exp.Column`
- field: `exp.Dot`
- index or `[*]`: `exp.Bracket`
- function call: `exp.Anonymous`
- object: `exp.Struct`

Source of the clause: Fang, Lychagin, Carey, Tsotras, "WINDOW BY", VLDB Journal 33(3), 2024, sections 3.1 to 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from sqlglot import exp

from belvedere.errors import Span
from belvedere.functions.function_table import canonical

Expr = exp.Expr


def reference(name: str) -> Expr:
    """Return a variable as an expression."""
    return exp.Column(this=exp.to_identifier(name))


def called(node: Expr) -> str:
    """Return the name of the function that a node calls; "" for other nodes."""
    return canonical(node.name) if isinstance(node, exp.Anonymous) else ""


class Missing(exp.Expression):
    """The MISSING literal."""

    arg_types: ClassVar[dict[str, bool]] = {}


MEMBER = "$member"
"""Variable of a window's tuple; users cannot write this name."""


class RunningAggregate(exp.Expression):
    """An aggregate over the window's tuples up to END's tuple; `value` is over `$member`, and absent for COUNT(*)."""

    arg_types: ClassVar[dict[str, bool]] = {"function": True, "value": False}

    @property
    def function(self) -> str:
        return str(self.args["function"])

    @property
    def value(self) -> Expr | None:
        found: Expr | None = self.args.get("value")
        return found


class QueryExpression(exp.Expression):
    """A query in parentheses as a value: the array of its results; `query` is a `Query`."""

    arg_types = {"query": True}

    @property
    def query(self) -> Query:
        query = self.args["query"]
        assert isinstance(query, Query)
        return query


@dataclass(frozen=True)
class Name:
    """A declared name and its position."""

    text: str
    span: Span | None = None


@dataclass(frozen=True)
class Let:
    """`LET name = value`, or `WITH name AS value` where value is a `QueryExpression`."""

    name: Name
    value: Expr


def changed_lets(lets: tuple[Let, ...], change: Callable[[Expr], Expr]) -> tuple[Let, ...]:
    """Return the LETs with changed values."""
    return tuple(replace(let, value=change(let.value)) for let in lets)


class SourceKind(StrEnum):
    """How a FROM term joins those before it."""

    CROSS = "cross"
    INNER = "inner"
    LEFT = "left"
    UNNEST = "unnest"
    LEFT_UNNEST = "left unnest"


@dataclass(frozen=True)
class RelationshipLink:
    """Link between the rows of a relationship and a variable's row: equal columns (owner's, target's), and a condition.

    The condition has columns `_.name` and `target.name`, and is an expression of the plan.
    """

    owner: str
    pairs: tuple[tuple[str, str], ...]
    residual: Expr | None = None


@dataclass(frozen=True)
class FromTerm:
    """One term of FROM: a table, a path or a query, bound to a variable; `position` counts from 1 (AT).

    `link` in place of a condition: the rows that belong to an earlier variable's.
    """

    variable: Name
    expr: Expr
    kind: SourceKind = SourceKind.CROSS
    condition: Expr | None = None
    position: Name | None = None
    link: RelationshipLink | None = None


@dataclass(frozen=True)
class GroupBy:
    """GROUP BY keys, each with a name, and the GROUP AS variable."""

    keys: tuple[Let, ...]
    group: Name | None = None


@dataclass(frozen=True)
class OrderKey:
    """One sort key. MISSING < NULL < values ascending; NULLS FIRST|LAST moves both."""

    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def nulls_come_first(self) -> bool:
        return not self.descending if self.nulls_first is None else self.nulls_first


@dataclass(frozen=True)
class Variables:
    """Variables of a boundary: AS item, AT position, PREV AS previous, NEXT AS next (Fig. 6)."""

    item: Name | None = None
    position: Name | None = None
    previous: Name | None = None
    next: Name | None = None

    def __iter__(self) -> Iterator[tuple[str, Name]]:
        for role in ("item", "position", "previous", "next"):
            name = getattr(self, role)
            if name is not None:
                yield role, name


@dataclass(frozen=True)
class Boundary:
    """LABEL, START or END: variables and a predicate (None is TRUE), or UNBOUNDED (Fig. 5).

    `within` is END's limit, until `window_limits` turns it into a condition.
    """

    variables: Variables = Variables()
    when: Expr | None = None
    unbounded: bool = False
    span: Span | None = None
    within: Expr | None = None


@dataclass(frozen=True)
class WindowBy:
    """The WINDOW BY clause (Figs. 4 to 6). `end` is None only for TUMBLING windows that end before the next start."""

    name: Name
    partition: tuple[Expr, ...]
    order: tuple[OrderKey, ...]
    tumbling: bool
    start: Boundary
    end: Boundary | None
    label: Boundary | None = None
    only: bool = False
    span: Span | None = None

    @property
    def boundaries(self) -> tuple[tuple[str, Boundary], ...]:
        """Return the declared boundaries by role, in the order of their scopes."""
        named = (("label", self.label), ("start", self.start), ("end", self.end))
        return tuple((role, b) for role, b in named if b is not None)

    @property
    def variables(self) -> dict[str, tuple[str, str]]:
        """Return the role of each declared variable: (label|start|end, item|position|previous|next)."""
        return {name.text: (side, role) for side, b in self.boundaries for role, name in b.variables}


@dataclass(frozen=True)
class Selected:
    """One member of SELECT: a named expression, `e.*` (star), or `*` (star without expression)."""

    expr: Expr | None
    name: str | None = None
    star: bool = False
    span: Span | None = None


@dataclass(frozen=True)
class Select:
    """SELECT VALUE e (`value`) or SELECT with named members."""

    value: Expr | None = None
    items: tuple[Selected, ...] = ()
    distinct: bool = False

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Return the selected expressions, without `*`."""
        return tuple(e for e in (self.value, *(i.expr for i in self.items)) if e is not None)

    def changed(self, change: Callable[[Expr], Expr]) -> Select:
        """Return the SELECT with changed expressions."""
        value = None if self.value is None else change(self.value)
        return replace(
            self, value=value, items=tuple(i if i.expr is None else replace(i, expr=change(i.expr)) for i in self.items)
        )


@dataclass(frozen=True)
class QueryBlock:
    """One query block: its clauses in the order of evaluation."""

    select: Select
    sources: tuple[FromTerm, ...] = ()
    lets: tuple[Let, ...] = ()
    where: Expr | None = None
    group: GroupBy | None = None
    group_lets: tuple[Let, ...] = ()
    having: Expr | None = None
    window: WindowBy | None = None
    window_lets: tuple[Let, ...] = ()
    window_having: Expr | None = None
    span: Span | None = None


@dataclass(frozen=True)
class Query:
    """Blocks joined by UNION ALL, with the clauses around them."""

    blocks: tuple[QueryBlock, ...]
    bindings: tuple[Let, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    span: Span | None = field(default=None, compare=False)
