"""The operators of a plan as SQL over stored relations.

In: a plan over stored relations, with placeholders. Out: a SELECT whose columns are those of the plan's schema, in
stored forms. Operators without a printer are refused (B8020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, fail
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.join import equalities
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
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Last, Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow
from belvedere.plan.select_printer import SelectPrinter
from belvedere.schema import Column, Schema
from belvedere.store.dialects.codec import form
from belvedere.store.dialects.dialect import Dialect, Pair
from belvedere.store.identifiers import SYSTEM, identifier, quoted
from belvedere.store.read.expressions import print_expression
from belvedere.store.read.query import BoundValue, Role, Sort
from belvedere.store.read.shared_sets import Sets
from belvedere.store.read.typed_sql import CLOCK, NameBindings, TypedSql
from belvedere.values.type_names import type_text

Bind = Callable[[BoundValue], str]
Rows = Callable[[str], str]
"""Function that returns the FROM text of a relation."""
Printer = Callable[["Plans", Any], str]
"""Function that prints an operator as one SELECT."""


@dataclass(frozen=True)
class Plans(SelectPrinter):
    """Prints the operators of a plan in the store's dialect."""

    row_number: ClassVar[str] = quoted(f"{SYSTEM}row")
    dialect: Dialect
    arguments: Mapping[str, TypedSql]
    bind: Bind | None = None
    clock: str = CLOCK
    rows: Rows = identifier
    sets: Sets | None = None
    others: Mapping[type[Node], Printer] = field(default_factory=dict)
    """Printers of operators that this module does not print."""

    def query(self, node: Node) -> str:
        printer = STORE_SQL.get(type(node)) or self.others.get(type(node))
        if printer is None:
            raise beyond_store(node)
        return printer(self, node)

    def name(self, name: str) -> str:
        return identifier(name)

    def relation(self, node: Scan) -> str:
        return self.source(node)

    def source(self, node: Node, alias: str = "t") -> str:
        if isinstance(node, Scan):
            return f"{self.rows(node.relation)} AS {alias}"
        return super().source(node, alias)

    def expression(self, expr: Expr, schema: Schema) -> str:
        return self.printed(expr, self.scope(schema))

    def item(self, item: Item, schema: Schema, aggregates: bool = False) -> str:
        return f"{self.printed(item.expr, self.scope(schema, aggregates), item.type)} AS {identifier(item.name)}"

    def aligned(self, own: Column, requested: Column) -> str:
        if not _same_form(own.type, requested.type):
            raise fail(
                "B8020",
                f"`{requested.name}` is {type_text(requested.type)} in one query and {type_text(own.type)} in the "
                "other, "
                "which are stored differently",
            )
        return f"{identifier(own.name)} AS {identifier(requested.name)}"

    def order_key(self, order: Order, schema: Schema) -> str:
        typed = print_expression(order.expr, self.scope(schema))
        sql = typed.sql if typed.type is None else self.dialect.column(typed.sql, typed.type)
        return self.dialect.order(sql, Sort("", order.descending, order.nulls_come_first))

    def scope(self, schema: Schema, aggregates: bool = False) -> NameBindings:
        def column(found: exp.Column) -> tuple[str, pa.DataType]:
            known = schema[found.name]
            return identifier(known.name), known.type

        return self.bindings(column, aggregates)

    def bindings(
        self, column: Callable[[exp.Column], tuple[str, pa.DataType]], aggregates: bool = False
    ) -> NameBindings:
        """Return the bindings of names, with `column` for the SQL of columns."""
        return NameBindings(self.dialect, column, self.arguments, aggregates, self.bind, self.clock)

    def printed(self, expr: Expr, scope: NameBindings, expected: pa.DataType | None = None) -> str:
        """Return an expression's SQL. If a type is expected, the stored form must have that type."""
        typed = print_expression(expr, scope)
        if expected is not None and typed.type is not None and not _same_form(typed.type, expected):
            raise fail(
                "B8020",
                f"`{expr.sql('spark')}` is {type_text(typed.type)} in the store, and {type_text(expected)} in the "
                "query",
            )
        if (
            expected is not None and typed.type is None and isinstance(expr, exp.Null)
        ):  # otherwise Postgres takes it for a text
            return f"CAST(NULL AS {form(self.dialect, expected).sql.partition(' COLLATE ')[0]})"
        return typed.sql

    def values(self, node: Values) -> str:
        if not node.rows:
            return f"SELECT {', '.join(f'NULL AS {identifier(c.name)}' for c in node.columns)} WHERE 1=0"
        scope = self.scope(Schema(()))
        rows = (
            (
                f"{self.printed(e, scope, c.type)} AS {identifier(c.name)}"
                for e, c in zip(row, node.columns, strict=True)
            )
            for row in node.rows
        )
        return " UNION ALL ".join(f"SELECT {', '.join(row)}" for row in rows)

    def semi_join(self, node: Join, left: str, right: str) -> str:
        negated, pairs = node.kind is JoinKind.ANTI, self.pairs(node) if self.sets is not None else ()
        if self.sets is not None and pairs:
            found = self.dialect.is_among(pairs, right, self.sets, negated)
        else:
            found = f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {right} WHERE {self.join_condition(node)})"
        return f"SELECT {self.columns(node)} FROM {left} WHERE {found}"

    def pairs(self, node: Join, column: Callable[[str, Schema], str] | None = None) -> tuple[Pair, ...]:
        """Return the columns that are equal in a match.

        Return none if the condition tests more, or if databases compare the columns in another way.

        `column`: the SQL of a column of a side, if it is not only its name.
        """
        parts, found, said = conjuncts(node.condition), equalities(node), column or self.column
        if len(parts) != len(found) or not all(self.is_plain(type_) for *_, type_ in found):
            return ()
        return tuple(
            Pair(
                said(a.name, node.left.schema),
                said(b.name, node.right.schema),
                isinstance(p, exp.NullSafeEQ)
                and node.left.schema[a.name].nullable
                and node.right.schema[b.name].nullable,
                form(self.dialect, type_).sql,
            )
            for p, (a, b, type_) in zip(parts, found, strict=True)
        )

    def column(self, name: str, schema: Schema) -> str:
        return self.dialect.column(identifier(name), schema[name].type)

    @staticmethod
    def is_plain(type_: pa.DataType) -> bool:
        """Return whether values of a type are equal exactly if their stored forms are equal."""
        types = pa.types
        return bool(
            types.is_integer(type_) or types.is_string(type_) or types.is_timestamp(type_) or types.is_boolean(type_)
        )

    def aggregate(self, node: Aggregate) -> str:
        if node.grouping_sets is not None:
            raise fail("B8020", "GROUPING SETS cannot be computed at read time", hint="compute them in a view")
        if any(not isinstance(k.expr, exp.Column) for k in node.keys):
            raise fail("B8020", "GROUP BY takes only columns here", hint="compute the key in a view")
        return super().aggregate(node)

    def top_k(self, node: TopK) -> str:
        if node.partition or node.number is not None:
            return super().top_k(node)
        most = self.most(node)
        keys = ", ".join(self.order_key(o, node.input.schema) for o in (*node.order, *node.tie_order))
        order = f" ORDER BY {keys}" if keys else ""
        limit = f"{order} LIMIT {most or 2**62} OFFSET {node.offset}" if most or node.offset else ""
        return f"SELECT {self.columns(node)} FROM {self.source(node.input)}{limit}"

    def last_number(self, node: TopK) -> str:
        most = self.most(node)
        return f"{most}+{node.offset}" if most and node.offset else most

    def most(self, node: TopK) -> str:
        """Return the maximum number of rows of a TopK; empty for all."""
        if node.most:
            return self.scope(node.schema).in_role(self.arguments[node.most], Role.LIMIT)
        return "" if node.limit is None else str(node.limit)


def beyond_store(node: Node) -> BelvedereError:
    """Return the diagnostic for an operator that has no SQL here."""
    what = NOT_STORE_SQL[type(node)]
    hint = "compute it in a view, and query the view"
    if isinstance(node, Unnest):
        hint = "write `JOIN t.items i` for an array of objects; compute elements of other arrays in a view"
    return fail("B8020", f"{what} cannot be computed at read time", hint=hint)


def _same_form(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types have one stored form, so a value of one can be read as the other."""
    kinds: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_timestamp,
    )
    return one == other or any(kind(one) and kind(other) for kind in kinds)


STORE_SQL: Mapping[type[Node], Printer] = {
    Scan: Plans.scan,
    Values: Plans.values,
    Project: Plans.project,
    Filter: Plans.filter,
    Join: Plans.join,
    Aggregate: Plans.aggregate,
    Distinct: Plans.distinct,
    Union: Plans.union,
    SetOperation: Plans.set_operation,
    TopK: Plans.top_k,
}
"""Printer of each operator as a query in the store."""
NOT_STORE_SQL: dict[type[Node], str] = {
    Window: "a window",
    PredicateWindow: "WINDOW BY",
    TimeWindow: "a window of time",
    Unnest: "UNNEST",
    Emit: "EMIT",
    InOrder: "SELECT STREAM",
    Observed: "a subscription's events",
    SplAggregate: "an SPL window",
    SplJoin: "a join of SPL windows",
    Recursion: "WITH RECURSIVE",
    Last: "the step of a recursion",
}
"""Operators that cannot be computed at read time, in the user's words."""
