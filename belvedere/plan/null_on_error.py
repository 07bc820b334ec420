"""NULL instead of errors in expressions (`on_error = "null"` in the project file).

In: an expression. Out: the same with Spark's `try_` forms of arithmetic, casts, element access, sums, and of functions
that parse text or create dates. Interval arithmetic and comparisons with the clock stay unchanged: in practice they do
not fail, and other rewrites match them.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.function import Function
from belvedere.functions.function_table import function_of
from belvedere.plan.expressions import Expr, call
from belvedere.schema import Schema
from belvedere.spark_sql.operators import WRITTEN

BINARY: dict[type[Expr], str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
    exp.Div: "try_divide",
    exp.Mod: "try_mod",
}
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
UNIX_FORMAT = "yyyy-MM-dd HH:mm:ss"


def forgiving(expr: Expr, source: Schema) -> Expr:
    """Return a copy of an expression over columns of `source` that gives NULL instead of an error."""
    result: Expr = exp.paren(expr, copy=True)
    # from the leaves up, because `transform` does not visit its own replacements
    for node in reversed(list(result.walk())):
        changed = _forgive(node, source)
        if changed is not node:
            node.replace(changed)
    found: Expr = result.this
    return found.pop() if isinstance(found, exp.Expr) else found


def _forgive(node: Expr, source: Schema) -> Expr:
    name = BINARY.get(type(node))
    if name is not None:
        sides = [node.this.unnest(), node.expression.unnest()]
        if any(isinstance(s, exp.Interval | exp.CurrentTimestamp) for s in sides):
            return node
        return call(name, *sides)
    if isinstance(node, exp.Cast) and not node.args.get("safe") and WRITTEN not in node.args:  # `7L` is a literal
        return exp.TryCast(this=node.this, to=node.args["to"], safe=True)  # printed as CAST unless `safe`
    if isinstance(node, exp.IntDiv):
        guarded = exp.func("nullif", node.expression.copy(), exp.Literal.number(0), dialect="spark")
        return exp.IntDiv(this=node.this, expression=guarded)
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return _element(node, source)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal | exp.Interval):
        return call("try_multiply", node.this.unnest(), exp.Literal.number(-1))
    if isinstance(node, exp.StrToTime | exp.TsOrDsToDate):
        name = "try_to_timestamp" if isinstance(node, exp.StrToTime) else "try_to_date"
        written = node.args.get("format")
        return call(name, node.this, *([] if written is None else [written]))
    row = function_of(node)
    if isinstance(node, (*COMPARISONS, exp.In, exp.Between)) or (row is not None and row.reads_text_as):
        return _reading_text(node, source)
    return _call(node, row)


def _call(node: Expr, row: Function | None) -> Expr:
    """Return the variant of a function that gives NULL, or a condition that skips arguments for which it fails."""
    if row is not None and row.forgiving is not None:
        return call(row.forgiving, *node.iter_expressions())
    if isinstance(node, exp.StrToUnix) and not isinstance(node.this, exp.CurrentTimestamp):
        written = node.args.get("format") or exp.Literal.string(UNIX_FORMAT)
        return exp.StrToUnix(this=call("try_to_timestamp", node.this, written))
    if isinstance(node, exp.Abs | exp.Negative):  # the least integer has no opposite
        opposite = call("try_multiply", node.this.copy(), exp.Literal.number(-1))
        return exp.If(this=exp.Is(this=opposite, expression=exp.Null()), true=exp.Null(), false=node.copy())
    if isinstance(node, exp.Elt):
        place = call("try_subtract", node.this, exp.Literal.number(1))
        return call("get", exp.Array(expressions=node.expressions), place)
    if not isinstance(node, exp.Anonymous):
        return node
    name, arguments = node.name.lower(), node.expressions
    if name == "pmod":
        return call("pmod", arguments[0], exp.Nullif(this=arguments[1], expression=exp.Literal.number(0)))
    if name == "make_date":
        midnight = call("try_make_timestamp_ntz", *arguments, *(exp.Literal.number(0) for _ in range(3)))
        return exp.TryCast(this=midnight, to=exp.DataType.build("DATE"), safe=True)
    return node


def _reading_text(node: Expr, source: Schema) -> Expr:
    """Return a comparison or function that parses text as a number or time, with NULL for invalid text."""
    children = list(node.iter_expressions())
    types = [_type(c, source) for c in children]
    row = function_of(node)
    to = row.reads_text_as if row is not None else None
    if to is None:
        others = [t for t in types if t is not None and t != pa.string()]
        to = _read_as(others[0]) if others else None
    for child, type_ in zip(children, types, strict=True):
        if to is not None and type_ == pa.string() and not isinstance(child, exp.Literal):
            child.replace(exp.TryCast(this=child.copy(), to=exp.DataType.build(to, dialect="spark"), safe=True))
    return node


def _read_as(other: pa.DataType) -> str | None:
    """Return the type as which text is read next to a value of another type (Spark's ANSI rules)."""
    if pa.types.is_integer(other):
        return "BIGINT"
    if pa.types.is_floating(other) or pa.types.is_decimal(other):
        return "DOUBLE"
    if pa.types.is_boolean(other) or pa.types.is_date(other):
        return "BOOLEAN" if pa.types.is_boolean(other) else "DATE"
    return "TIMESTAMP" if pa.types.is_timestamp(other) else None


def _element(node: exp.Bracket, source: Schema) -> Expr:
    """Return an element access that gives NULL outside the array; access to a map always does."""
    found = _type(node.this, source)
    if node.args.get("offset"):  # try_element_at, which still fails for index 0
        index = node.expressions[0]
        if found is not None and pa.types.is_list(found):
            index = exp.Nullif(this=index.copy(), expression=exp.Literal.number(0))
        return exp.Bracket(this=node.this, expressions=[index], offset=1, safe=True)
    if found is not None and pa.types.is_list(found):
        return call("get", node.this, node.expressions[0])
    return node


def _type(expr: Expr, source: Schema) -> pa.DataType | None:
    """Return the type of a column or of a part of one, if it is simple to find."""
    expr = expr.unnest()
    if isinstance(expr, exp.Column):
        column = source.find(expr.name)
        return None if column is None else column.type
    if isinstance(expr, exp.Cast) and expr.to.this in exp.DataType.TEXT_TYPES:
        return pa.string()
    if isinstance(expr, exp.Literal):
        return pa.string() if expr.is_string else pa.int64() if expr.is_int else pa.float64()
    if isinstance(expr, exp.Array):
        return pa.list_(pa.null())
    if isinstance(expr, exp.Dot):
        owner = _type(expr.this, source)
        known = owner is not None and pa.types.is_struct(owner) and owner.get_field_index(expr.name) >= 0
        return owner.field(expr.name).type if owner is not None and known else None
    if isinstance(expr, exp.Bracket) or (isinstance(expr, exp.Anonymous) and expr.name == "get"):
        owner = _type(expr.this if isinstance(expr, exp.Bracket) else expr.expressions[0], source)
        if owner is not None and pa.types.is_map(owner):
            return owner.item_type
        return owner.value_type if owner is not None and pa.types.is_list(owner) else None
    return None
