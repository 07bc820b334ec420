"""Expressions as written -> expressions over a plan's columns.

In: a sqlglot tree of the script and the frame whose columns it may name. Out: a copy in which every column is an
internal one and every subquery a `SubqueryValue`, to be joined later. `infer` checks types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.functions.project_functions import OwnFunction, marked, own_call, signature
from belvedere.functions.spark_types import DATE, cast, type_text
from belvedere.lang.names.scope import name_parts
from belvedere.lang.relationships.navigation import navigate, navigation
from belvedere.lang.select.query_frame import Frame
from belvedere.lang.select.subqueries import Inner, Pending, more_than_one_row
from belvedere.lang.types.leaf_types import parameter_name
from belvedere.plan.expressions import column, conjunction, map_operands
from belvedere.plan.operators.nodes import Expr
from belvedere.syntax.forms.builders import OF_ITS_TYPE
from belvedere.syntax.forms.rewriting import named_columns
from belvedere.syntax.query_tree import span_of
from belvedere.syntax.wording import nearest_name

DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""Units of whole days: a DATE rounded down to one of them remains a DATE."""

BARE = "written without a table"
"""Key in the meta of a column: its name, if it is written without a table."""

Fallback = Callable[[exp.Column], Expr | None]


class Resolver:
    """Resolves expressions over one frame."""

    def __init__(self, frame: Frame, fallback: Fallback | None = None, first: Fallback | None = None):
        self.frame = frame
        self.fallback = fallback
        """Resolves names that no FROM item has (aliases of the select list)."""
        self.first = first
        """Resolves names before the FROM items do (ORDER BY searches the output first)."""
        self._variables: list[str] = []

    def resolve(self, expr: exp.Expr) -> Expr:
        """Return a resolved copy."""
        copied = expr.copy()
        if expr.parent is not None:
            copied.meta.setdefault("start", span_of(expr, "").start)
            copied.meta.setdefault("end", span_of(expr, "").end)
        return self._walk(copied)

    def _walk(self, node: Expr) -> Expr:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot):
            return self._dot(node)
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            return self._subquery("exists", node.this, node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._in(node)
        if isinstance(node, exp.Subquery) or (isinstance(node, exp.Query) and not isinstance(node, exp.Table)):
            return self._subquery("scalar", node, node)
        if isinstance(node, (exp.Any, exp.All)):
            raise self.frame.fail(
                "B3012", "ANY and ALL are only allowed to the right of = <> < <= > >=", node, "write IN or EXISTS"
            )
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            if isinstance(node.parent, exp.Anonymous) and nearest_name(node.parent.name, ["count"]):
                raise self.frame.fail(
                    "B3005", f"function `{node.parent.name}` is not known", node.parent, "did you mean `count`?"
                )
            raise self.frame.fail("B3013", "`*` is not allowed here", node, "name the columns")
        if isinstance(node, exp.Lambda):
            return self._lambda(node)
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            return exp.Placeholder(this=parameter_name(node))
        if (
            isinstance(node, exp.Anonymous)
            and (own := marked(node, self.frame.context.definitions.functions)) is not None
        ):
            return self._own(node, own)
        if isinstance(node, exp.ArraysZip):
            return self._zipped(node)
        found = map_operands(node, self._walk)
        return self._of_its_type(found) if OF_ITS_TYPE in found.meta else found

    def _zipped(self, node: exp.ArraysZip) -> Expr:
        """Resolve `arrays_zip(xs, t.ys)`: its fields have the column names, as in Spark; others are numbered."""
        names = [e.name if isinstance(e, exp.Column | exp.Dot) else str(n) for n, e in enumerate(node.expressions)]
        found = map_operands(node, self._walk)
        if (
            len({n.casefold() for n in names}) < len(names) or self._variables
        ):  # the types of a lambda's variables are not known here
            return found
        type_ = self.frame.inference().type(found)
        fields = zip(names, type_.value_type, strict=True)
        return cast(found, pa.list_(pa.struct([pa.field(name, f.type, f.nullable) for name, f in fields])))

    def _of_its_type(self, rounded: Expr) -> Expr:
        """Cast `FLOOR(day TO MONTH)` to DATE, since `date_trunc` gives a TIMESTAMP."""
        is_date = self.frame.inference().type(rounded.this) == DATE
        return cast(rounded, DATE) if is_date and rounded.args["unit"].name in DAYS else rounded

    def _own(self, node: exp.Anonymous, own: OwnFunction) -> Expr:
        """Return a call of a project's function, with its arguments cast to the types of its parameters. `infer` checks
        them."""
        if len(node.expressions) != len(own.parameters):
            hint = f"it is {signature(own, type_text)}"
            message = f"`{own.name}` takes {len(own.parameters)} argument(s), not {len(node.expressions)}"
            raise self.frame.fail("B3040", message, node, hint)
        pairs = zip(node.expressions, own.parameters, strict=True)
        made = own_call(own, [cast(self._walk(a), type_) for a, (_, type_) in pairs])
        made.meta.update(node.meta)
        return made

    def _lambda(self, node: exp.Lambda) -> Expr:
        before = len(self._variables)
        self._variables += [p.name.casefold() for p in node.expressions]
        try:
            node.set("this", self._walk(node.this))
        finally:
            del self._variables[before:]
        return node

    def _column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise self.frame.fail("B3013", "`*` is not allowed here", node, "name the columns")
        parts = name_parts(node)
        if not parts:
            raise self.frame.fail(
                "B1001", f"`{node.sql('spark')}` is not a column", node, "quote names that are not words: `11`"
            )
        variable = parts[0].name.casefold() in self._variables
        for look_up, when in ((self.first, not variable), (self.fallback, not variable and not self._known(node))):
            found = look_up(node) if look_up is not None and when else None
            if found is not None:
                return found
        return self._named(parts, node)

    def _is_variable(self, name: exp.Identifier) -> bool:
        """Return whether a name in a resolved expression is a lambda's variable."""
        return name.name.casefold() in self._variables and not isinstance(name.parent, (exp.Column, exp.Dot))

    def _named(self, parts: Sequence[exp.Identifier], node: Expr) -> Expr:
        """Return a lambda's variable or a column, with its fields, or the column of a related row."""
        # in another case: sqlglot only recognises variables in the same spelling
        if parts[0].name.casefold() in self._variables:
            return _fields(parts[0].copy(), parts[1:])
        context = self.frame.context
        try:
            found, rest = self.frame.scope.resolve(parts, span_of(node, context.file))
        except BelvedereError as error:
            way = (
                None
                if any(d.code == "B2003" for d in error.diagnostics)
                else navigation(context, self.frame.scope, parts)
            )
            if way is None:
                raise
            return navigate(self.frame, way, node)
        if rest and not has_fields(found.typed.type):  # a column with the name of a table, and without fields
            way = navigation(context, self.frame.scope, parts)
            if way is not None:
                return navigate(self.frame, way, node)
        result = column(found.internal)
        result.meta.update(node.meta)
        if len(rest) == len(parts) - 1:
            result.meta[BARE] = parts[0].name
        return _fields(result, rest)

    def _known(self, node: exp.Column) -> bool:
        """Return whether a FROM item of this query has the name; if so, it hides an alias of the select list."""
        if self.fallback is None or len(node.parts) > 1:
            return True
        scope = self.frame.scope
        name = node.name
        return any(m.named(name) for m in scope.merged) or any(
            s.addressable and s.bare and s.find(name) for s in scope.sources
        )

    def _dot(self, node: exp.Dot) -> Expr:
        names = name_parts(node)
        if names:
            return self._named(names, node)
        base, *fields = node.flatten(unnest=False)
        return node if isinstance(base, exp.Identifier) else _fields(self._walk(base), fields)

    def _subquery(self, kind: str, query: exp.Expr, written: exp.Expr) -> Expr:
        inner = self.frame.subquery(query)
        if kind == "scalar" and len(inner.outputs) != 1:
            raise self.frame.fail("B3014", "a subquery used as a value must have one column", written)
        if kind == "scalar" and not inner.single and not inner.residual:
            raise more_than_one_row(self.frame, written)
        self._refuse_conditional(kind, inner, written)
        return Pending(kind, query, inner, written).value()

    def _refuse_conditional(self, kind: str, inner: Inner, written: exp.Expr) -> None:
        if kind != "scalar" and inner.conditional:
            hint = "compare the aggregate as a value: `(SELECT count(*) FROM ...) > 1`"
            raise self.frame.fail("B3014", "a correlated aggregate with HAVING is not supported here", written, hint)

    def _in(self, node: exp.In) -> Expr:
        written, query = node.this.unnest(), node.args["query"]
        if isinstance(written, exp.Tuple) and not isinstance(node.parent, exp.Not):
            return self._subquery("exists", _of_equal_rows(query, written.expressions), node)
        operand = self._walk(node.this)
        if any(isinstance(n, exp.Identifier) and self._is_variable(n) for n in operand.walk()):
            hint = "unnest the array in FROM, `FROM t, UNNEST(t.xs) AS x`, and write WHERE x IN (SELECT ...)"
            raise self.frame.fail("B3022", "comparing a lambda's variable with a subquery is not supported", node, hint)
        inner = self.frame.subquery(query)
        if len(inner.outputs) != 1 or isinstance(operand, exp.Tuple):
            raise self.frame.fail("B3014", "IN compares one value with a subquery of one column", node, "write EXISTS")
        self._refuse_conditional("in", inner, node)
        if inner.total is not None:
            return exp.EQ(this=operand, expression=Pending("scalar", query, inner, node).value())
        return Pending("in", query, inner, node).value(operand)


def _of_equal_rows(query: exp.Expr, values: Sequence[exp.Expr]) -> exp.Select:
    """Return the rows of a query whose columns equal these values."""
    names = [exp.to_identifier(f"in_{n}", quoted=True) for n in range(len(values))]
    inner: Any = query.this if isinstance(query, exp.Subquery) else query
    named = named_columns(inner.copy(), [n.name for n in names])
    source = exp.Subquery(this=named, alias=exp.TableAlias(this=exp.to_identifier("in_query", quoted=True)))
    source.meta.update(query.meta)
    same = [exp.EQ(this=exp.column(n.copy()), expression=v.copy()) for n, v in zip(names, values, strict=True)]
    where = exp.Where(this=conjunction(same))
    return exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=source), where=where)


def has_fields(type_: pa.DataType) -> bool:
    """Return whether a dot may follow: a struct's field, a map's key, the field of each of an array's structs."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return has_fields(type_.value_type)
    return bool(pa.types.is_struct(type_) or pa.types.is_map(type_))


def _fields(base: Expr, names: Iterable[Expr]) -> Expr:
    result = base
    for name in names:
        result = exp.Dot(this=result, expression=exp.to_identifier(name.name, quoted=True))
        result.meta.update(base.meta)
    return result
