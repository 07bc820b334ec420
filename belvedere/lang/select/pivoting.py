"""PIVOT and UNPIVOT: a FROM item with them -> the plan of a plain query over it.

In: the item, and its frame. Out: its rows as a plan, with the names in it. PIVOT is an aggregate with FILTER for each
value, grouped by the columns that it does not name. UNPIVOT unnests an array of structs, one for each column. As in
Spark, the count of a value without rows is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.function_table import function_of, is_aggregate
from belvedere.lang.names.scope import FromItem
from belvedere.lang.select.query_frame import Frame, StatementContext, named_source
from belvedere.plan.expressions import conjunction
from belvedere.plan.operators.nodes import Node
from belvedere.schema import Column, find_named
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.wording import did_you_mean

VALUES_HINT = "write FOR column IN (1, 2 AS two, ...)"


def lower_pivots(frame: Frame, item: exp.Expr) -> tuple[Node, FromItem]:
    """Return the rows of an item after all its pivots, in order."""
    context = frame.context
    inner = item.copy()
    pivots: list[Any] = inner.args["pivots"]
    inner.set("pivots", None)
    node: Node = context.lower_query(exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner)), context)
    for pivot in pivots:
        node = _pivoted(node, pivot, context)
    last = pivots[-1].args.get("alias")
    return named_source(node, last.name if last is not None else item.alias_or_name or "pivot", context.names)


def _pivoted(node: Node, pivot: Any, context: StatementContext) -> Node:
    if len(pivot.args.get("fields") or ()) != 1:
        raise context.fail("B3027", "a PIVOT of this form is not supported", pivot, VALUES_HINT)
    name = context.names.fresh("pivoted")
    inside = replace(context, tables={**context.tables, name.casefold(): node})
    build = _unpivot if pivot.args.get("unpivot") else _pivot
    result: Node = context.lower_query(build(pivot, node.schema.visible, name, context), inside)
    return result


def _columns(node: exp.Expr, visible: Sequence[Column], context: StatementContext) -> list[str]:
    """Return the columns in a part of a pivot."""
    names = []
    for written in node.find_all(exp.Column):
        found = find_named(visible, written.name)
        if found is None:
            hint = did_you_mean(written.name, [c.name for c in visible])
            raise context.fail("B2002", f"column `{written.name}` is not defined", written, hint)
        names.append(found.name)
    return names


def _named(value: exp.Expr) -> tuple[exp.Expr, str | None]:
    return (value.this, value.alias) if isinstance(value, exp.PivotAlias) else (value, None)


def _parts(value: exp.Expr) -> list[exp.Expr]:
    return list(value.expressions) if isinstance(value, exp.Tuple) else [value.unnest()]


def _source(name: str) -> exp.From:
    return exp.From(this=exp.Table(this=exp.to_identifier(name, quoted=True)))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


# -- PIVOT ------------------------------------------------------------------------------------------------------------


def _pivot(pivot: Any, visible: Sequence[Column], name: str, context: StatementContext) -> exp.Select:
    field = pivot.args["fields"][0]
    if not isinstance(field, exp.In) or not field.expressions:
        raise context.fail("B3027", "PIVOT must list the values that become columns", pivot, VALUES_HINT)
    keys = _columns(field.this, visible, context)
    used = {*keys, *(c for aggregate in pivot.expressions for c in _columns(aggregate, visible, context))}
    groups = [exp.Column(this=_quoted(c.name)) for c in visible if c.name not in used]
    items: list[exp.Expr] = [g.copy() for g in groups]
    for written in field.expressions:
        value, alias = _named(written)
        values = _parts(value)
        if len(values) != len(keys) or any(v.find(exp.Column) for v in values):
            hint = VALUES_HINT if len(keys) == 1 else "write FOR (a, b) IN ((1, 2), (3, 4) AS x, ...)"
            raise context.fail("B3027", "the values of PIVOT must be constants, one for each column", pivot, hint)
        same = (
            exp.NullSafeEQ(this=exp.Column(this=_quoted(k)), expression=v.copy())
            for k, v in zip(keys, values, strict=True)
        )
        condition: exp.Expr = conjunction(same) or exp.true()
        for aggregate in pivot.expressions:
            shown = _pivot_name(alias or _value_name(values), aggregate, len(pivot.expressions))
            items.append(exp.alias_(_chosen(aggregate.unalias(), condition, context), shown, quoted=True))
    group = exp.Group(expressions=[g.copy() for g in groups]) if groups else None
    return exp.Select(expressions=items, from_=_source(name), group=group)


def _value_name(values: Sequence[exp.Expr]) -> str:
    texts = [v.name if isinstance(v, exp.Literal) else v.sql(SparkSql).lower() for v in values]
    return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"


def _pivot_name(value: str, aggregate: exp.Expr, count: int) -> str:
    """Return Spark's name of the column: only the value if there is one aggregate."""
    if count == 1:
        return value
    text = aggregate.sql(SparkSql, normalize_functions="lower").replace("(*)", "(1)")
    return f"{value}_{aggregate.alias or text}"


def _chosen(aggregate: exp.Expr, condition: exp.Expr, context: StatementContext) -> exp.Expr:
    """Return an aggregate over the rows of one value only."""
    calls = [n for n in aggregate.find_all(exp.Func) if is_aggregate(n)]
    if not calls:
        raise context.fail(
            "B3027", "a PIVOT needs aggregates", aggregate, "write an aggregate such as sum(x) or count(*) before FOR"
        )

    def filtered(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            both = exp.And(this=exp.paren(node.expression.this), expression=exp.paren(condition))
            return exp.Filter(this=node.this.copy(), expression=exp.Where(this=both))
        if isinstance(node, exp.Func) and is_aggregate(node):
            return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))
        return node

    chosen: exp.Expr = aggregate.copy().transform(filtered)
    counts = [row for row in map(function_of, calls) if row is not None and row.over_nothing == "0"]
    if not counts:
        return chosen
    any_row = exp.GT(this=filtered(exp.Count(this=exp.Star(), big_int=True)), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=any_row, true=chosen)])


# -- UNPIVOT ----------------------------------------------------------------------------------------------------------


def _unpivot(pivot: Any, visible: Sequence[Column], name: str, context: StatementContext) -> exp.Select:
    field = pivot.args["fields"][0]
    values = [i.name for i in _parts(pivot.expressions[0])]
    rows = [
        (alias, [_column(p, visible, context) for p in _parts(value)])
        for value, alias in map(_named, field.expressions)
    ]
    if any(len(columns) != len(values) for _, columns in rows):
        hint = "write UNPIVOT (value FOR name IN (a, b)), or UNPIVOT ((v, w) FOR name IN ((a, b), (c, d)))"
        raise context.fail("B3027", "each entry of UNPIVOT must have as many columns as value names", pivot, hint)
    types = [_common([columns[n] for _, columns in rows], pivot, context) for n in range(len(values))]
    structs = []
    for alias, columns in rows:
        label = alias or "_".join(c.name for c in columns)
        fields = [exp.PropertyEQ(this=_quoted(field.this.name), expression=exp.Literal.string(label))]
        for value, type_, column in zip(values, types, columns, strict=True):
            fields.append(
                exp.PropertyEQ(this=_quoted(value), expression=t.cast(exp.Column(this=_quoted(column.name)), type_))
            )
        structs.append(exp.Struct(expressions=fields))
    used = {c.name for _, columns in rows for c in columns}
    alias = context.names.fresh("unpivoted")
    shown = [exp.Column(this=_quoted(n), table=_quoted(alias)) for n in (field.this.name, *values)]
    rest = [exp.Column(this=_quoted(c.name), table=_quoted(name)) for c in visible if c.name not in used]
    lateral = exp.Lateral(
        this=exp.Inline(this=exp.Array(expressions=structs)), view=True, alias=exp.TableAlias(this=_quoted(alias))
    )
    where = None
    if not pivot.args.get("include_nulls"):
        missing = conjunction(exp.Is(this=c.copy(), expression=exp.Null()) for c in shown[1:])
        where = exp.Where(this=exp.Not(this=exp.paren(missing or exp.false(), copy=False)))
    return exp.Select(expressions=[*rest, *shown], from_=_source(name), laterals=[lateral], where=where)


def _column(written: exp.Expr, visible: Sequence[Column], context: StatementContext) -> Column:
    if not isinstance(written, exp.Column):
        raise context.fail("B3027", "UNPIVOT takes names of columns", written, "compute the column in a subquery")
    return next(c for c in visible if c.name == _columns(written, visible, context)[0])


def _common(columns: Sequence[Column], pivot: exp.Expr, context: StatementContext) -> Any:
    types = [c.type for c in columns]
    common = reduce(lambda a, b: t.common_type(a, b) if a is not None else None, types)
    if common is None:
        shown = ", ".join(f"{c.name} {t.type_text(c.type)}" for c in columns)
        raise context.fail(
            "B3002", f"the columns of UNPIVOT have no common type: {shown}", pivot, "CAST them in a subquery"
        )
    return common
