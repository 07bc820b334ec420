"""The parameters of query templates and relationships: declared ones with their defaults, and inferred types of others.

In: parameters as written; a query with `?` or `:name`. Out: the parameters, with defaults in the form in which an API
client would write them. An undeclared parameter has the type of the column or value that it is compared with; if there
is none, it is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.templates import Parameter
from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions.spark_types import Typed, a_type, arrow_type, unstorable_interval
from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.statements.metadata import read_metadata
from belvedere.lang.types.leaf_types import parameter_name
from belvedere.schema import MONTHS
from belvedere.syntax.statement_tree import TemplateParameter
from belvedere.values.intervals import interval_of, iso_text
from belvedere.values.months import months_of, months_text

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Like, exp.NullSafeEQ)


def declared_parameters(parameters: Sequence[TemplateParameter]) -> tuple[Parameter, ...]:
    """Return the parameters that a definition lists. Raises B3003, B4030, B4040."""
    known: set[str] = set()
    for written in parameters:
        if written.name.text.casefold() in known:
            message = f"parameter `{written.name.text}` is declared twice"
            raise fail("B2007", message, span=written.span, hint="give one of them another name")
        known.add(written.name.text.casefold())
    return tuple(map(_declared, parameters))


def _declared(written: TemplateParameter) -> Parameter:
    name, type_ = written.name.text, arrow_type(written.type)
    if type_ is None or unstorable_interval(type_):
        raise fail("B3003", f"type {written.type.sql()} is not supported", span=written.span)
    metadata = None
    if written.metadata is not None:
        metadata = read_metadata(written.metadata, name, type_, parameter=True)
        if written.default is not None:
            message = f"parameter `{name}` comes from the caller's token and cannot have a default"
            raise fail(
                "B4040", message, span=written.span, hint="remove the default: callers without this claim are rejected"
            )
    default = None if written.default is None else default_of(written.default, type_, name, written.span)
    return Parameter(name, type_, False, default, metadata)


def typed_parameters(parameters: Iterable[Parameter]) -> dict[str, Typed]:
    """Return the types of `:name` in the statement."""
    return {p.name: Typed(p.type, p.nullable) for p in parameters}


def infer_parameters(query: exp.Query, context: StatementContext) -> tuple[Parameter, ...]:
    """Return the parameters that a query names, in the order of first use."""
    parameters: dict[str, Parameter] = {}
    for placeholder in sorted(query.find_all(exp.Placeholder), key=lambda p: p.meta.get("start", 0)):
        name = parameter_name(placeholder)
        if name not in parameters:
            parameters[name] = Parameter(name, _type(placeholder, context))
    return tuple(parameters.values())


def _type(placeholder: exp.Placeholder, context: StatementContext) -> object:
    parent = placeholder.parent
    while isinstance(parent, (exp.Paren, exp.Tuple)):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        found = arrow_type(parent.args["to"])
        if found is not None:
            return found
    if isinstance(parent, (exp.Limit, exp.Fetch)):
        return pa.int32()
    for other in compared_with(parent):
        found = _type_in(other, context)
        if found is not None:
            return found
    name = parameter_name(placeholder)
    raise context.fail(
        "B3004",
        f"parameter `{name}` has no type",
        placeholder,
        "compare it with a column, or declare: `Q(name TYPE) := ...`",
    )


def compared_with(parent: exp.Expr | None) -> list[exp.Expr]:
    """Return the operands that a parent compares, except parameters."""
    if not isinstance(parent, COMPARED):
        return []
    parts = [parent.args.get(k) for k in ("this", "expression", "low", "high")] + list(parent.expressions)
    return [p for p in parts if isinstance(p, exp.Expr) and p.find(exp.Placeholder) is None]


def _type_in(expr: exp.Expr, context: StatementContext) -> object:
    """Return the type of an expression of a query: the type of its column if the query selected only this
    expression."""
    select = expr.find_ancestor(exp.Select)
    if select is None:
        return None
    probe = exp.Select(expressions=[exp.alias_(expr.copy(), "probe", quoted=True)])
    copied = select.copy()
    for key in ("from_", "joins", "laterals"):
        probe.set(key, copied.args.get(key))
    if probe.find(exp.Placeholder) is not None:
        return None
    clause = select.root().args.get("with_")
    if clause is not None and clause.find(exp.Placeholder) is None:
        probe.set("with_", clause.copy())
    try:
        plan = context.lower_query(probe, context)
    except BelvedereError:
        return None
    return plan.schema["probe"].type


# -- defaults ---------------------------------------------------------------------------------------------------------


def default_of(written: exp.Expr, type_: pa.DataType, name: str, span: Span) -> bool | int | float | str:
    """Return the value of a literal of a parameter's type. Raises B4030 for other expressions."""
    found = literal_of(written, type_)
    if found is None:
        hint = "write a literal: 10, 'text', TRUE, DATE '2026-01-31', TIMESTAMP '2026-01-31 08:00:00'"
        raise fail(
            "B4030", f"the default of parameter `{name}` is not a literal of {a_type(type_)}", span=span, hint=hint
        )
    return found


def literal_of(written: exp.Expr, type_: pa.DataType) -> bool | int | float | str | None:
    """Return the value of a literal in the input form of clients; None if it is not of the type."""
    try:
        return _literal(written, type_)
    except (ValueError, InvalidOperation):
        return None


def _literal(written: exp.Expr, type_: pa.DataType) -> bool | int | float | str | None:
    if isinstance(written, exp.Cast) and isinstance(written.this, exp.Literal) and written.this.is_string:
        same = pa.types.is_temporal(type_) and arrow_type(written.args["to"]) == type_
        return _time(written.this.name, type_) if same else None
    if isinstance(written, exp.Boolean):
        return bool(written.this) if pa.types.is_boolean(type_) else None
    negative = isinstance(written, exp.Neg)
    literal = written.this if negative else written
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return _text(literal.name, type_) if not negative else None
    return _number(("-" if negative else "") + literal.name, type_)


def _number(text: str, type_: pa.DataType) -> int | float | str | None:
    if pa.types.is_integer(type_):
        value = int(text)
        return value if -(1 << (type_.bit_width - 1)) <= value < 1 << (type_.bit_width - 1) else None
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return str(pa.scalar(Decimal(text), type_).as_py())
    return None


def _text(text: str, type_: pa.DataType) -> str | None:
    if pa.types.is_string(type_):
        return text
    return _time(text, type_) if pa.types.is_temporal(type_) else None


def _time(text: str, type_: pa.DataType) -> str | None:
    if pa.types.is_date(type_):
        return date.fromisoformat(text).isoformat()
    if type_ == MONTHS:
        return months_text(months_of(text))
    if pa.types.is_duration(type_):
        return iso_text(interval_of(text))
    if not pa.types.is_timestamp(type_):
        return None
    instant = datetime.fromisoformat(text)
    instant = instant.astimezone(UTC) if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return instant.isoformat().replace("+00:00", "Z")
