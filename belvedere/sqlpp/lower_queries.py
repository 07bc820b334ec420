"""Queries and blocks of SQL++ as nodes of the plan.

In: a `Query` and the nodes of its tables. Out: its `Result`. Raises `Untranslatable` if no plan can express it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import fail
from belvedere.functions.sqlpp_functions import unify
from belvedere.plan.expressions import column, conjuncts
from belvedere.plan.operators.nodes import (
    Distinct,
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    TopK,
    Union,
    Unnest,
    Values,
)
from belvedere.plan.operators.project import item_of
from belvedere.schema import Column
from belvedere.sqlpp.bindings import Bindings, Result, columns_of, sort_orders, stored_type, with_items
from belvedere.sqlpp.linked_tables import link_condition
from belvedere.sqlpp.lower_groups import grouped
from belvedere.sqlpp.lower_nested import has_windows, with_nested
from belvedere.sqlpp.lower_tuples import Tables, TupleLowering, plain_equalities
from belvedere.sqlpp.lower_windows import windowed
from belvedere.sqlpp.order_columns import with_order_columns, without_order_columns
from belvedere.sqlpp.query_names import free_in, free_names
from belvedere.sqlpp.query_tree import FromTerm, OrderKey, Query, QueryBlock, QueryExpression, SourceKind
from belvedere.sqlpp.spark_text.native import boolean
from belvedere.sqlpp.spark_text.native_arrays import whole_number
from belvedere.sqlpp.spark_text.sql_text import parsed
from belvedere.sqlpp.spark_text.sql_values import (
    Object,
    SqlValue,
    Untranslatable,
    Value,
    converted,
    merge,
    name,
    visible,
    with_missing,
)
from belvedere.sqlpp.substitute import substituted


class QueryLowering(TupleLowering):
    """Lowers one query."""

    def query(self, query: Query, tables: Tables, around: Bindings | None = None) -> Result:
        """Return the relation of a query's results.

        For a query within an expression, it has the results of each tuple of `around`.
        """
        for place, let in enumerate(query.bindings):
            if isinstance(let.value, QueryExpression) and (around is None or not _reads(let.value.query, around)):
                tables = {**tables, let.name.text: self.query(let.value.query, tables)}
            else:
                rest = replace(query, bindings=query.bindings[place + 1 :])
                return self.query(substituted(rest, {let.name.text: let.value}), tables, around)
        query, keys = with_order_columns(query)
        results = [self.block(b, tables, around) for b in query.blocks]
        result = results[0] if len(results) == 1 else self.union(results)
        if query.order:
            result = self.ordered(query.order, result, tables)
        if query.limit is not None or query.offset is not None:
            limit = None if query.limit is None else _number(query.limit)
            offset = 0 if query.offset is None else _number(query.offset)
            top = TopK(result.node, result.order, limit, offset, result.apart, by_rows=True)
            result = replace(result, node=top, sorted=False)
        return without_order_columns(result) if keys else result

    def union(self, results: Sequence[Result]) -> Result:
        """Return the UNION ALL of results: fields of the unified type, by name."""
        type_ = unify([r.value.type for r in results])
        if type_ is None:
            results = [replace(r, value=visible(r.value)) for r in results]
            type_ = unify([r.value.type for r in results])
        assert type_ is not None
        columns: list[tuple[Item, ...]] = []
        value = self.aligned([r.value for r in results], type_, columns)
        branches = tuple(Project(r.node, tuple(own[n] for own in columns)) for n, r in enumerate(results))
        return Result(Union(branches), value)

    def aligned(self, values: Sequence[Value], type_: pa.DataType, columns: list[tuple[Item, ...]]) -> Value:
        """Return one value for the values of several relations, and append the items of each column of the union to
        `columns`."""

        def made(texts: Sequence[str], type_: pa.DataType) -> str:
            label = self.names.fresh("u")
            columns.append(tuple(Item(label, parsed(t), type_) for t in texts))
            return name(label)

        flags = (
            None if all(v.missing is None for v in values) else made([v.missing or "FALSE" for v in values], pa.bool_())
        )
        objects = [v for v in values if isinstance(v, Object)]
        if len(objects) == len(values):
            fields = {f.name: self.aligned([o.fields[f.name] for o in objects], f.type, columns) for f in type_}
            return Object(fields, flags)
        if pa.types.is_null(type_):
            return SqlValue(made(["CAST(NULL AS STRING)"] * len(values), pa.string()), type_, flags)
        return SqlValue(made([converted(merge(v), type_) for v in values], stored_type(type_)), type_, flags)

    def ordered(self, keys: Sequence[OrderKey], result: Result, tables: Tables) -> Result:
        fields = result.value.fields if isinstance(result.value, Object) else {}
        scope, values = self.values(Bindings(result.node, dict(fields)), [k.expr for k in keys], tables)
        node, pinned = self.names.pin(scope.node, values)
        orders = tuple(o for key, value in zip(keys, pinned, strict=True) for o in sort_orders(key, merge(value)))
        return replace(result, node=node, order=orders, sorted=False)

    def with_queries(
        self, bindings: Bindings, exprs: Sequence[Expr], tables: Tables
    ) -> tuple[Bindings, Sequence[Expr]]:
        return with_nested(self, self.query, bindings, exprs, tables)

    # -- blocks --

    def block(self, block: QueryBlock, tables: Tables, around: Bindings | None = None) -> Result:
        """Return the results of a block."""
        bindings = self.sources(block.sources, tables, around)
        bindings = self.lets(bindings, block.lets, tables)
        if block.where is not None:
            bindings = self.filtered(bindings, block.where, tables)
        if block.group is not None:
            bindings, block = grouped(self, bindings, block, tables)
            bindings = self.lets(bindings, block.group_lets, tables)
            if block.having is not None:
                bindings = self.filtered(bindings, block.having, tables)
        if block.window is not None:
            own = {n: v for n, v in bindings.variables.items() if not n.startswith("$")}
            bindings, block = windowed(self, replace(bindings, variables=own), block, tables)
            bindings = self.lets(bindings, block.window_lets, tables)
            if block.window_having is not None:
                bindings = self.filtered(bindings, block.window_having, tables)
        result = self.selected(bindings, block.select, tables)
        if not block.select.distinct:
            return result
        columns = (*result.apart, *columns_of(result.value))
        node = Distinct(Project(result.node, tuple(item_of(result.node.schema[c]) for c in columns)))
        return Result(node, result.value, apart=result.apart)

    def sources(self, sources: Sequence[FromTerm], tables: Tables, around: Bindings | None = None) -> Bindings:
        if not sources:
            if around is not None:
                return around
            one = Column(self.names.fresh(), pa.int32(), nullable=False)
            return Bindings(Values((one,), ((exp.Literal.number(1),),)), {})
        bindings = around
        for source in sources:
            bindings = self.source(bindings, source, tables)
        assert bindings is not None
        return bindings

    def source(self, left: Bindings | None, source: FromTerm, tables: Tables) -> Bindings:
        expr = source.expr
        relation: Result | None = None
        if isinstance(expr, QueryExpression):
            if left is None or not _reads(expr.query, left):
                relation = self.query(expr.query, tables)
        elif isinstance(expr, exp.Column) and (left is None or expr.name not in left.environment):
            relation = self.table(expr.name, tables, source.variable.text)
        if relation is None:
            return self.unnested(left or self.sources((), tables), source, tables)
        return self.joined(left, source, relation, tables)

    def joined(self, left: Bindings | None, source: FromTerm, right: Result, tables: Tables) -> Bindings:
        variable = source.variable.text
        if left is None:
            return Bindings(right.node, {variable: right.value}, right.order, right.sorted)
        scope, optional = {**left.environment, variable: right.value}, source.kind is SourceKind.LEFT
        parts = conjuncts(source.condition)
        later = [] if optional else [p for p in parts if _needs_relations(p, scope)]
        plain = source.condition if not later else _every([p for p in parts if p not in later])
        condition = None if plain is None else _join_condition(plain, scope, left.node, right.node)
        if source.link is not None:
            condition = _linked(source, scope)
        if not optional:
            node = Join(left.node, right.node, JoinKind.INNER, condition)
            found = replace(
                left, node=node, variables={**left.variables, variable: right.value}, order=(), sorted=False
            )
            return reduce(lambda tuples, part: self.filtered(tuples, part, tables), later, found)
        there = Item(self.names.fresh("there"), exp.true(), pa.bool_(), nullable=False)
        node = Join(left.node, with_items(right.node, [there]), JoinKind.LEFT, condition)
        row = with_missing(right.value, f"({name(there.name)} IS NULL)")
        return replace(left, node=node, variables={**left.variables, variable: row}, order=(), sorted=False)

    def unnested(self, left: Bindings, source: FromTerm, tables: Tables) -> Bindings:
        left, (value,) = self.values(left, [source.expr], tables)
        array = merge(value)
        if pa.types.is_null(array.type):
            node: Node = Filter(left.node, exp.false())
            return replace(left, node=node, variables={**left.variables, source.variable.text: array})
        outer = source.kind in (SourceKind.LEFT, SourceKind.LEFT_UNNEST)
        is_list = pa.types.is_list(array.type)
        element = array.type.value_type if is_list else array.type
        place = Column(self.names.fresh("at"), pa.int32(), outer)
        own = Column(self.names.fresh("e"), stored_type(element))
        node = Unnest(left.node, parsed(array.sql if is_list else f"array({array.sql})"), (own,), place, outer=outer)
        missing = f"({name(place.name)} IS NULL)" if outer else None
        variables: dict[str, Value] = {
            **left.variables,
            source.variable.text: SqlValue(name(own.name), element, missing),
        }
        if source.position is not None:
            variables[source.position.text] = SqlValue(f"CAST({name(place.name)} + 1 AS BIGINT)", pa.int64(), missing)
        order = (*left.order, Order(column(place.name))) if left.apart else ()
        result = replace(left, node=node, variables=variables, order=order, sorted=False)
        return result if source.condition is None else self.filtered(result, source.condition, tables)


def _needs_relations(expr: Expr, scope: Mapping[str, Value]) -> bool:
    """Return whether an expression contains a table, or a query with windows."""
    return bool(free_in(expr, scope.keys())) or any(has_windows(n.query) for n in expr.find_all(QueryExpression))


def _linked(source: FromTerm, scope: Mapping[str, Value]) -> Expr | None:
    """Return the condition of a relationship. Raises B3623 if it compares hidden columns."""
    assert source.link is not None
    owner, target = scope[source.link.owner], scope[source.variable.text]
    assert isinstance(owner, Object)
    assert isinstance(target, Object)
    try:
        return link_condition(source.link, owner.fields, target.fields)
    except KeyError as column:
        hint, span = "write the join: JOIN ... ON ...", source.expr.meta.get("span")
        raise fail("B3623", f"the relationship compares {column}, a hidden column", span=span, hint=hint) from None


def _every(parts: Sequence[Expr]) -> Expr | None:
    return reduce(lambda a, b: exp.And(this=a, expression=b), (p.copy() for p in parts)) if parts else None


def _join_condition(condition: Expr, scope: Mapping[str, Value], *nodes: Node) -> Expr:
    """Return the condition of a join in the plan. Raises B3623 if the plan cannot express it."""
    try:
        for table in sorted(free_in(condition, scope.keys())):
            raise Untranslatable(table)
        return plain_equalities(parsed(boolean(condition, scope).sql), *nodes)
    except Untranslatable as reason:
        hint, span = "write an inner join, or give both sides a column to compare", condition.meta.get("span")
        raise fail("B3623", f"the join's condition uses {reason}", span=span, hint=hint) from None


def _reads(query: Query, bindings: Bindings) -> bool:
    """Return whether a query depends on the binding tuple."""
    return bool(free_names(query) & set(bindings.environment))


def _number(expr: Expr) -> int:
    found = whole_number(expr)
    if found is None:
        raise Untranslatable("LIMIT by an expression")
    return found
