"""Names and types of SQL++ expressions, before anything runs.

In: a tree and the visible names. Out: an Arrow type, or None if values may have several types; and diagnostics (B26xx
names, B36xx types) with spans. It evaluates nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Diagnostic, Severity, Span
from belvedere.functions.array_aggregates import GROUP_AGGREGATES
from belvedere.functions.calendar import UNITS
from belvedere.functions.function_table import WINDOW_BY, canonical
from belvedere.functions.project_functions import OwnFunction, own_function, signature
from belvedere.functions.spark_types import common_type, type_text
from belvedere.functions.sqlpp_functions import DURATION, Type, duration_micros, element, is_number, unify
from belvedere.sqlpp.query_tree import Expr, Missing, Query, QueryExpression, RunningAggregate
from belvedere.sqlpp.type_rules import (
    ELSEWHERE,
    RELATED,
    UNSUPPORTED,
    arithmetic_type,
    cast_type,
    describe,
    field_index,
    time_hint,
    without_related,
)

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
OF_ONE_TYPE: Mapping[type[exp.Expr], pa.DataType] = {
    exp.Boolean: pa.bool_(), exp.Is: pa.bool_(), exp.Between: pa.bool_(), exp.Like: pa.bool_(), exp.In: pa.bool_(),
    exp.Exists: pa.bool_(),
    exp.Null: pa.null(), Missing: pa.null(), exp.DPipe: pa.string(),
}  # fmt: skip
"""Expressions with a fixed result type, whatever the types of their operands."""


@dataclass(frozen=True)
class VariableScope:
    """Visible names: variables (inner ones hide outer ones) and tables with the type of their rows."""

    variables: Mapping[str, Type] = field(default_factory=dict)
    tables: Mapping[str, Type] = field(default_factory=dict)
    group: VariableScope | None = None  # scope of the arguments of aggregates; None without a group

    def bind(self, variables: Mapping[str, Type]) -> VariableScope:
        return replace(self, variables={**self.variables, **variables})

    def table(self, name: str) -> str | None:
        """Return the table's own name: exact match first, then one that differs in case only."""
        if name in self.tables:
            return name
        return next((t for t in self.tables if t.casefold() == name.casefold()), None)


def has_running_extremes(type_: pa.DataType) -> bool:
    """Return whether END can read MIN and MAX of such values."""
    return is_number(type_) or pa.types.is_temporal(type_) or pa.types.is_null(type_)


def _fits(found: Type, requested: pa.DataType) -> bool:
    """Return whether a parameter accepts a value without a cast. Whole numbers have no width in SQL++."""
    both_whole = found is not None and pa.types.is_integer(found) and pa.types.is_integer(requested)
    return found is None or both_whole or common_type(requested, found) == requested


class ExpressionTyping(ABC):
    """Types of expressions, and findings on them.

    Spans contain `file`. `relationships` are folded names of paths that must not be read as fields.
    """

    def __init__(self, file: str = "", relationships: Set[str] = frozenset()):
        self.file, self.relationships = file, relationships
        self.diagnostics: list[Diagnostic] = []

    def report(
        self, code: str, message: str, span: Span | None, hint: str | None = None, severity: Severity = Severity.ERROR
    ) -> None:
        place = replace(span, file=self.file) if span else None
        found = Diagnostic(code, message, severity, place, hint=hint)
        if found not in self.diagnostics:
            self.diagnostics.append(found)

    # -- expressions --

    def of(self, node: Expr, scope: VariableScope, within: Span | None = None) -> Type:
        """Return the type of an expression's value; `pa.null()` if it is always NULL or MISSING."""
        within = node.meta.get("span") or within
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            result: Type = handler(node, scope, within)
            return result
        if type(node) in OF_ONE_TYPE:
            for operand in node.iter_expressions():
                if not isinstance(operand, exp.Var):  # IS MISSING
                    self.of(operand, scope, within)
            return OF_ONE_TYPE[type(node)]
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node, scope, within)
        if isinstance(node, COMPARISONS):
            return self._comparison(node, scope, within)
        if isinstance(node, (exp.And, exp.Or)):
            for side in (node.left, node.right):
                self._want_boolean(side, scope, within)
            return pa.bool_()
        what, hint = UNSUPPORTED.get(type(node), (type(node).__name__.upper(), None))
        self.report("B3601", f"{what} is not supported in a query with WINDOW BY", within, hint)
        return None

    def _column(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        name = node.name
        if name in scope.variables:
            return scope.variables[name]
        table = scope.table(name)
        if table is not None:
            row = scope.tables[table]
            return None if row is None else pa.list_(row)
        candidates = [n for n in (*scope.variables, *scope.tables) if not n.startswith("$")]
        near = [c for c in candidates if c.casefold() == name.casefold()] or get_close_matches(name, candidates, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"in scope: {', '.join(candidates) or 'nothing'}"
        self.report("B2601", f'name "{name}" is not in scope here', self._place(node, within), hint)
        return None

    def _place(self, node: Expr, within: Span | None) -> Span | None:
        part = node.this if isinstance(node, exp.Column) else node.expression if isinstance(node, exp.Dot) else node
        start, end = part.meta.get("start"), part.meta.get("end")
        return Span(self.file, start, end + 1) if start is not None and end is not None else within

    def _dot(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
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
        if pa.types.is_list(type_):
            hint = f"write [*].{name} for this field of all elements, [0].{name} for the first element"
            message = f'an array has no field "{name}": the path is always MISSING'
            self.report("B2602", message, self._place(node, within), hint, Severity.WARNING)
        if not pa.types.is_struct(type_):
            return pa.null()
        names = [f.name for f in type_]
        index = field_index(names, name)
        if index < 0:
            names, place = [n.removeprefix(RELATED) for n in names], self._place(node, within)
            if name.casefold() in self.relationships:
                hint = "follow it from a variable of its table: FROM T AS t JOIN t.readings AS r"
                self.report("B4003", f'"{name}" is a relationship that this path cannot follow', place, hint)
                return None
            near = get_close_matches(name, names, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"fields: {', '.join(names)}"
            self.report(
                "B2602", f'there is no field "{name}": the path is always MISSING', place, hint, Severity.WARNING
            )
            return pa.null()
        return type_.field(index).type

    def _bracket(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
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

    def _literal(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        if node.is_string:
            return pa.string()
        if node.name.isdigit() and int(node.name) >= 1 << 63 and not isinstance(node.parent, exp.Neg):
            hint = f"write {float(node.name)!r} for a double"
            self.report("B3601", f"{node.name} is not supported: whole numbers have 64 bits", within, hint)
        return pa.int64() if node.name.isdigit() else pa.float64()

    def _neg(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        return self.of(node.this, scope, within)

    def _not(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        self._want_boolean(node.this, scope, within)
        return pa.bool_()

    def _interval(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        unit = str(node.args.get("unit") or "").upper().rstrip("S")
        if unit not in UNITS:
            hint = 'write INTERVAL 7 DAYS or duration("P7D")'
            self.report("B3602", f"an interval of {unit or 'no unit'} has no fixed length", within, hint)
        return DURATION

    def _case(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        if node.this is not None:
            self.of(node.this, scope, within)
        results = []
        for branch in node.args["ifs"]:
            self.of(branch.this, scope, within)
            results.append(self.of(branch.args["true"], scope, within))
        default = node.args.get("default")
        results.append(self.of(default, scope, within) if default is not None else pa.null())
        return unify(results)

    def _cast(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        self.of(node.this, scope, within)
        target = cast_type(node)
        if target is None:
            hint = "known types: BIGINT, DOUBLE, DECIMAL(p, s), STRING, BOOLEAN, DATE, TIMESTAMP"
            self.report("B3603", f"cannot cast to {node.args['to'].sql('spark')}", within, hint)
        return target

    _trycast = _cast

    def _struct(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        fields: dict[str, Type] = {}
        for member in node.expressions:
            name = member.this.name
            if name in fields:
                self.report("B2603", f'field "{name}" occurs twice in one object', within)
            fields[name] = self.of(member.expression, scope, within)
        return None if any(t is None for t in fields.values()) else pa.struct(list(fields.items()))

    def _array(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        inner = unify([self.of(e, scope, within) for e in node.expressions])
        return None if inner is None else pa.list_(inner)

    def _queryexpression(self, node: QueryExpression, scope: VariableScope, within: Span | None) -> Type:
        output = self.query(node.query, scope)
        return None if output is None else pa.list_(output)

    def _anonymous(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        name = canonical(node.name)
        arguments = list(node.expressions)
        if name in GROUP_AGGREGATES:
            return self._aggregate(name, arguments, scope, within)
        function = WINDOW_BY.get(name)
        types = [self.of(a, scope, within) for a in arguments]
        own = own_function(node)
        if own is not None:
            return self._own(own, types, within)
        if function is None:
            near = get_close_matches(name, WINDOW_BY, 1)
            hint = ELSEWHERE.get(name, f"did you mean {near[0]}?" if near else None)
            self.report("B2604", f"function {node.name} is not known", within, hint)
            return None
        if len(types) < function.least or (function.most >= 0 and len(types) > function.most):
            requested = str(function.least) if function.least == function.most else f"{function.least} or more"
            self.report("B3604", f"{name} takes {requested} argument(s), not {len(types)}", within)
            return None
        first = arguments[0]
        if (
            name == "DURATION"
            and isinstance(first, exp.Literal)
            and first.is_string
            and duration_micros(first.name) is None
        ):
            hint = 'write weeks, days, hours, minutes and seconds: duration("P7D"), duration("PT5M")'
            self.report("B3602", f'"{first.name}" is not a duration of fixed length', within, hint)
        return function.result(types)

    def _own(self, own: OwnFunction, types: list[Type], within: Span | None) -> Type:
        """Return the type of a call of a project function. Its arguments must fit the parameters without a cast."""
        requested = [type_ for _, type_ in own.parameters]
        hint = f"it is {signature(own, type_text)}: CAST the arguments"
        if len(types) != len(requested):
            self.report("B3604", f"{own.name} takes {len(requested)} argument(s), not {len(types)}", within, hint)
        elif not all(map(_fits, types, requested)):
            shown = ", ".join("?" if found is None else describe(found) for found in types)
            self.report("B3606", f"{own.name} does not take ({shown})", within, hint)
        return own.result

    def _aggregate(self, name: str, arguments: list[Expr], scope: VariableScope, within: Span | None) -> Type:
        if scope.group is None:
            hint = f"write ARRAY_{name}((SELECT VALUE ... FROM ...)), or ARRAY_{name}(w[*].field) for a window w"
            self.report("B3605", f"{name} needs a group, and there is none here", within, hint)
            return None
        if len(arguments) != 1:
            self.report("B3604", f"{name} takes 1 argument(s), not {len(arguments)}", within)
            return None
        inner = pa.int64() if isinstance(arguments[0], exp.Star) else self.of(arguments[0], scope.group, within)
        return WINDOW_BY[canonical(f"ARRAY_{name}")].result([None if inner is None else pa.list_(inner)])

    def _runningaggregate(self, node: RunningAggregate, scope: VariableScope, within: Span | None) -> Type:
        if node.value is None:
            return pa.int64()
        inner = self.of(node.value, scope, within)
        if inner is not None and node.function in ("MIN", "MAX") and not has_running_extremes(inner):
            hint = f"{node.function} of numbers, times and durations can be in END"
            self.report("B3605", f"END cannot read {node.function} of {describe(inner)}", within, hint)
        return WINDOW_BY[f"ARRAY_{node.function}"].result([None if inner is None else pa.list_(inner)])

    def _arithmetic(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        left, right = self.of(node.this, scope, within), self.of(node.expression, scope, within)
        if left is None or right is None:
            return None
        result = arithmetic_type(node, left, right)
        if result is None:
            words = f"{describe(left)} and {describe(right)}"
            self.report(
                "B3606", f"{type(node).__name__.lower()} of {words} is not possible", within, time_hint(left, right)
            )
        return result

    def _comparison(self, node: Expr, scope: VariableScope, within: Span | None) -> Type:
        left, right = self.of(node.this, scope, within), self.of(node.expression, scope, within)
        left, right = without_related(left), without_related(right)
        if left is not None and right is not None and unify([left, right]) is None:
            message = f"{describe(left)} and {describe(right)} never compare: the result is always NULL"
            self.report("B3607", message, within, time_hint(left, right), Severity.WARNING)
        return pa.bool_()

    def _want_boolean(self, node: Expr, scope: VariableScope, within: Span | None) -> None:
        found = self.of(node, scope, within)
        if found is not None and not pa.types.is_boolean(found) and not pa.types.is_null(found):
            place = node.meta.get("span") or within
            self.report(
                "B3608", f"a condition is needed here, not {describe(found)}", place, "compare it: e = 0, e IS NOT NULL"
            )

    @abstractmethod
    def query(self, query: Query, scope: VariableScope) -> Type:
        """Return the type of one result of a query within an expression."""
