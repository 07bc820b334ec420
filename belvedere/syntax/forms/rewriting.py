"""Rewrites of equivalent forms: a tree as written -> a tree of the forms that lowering reads.

In: a tree whose nodes have positions, without unsupported parts. Out: the same tree with each such form replaced; the
new nodes have the positions of the old ones. A rewrite needs no names and no types; lowering does those that do. To add
one, write a function of the node, and its line in `REWRITES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from sqlglot import exp

from belvedere.plan.monotone import interval_length
from belvedere.spark_sql.operators import WRITTEN
from belvedere.syntax.forms.builders import UNITS, make_interval
from belvedere.syntax.forms.json_paths import extracted_json, lambda_or_json
from belvedere.syntax.forms.ordered_aggregates import (
    ORDERED,
    filtered,
    ordered_call,
    refuse_order,
    windowed,
    within_group,
)
from belvedere.syntax.forms.quantified import COMPARISONS, compared_with_all
from belvedere.syntax.forms.query_forms import filled, json_fields, rewritten_select, series, stacked
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import place_of
from belvedere.syntax.wording import text_name

Rewrite = Callable[[Any], exp.Expr]


def rewritten(tree: exp.Expr) -> exp.Expr:
    """Apply all rewrites of `REWRITES` to the tree, from the inside out."""
    for node in reversed(list(tree.walk())):
        rewrite = REWRITES.get(type(node))
        new = rewrite(node) if rewrite is not None else node
        if new is node:
            continue
        new.meta.update({"called": text_name(node), **node.meta})
        if node is tree:
            tree = new
        elif node.parent is not None:
            node.replace(new)
    return tree


def named_columns(query: exp.Query, names: Sequence[str]) -> exp.Query:
    """Return the query with these column names: `CREATE VIEW v (a, b) AS query`."""
    first: Any = query
    while isinstance(first, exp.SetOperation):
        first = first.this
    items = first.expressions if isinstance(first, exp.Select) else []
    clauses = any(first.args.get(key) for key in ("group", "having", "qualify", "order"))
    if any(isinstance(i, exp.Alias) for i in items) and clauses:
        items = []  # a clause may refer to one of their names
    if len(items) == len(names) and not any(item.is_star or isinstance(item, exp.Aliases) for item in items):
        first.set(
            "expressions",
            [exp.alias_(item.unalias(), name, quoted=True) for item, name in zip(items, names, strict=True)],
        )
        return query
    alias = exp.TableAlias(this=exp.to_identifier("query"), columns=[exp.to_identifier(n, quoted=True) for n in names])
    source = exp.Subquery(this=query, alias=alias)
    source.meta.update(query.meta)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))


# -- tuples -----------------------------------------------------------------------------------------------------------

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between)
_LISTS = (exp.Values, exp.Any, exp.All, exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple, exp.PivotAlias)


def _tuple(node: exp.Tuple) -> exp.Expr:
    """Rewrite `(a, b)` as a struct. Compared tuples get no field names, because different names would make the types
    differ."""
    parent: Any = node.parent
    if (
        not node.expressions
        or isinstance(parent, _LISTS)
        or node.arg_key in ("on", "query")
        or node.find_ancestor(exp.Pivot)
    ):
        return node
    if isinstance(parent, exp.In) and parent.args.get("query") is not None:
        return node
    compared = isinstance(parent, COMPARED)
    fields = []
    for n, part in enumerate(node.expressions, 1):
        name = part.name if isinstance(part, exp.Column) and not compared else f"col{n}"
        fields.append(exp.PropertyEQ(this=exp.to_identifier(name), expression=part.copy()))
    return exp.Struct(expressions=fields)


# -- LIKE ANY, = ANY --------------------------------------------------------------------------------------------------


def _like(node: Any) -> exp.Expr:
    """Rewrite `x LIKE ANY (p, q)` as `x LIKE p OR x LIKE q`; ALL uses AND. With NOT each condition is negated."""
    several = node.expression
    if not isinstance(several, (exp.Any, exp.All)):
        return node  # type: ignore[no-any-return]
    patterns = several.this.expressions if isinstance(several.this, exp.Tuple) else [several.this.unnest()]
    if any(isinstance(p, exp.Query) for p in patterns):
        return node  # type: ignore[no-any-return]
    parts = [type(node)(this=node.this.copy(), expression=p.copy(), negate=node.args.get("negate")) for p in patterns]
    operator = exp.Or if isinstance(several, exp.Any) else exp.And
    return exp.paren(reduce(lambda a, b: operator(this=a, expression=b), parts), copy=False)


# -- functions --------------------------------------------------------------------------------------------------------


def _decoded(node: exp.DecodeCase) -> exp.Expr:
    """Rewrite `decode(x, 1, 'a', 2, 'b', 'c')`: the result of the first value that equals x; NULL equals NULL."""
    operand, *rest = node.expressions
    pairs = zip(rest[::2], rest[1::2], strict=False)
    ifs = [exp.If(this=exp.NullSafeEQ(this=operand.copy(), expression=a.copy()), true=b.copy()) for a, b in pairs]
    return exp.Case(ifs=ifs, default=rest[-1].copy() if len(rest) % 2 else None)


def _extracted(node: exp.Extract) -> exp.Expr:
    """Rewrite `extract(epoch FROM t)`: seconds since 1970 with fraction. A literal interval gets all fields of its
    kind, like a column."""
    interval = node.expression.unnest()
    if isinstance(interval, exp.Interval) and isinstance(interval.args.get("unit"), exp.Expr):
        unit = interval.args["unit"]
        first = (unit.this if isinstance(unit, exp.IntervalSpan) else unit).name.upper().removesuffix("S")
        kind = "INTERVAL YEAR TO MONTH" if first in ("YEAR", "MONTH") else "INTERVAL DAY TO SECOND"
        node.set("expression", exp.Cast(this=interval.copy(), to=exp.DataType.build(kind, dialect="spark")))
        return node
    if node.this.name.upper() != "EPOCH":
        return node
    return exp.paren(filled("unix_micros(CAST(t_ AS TIMESTAMP)) / 1E6", t_=node.expression), copy=False)


def _binned(node: exp.DateBin) -> exp.Expr:
    """Rewrite `date_bin(length, t[, origin])`: the start of the bin that contains t. Bins begin at 1970 if no origin is
    given."""
    length: Any = node.this
    if isinstance(length, exp.Literal) and (found := re.fullmatch(r"\s*(\d+)\s+(\w+)\s*", length.name)):
        length = make_interval(*found.groups()) if found[2].upper() in UNITS else length
    micros = interval_length(length)
    if micros is None or micros <= 0:
        message = "date_bin needs an interval of fixed length"
        raise Problem("B5002", message, *place_of(node), "write date_bin(INTERVAL '10' MINUTES, t)")
    if node.args.get("zone") or node.args.get("origin"):
        raise Problem(
            "B3015", "`date_bin` takes three arguments at most", *place_of(node), "write date_bin(length, t, origin)"
        )
    origin = node.args.get("unit") or filled("TIMESTAMP '1970-01-01 00:00:00'")  # sqlglot's name of the third argument
    text = "timestamp_micros(unix_micros(t_) - pmod(unix_micros(t_) - unix_micros(o_), n_))"
    return filled(text, t_=node.expression, o_=origin, n_=exp.Literal.number(micros))


def _grouping_id(node: exp.Column) -> exp.Expr:
    """Rewrite Hive's `grouping__id` as `grouping_id()`."""
    select: Any = node.find_ancestor(exp.Select)
    if node.name.lower() != "grouping__id" or node.args.get("table") or select is None or not select.args.get("group"):
        return node
    return exp.GroupingId(expressions=[])


def _formatted(node: exp.ToChar) -> exp.Expr:
    """Rewrite `to_char(x, format)` as a call by name, because sqlglot's printer omits the format."""
    return exp.Anonymous(this="to_char", expressions=[node.this.copy(), node.args["format"].copy()])


PARAMETERS = {"mask": (("str", None), ("upperChar", "X"), ("lowerChar", "x"), ("digitChar", "n"), ("otherChar", None))}
"""Parameters of functions with named arguments, with their defaults."""

ONLY_PARAMETER = {"explode": "collection", "posexplode": "collection", "inline": "input"}
"""Functions with one named parameter; also for their OUTER forms."""


def _named(node: exp.Kwarg) -> exp.Expr:
    """Rewrite a named argument in a call that accepts one."""
    call: Any = node.parent
    name = (call.name if isinstance(call, exp.Anonymous) else type(call).__name__).lower()
    if name in PARAMETERS:
        return node
    only = ONLY_PARAMETER.get(name.strip("_").removesuffix("outer").removesuffix("_"))
    if only is None:
        raise Problem("B3040", "this function takes no arguments by name", *place_of(call), "write them in order")
    if node.this.name.lower() != only:
        raise Problem("B3040", f"it has no parameter `{node.this.name}`", *place_of(call), f"its parameter is {only}")
    value: exp.Expr = node.expression.copy()
    return value


def _by_position(node: exp.Anonymous) -> exp.Expr:
    """Rewrite `mask(s, lowerChar => 'q')` with all arguments by position."""
    arguments = node.expressions
    first = next((n for n, a in enumerate(arguments) if isinstance(a, exp.Kwarg)), None)
    if first is None:
        return node
    parameters = PARAMETERS[node.name.lower()]
    given = {a.this.name.casefold(): a.expression for a in arguments[first:] if isinstance(a, exp.Kwarg)}
    found: list[exp.Expr] = list(arguments[:first])
    for name, default in parameters[first:]:
        value = given.pop(name.casefold(), None)
        missing = exp.Literal.string(default) if default is not None else exp.Null()
        found.append(value.copy() if value is not None else missing)
    if given or len(found) != len(parameters) or any(not isinstance(a, exp.Kwarg) for a in arguments[first:]):
        hint = f"its parameters are {', '.join(name for name, _ in parameters)}"
        raise Problem("B3040", f"`{node.name}` is called with wrong names", *place_of(node), hint)
    return exp.Anonymous(this=node.this, expressions=found)


def _computed_interval(node: exp.Interval) -> exp.Expr:
    """Rewrite `INTERVAL n DAY` of a column or an expression, as in MySQL, as a call that computes it."""
    count, unit = node.this, node.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if not isinstance(count, exp.Expr) or isinstance(count, (exp.Literal, exp.Neg)) or name not in _MADE:
        return node
    text = _MADE[name]
    return filled(text, n_=exp.paren(count.copy(), copy=False))


_MADE = {
    "YEAR": "make_ym_interval(n_, 0)",
    "QUARTER": "make_ym_interval(0, 3 * n_)",
    "MONTH": "make_ym_interval(0, n_)",
    "WEEK": "make_dt_interval(7 * n_)",
    "DAY": "make_dt_interval(n_)",
    "HOUR": "make_dt_interval(0, n_)",
    "MINUTE": "make_dt_interval(0, 0, n_)",
    "SECOND": "make_dt_interval(0, 0, 0, n_)",
}
"""Intervals of n units, for any expression n."""


def _least(node: exp.Neg) -> exp.Expr:
    """Rewrite `-128Y` as one number: without its sign it is out of range for its type."""
    cast = node.this
    if not isinstance(cast, exp.Cast) or not isinstance(cast.this, exp.Literal) or cast.this.is_string:
        return node
    negative = type(cast)(this=exp.Neg(this=cast.this.copy()), to=cast.to.copy())
    if WRITTEN in cast.args:
        negative.set(WRITTEN, f"-{cast.args[WRITTEN]}")
    return negative


def _call(node: exp.Anonymous) -> exp.Expr:
    """Rewrite calls by names that sqlglot does not know."""
    name = node.name.lower()
    if name == "json_tuple":
        return json_fields(node)
    if name == "iff" and len(node.expressions) == 3:
        condition, true, false = node.expressions
        return exp.If(this=condition.copy(), true=true.copy(), false=false.copy())
    return _by_position(node)


REWRITES: dict[type[exp.Expr], Rewrite] = {
    exp.Tuple: _tuple,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    **dict.fromkeys(COMPARISONS, compared_with_all),
    exp.DecodeCase: _decoded,
    exp.Order: refuse_order,
    **dict.fromkeys(ORDERED, ordered_call),
    exp.Filter: filtered,
    exp.Extract: _extracted,
    exp.DateBin: _binned,
    exp.Column: _grouping_id,
    exp.ToChar: _formatted,
    exp.Anonymous: _call,
    exp.Kwarg: _named,
    exp.Neg: _least,
    exp.Interval: _computed_interval,
    exp.Stack: stacked,
    exp.JSONExtract: extracted_json,
    exp.Lambda: lambda_or_json,
    exp.Select: rewritten_select,
    exp.Table: series,
    exp.WithinGroup: within_group,
    exp.Window: windowed,
}
