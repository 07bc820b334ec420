"""Names and types of SQL++ queries and blocks, before anything runs.

In: a `Query` and the row types of the tables. Out: the types of its results and of each block's last variables, and
diagnostics with spans. It evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import Type, element, unify
from belvedere.sqlpp.expression_types import ExpressionTyping, VariableScope
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import (
    MEMBER,
    Expr,
    FromTerm,
    Let,
    Name,
    Query,
    QueryBlock,
    QueryExpression,
    RunningAggregate,
    Select,
    Selected,
    WindowBy,
)
from belvedere.sqlpp.type_rules import describe, difference, without_related
from belvedere.sqlpp.window_limits import HIDDEN


class Typing(ExpressionTyping):
    """One pass over a query that collects types and findings. Spans contain `file`."""

    def query(self, query: Query, scope: VariableScope) -> Type:
        """Return the type of one result of the query."""
        scope = self.with_bindings(query, scope)
        blocks = [self.block(b, scope) for b in query.blocks]
        results = [result for _, result in blocks]
        output = unify(results)
        if output is None:
            results = [without_related(r) for r in results]
            output = unify(results)
        if output is None and all(r is not None for r in results):
            self.report(
                "B3609", "the blocks of UNION ALL give results of different types", query.span, difference(results)
            )
        seen = dict(blocks[0][0]) if len(blocks) == 1 else {}
        if output is not None and pa.types.is_struct(output):
            seen |= {f.name: f.type for f in output}
        inner = scope.bind(seen)
        for key in query.order:
            self.of(key.expr, inner)
        for bound in (query.limit, query.offset):
            if bound is not None and self.of(bound, VariableScope()) not in (pa.int64(), None):
                self.report("B3610", "LIMIT and OFFSET need a whole number", bound.meta.get("span"))
            elif isinstance(bound, exp.Neg):
                self.report(
                    "B3610", "LIMIT and OFFSET need a whole number that is not negative", bound.meta.get("span")
                )
        return output

    def with_bindings(self, query: Query, scope: VariableScope) -> VariableScope:
        """Return the scope with the names of WITH as tables (for queries) or variables (for other values)."""
        for let in query.bindings:
            if isinstance(let.value, QueryExpression):
                scope = replace(scope, tables={**scope.tables, let.name.text: self.query(let.value.query, scope)})
            else:
                scope = scope.bind({let.name.text: self.of(let.value, scope)})
        return scope

    def source_type(self, source: FromTerm, scope: VariableScope) -> Type:
        """Return the type of the variable that a FROM term binds."""
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

    def _check_source(self, source: FromTerm, scope: VariableScope, local: Mapping[str, Type]) -> None:
        """Report FROM terms that are not relations: dependent on earlier terms, or numbered."""
        expr = source.expr
        table = isinstance(expr, exp.Column) and expr.name not in scope.variables and scope.table(expr.name) is not None
        if isinstance(expr, QueryExpression) and free_in(expr) & set(local):
            hint = "remove the correlation: join the tables, or use the subquery in LET"
            self.report("B3621", "a subquery in FROM uses variables of the same FROM", expr.meta.get("span"), hint)
        if source.position is not None and (table or isinstance(expr, QueryExpression)):
            self.report("B3622", "AT needs an array: the rows of a table have no position", source.position.span)

    def block(self, block: QueryBlock, outer: VariableScope) -> tuple[Mapping[str, Type], Type]:
        """Return the types of the variables in SELECT's scope, and of one result, and report findings."""
        local: dict[str, Type] = {}
        scope = replace(outer, group=None)
        for source in block.sources:
            self._check_source(source, scope, local)
            found = self.source_type(source, scope)
            self._declare(local, source.variable, found)
            if source.position is not None:
                self._declare(local, source.position, pa.int64())
            scope = scope.bind(local)
            if source.condition is not None:
                self._want_boolean(source.condition, scope, None)
        scope = self._lets(block.lets, local, scope)
        if block.where is not None:
            self._want_boolean(block.where, scope, None)
        scope, local = self._group(block, local, scope, outer)
        if block.window is not None:
            scope, local = self._window(block.window, scope, outer, item_type(local))
            scope = self._lets(block.window_lets, local, scope)
            if block.window_having is not None:
                self._want_boolean(block.window_having, scope, None)
        return local, self.select(block.select, scope, local)

    def _declare(self, local: dict[str, Type], name: Name, type_: Type) -> None:
        if name.text in local:
            self.report(
                "B2605", f'variable "{name.text}" is declared twice in one block', name.span, "give it another name"
            )
        local[name.text] = type_

    def _lets(self, lets: Iterable[Let], local: dict[str, Type], scope: VariableScope) -> VariableScope:
        for let in lets:
            self._declare(local, let.name, self.of(let.value, scope))
            scope = scope.bind(local)
        return scope

    def _group(
        self, block: QueryBlock, local: dict[str, Type], scope: VariableScope, outer: VariableScope
    ) -> tuple[VariableScope, dict[str, Type]]:
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

    def _window(
        self, window: WindowBy, scope: VariableScope, outer: VariableScope, item: Type
    ) -> tuple[VariableScope, dict[str, Type]]:
        before = replace(scope, group=None)
        for expr in window.partition:
            self.of(expr, before)
        for key in window.order:
            found = self.of(key.expr, before)
            if found is not None and pa.types.is_map(found):
                self.report("B3612", "a map has no order", key.expr.meta.get("span"))
        declared: dict[str, Type] = {}
        inner = replace(outer, group=None)
        for side, boundary in window.boundaries:
            for role, name in boundary.variables:
                if name.text == window.name.text:
                    self.report(
                        "B2605",
                        f'variable "{name.text}" is also the name of the window',
                        name.span,
                        "give it another name",
                    )
                self._declare(declared, name, pa.int64() if role == "position" else item)
            inner = inner.bind(declared)
            if boundary.when is not None:
                visible = inner.bind({MEMBER: item}) if side == "end" else inner
                self._condition_of(boundary.when, visible, scope, window)
        declared[window.name.text] = None if item is None else pa.list_(item)
        return inner.bind(declared), {n: t for n, t in declared.items() if not n.startswith(HIDDEN)}

    def _condition_of(self, when: Expr, inner: VariableScope, before: VariableScope, window: WindowBy) -> None:
        for column in when.find_all(exp.Column):
            name = column.name
            if name in window.variables and (found := column.find_ancestor(RunningAggregate)) is not None:
                hint = f"{found.function} reads the window's tuples alone: use {name} outside of it"
                self.report(
                    "B2607", f'variable "{name}" is not visible in {found.function}', self._place(column, None), hint
                )
                return
            if name in inner.variables or inner.table(name) is not None:
                continue
            place = self._place(column, when.meta.get("span"))
            if name == window.name.text:
                hint = f"COUNT(*), SUM, AVG, MIN and MAX can be in END: END AS e WHEN SUM({name}.field) > 100"
                self.report("B2606", f'the window "{name}" cannot be used in its own boundaries', place, hint)
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

    def select(self, select: Select, scope: VariableScope, local: Mapping[str, Type]) -> Type:
        """Return the type of one result of SELECT."""
        if select.value is not None:
            return self.of(select.value, scope)
        fields: dict[str, Type] = {}
        for number, item in enumerate(select.items, 1):
            for name, found in self._members(item, number, scope, local):
                if name in fields:
                    self.report(
                        "B2608", f'column "{name}" is selected twice', item.span, "give one of them a name with AS"
                    )
                fields[name] = found
        return None if any(t is None for t in fields.values()) else pa.struct(list(fields.items()))

    def _members(
        self, item: Selected, number: int, scope: VariableScope, local: Mapping[str, Type]
    ) -> list[tuple[str, Type]]:
        if item.expr is None:
            return list(local.items())
        found = self.of(item.expr, scope, item.span)
        if not item.star:
            return [(item.name or f"${number}", found)]
        if found is None or not pa.types.is_struct(found):
            if found is not None:
                self.report("B3613", f".* needs an object, not {describe(found)}", item.span)
            return []
        return [(f.name, f.type) for f in found]


def item_type(variables: Mapping[str, Type]) -> Type:
    """Return the type of one variable, or for several an object with one field each."""
    variables = {n: t for n, t in variables.items() if not n.startswith("$")}
    if len(variables) == 1:
        return next(iter(variables.values()))
    return None if any(t is None for t in variables.values()) else pa.struct(list(variables.items()))
