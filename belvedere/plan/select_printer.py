"""Operators of a plan as SELECT statements: the part common to all databases that compute plans.

In: a plan. Out: one SELECT whose columns are those of the plan's schema. A database's printer is a subclass: it prints
names, types, expressions and exact forms, and the operators that are specific to it. Nothing is executed here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)
from belvedere.schema import Column, Schema

JOIN_WORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
}


class SelectPrinter(ABC):
    """Prints the operators that all databases have. `row_number` is the name of a row's number; no column has this
    name."""

    row_number: ClassVar[str]

    @abstractmethod
    def query(self, node: Node) -> str:
        """Return one SELECT."""

    @abstractmethod
    def name(self, name: str) -> str:
        """Return a column's name as an identifier."""

    @abstractmethod
    def relation(self, node: Scan) -> str:
        """Return the text of a relation in FROM."""

    @abstractmethod
    def expression(self, expr: Expr, schema: Schema) -> str:
        """Return an expression over the columns of a schema."""

    @abstractmethod
    def item(self, item: Item, schema: Schema, aggregates: bool = False) -> str:
        """Return a value with its name, cast to the item's type; `aggregates`: over the rows of a group."""

    @abstractmethod
    def aligned(self, own: Column, requested: Column) -> str:
        """Return a column of a branch in the form of the union's column."""

    @abstractmethod
    def order_key(self, order: Order, schema: Schema) -> str:
        """Return one key of ORDER BY with its direction and the position of NULLs."""

    @abstractmethod
    def last_number(self, node: TopK) -> str:
        """Return the number of the last row that a TopK takes; empty if it takes all."""

    @abstractmethod
    def semi_join(self, node: Join, left: str, right: str) -> str:
        """Return a LEFT SEMI or LEFT ANTI join of two FROM texts."""

    def clock_join(self, *exprs: Expr) -> str:
        """Return the addition to FROM if one of the expressions reads the clock."""
        return ""

    def columns(self, node: Node) -> str:
        return ", ".join(map(self.name, node.schema.names))

    def source(self, node: Node, alias: str = "t") -> str:
        """Return a node as text in FROM."""
        return f"({self.query(node)}) AS {alias}"

    def scan(self, node: Scan) -> str:
        return f"SELECT {self.columns(node)} FROM {self.relation(node)}"

    def project(self, node: Project) -> str:
        items = ", ".join(self.item(i, node.input.schema) for i in node.items)
        return f"SELECT {items} FROM {self.source(node.input)}{self.clock_join(*(i.expr for i in node.items))}"

    def filter(self, node: Filter) -> str:
        source = f"{self.source(node.input)}{self.clock_join(node.condition)}"
        return f"SELECT {self.columns(node)} FROM {source} WHERE {self.expression(node.condition, node.input.schema)}"

    def join(self, node: Join) -> str:
        left, right = self.source(node.left, "l"), self.source(node.right, "r")
        if node.there is not None:
            left = f"(SELECT *, TRUE AS {self.name(node.there)} FROM {self.source(node.left)}) AS l"
        if node.condition is not None:
            left += self.clock_join(node.condition)
        if node.kind not in JOIN_WORDS:
            return self.semi_join(node, left, right)
        return f"SELECT {self.columns(node)} FROM {left} {JOIN_WORDS[node.kind]} {right} ON {self.join_condition(node)}"

    def join_condition(self, node: Join) -> str:
        if node.condition is None:
            return "TRUE"
        return self.expression(node.condition, Schema(node.left.schema.columns + node.right.schema.columns))

    def distinct(self, node: Distinct) -> str:
        return f"SELECT DISTINCT {self.columns(node)} FROM {self.source(node.input)}"

    def aggregate(self, node: Aggregate) -> str:
        schema = node.input.schema
        items = [self.item(k, schema) for k in node.keys] + [self.item(a, schema, True) for a in node.aggregates]
        group = f" GROUP BY {', '.join(str(n + 1) for n in range(len(node.keys)))}" if node.keys else ""
        return f"SELECT {', '.join(items)} FROM {self.group_source(node)}{group}"

    def group_source(self, node: Aggregate) -> str:
        """Return the rows of groups as text in FROM."""
        return f"{self.source(node.input)}{self.clock_join(*(i.expr for i in (*node.keys, *node.aggregates)))}"

    def union(self, node: Union) -> str:
        parts = []
        for number, branch in enumerate(node.branches):
            items = [self.aligned(*pair) for pair in zip(branch.schema.columns, node.schema.columns, strict=False)]
            if node.branch is not None:
                items.append(f"{number} AS {self.name(node.branch)}")
            parts.append(f"SELECT {', '.join(items)} FROM {self.source(branch)}")
        return " UNION ALL ".join(parts)

    def set_operation(self, node: SetOperation) -> str:
        return f"{self.side(node, node.left)} {node.kind.value.upper()} {self.side(node, node.right)}"

    def side(self, node: SetOperation, side: Node) -> str:
        """Return one side of INTERSECT or EXCEPT."""
        items = ", ".join(self.aligned(*pair) for pair in zip(side.schema.columns, node.schema.columns, strict=True))
        return f"SELECT {items} FROM {self.source(side)}"

    def top_k(self, node: TopK) -> str:
        """Return row numbers in the order, ties broken by the key; the columns themselves are unchanged."""
        order = ", ".join(self.order_key(o, node.input.schema) for o in node.order + node.tie_order) or "1"
        by = f"PARTITION BY {', '.join(map(self.name, node.partition))} " if node.partition else ""
        columns, number = self.columns(node.input), self.row_number
        source = f"{self.source(node.input)}{self.clock_join(*(o.expr for o in node.order))}"
        numbered = f"SELECT {columns}, row_number() OVER ({by}ORDER BY {order}) AS {number} FROM {source}"
        place = "" if node.number is None else f", {number} AS {self.name(node.number.name)}"
        last = self.last_number(node)
        limits = [f"{number} > {node.offset}"] * bool(node.offset) + [f"{number} <= {last}"] * bool(last)
        where = f" WHERE {' AND '.join(limits)}" if limits else ""
        return f"SELECT {columns}{place} FROM ({numbered}) AS n{where}"
