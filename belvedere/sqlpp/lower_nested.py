"""Queries with WINDOW BY within an expression: the array of their results for each binding tuple.

In: `Bindings` and expressions. Out: the tuples with one more column for each such query, and the expressions that read
it. The query is lowered like any other, over the distinct values that it reads of the tuples. Its results are then
joined to the tuples. A tuple without results gets an empty array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, conjunction
from belvedere.plan.expressions import columns_of as columns_in
from belvedere.plan.operators.nodes import Aggregate, Distinct, Item, Join, JoinKind, Order, Project
from belvedere.plan.operators.project import item_of
from belvedere.spark_sql.dialect import SparkSql
from belvedere.sqlpp.bindings import Bindings, Result, columns_of, stored_type
from belvedere.sqlpp.lower_tuples import Tables, TupleLowering
from belvedere.sqlpp.query_names import fields_read, free_names, parts_of
from belvedere.sqlpp.query_tree import (
    Expr,
    FromTerm,
    Name,
    Query,
    QueryBlock,
    QueryExpression,
    Select,
    WindowBy,
    reference,
)
from belvedere.sqlpp.spark_text.sql_text import parsed
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Untranslatable, Value, merge, name, unsortable
from belvedere.sqlpp.type_rules import RELATED

Lower = Callable[[Query, Tables, Bindings], Result]
"""Function that lowers a query whose FROM begins with given tuples."""


def has_windows(query: Query) -> bool:
    """Return whether WINDOW BY occurs anywhere in a query."""
    return any(isinstance(part, WindowBy) for part in parts_of(query))


def with_nested(
    lowering: TupleLowering, lower: Lower, bindings: Bindings, exprs: Sequence[Expr], tables: Tables
) -> tuple[Bindings, list[Expr]]:
    """Return the tuples with the array of each query with windows in the expressions, and the expressions over
    these."""
    found: list[Expr] = []
    for expr in exprs:
        changed = expr
        for node in list(expr.find_all(QueryExpression)):
            if not has_windows(node.query):
                continue
            bindings, read = _read(lowering, lower, bindings, node.query, tables)
            changed = changed.transform(lambda n, node=node, read=read: read if n == node else n)
        found.append(changed)
    return bindings, found


def _read(
    lowering: TupleLowering, lower: Lower, bindings: Bindings, query: Query, tables: Tables
) -> tuple[Bindings, Expr]:
    """Return the tuples with the array of the query's results (one per part of UNION ALL), and the expression that
    reads it."""
    if len(query.blocks) == 1:
        label = lowering.names.fresh("$query")
        return _joined(lowering, lower, bindings, query, tables, label), reference(label)
    blocks = []
    for block in query.blocks:
        part = Query(bindings=query.bindings, blocks=(block,))
        if not has_windows(part):
            blocks.append(block)
            continue
        bindings, read = _read(lowering, lower, bindings, part, tables)
        blocks.append(_members(read, lowering.names.fresh("v")))
    return bindings, QueryExpression(query=replace(query, blocks=tuple(blocks)))


def _members(array: Expr, variable: str) -> QueryBlock:
    """Return the block FROM array AS variable SELECT VALUE variable."""
    read = reference(variable)
    return QueryBlock(Select(read), (FromTerm(Name(variable), array),))


def _joined(
    lowering: TupleLowering, lower: Lower, left: Bindings, query: Query, tables: Tables, label: str
) -> Bindings:
    known = left.environment
    names = sorted(free_names(query) & set(known))
    node, pinned = lowering.names.pin(left.node, [_with_fields(known[n], fields_read(query, n)) for n in names])
    read = dict(zip(names, pinned, strict=True))
    columns = tuple(dict.fromkeys(c for value in pinned for c in columns_of(value)))
    if any(unsortable(node.schema[c].type) for c in columns):
        raise Untranslatable("WINDOW BY in a query within an expression that reads a map")
    if not columns:  # it is the same for each tuple
        one = Item(lowering.names.fresh(), exp.Literal.number(1), pa.int32(), nullable=False)
        node, columns = Project(node, (*map(item_of, node.schema), one)), (one.name,)
    tuples = Distinct(Project(node, tuple(item_of(replace(node.schema[c], hidden=False)) for c in columns)))
    apart = lowering.names.renamed(Result(tuples, Object(read)))
    assert isinstance(apart.value, Object)
    inner = Bindings(apart.node, {}, outside=apart.value.fields, apart=tuple(apart.node.schema.names))
    arrays, value = _arrays(lowering, lower(query, tables, inner))
    pairs = zip(columns, arrays.schema.names, strict=False)
    condition = conjunction([exp.NullSafeEQ(this=column(own), expression=column(other)) for own, other in pairs])
    text = f"coalesce({value.sql}, array())"
    made = Item(lowering.names.fresh(), parsed(text), stored_type(value.type), nullable=False)
    joined = Project(Join(node, arrays, JoinKind.LEFT, condition), (*map(item_of, node.schema), made))
    array = replace(value, sql=name(made.name))
    return replace(left, node=joined, sorted=False, outside={**left.outside, label: array})


def _with_fields(value: Value, read: Set[str] | None) -> Value:
    """Return an object with only the fields that are read. Tuples that differ in other fields have the same results."""
    if read is None or not isinstance(value, Object):
        return value
    return replace(value, fields={n: f for n, f in value.fields.items() if n.removeprefix(RELATED).casefold() in read})


def _arrays(lowering: TupleLowering, result: Result) -> tuple[Project, SqlValue]:
    """Return for each tuple with results their array, in their order."""
    node, (pinned,) = lowering.names.pin(result.node, [result.value])
    whole = merge(pinned)
    fields = [("v", whole.sql, stored_type(whole.type))]
    tests = []
    orders = [o for o in result.order if not columns_in(o.expr) <= set(result.apart)]
    for number, order in enumerate(orders):
        text, type_ = order.expr.sql(dialect=SparkSql), pa.int32()
        if isinstance(order.expr, exp.Column):
            type_ = node.schema[order.expr.name].type
        fields.append((f"o{number}", text, type_))
        tests += _tests(order, f"o{number}")
    struct = ", ".join(f"'{n}', {text}" for n, text, _ in fields)
    types = pa.list_(pa.struct([(n, t) for n, _, t in fields]))
    listed = Item(lowering.names.fresh(), parsed(f"collect_list(named_struct({struct}))"), types)
    keys = tuple(item_of(node.schema[c]) for c in result.apart)
    grouped = Aggregate(node, keys, (listed,))
    cases = " ".join(f"WHEN {one} < {other} THEN -1 WHEN {one} > {other} THEN 1" for one, other in tests)
    array = f"array_sort({name(listed.name)}, (a, b) -> CASE {cases} ELSE 0 END)" if cases else name(listed.name)
    if not orders and not unsortable(whole.type):
        array = f"array_sort({array})"  # make the order independent of the order of rows
    type_ = pa.list_(whole.type)
    item = Item(lowering.names.fresh(), parsed(f"transform({array}, x -> x.v)"), stored_type(type_), nullable=False)
    made = Project(grouped, (*(item_of(grouped.schema[c]) for c in result.apart), item))
    return made, SqlValue(name(item.name), type_)


def _tests(order: Order, field: str) -> list[tuple[str, str]]:
    """Return the comparisons of two results for an order, in sequence."""
    blank, known = ("0", "1") if order.nulls_come_first else ("1", "0")
    nulls = tuple(f"IF({x}.{field} IS NULL, {blank}, {known})" for x in "ab")
    values = tuple(f"{x}.{field}" for x in ("ba" if order.descending else "ab"))
    return [(nulls[0], nulls[1]), (values[0], values[1])]
