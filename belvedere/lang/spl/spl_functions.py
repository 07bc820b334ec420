"""SPL's names of aggregates, valid only in an SPL window; each is rewritten to aggregates of SQL.

In: expressions over the rows of the table. Out: the same with ordinary aggregates, and the functions on a firing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one

from belvedere.errors import counted
from belvedere.functions import spark_types as t
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.select.select_list import output_name
from belvedere.plan.operators.nodes import Expr
from belvedere.plan.operators.spl_aggregate import FiringReading, GroupCount
from belvedere.spark_sql.dialect import SparkSql

READINGS = {r.value.lower(): r for r in FiringReading}
FORMS: Mapping[str, str] = {
    "count": "count(*)",
    "countdistinct": "count(DISTINCT a)",
    "countbydistinct": "transform(array_distinct(collect_list(a)), v -> size(filter(collect_list(a), w -> w = v)))",
    "collectdistinct": "array_distinct(collect_list(a))",
    "samplestddev": "CASE WHEN count(a) > 0 THEN coalesce(stddev_samp(a), 0e0) END",
    "populationstddev": "stddev_pop(a)",
    "mincount": "size(filter(collect_list(a), v -> v = min(a)))",
    "maxcount": "size(filter(collect_list(a), v -> v = max(a)))",
    "collectargmin": "transform(filter(collect_list(struct(a AS m, b AS e)), v -> v.m = min(a)), v -> v.e)",
    "collectargmax": "transform(filter(collect_list(struct(a AS m, b AS e)), v -> v.m = max(a)), v -> v.e)",
    "argmin": "min_by(b, a)",
    "argmax": "max_by(b, a)",
    "countall": "count(*)",
    "countgroups": "least(count(*), 1)",
    "countbygroup": "array(count(*))",
}
"""SPL's aggregates in SQL; `a` and `b` are the arguments."""
COUNTS = {c.value.lower(): c for c in GroupCount}
"""Counts over all groups."""
ARITY = (
    {name: 2 if "arg" in name else 1 for name in FORMS}
    | {"average": 1, "any": 1}
    | dict.fromkeys(("count", *COUNTS), 0)
)
REFUSED = {
    "custom": "use the aggregates of SQL",
    "geteventtime": "name the event-time column",
}


def spelled_out(expr: Expr, written: exp.Expr, frame: Frame, *, grouped: bool) -> Expr:
    """Return the expression with SPL's aggregates rewritten to SQL's. `grouped`: whether the contents of a window are
    in groups."""

    def change(node: Expr) -> Expr:
        return _change(node, written, frame, grouped=grouped)

    return _bottom_up(expr.copy(), change)


def _bottom_up(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [_bottom_up(v, change) if isinstance(v, exp.Expr) else v for v in value])
        elif isinstance(value, exp.Expr):
            node.set(key, _bottom_up(value, change))
    return change(node)


def _change(node: Expr, written: exp.Expr, frame: Frame, *, grouped: bool) -> Expr:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.meta.get("written", "")
    if name in REFUSED:
        raise frame.fail("B5213", f"`{node.name}` is not supported", _place(node, written), REFUSED[name])
    if name not in ARITY:
        return node
    arguments = [node.this, node.expression] if name in ("argmin", "argmax") else list(node.expressions)
    if len(arguments) != ARITY[name]:
        takes = counted(ARITY[name], "argument") if ARITY[name] else "no arguments"
        raise frame.fail("B3002", f"`{node.name}` takes {takes}", _place(node, written), None)
    if name == "any":
        return _any(arguments[0], frame)
    if grouped and name in COUNTS:
        return node
    made = _average(arguments[0], frame) if name == "average" else _form(FORMS[name], *arguments)
    made.meta.update(node.meta)
    return made


def _place(node: Expr, written: exp.Expr) -> exp.Expr:
    return node if "start" in node.meta else written


def _form(text: str, *arguments: Expr) -> Expr:
    given = dict(zip("ab", arguments, strict=False))

    def change(node: Any) -> Expr:
        found = given.get(node.name) if isinstance(node, exp.Column) and not node.table else None
        if found is None:
            return node  # type: ignore[no-any-return]
        return exp.paren(found.copy(), copy=False) if isinstance(node.parent, exp.Binary) else found.copy()

    result: Expr = parse_one(text, dialect=SparkSql).transform(change)
    return result


def _average(value: Expr, frame: Frame) -> Expr:
    """Return SPL's average, which has the type of its argument: that of integers is truncated."""
    type_ = frame.inference().type(value)
    if t.is_integer(type_):
        return t.cast(_form("sum(a) DIV nullif(count(a), 0)", value), type_)
    found = _form("avg(a)", value)
    return t.cast(found, type_) if pa.types.is_floating(type_) or t.is_decimal(type_) else found


def _any(value: Expr, frame: Frame) -> Expr:
    """Return SPL's `any`: `bool_or` for a BOOLEAN as in SQL, otherwise one of the values."""
    made: Expr = exp.LogicalOr(this=value) if frame.inference().type(value) == t.BOOLEAN else exp.Last(this=value)
    return made


def as_called(select: exp.Select) -> exp.Select:
    """Return the SELECT with `Any(x)` as a call, which sqlglot parses as `bool_or(x)`. `ArgMin` keeps its name as a
    column name."""
    for found in select.find_all(exp.ArgMin, exp.ArgMax):
        if "written" in found.meta:
            found.meta["called"] = "arg" + output_name(found).replace("_by", "", 1)
    for found in list(select.find_all(exp.LogicalOr)):
        if found.meta.get("written") == "any":
            made = exp.Anonymous(this="Any", expressions=[found.this])
            made.meta.update(found.meta)
            found.replace(made)
    return select


def count_of(expr: Expr) -> GroupCount | None:
    """Return the count over all groups that a call is; None for any other expression."""
    return COUNTS.get(expr.name.lower()) if isinstance(expr, exp.Anonymous) and not expr.expressions else None


def reading_of(expr: Expr) -> FiringReading | None:
    """Return the property of the firing that a call reads; None for any other expression."""
    return READINGS.get(expr.name.lower()) if isinstance(expr, exp.Anonymous) and not expr.expressions else None
