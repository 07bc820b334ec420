"""Names and types of a SQL++ query, before anything runs.

In: a `Query` and the row types of the tables. Out: the type of every block's variables and results (`BlockTypes`), and
diagnostics (B26xx names, B36xx types) with spans. A type is an Arrow type, or None where values of several types may
come. It evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Diagnostic, Severity, Span
from belvedere.lang.window_by import (
    Block,
    Expr,
    Missing,
    Name,
    Query,
    QueryExpression,
    Select,
    Source,
    SourceKind,
    WindowBy,
)
from belvedere.lang.window_by_functions import (
    AGGREGATES,
    DURATION,
    FUNCTIONS,
    Type,
    canonical,
    duration_micros,
    element,
    is_number,
    unify,
    unify_numbers,
)
from belvedere.schema import TIMESTAMP

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
CASTS: Mapping[str, pa.DataType] = {
    "TINYINT": pa.int64(), "SMALLINT": pa.int64(), "INT": pa.int64(), "BIGINT": pa.int64(), "FLOAT": pa.float64(),
    "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(), "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(), "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP, "TIMESTAMPLTZ": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP,
    "DATETIME": TIMESTAMP,
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """What is visible: variables (inner ones hide outer ones) and tables with the type of their rows."""

    variables: Mapping[str, Type] = field(default_factory=dict)
    tables: Mapping[str, Type] = field(default_factory=dict)
    group: Scope | None = None  # what the arguments of SUM(x) and the like see: None where there is no group

    def bind(self, variables: Mapping[str, Type]) -> Scope:
        return replace(self, variables={**self.variables, **variables})

    def table(self, name: str) -> str | None:
        """The table's own name: exact match first, then one that differs in case only."""
        if name in self.tables:
            return name
        return next((t for t in self.tables if t.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class BlockTypes:
    """Types of a block's variables per stage: before the window, the item, after it; and of one result."""

    before: Mapping[str, Type]
    item: Type
    after: Mapping[str, Type]
    output: Type


def cast_type(node: Expr) -> Type:
    """The type that CAST names; None for one we do not know."""
    target = node.args["to"]
    if target.this == exp.DType.DECIMAL:
        sizes = [int(e.name) for e in target.expressions]
        return pa.decimal128(sizes[0] if sizes else 10, sizes[1] if len(sizes) > 1 else 0)
    return CASTS.get(target.this.name)


def field_index(type_: pa.DataType, name: str) -> int:
    """The field's number: exact match first, then one that differs in case only; -1 for none."""
    names = [f.name for f in type_]
    if name in names:
        return names.index(name)
    folded = [n.casefold() for n in names]
    return folded.index(name.casefold()) if folded.count(name.casefold()) == 1 else -1


class Typing:
    """One pass over a query: types and findings. `file` goes into the spans."""

    def __init__(self, file: str = ""):
        self.file = file
        self.diagnostics: list[Diagnostic] = []

    def report(
        self, code: str, message: str, span: Span | None, hint: str | None = None, severity: Severity = Severity.ERROR
    ) -> None:
        place = replace(span, file=self.file) if span else None
        found = Diagnostic(code, message, severity, place, hint=hint)
        if found not in self.diagnostics:
            self.diagnostics.append(found)

    # -- expressions --

    def of(self, node: Expr, scope: Scope, within: Span | None = None) -> Type:
        """The type of an expression's value; `pa.null()` where it can only be NULL or MISSING."""
        within = node.meta.get("span") or within
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            result: Type = handler(node, scope, within)
            return result
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node, scope, within)
        if isinstance(node, COMPARISONS):
            return self._comparison(node, scope, within)
        if isinstance(node, (exp.And, exp.Or)):
            for side in (node.left, node.right):
                self._want_boolean(side, scope, within)
            return pa.bool_()
        self.report("B3601", f"{type(node).__name__.upper()} is not supported in a query with WINDOW BY", within)
        return None

    def _column(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        name = node.name
        if name in scope.variables:
            return scope.variables[name]
        table = scope.table(name)
        if table is not None:
            row = scope.tables[table]
            return None if row is None else pa.list_(row)
        candidates = [*scope.variables, *scope.tables]
        near = [c for c in candidates if c.casefold() == name.casefold()] or get_close_matches(name, candidates, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"in scope: {', '.join(candidates) or 'nothing'}"
        self.report("B2601", f'name "{name}" is not in scope here', self._place(node, within), hint)
        return None

    def _place(self, node: Expr, within: Span | None) -> Span | None:
        part = node.this if isinstance(node, exp.Column) else node.expression if isinstance(node, exp.Dot) else node
        start, end = part.meta.get("start"), part.meta.get("end")
        return Span(self.file, start, end + 1) if start is not None and end is not None else within

    def _dot(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        base, name = node.this, node.expression.name
        if isinstance(base, exp.Bracket) and isinstance(base.expressions[0], exp.Star):
            inner = element(self.of(base.this, scope, within))
            found = self._field(inner, name, node, within)
            return None if found is None else pa.list_(found)
        return self._field(self.of(base, scope, within), name, node, within)

    def _field(self, type_: Type, name: str, node: Expr, within: Span | None) -> Type:
        if type_ is None:
            return None
        if pa.types.is_map(type_):
            return type_.item_type
        if not pa.types.is_struct(type_):
            return pa.null()
        index = field_index(type_, name)
        if index < 0:
            near = get_close_matches(name, [f.name for f in type_], 1)
            hint = f'did you mean "{near[0]}"?' if near else f"fields: {', '.join(f.name for f in type_)}"
            place = self._place(node, within)
            self.report("B2602", f'there is no field "{name}": the path is always MISSING', place, hint, Severity.WARNING)
            return pa.null()
        return type_.field(index).type

    def _bracket(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        base = self.of(node.this, scope, within)
        index = node.expressions[0]
        if isinstance(index, exp.Star):
            inner = element(base)
            if inner is None or not pa.types.is_struct(inner):
                return None if inner is None else pa.null()
            return pa.struct([(f.name, pa.list_(f.type)) for f in inner])
        if isinstance(index, exp.Slice):
            for bound in (index.this, index.expression):
                if bound is not None:
                    self.of(bound, scope, within)
            return base
        key = self.of(index, scope, within)
        if key is not None and pa.types.is_string(key) and isinstance(index, exp.Literal):
            return self._field(base, index.name, node, within)
        return element(base)

    def _literal(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        if node.is_string:
            return pa.string()
        return pa.int64() if node.name.isdigit() else pa.float64()

    def _boolean(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        return pa.bool_()

    def _null(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        return pa.null()

    def _missing(self, node: Missing, scope: Scope, within: Span | None) -> Type:
        return pa.null()

    def _neg(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        return self.of(node.this, scope, within)

    def _not(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self._want_boolean(node.this, scope, within)
        return pa.bool_()

    def _interval(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        unit = str(node.args.get("unit") or "").upper().rstrip("S")
        if unit not in ("DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "MILLISECOND", "MICROSECOND"):
            hint = 'write INTERVAL 7 DAYS or duration("P7D")'
            self.report("B3602", f"an interval of {unit or 'no unit'} has no fixed length", within, hint)
        return DURATION

    def _is(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        return pa.bool_()

    def _between(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        for part in (node.this, node.args["low"], node.args["high"]):
            self.of(part, scope, within)
        return pa.bool_()

    def _like(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        self.of(node.expression, scope, within)
        return pa.bool_()

    def _in(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        parts = [node.this, *node.expressions]
        if node.args.get("field") is not None:
            parts.append(node.args["field"])
        for part in parts:
            self.of(part, scope, within)
        return pa.bool_()

    def _case(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        if node.this is not None:
            self.of(node.this, scope, within)
        results = []
        for branch in node.args["ifs"]:
            self.of(branch.this, scope, within)
            results.append(self.of(branch.args["true"], scope, within))
        default = node.args.get("default")
        results.append(self.of(default, scope, within) if default is not None else pa.null())
        return unify(results)

    def _cast(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        target = cast_type(node)
        if target is None:
            hint = "known types: BIGINT, DOUBLE, DECIMAL(p, s), STRING, BOOLEAN, DATE, TIMESTAMP"
            self.report("B3603", f"cannot cast to {node.args['to'].sql('spark')}", within, hint)
        return target

    _trycast = _cast

    def _dpipe(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        self.of(node.expression, scope, within)
        return pa.string()

    def _struct(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        fields: dict[str, Type] = {}
        for member in node.expressions:
            name = member.this.name
            if name in fields:
                self.report("B2603", f'field "{name}" stands twice in one object', within)
            fields[name] = self.of(member.expression, scope, within)
        return None if any(t is None for t in fields.values()) else pa.struct(list(fields.items()))

    def _array(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        inner = unify([self.of(e, scope, within) for e in node.expressions])
        return None if inner is None else pa.list_(inner)

    def _exists(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        return pa.bool_()

    def _queryexpression(self, node: QueryExpression, scope: Scope, within: Span | None) -> Type:
        output = self.query(node.query, scope)
        return None if output is None else pa.list_(output)

    def _anonymous(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        name = canonical(node.name)
        arguments = list(node.expressions)
        if name in AGGREGATES:
            return self._aggregate(name, arguments, scope, within)
        function = FUNCTIONS.get(name)
        types = [self.of(a, scope, within) for a in arguments]
        if function is None:
            near = get_close_matches(name, FUNCTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else None
            self.report("B2604", f"function {node.name} is not known", within, hint)
            return None
        if len(types) < function.least or (function.most >= 0 and len(types) > function.most):
            wanted = str(function.least) if function.least == function.most else f"{function.least} or more"
            self.report("B3604", f"{name} takes {wanted} argument(s), not {len(types)}", within)
            return None
        first = arguments[0]
        if name == "DURATION" and isinstance(first, exp.Literal) and first.is_string and duration_micros(first.name) is None:
            hint = 'write weeks, days, hours, minutes and seconds: duration("P7D"), duration("PT5M")'
            self.report("B3602", f'"{first.name}" is not a duration of fixed length', within, hint)
        return function.result(types)

    def _aggregate(self, name: str, arguments: list[Expr], scope: Scope, within: Span | None) -> Type:
        if scope.group is None:
            hint = f"write ARRAY_{name}((SELECT VALUE ... FROM ...)), or ARRAY_{name}(w[*].field) for a window w"
            self.report("B3605", f"{name} needs a group: there is none here", within, hint)
            return None
        if len(arguments) != 1:
            self.report("B3604", f"{name} takes 1 argument(s), not {len(arguments)}", within)
            return None
        inner = pa.int64() if isinstance(arguments[0], exp.Star) else self.of(arguments[0], scope.group, within)
        return FUNCTIONS[canonical(f"ARRAY_{name}")].result([None if inner is None else pa.list_(inner)])

    def _arithmetic(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        left, right = self.of(node.this, scope, within), self.of(node.expression, scope, within)
        if left is None or right is None:
            return None
        result = arithmetic_type(node, left, right)
        if result is None:
            words = f"{describe(left)} and {describe(right)}"
            self.report("B3606", f"{type(node).__name__.lower()} of {words} is not possible", within, _time_hint(left, right))
        return result

    def _comparison(self, node: Expr, scope: Scope, within: Span | None) -> Type:
        left, right = self.of(node.this, scope, within), self.of(node.expression, scope, within)
        if left is not None and right is not None and not comparable(left, right):
            message = f"{describe(left)} and {describe(right)} never compare: the result is always NULL"
            self.report("B3607", message, within, _time_hint(left, right), Severity.WARNING)
        return pa.bool_()

    def _want_boolean(self, node: Expr, scope: Scope, within: Span | None) -> None:
        found = self.of(node, scope, within)
        if found is not None and not pa.types.is_boolean(found) and not pa.types.is_null(found):
            place = node.meta.get("span") or within
            self.report(
                "B3608", f"a condition is needed here, not {describe(found)}", place, "compare it: e = 0, e IS NOT NULL"
            )

    # -- queries --

    def query(self, query: Query, scope: Scope) -> Type:
        """The type of one result of the query."""
        scope = self.with_bindings(query, scope)
        results = [self.block(b, scope).output for b in query.blocks]
        output = unify(results)
        if output is None and all(r is not None for r in results):
            self.report("B3609", "the blocks of UNION ALL give results of different types", query.span)
        inner = scope.bind(self.order_variables(query, scope, output))
        for key in query.order:
            self.of(key.expr, inner)
        for bound in (query.limit, query.offset):
            if bound is not None and self.of(bound, Scope()) not in (pa.int64(), None):
                self.report("B3610", "LIMIT and OFFSET need a whole number", bound.meta.get("span"))
        return output

    def with_bindings(self, query: Query, scope: Scope) -> Scope:
        """The scope with the names of WITH as tables (of a query's results) or variables (of other values)."""
        for let in query.bindings:
            if isinstance(let.value, QueryExpression):
                scope = replace(scope, tables={**scope.tables, let.name.text: self.query(let.value.query, scope)})
            else:
                scope = scope.bind({let.name.text: self.of(let.value, scope)})
        return scope

    def order_variables(self, query: Query, scope: Scope, output: Type) -> Mapping[str, Type]:
        """What ORDER BY after SELECT sees: the block's variables (of a single block) and the results' fields."""
        seen: dict[str, Type] = {}
        if len(query.blocks) == 1:
            quiet = Typing(self.file)
            seen.update(quiet.block(query.blocks[0], scope).after)
        if output is not None and pa.types.is_struct(output):
            seen.update({f.name: f.type for f in output})
        return seen

    def source_type(self, source: Source, scope: Scope) -> Type:
        """The type of the variable that a FROM term binds."""
        expr = source.expr
        if isinstance(expr, exp.Column) and expr.name not in scope.variables:
            table = scope.table(expr.name)
            if table is not None:
                return scope.tables[table]
            self.of(expr, scope)
            return None
        collection = self.of(expr, scope)
        if collection is not None and not pa.types.is_list(collection) and not pa.types.is_null(collection):
            return collection  # SQL++: FROM over a single value is FROM over an array of it
        return element(collection)

    def block(self, block: Block, outer: Scope) -> BlockTypes:
        """Types of a block's stages; reports what it finds."""
        local: dict[str, Type] = {}
        scope = replace(outer, group=None)
        for source in block.sources:
            found = self.source_type(source, scope)
            self._declare(local, source.variable, found)
            if source.position is not None:
                self._declare(local, source.position, pa.int64())
            scope = scope.bind(local)
            if source.condition is not None:
                self._want_boolean(source.condition, scope, None)
            if source.kind in (SourceKind.INNER, SourceKind.LEFT) and source.condition is None:
                self.report("B3611", "a join needs ON", source.variable.span)
        scope = self._lets(block.lets, local, scope)
        if block.where is not None:
            self._want_boolean(block.where, scope, None)
        scope, local = self._group(block, local, scope, outer)
        before, item = dict(local), item_type(local)
        if block.window is not None:
            scope, local = self._window(block.window, scope, outer, item)
            scope = self._lets(block.window_lets, local, scope)
            if block.window_having is not None:
                self._want_boolean(block.window_having, scope, None)
        output = self.select(block.select, scope, local)
        return BlockTypes(before, item, local, output)

    def _declare(self, local: dict[str, Type], name: Name, type_: Type) -> None:
        if name.text in local:
            self.report("B2605", f'variable "{name.text}" is declared twice in one block', name.span, "give it another name")
        local[name.text] = type_

    def _lets(self, lets: Iterable[object], local: dict[str, Type], scope: Scope) -> Scope:
        for let in lets:
            self._declare(local, let.name, self.of(let.value, scope))  # type: ignore[attr-defined]
            scope = scope.bind(local)
        return scope

    def _group(self, block: Block, local: dict[str, Type], scope: Scope, outer: Scope) -> tuple[Scope, dict[str, Type]]:
        if block.group is None:
            return scope, local
        grouped: dict[str, Type] = {}
        for key in block.group.keys:
            self._declare(grouped, key.name, self.of(key.value, scope))
        if block.group.group is not None:
            fields = list(local.items())
            known = all(t is not None for _, t in fields)
            self._declare(grouped, block.group.group, pa.list_(pa.struct(fields)) if known else None)
        inner = replace(outer.bind(grouped), group=scope)
        for let in block.group_lets:
            self._declare(grouped, let.name, self.of(let.value, inner))
            inner = inner.bind(grouped)
        if block.having is not None:
            self._want_boolean(block.having, inner, None)
        return (inner if block.window is None else replace(outer, group=None).bind(grouped)), grouped

    def _window(self, window: WindowBy, scope: Scope, outer: Scope, item: Type) -> tuple[Scope, dict[str, Type]]:
        before = replace(scope, group=None)
        for expr in window.partition:
            self.of(expr, before)
        for key in window.order:
            found = self.of(key.expr, before)
            if found is not None and pa.types.is_map(found):
                self.report("B3612", "a map has no order", key.expr.meta.get("span"))
        declared: dict[str, Type] = {}
        inner = replace(outer, group=None)
        for _, boundary in window.boundaries:
            for role, name in boundary.variables:
                if name.text == window.name.text:
                    self.report("B2605", f'variable "{name.text}" is also the window\'s', name.span, "give it another name")
                self._declare(declared, name, pa.int64() if role == "position" else item)
            inner = inner.bind(declared)
            if boundary.when is not None:
                self._condition_of(boundary.when, inner, scope, window)
        declared[window.name.text] = None if item is None else pa.list_(item)
        return inner.bind(declared), declared

    def after_window(self, block: Block, outer: Scope, variables: Mapping[str, Type]) -> Type:
        """The type of a window block's results, from the types of its binding variables."""
        assert block.window is not None
        scope, local = self._window(block.window, outer.bind(variables), outer, item_type(variables))
        return self.select(block.select, self._lets(block.window_lets, local, scope), local)

    def _condition_of(self, when: Expr, inner: Scope, before: Scope, window: WindowBy) -> None:
        for column in when.find_all(exp.Column):
            name = column.name
            if name in inner.variables or inner.table(name) is not None:
                continue
            place = self._place(column, when.meta.get("span"))
            if name == window.name.text:
                self.report("B2606", f'the window "{name}" does not exist yet where its boundaries are found', place)
            elif name in before.variables:
                hint = "declare a variable for the tuple: START AS s WHEN s.field ..., END AS e WHEN e.field ..."
                self.report("B2607", f'variable "{name}" of FROM is not visible in WHEN', place, hint)
            elif name in window.variables:
                side = window.variables[name][0].upper()
                hint = "LABEL sees its own variables, START those of LABEL and START, END all"
                self.report("B2607", f'variable "{name}" of {side} is not visible here', place, hint)
            else:
                continue
            return
        self._want_boolean(when, inner, None)

    def select(self, select: Select, scope: Scope, local: Mapping[str, Type]) -> Type:
        """The type of what SELECT makes."""
        if select.value is not None:
            return self.of(select.value, scope)
        fields: dict[str, Type] = {}
        for number, item in enumerate(select.items, 1):
            for name, found in self._members(item.expr, item.name, item.star, number, scope, local, item.span):
                if name in fields:
                    self.report("B2608", f'column "{name}" is selected twice', item.span, "give one of them a name with AS")
                fields[name] = found
        return None if any(t is None for t in fields.values()) else pa.struct(list(fields.items()))

    def _members(
        self,
        expr: Expr | None,
        name: str | None,
        star: bool,
        number: int,
        scope: Scope,
        local: Mapping[str, Type],
        span: Span | None,
    ) -> list[tuple[str, Type]]:
        if not star:
            assert expr is not None
            return [(name or f"${number}", self.of(expr, scope, span))]
        if expr is None:
            return list(local.items())
        found = self.of(expr, scope, span)
        if found is None or not pa.types.is_struct(found):
            if found is not None:
                self.report("B3613", f".* needs an object, not {describe(found)}", span)
            return []
        return [(f.name, f.type) for f in found]


def item_type(variables: Mapping[str, Type]) -> Type:
    """One variable: its type; several: an object with one field each."""
    if len(variables) == 1:
        return next(iter(variables.values()))
    return None if any(t is None for t in variables.values()) else pa.struct(list(variables.items()))


def arithmetic_type(node: Expr, left: pa.DataType, right: pa.DataType) -> Type:
    """The type of `left op right`; None where it is not possible."""
    if pa.types.is_null(left) or pa.types.is_null(right):
        return pa.null()
    if is_number(left) and is_number(right):
        if isinstance(node, exp.Div):
            return pa.float64()
        if isinstance(node, exp.IntDiv):
            return pa.int64()
        if isinstance(node, exp.Mul) and pa.types.is_decimal(left) and pa.types.is_decimal(right):
            return pa.decimal128(38, min(left.scale + right.scale, 37))
        return unify_numbers([left, right])
    times = [pa.types.is_date(t) or pa.types.is_timestamp(t) for t in (left, right)]
    spans = [pa.types.is_duration(t) for t in (left, right)]
    if isinstance(node, exp.Sub):
        if all(times) or all(spans):
            return DURATION
        return _shifted(left) if times[0] and spans[1] else None
    if isinstance(node, exp.Add):
        if all(spans):
            return DURATION
        if times[0] and spans[1]:
            return _shifted(left)
        return _shifted(right) if spans[0] and times[1] else None
    if isinstance(node, exp.Mul) and ((spans[0] and pa.types.is_integer(right)) or (spans[1] and pa.types.is_integer(left))):
        return DURATION
    return None


def _shifted(type_: pa.DataType) -> Type:
    return TIMESTAMP  # a duration may hold hours: a date becomes an instant


def comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether values of the two types can compare at all."""
    return unify([left, right]) is not None


def describe(type_: Type) -> str:
    """A type in a user's words."""
    if type_ is None:
        return "a value of several types"
    if is_number(type_):
        return "a number"
    for test, words in (
        (pa.types.is_string, "a string"), (pa.types.is_boolean, "a boolean"), (pa.types.is_date, "a date"),
        (pa.types.is_timestamp, "a timestamp"), (pa.types.is_duration, "a duration"), (pa.types.is_list, "an array"),
        (pa.types.is_struct, "an object"), (pa.types.is_null, "NULL"),
    ):  # fmt: skip
        if test(type_):
            return words
    return f"a value of type {type_}"


def _time_hint(left: pa.DataType, right: pa.DataType) -> str | None:
    if any(pa.types.is_duration(t) for t in (left, right)) and any(is_number(t) for t in (left, right)):
        return 'compare a duration with a duration: duration("P7D") or INTERVAL 7 DAYS'
    return None
