"""Expressions of a WINDOW BY query as expressions of the relational plan, where these have the same value for every row.

In: an expression and what its variables are. Out: an expression over columns with its type, or `Unsaid` with the reason. What comes out is
never MISSING and never fails: it may be computed for rows that the query's WHERE leaves out. Where the query itself would fail (an overflow
of BIGINT) it is NULL. It evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.table import canonical
from belvedere.functions.window_by import is_number, unify_numbers
from belvedere.lang.window_by.tree import Expr, Missing, QueryExpression
from belvedere.lang.window_by.type_rules import field_index
from belvedere.schema import TIMESTAMP


class Unsaid(Exception):
    """The relational plan cannot say it; the message says why, in a user's words."""


@dataclass(frozen=True)
class Said:
    """An expression over columns and the type of its value."""

    expr: Expr
    type: pa.DataType


@dataclass(frozen=True)
class ColumnObject:
    """An object whose fields are columns, or objects again."""

    fields: Mapping[str, Meaning]


@dataclass(frozen=True)
class Beyond:
    """What cannot be said, and why."""

    reason: str


Meaning = Said | ColumnObject | Beyond
Meanings = Mapping[str, Meaning]


def said(expr: Expr, variables: Meanings) -> Said:
    """The expression over columns. Raises Unsaid."""
    found = value_of(expr, variables)
    if not isinstance(found, Said):
        raise Unsaid(f"{in_words(expr)} is an object")
    return found


def is_exact(type_: pa.DataType) -> bool:
    """Types whose equality is the same everywhere."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_string(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date(type_)
        or pa.types.is_timestamp(type_)
    )


def value_of(expr: Expr, variables: Meanings) -> Said | ColumnObject:
    """The same, of objects too. Raises Unsaid."""
    expr = expr.unnest()
    if isinstance(expr, exp.Column):
        return _there(variables.get(expr.name, Beyond(f"{expr.name} is no variable of FROM")))
    if isinstance(expr, exp.Dot) and isinstance(expr.expression, exp.Identifier):
        return _there(_field(expr, value_of(expr.this, variables)))
    if isinstance(expr, exp.Struct):
        return ColumnObject({m.this.name: known(m.expression, variables) for m in expr.expressions})
    rule = RULES.get(type(expr))
    if rule is None:
        raise Unsaid(f"{in_words(expr)} may be MISSING, or has no like in SQL")
    return rule(expr, variables)


def known(expr: Expr, variables: Meanings) -> Meaning:
    """The same, with the reason where it cannot be said."""
    try:
        return value_of(expr, variables)
    except Unsaid as reason:
        return Beyond(str(reason))


def _there(value: Meaning) -> Said | ColumnObject:
    if isinstance(value, Beyond):
        raise Unsaid(value.reason)
    return value


def _field(path: Expr, owner: Said | ColumnObject) -> Meaning:
    name = path.expression.name
    if isinstance(owner, ColumnObject):
        folded = [n for n in owner.fields if n.casefold() == name.casefold()]
        found = name if name in owner.fields else folded[0] if len(folded) == 1 else None
        if found is None:
            raise Unsaid(f"{in_words(path)} is MISSING")
        return owner.fields[found]
    index = field_index(owner.type, name) if pa.types.is_struct(owner.type) else -1
    if index < 0:
        raise Unsaid(f"{in_words(path)} is MISSING")
    field = owner.type.field(index)
    return Said(exp.Dot(this=owner.expr.copy(), expression=exp.to_identifier(field.name, quoted=True)), field.type)


def in_words(expr: Expr) -> str:
    """An expression as a user wrote it, or what it is."""
    if expr.find(Missing, QueryExpression):
        return (
            "MISSING" if isinstance(expr, Missing) else "a subquery" if isinstance(expr, QueryExpression) else "an expression"
        )
    return expr.sql(dialect="spark").replace("`@row`.", "")  # what stands for the tuple in a rewritten query


# -- operators --


def _operator(kind: type[Any], left: Said, right: Said, type_: pa.DataType) -> Said:
    return Said(exp.paren(kind(this=left.expr.copy(), expression=right.expr.copy()), copy=False), type_)


def _call(name: str, type_: pa.DataType, *arguments: Expr) -> Said:
    return Said(exp.Anonymous(this=name, expressions=[a.copy() for a in arguments]), type_)


def _as(value: Said, type_: pa.DataType, name: str) -> Said:
    return value if value.type == type_ else Said(exp.cast(value.expr.copy(), name), type_)


def _whole(value: Said, of: Expr) -> Said:
    if not pa.types.is_integer(value.type):
        raise Unsaid(f"{in_words(of)} is not a whole number")
    return _as(value, pa.int64(), "bigint")


def _literal(node: Expr, variables: Meanings) -> Said:
    if node.is_string:
        return Said(node.copy(), pa.string())
    if not node.name.isdigit():
        return Said(exp.cast(exp.Literal.string(repr(float(node.name))), "double"), pa.float64())
    if int(node.name) >= 2**63:
        raise Unsaid(f"{node.name} is not a whole number")
    return Said(exp.cast(node.copy(), "bigint"), pa.int64())


def _negative(node: Expr, variables: Meanings) -> Said:
    if not isinstance(node.this, exp.Literal) or node.this.is_string:
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    found = _literal(node.this, variables)
    return Said(exp.Neg(this=found.expr), found.type)


def _sum(kind: type[Any], name: str) -> Callable[[Expr, Meanings], Said]:
    """An operation on whole numbers: of narrow ones it never overflows."""

    def rule(node: Expr, variables: Meanings) -> Said:
        sides = [(e, said(e, variables)) for e in (node.this, node.expression)]
        left, right = (_whole(value, e) for e, value in sides)
        if all(_is_narrow(e, value.type) for e, value in sides):
            return _operator(kind, left, right, pa.int64())
        return _call(name, pa.int64(), left.expr, right.expr)

    return rule


def _is_narrow(expr: Expr, type_: pa.DataType) -> bool:
    return bool(type_.bit_width <= 32) or (isinstance(expr, exp.Literal) and int(expr.name) < 2**31)


def never_fails(value: Said, expr: Expr) -> Said:
    """The same where it stands in place of the expression: raises Unsaid where that may overflow, and this would be NULL."""
    if any(call.name.startswith("try_") for call in value.expr.find_all(exp.Anonymous)):
        raise Unsaid(f"{in_words(expr)} may overflow")
    return value


def _quotient(node: Expr, variables: Meanings) -> Said:
    """DIV and % by a number that is written out: no other value is sure to be neither 0 nor -1."""
    left, by = _whole(said(node.this, variables), node.this), node.expression
    if not isinstance(by, exp.Literal) or by.is_string or not by.name.isdigit() or int(by.name) == 0:
        raise Unsaid(f"{in_words(node)} does not divide by a whole number that is written out")
    return _operator(type(node), left, _literal(by, variables), pa.int64())


def _comparison(node: Expr, variables: Meanings) -> Said:
    left, right = said(node.this, variables), said(node.expression, variables)
    return compared(type(node), left, right, in_words(node))


def compared(kind: type[Any], left: Said, right: Said, text: str) -> Said:
    """A comparison of two values of one type, or two numbers."""
    if left.type != right.type or not (is_exact(left.type) or is_number(left.type)):
        if not (is_number(left.type) and is_number(right.type)) or any(pa.types.is_decimal(t) for t in (left.type, right.type)):
            raise Unsaid(f"{text} compares values of different types")
        type_ = unify_numbers([left.type, right.type])
        left, right = (_as(v, type_, "double" if pa.types.is_floating(type_) else "bigint") for v in (left, right))
    return _operator(kind, left, right, pa.bool_())


def condition(node: Expr, variables: Meanings) -> Said:
    """The same, of an expression that is TRUE, FALSE or NULL. Raises Unsaid."""
    found = said(node, variables)
    if not pa.types.is_boolean(found.type):
        raise Unsaid(f"{in_words(node)} is not a condition")
    return found


def _junction(node: Expr, variables: Meanings) -> Said:
    left, right = condition(node.this, variables), condition(node.expression, variables)
    return _operator(type(node), left, right, pa.bool_())


def _not(node: Expr, variables: Meanings) -> Said:
    inner = condition(node.this, variables)
    return Said(exp.paren(exp.Not(this=exp.paren(inner.expr.copy(), copy=False)), copy=False), pa.bool_())


def _is(node: Expr, variables: Meanings) -> Said:
    value, kind = said(node.this, variables), node.expression
    word = "UNKNOWN" if isinstance(kind, exp.Null) else kind.name.upper()
    if word not in ("UNKNOWN", "VALUED") or isinstance(kind, exp.Boolean):
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    blank = exp.paren(exp.Is(this=exp.paren(value.expr.copy(), copy=False), expression=exp.Null()), copy=False)
    return Said(blank if word == "UNKNOWN" else exp.paren(exp.Not(this=blank), copy=False), pa.bool_())


def _between(node: Expr, variables: Meanings) -> Said:
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return _junction(exp.And(this=low, expression=high), variables)


def _like(node: Expr, variables: Meanings) -> Said:
    text = _text_of(said(node.this, variables), node.this)
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    found = exp.paren(exp.Like(this=text.expr.copy(), expression=pattern.copy()), copy=False)
    return Said(exp.paren(exp.Not(this=found), copy=False) if node.args.get("negate") else found, pa.bool_())


def _in(node: Expr, variables: Meanings) -> Said:
    if node.args.get("field") is not None or not node.expressions:
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    value = said(node.this, variables)
    if not all(isinstance(e, (exp.Literal, exp.Neg)) for e in node.expressions):
        raise Unsaid(f"{in_words(node)} compares with more than literals")
    found, *rest = (compared(exp.EQ, value, said(e, variables), in_words(node)) for e in node.expressions)
    for one in rest:
        found = _operator(exp.Or, found, one, pa.bool_())
    return found


def _case(node: Expr, variables: Meanings) -> Said:
    branches = []
    if node.find(Missing):
        raise Unsaid("it may be MISSING")
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        branches.append((condition(test, variables), said(branch.args["true"], variables)))
    default = node.args.get("default")
    other = None if default is None or isinstance(default, exp.Null) else said(default, variables)
    values, type_ = _alike([v for _, v in branches] + ([] if other is None else [other]), in_words(node))
    ifs = [exp.If(this=c.expr.copy(), true=v.expr.copy()) for (c, _), v in zip(branches, values, strict=False)]
    return Said(exp.Case(ifs=ifs, default=exp.Null() if other is None else values[-1].expr.copy()), type_)


def _alike(values: Sequence[Said], text: str) -> tuple[list[Said], pa.DataType]:
    """Values of one type; whole numbers become BIGINT."""
    if all(pa.types.is_integer(v.type) for v in values) and len({v.type for v in values}) > 1:
        values = [_as(v, pa.int64(), "bigint") for v in values]
    if len({v.type for v in values}) > 1 or not is_exact(values[0].type):
        raise Unsaid(f"{text} has values of several types")
    return list(values), values[0].type


def _cast(node: Expr, variables: Meanings) -> Said:
    if node.args["to"].this.name not in ("TEXT", "VARCHAR", "CHAR"):
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    return _written(said(node.this, variables), node)


def _written(value: Said, node: Expr) -> Said:
    """As text."""
    if not (pa.types.is_integer(value.type) or pa.types.is_date(value.type) or pa.types.is_string(value.type)):
        raise Unsaid(f"{in_words(node)} is written in another way in SQL")
    return _as(value, pa.string(), "string")


def _joined(node: Expr, variables: Meanings) -> Said:
    left, right = (_text_of(said(e, variables), e) for e in (node.this, node.expression))
    return _operator(exp.DPipe, left, right, pa.string())


def _text_of(value: Said, node: Expr) -> Said:
    if not pa.types.is_string(value.type):
        raise Unsaid(f"{in_words(node)} is not text")
    return value


# -- functions --


def _function(node: Expr, variables: Meanings) -> Said:
    name = canonical(node.name)
    arguments = [said(a, variables) for a in node.expressions]
    first = arguments[0] if arguments else None
    if first is None:
        raise Unsaid(f"{in_words(node)} has no like in SQL")
    if name in ("LOWER", "UPPER", "TRIM") and pa.types.is_string(first.type):
        return _call(name.lower(), first.type, first.expr)
    if name == "LENGTH" and pa.types.is_string(first.type):
        return Said(exp.cast(_call("length", pa.int32(), first.expr).expr, "bigint"), pa.int64())
    if name in PARTS and (first.type == TIMESTAMP or (pa.types.is_date(first.type) and name in DATE_PARTS)):
        return Said(exp.cast(_call(name.lower(), pa.int32(), first.expr).expr, "bigint"), pa.int64())
    if name == "DATE" and (first.type == TIMESTAMP or pa.types.is_date(first.type)):
        return _as(first, pa.date32(), "date")
    if name == "TO_STRING":
        return _written(first, node)
    if name == "CONCAT" and all(pa.types.is_string(a.type) for a in arguments):
        return _call("concat", first.type, *(a.expr for a in arguments))
    if name in ("COALESCE", "IF_NULL", "IF_MISSING_OR_NULL"):
        values, type_ = _alike(arguments, in_words(node))
        return _call("coalesce", type_, *(v.expr for v in values))
    if name == "SUBSTR" and pa.types.is_string(first.type):
        return _substring(node, first)
    raise Unsaid(f"{in_words(node)} may be MISSING, or has no like in SQL")


def _substring(node: Expr, text: Said) -> Said:
    """From a place on that counts from 0; NULL where the text ends before it."""
    places = node.expressions[1:]
    if not all(isinstance(p, exp.Literal) and not p.is_string and p.name.isdigit() and len(p.name) < 10 for p in places):
        raise Unsaid(f"{in_words(node)} has places that are not written out")
    first, *length = (int(p.name) for p in places)
    part = _call("substring", text.type, text.expr, *(exp.Literal.number(n) for n in (first + 1, *length))).expr
    if first == 0:
        return Said(part, text.type)
    there = exp.GTE(this=_call("length", pa.int32(), text.expr).expr, expression=exp.Literal.number(first))
    return Said(exp.Case(ifs=[exp.If(this=there, true=part)], default=exp.Null()), text.type)


DATE_PARTS = frozenset({"YEAR", "MONTH", "DAY"})
PARTS = DATE_PARTS | {"HOUR", "MINUTE", "SECOND"}
RULES: Mapping[type[Any], Callable[[Any, Meanings], Said]] = {
    exp.Literal: _literal, exp.Boolean: lambda n, v: Said(n.copy(), pa.bool_()), exp.Neg: _negative, exp.Anonymous: _function,
    exp.Add: _sum(exp.Add, "try_add"), exp.Sub: _sum(exp.Sub, "try_subtract"), exp.Mul: _sum(exp.Mul, "try_multiply"),
    exp.IntDiv: _quotient, exp.Mod: _quotient,
    exp.And: _junction, exp.Or: _junction, exp.Not: _not, exp.Is: _is, exp.Between: _between, exp.In: _in, exp.Like: _like, exp.Case: _case,
    exp.Cast: _cast, exp.TryCast: _cast, exp.DPipe: _joined,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _comparison),
}  # fmt: skip
