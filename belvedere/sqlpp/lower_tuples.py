"""Binding tuples: expressions over them, and the steps that produce one set of tuples from another.

In: `Bindings` and expressions. Out: `Bindings` and `Result`. A table in an expression is collected into one array,
which is joined to every tuple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Filter, Item, Join, JoinKind, Node, Project
from belvedere.sqlpp.bindings import Bindings, Names, Result, stored_type
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import Expr, Let, Select
from belvedere.sqlpp.spark_text.native import translate
from belvedere.sqlpp.spark_text.sql_text import parsed
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Value, fields_of, merge, name, unsortable

Tables = Mapping[str, Result]
"""Queries named by WITH, by name."""


class TupleLowering:
    """The tables of one query, and the operations on binding tuples."""

    def __init__(self, known: Mapping[str, Node], utc: bool = True):
        self.known, self.utc, self.names = known, utc, Names()

    def table(self, requested: str, tables: Tables, variable: str) -> Result | None:
        """Return the relation that FROM names, bound to a variable, with fresh columns each time."""
        for known in (requested, *(t for t in (*tables, *self.known) if t.casefold() == requested.casefold())):
            if known in tables:
                return self.names.renamed(tables[known])
            if known in self.known:
                return self.names.load(self.known[known], variable, self.utc)
        return None

    @property
    def is_keyed(self) -> bool:
        """Whether the tables have keys."""
        return all(n.schema.key is not None for n in self.known.values())

    # -- expressions --

    def values(self, bindings: Bindings, exprs: Sequence[Expr], tables: Tables) -> tuple[Bindings, list[Value]]:
        """Return the tuples and the values of expressions over them."""
        bindings, exprs = self.with_queries(bindings, exprs, tables)
        bindings = self.with_tables(bindings, exprs, tables)
        return bindings, [translate(e, bindings.environment) for e in exprs]

    def with_queries(
        self, bindings: Bindings, exprs: Sequence[Expr], tables: Tables
    ) -> tuple[Bindings, Sequence[Expr]]:
        """Return the tuples with the arrays of the expressions' queries over relations, and the expressions that read
        them."""
        raise NotImplementedError

    def with_tables(
        self, bindings: Bindings, exprs: Sequence[Expr], tables: Tables, hidden: Set[str] = frozenset()
    ) -> Bindings:
        """Return the tuples with the array of each table in the expressions; `hidden` names are variables there."""
        for requested in sorted({n for e in exprs for n in free_in(e, hidden)} - set(bindings.environment)):
            result = self.table(requested, tables, requested)
            if result is not None:
                node, value = self.collected(result)
                joined = Join(bindings.node, node, JoinKind.INNER)
                bindings = replace(bindings, node=joined, sorted=False, outside={**bindings.outside, requested: value})
        return bindings

    def collected(self, result: Result) -> tuple[Node, Value]:
        """Return all values of a relation as one array, in an order that does not depend on the order of the rows."""
        node, (value,) = self.names.pin(result.node, [result.value])
        whole = merge(value)
        text = collected_text(f"named_struct('v', {whole.sql})", whole.type)  # NULLs are members too
        type_ = pa.list_(pa.struct([("v", stored_type(whole.type))]))
        node = Aggregate(node, (), (Item(self.names.fresh(), parsed(text), type_),))
        text = f"transform({name(node.schema.names[0])}, x -> x.v)"
        item = Item(self.names.fresh(), parsed(text), pa.list_(stored_type(whole.type)), nullable=False)
        return Project(node, (item,)), SqlValue(name(item.name), pa.list_(whole.type))

    # -- steps --

    def filtered(self, bindings: Bindings, condition: Expr, tables: Tables) -> Bindings:
        """Return the tuples for which the condition is TRUE."""
        bindings, (value,) = self.values(bindings, [condition], tables)
        text = merge(value).sql if pa.types.is_boolean(value.type) else "FALSE"
        return replace(bindings, node=Filter(bindings.node, plain_equalities(parsed(text), bindings.node)))

    def lets(self, bindings: Bindings, lets: Sequence[Let], tables: Tables) -> Bindings:
        for let in lets:
            bindings, (value,) = self.values(bindings, [let.value], tables)
            node, (pinned,) = self.names.pin(bindings.node, [value])
            bindings = replace(bindings, node=node, variables={**bindings.variables, let.name.text: pinned})
        return bindings

    def selected(self, bindings: Bindings, select: Select, tables: Tables) -> Result:
        """Apply SELECT to binding tuples."""
        bindings, values = self.values(bindings, select.expressions, tables)
        if select.value is not None:
            return self.result(bindings, values[0])
        found = iter(values)
        fields: dict[str, Value] = {}
        for number, item in enumerate(select.items, 1):
            if item.expr is None:
                fields |= {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
                continue
            value = next(found)
            if not item.star:
                fields[item.name or f"${number}"] = value
            else:
                fields |= fields_of(value)
        return self.result(bindings, Object(fields))

    def result(self, bindings: Bindings, value: Value) -> Result:
        node, (pinned,) = self.names.pin(bindings.node, [value])
        return Result(node, pinned, bindings.order, bindings.sorted, bindings.apart)


def collected_text(text: str, type_: pa.DataType) -> str:
    """Return the array of a text's values over rows, sorted if they have an order."""
    return f"collect_list({text})" if unsortable(type_) else f"array_sort(collect_list({text}))"


def plain_equalities(condition: Expr, *nodes: Node) -> Expr:
    """Return the condition with direct comparisons of whole-number columns, so that the plan finds the equalities."""
    types = {c.name: c.type for n in nodes for c in n.schema}

    def change(node: Expr) -> Expr:
        if isinstance(node, exp.EQ):
            for part in (node.left, node.right):
                inner = part.this if isinstance(part, exp.Cast) else None
                if isinstance(inner, exp.Column) and pa.types.is_integer(types.get(inner.name, pa.null())):
                    part.replace(column(inner.name))
        return node

    changed: Expr = condition.transform(change)
    return changed
