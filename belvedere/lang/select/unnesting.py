"""Table functions: `explode`, `posexplode`, `inline`, `unnest`, LATERAL VIEW, and LATERAL (SELECT ...).

In: the call or subquery, and the frame whose rows it reads. Out: the frame's plan joined with the new rows, and their
FROM item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem, SourceColumn
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.select.subqueries import over_domain
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Expr, Filter, Item, JoinKind, Project, Unnest, Values
from belvedere.plan.operators.project import item_of
from belvedere.schema import Column
from belvedere.syntax.wording import misfit


def is_generator(item: exp.Expr) -> bool:
    """Return whether a FROM item computes rows from a value."""
    if isinstance(item, exp.Unnest):
        return True
    return isinstance(item, exp.Table) and generator_call(item.this) is not None


def generator_call(call: exp.Expr | None) -> tuple[str, exp.Expr, bool] | None:
    """Return (explode | posexplode | inline, its argument, outer) of a generator function's call."""
    if not isinstance(call, (exp.Unnest, exp.Explode, exp.Posexplode, exp.Inline, exp.Anonymous)):
        return None
    name = call.name.lower() if isinstance(call, exp.Anonymous) else type(call).__name__.lower()
    function = name.strip("_").removesuffix("outer").removesuffix("_")
    argument = call.expressions[0] if call.expressions else call.this
    if function not in ("explode", "posexplode", "inline", "unnest") or not isinstance(argument, exp.Expr):
        return None
    return "explode" if function == "unnest" else function, argument, name.endswith("outer")


def start_empty(frame: Frame) -> None:
    """Give a query without FROM one row."""
    if frame.empty:
        frame.plan = Values((Column("one", pa.int32(), False, hidden=True),), ((exp.Literal.number(1),),))


def add_lateral(frame: Frame, item: exp.Expr, kind: JoinKind) -> None:
    """Add LATERAL VIEW, `unnest(...)`, `explode(...)` in FROM, and LATERAL (SELECT ...)."""
    call = item.this if isinstance(item, (exp.Lateral, exp.Table)) else item
    if isinstance(item, exp.Lateral) and isinstance(call, exp.Query):
        add_lateral_query(frame, item, call, kind)
        return
    found = generator_call(call)
    if found is None:
        raise frame.fail(
            "B3023", f"`{call.sql('spark')}` is not allowed in FROM", item, "FROM allows explode, posexplode and inline"
        )
    start_empty(frame)
    name, argument, outer = found
    alias = item.args.get("alias")
    written = [c.name for c in alias.columns] if alias is not None else []
    outer = outer or bool(item.args.get("outer")) or kind is JoinKind.LEFT
    table = alias.name if alias is not None and alias.this is not None else name
    place = call.args.get("offset") if isinstance(call, exp.Unnest) else None
    if isinstance(place, exp.Identifier) and written:
        written.append(place.name)  # sqlglot separates the last name of WITH ORDINALITY from the others
    ordinality = bool(place)
    expr = Resolver(frame).resolve(argument)
    if isinstance(call, exp.Unnest) and len(written) != 1 and t.is_array_of_struct(frame.inference().type(expr)):
        name = "inline"  # standard SQL: the fields of structs are columns
    source = unnest(frame, name, expr, table, written, outer=outer, ordinality=ordinality, node=item)
    frame.scope.sources.append(source)


def unnest(
    frame: Frame,
    function: str,
    expr: Expr,
    alias: str,
    written: Sequence[str],
    *,
    outer: bool,
    ordinality: bool = False,
    node: exp.Expr,
) -> FromItem:
    """Add an Unnest to the frame's plan; return its columns as a FROM item."""
    type_ = frame.inference().type(expr)
    prefix = frame.context.names.fresh(alias)
    inline = function == "inline"
    if pa.types.is_map(type_) and not inline:
        shapes = [("key", type_.key_type), ("value", type_.item_type)]
    elif inline and t.is_array_of_struct(type_):
        shapes = [(f.name, f.type) for f in type_.value_type]
    elif t.is_array(type_) and not inline:
        shapes = [("col", type_.value_type)]
    else:
        raise frame.fail("B3002", f"{function} takes an array or a map, not {t.a_type(type_)}", node)
    columns = tuple(Column(f"{prefix}.{n}", x) for n, x in shapes)
    shown = function == "posexplode" or ordinality
    position = Column(f"{prefix}.pos", pa.int32(), outer, hidden=not shown)
    frame.plan = Unnest(frame.plan, expr, columns, position, inline, outer)
    names = [n for n, _ in shapes]
    if shown:
        names = [*names, "pos"] if ordinality else ["pos", *names]
    if written and len(written) != len(names):
        hint = "its columns are " + ", ".join(f"`{n}`" for n in names)
        raise frame.fail("B3025", misfit(alias, names, written), node, hint)
    if ordinality:
        position = _counted_from_one(frame, position, f"{prefix}.number")
    internals = {**{n: c for (n, _), c in zip(shapes, columns, strict=True)}, "pos": position}
    found = [
        SourceColumn(w, internals[n].name, Typed(internals[n].type, True))
        for n, w in zip(names, written or names, strict=True)
    ]
    if not shown:
        found.append(SourceColumn("pos", position.name, Typed(position.type, outer), hidden=True))
    return FromItem(alias, tuple(found))


def _counted_from_one(frame: Frame, position: Column, name: str) -> Column:
    """Return the column that WITH ORDINALITY shows: standard SQL counts from 1."""
    number = replace(position, name=name)
    place = exp.Add(this=column(position.name), expression=exp.Literal.number(1))
    frame.plan = Project(
        frame.plan, (*map(item_of, frame.plan.schema), Item(name, place, position.type, position.nullable))
    )
    return number


def add_lateral_query(frame: Frame, item: exp.Expr, query: exp.Expr, kind: JoinKind) -> None:
    """Join a subquery that sees the FROM items before it, by its correlation."""
    start_empty(frame)
    inner = frame.subquery(query)
    if inner.needs_domain:
        inner = over_domain(frame, query, {n: column(n) for n in inner.used})
    pairs = [(exp.NullSafeEQ if nulls else exp.EQ)(this=column(n), expression=e) for e, n, nulls in inner.pairs]
    condition = conjunction([*pairs, *inner.residual])
    alias = item.alias or "lateral"
    internals = [i.name for i in inner.outputs]
    totals = inner.totals
    if totals is not None:  # one row, also without a match
        frame.join(totals.plan, JoinKind.LEFT, condition)
        if totals.having is not None and kind is JoinKind.INNER:
            frame.plan = Filter(frame.plan, totals.having.copy())
        values = (frame.item(n, totals.where_it_is(v.copy())) for n, v in zip(internals, totals.values, strict=True))
        frame.plan = Project(frame.plan, (*map(item_of, frame.plan.schema), *values))
    else:
        frame.join(inner.plan, kind, condition)
    written = [c.name for c in item.args["alias"].columns] if item.args.get("alias") else []
    names = written or [i.name.rpartition(".")[2] for i in inner.outputs]
    if len(names) != len(internals):
        raise frame.fail("B3025", misfit(alias, internals, names), item)
    types = [frame.plan.schema[i] for i in internals]
    columns = tuple(SourceColumn(n, c.name, Typed(c.type, c.nullable)) for n, c in zip(names, types, strict=True))
    frame.scope.sources.append(FromItem(alias, columns))
