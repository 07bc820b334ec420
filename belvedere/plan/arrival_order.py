"""Deterministic results of calls that depend on the order of tied rows: they use the order of arrival.

In: an aggregate or a window function, and the columns that break ties. Out: its deterministic form. Affected are
`first`, `last`, `any_value`, `collect_list`, `listagg`, `max_by`, `min_by`; `row_number`, `ntile`, `lag`, `lead`,
frames of ROWS. A later arrival counts as greater. Sets are sorted, and `mode` returns the least of the most frequent
values. Ranks and frames of RANGE keep their peers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.function import Ties
from belvedere.functions.function_table import function_of
from belvedere.plan.expressions import Expr, column, row_number
from belvedere.plan.operators.node import Item
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Schema, has_map

PLACE, VALUE = "_place", "_value"
BY_PLACE = (Ties.FIRST, Ties.LAST, Ties.NTH, Ties.LIST)
"""Functions of a frame that depend on the positions of its rows."""


def over_arrival(
    expr: Expr, names: Sequence[str], type_: pa.DataType, places: dict[Expr, Item], source: Schema
) -> Expr:
    """Return the deterministic form of a window function. `places` collects the row numbers that the input must compute
    for it."""
    window = expr.copy()
    if not isinstance(window, exp.Window):
        return window
    (call, _, skips), order, spec = unwrapped(window.this), window.args.get("order"), window.args.get("spec")
    ties_of = _ties_of(call)
    if ties_of is Ties.PEERS:
        return window
    if window.this is call and ties_of is Ties.FIRST and not skips and order is not None and spec is None:
        # a frame that begins with the partition always contains the partition's first row
        spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
        window.set("spec", spec)
    by_rows = spec is not None and spec.args["kind"].upper() == "ROWS"
    if ties_of is Ties.ROW or by_rows:
        window.set("order", with_ties(order, names))
        if ties_of is Ties.ROW:
            return window
    if by_rows and ties_of in BY_PLACE:
        return window
    ties = [column(n) for n in names]
    if order is not None and ties_of in BY_PLACE:
        ties = [column(_place(window, names, places, source))]
    return with_arrival(window, ties, type_)


def _place(window: exp.Window, names: Sequence[str], places: dict[Expr, Item], source: Schema) -> str:
    """Return the column with the position of a row in its partition, with ties broken."""
    number = row_number(window.args.get("partition_by") or (), with_ties(window.args["order"], names))
    if number not in places:
        name = unused_name(PLACE, {*source.names, *(i.name for i in places.values())})
        places[number] = Item(name, number, pa.int32(), nullable=False, hidden=True)
    return places[number].name


def with_ties(order: exp.Order | None, names: Sequence[str]) -> exp.Order:
    """Return the order followed by the tie columns, in the direction of its last key."""
    keys = [] if order is None else [k.copy() for k in order.expressions]
    descends = bool(keys) and bool(keys[-1].args.get("desc"))
    known = {k.this for k in keys}
    ties = [
        exp.Ordered(this=column(n), desc=descends, nulls_first=not descends) for n in names if column(n) not in known
    ]
    return exp.Order(expressions=[*keys, *ties])


def with_arrival(expr: Expr, ties: Sequence[Expr], type_: pa.DataType) -> Expr:
    """Return an aggregate, with its FILTER, IGNORE NULLS and OVER, in a form whose result does not depend on the order
    of its rows."""
    window = expr if isinstance(expr, exp.Window) else None
    call, condition, skips = unwrapped(expr.this if window is not None else expr)
    value = call.this
    made = call.copy()

    def asked(made: Expr, *present: Expr) -> Expr:
        """Return a call restricted to rows in which all of `present` are not NULL."""
        tests = [exp.Not(this=exp.Is(this=p.copy(), expression=exp.Null())) for p in present]
        where = exp.and_(*([condition.copy()] if condition is not None else []), *tests) if condition or tests else None
        made = made if where is None else exp.Filter(this=made, expression=exp.Where(this=where))
        if window is None:
            return made
        around = window.copy()
        around.set("this", made)
        return around

    kept = [value] if skips else []
    match _ties_of(call):
        case Ties.FIRST:
            return asked(exp.ArgMin(this=value.copy(), expression=_one(ties)), *kept)
        case Ties.LAST:
            return asked(exp.ArgMax(this=value.copy(), expression=_one(ties)), *kept)
        case Ties.EXTREME:
            made.set("expression", _struct(call.expression, *ties))
            return asked(made, call.expression)
        case Ties.NTH:
            listed = _listed(asked(_pairs(value, ties), *kept))
            return exp.Dot(
                this=exp.Anonymous(this="try_element_at", expressions=[listed, call.args["offset"].copy()]),
                expression=_field(),
            )
        case Ties.LIST if isinstance(value, exp.Distinct):
            return _listed(asked(made))
        case Ties.LIST if not has_map(type_):
            return exp.Dot(this=_listed(asked(_pairs(value, ties), value)), expression=_field())
        case Ties.SET:
            return _listed(asked(made))
        case Ties.MODE:
            made.set("deterministic", exp.true())
            return asked(made)
        case Ties.TEXT:
            return _joined(call, ties, asked)
        case _:
            return expr


def _joined(call: Expr, ties: Sequence[Expr], asked: Callable[..., Expr]) -> Expr:
    """Return `listagg` as a list whose elements are joined; NULL if there are no elements."""
    distinct = isinstance(call.this, exp.Distinct)
    value = exp.cast(call.this.expressions[0] if distinct else call.this, "string")
    separator = call.args.get("separator") or exp.Literal.string("")
    if distinct:
        texts = _listed(asked(exp.ArrayUniqueAgg(this=value.copy())))
    else:
        texts = exp.Dot(this=_listed(asked(_pairs(value, ties), value)), expression=_field())
    joined = exp.Anonymous(this="array_join", expressions=[texts, separator.copy()])
    some = exp.GT(this=asked(exp.Count(this=value.copy(), big_int=True)), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=joined)])


def unwrapped(expr: Expr) -> tuple[Expr, Expr | None, bool]:
    """Return the call itself, the condition of its FILTER, and whether it skips NULLs."""
    condition, skips = None, False
    while isinstance(expr, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(expr, exp.Filter):
            condition = expr.expression.this
        skips = skips or isinstance(expr, exp.IgnoreNulls)
        expr = expr.this
    return expr, condition, skips


def _ties_of(call: Expr) -> Ties | None:
    row = function_of(call)
    return None if row is None else row.ties


def _one(ties: Sequence[Expr]) -> Expr:
    return ties[0].copy() if len(ties) == 1 else _struct(*ties)


def _struct(*parts: Expr) -> Expr:
    named = [p for n, part in enumerate(parts) for p in (exp.Literal.string(f"_{n}"), part.copy())]
    return exp.Anonymous(this="named_struct", expressions=named)


def _pairs(value: Expr, ties: Sequence[Expr]) -> Expr:
    pair = _struct(*ties)
    pair.set("expressions", [*pair.expressions, exp.Literal.string(VALUE), value.copy()])
    return exp.ArrayAgg(this=pair, nulls_excluded=True)


def _listed(array: Expr) -> Expr:
    return exp.Anonymous(this="sort_array", expressions=[array])


def _field() -> exp.Identifier:
    return exp.to_identifier(VALUE, quoted=True)
