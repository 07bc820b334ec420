"""Plan a WINDOW BY block for the kernels: the columns that Spark prepares, how boundaries are found, the outputs.

In: the binding tuples before the clause, and the block. Out: the rows' columns, the specification for the kernels, and
the block, in which variables over the kernels' output replace expressions on the window. Raises `Untranslatable` with
the reason. It moves no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, columns_of
from belvedere.plan.operators import window_specs as specs
from belvedere.plan.operators.nodes import Order
from belvedere.sqlpp.bindings import sort_orders
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import Boundary, Expr, QueryBlock, changed_lets, reference
from belvedere.sqlpp.spark_text.native import translate
from belvedere.sqlpp.spark_text.sql_values import (
    Object,
    SqlValue,
    Untranslatable,
    Value,
    any_of,
    merge,
    name,
    unsortable,
)
from belvedere.sqlpp.substitute import substituted
from belvedere.sqlpp.windows.boundary_classes import COUNTED, ITEM, Compare, Search, Summand, TypedWindow
from belvedere.sqlpp.windows.plan_results import ResultPlanner

COLUMN = re.compile(r"`([^`]+)`")


class BlockPlanner(ResultPlanner):
    """Plans one block."""

    def typed(self) -> TypedWindow:
        """Return the clause with the types of its expressions."""
        item = reference(ITEM)
        fields = {n: exp.Dot(this=item.copy(), expression=exp.to_identifier(n)) for n in self.variables}
        order = substituted(self.window.order[0].expr, fields if len(fields) > 1 else dict.fromkeys(fields, item))
        return TypedWindow(self.window, self.item.type, order, {n: v.type for n, v in self.outside.items()})

    def boundaries(
        self, typed: TypedWindow
    ) -> tuple[specs.BoundarySpec | None, specs.BoundarySpec, specs.BoundarySpec | None]:
        """Return LABEL, START and END."""
        window = self.window
        label = self.single(window.label.when) if window.label is not None else None
        alone = window.label is None and not window.start.unbounded
        start = self.single(window.start.when) if alone else self.searched(window.start, typed.start, typed)
        return label, start, None if window.end is None else self.searched(window.end, typed.end, typed)

    def single(self, when: Expr | None) -> specs.BoundarySpec:
        """Return a boundary that depends on one tuple alone."""
        if when is None or (isinstance(when, exp.Boolean) and when.this):
            return specs.BoundarySpec()
        return specs.BoundarySpec(local=(self.condition(when),))

    def searched(self, boundary: Boundary, found: Search | None, typed: TypedWindow) -> specs.BoundarySpec:
        """Return a boundary that is searched from a known tuple on; `found` is its normal form."""
        if boundary.unbounded:
            return specs.BoundarySpec(unbounded=True)
        if found is None:
            assert boundary.when is not None
            return specs.BoundarySpec(scan=self.condition(boundary.when))
        return specs.BoundarySpec(search=self.search(found, typed))

    def search(self, found: Search, typed: TypedWindow) -> tuple[specs.ConjunctionSpec, ...]:
        return tuple(
            specs.ConjunctionSpec(
                tuple(self.condition(x) for x in c.known),
                tuple(self.condition(x) for x in c.local),
                tuple(self.compare(x, typed) for x in c.compares),
            )
            for c in found
        )

    def compare(self, atom: Compare, typed: TypedWindow) -> specs.CompareSpec:
        """Return a comparison of two tuples by columns of the rows."""
        key = self.window.order[0]
        counted = atom.searched[0].role in COUNTED
        direction = 0 if not typed.is_monotone(atom) else 1 if counted or not key.descending else -1
        if len(atom.searched) == len(atom.known) == 1 and all(_is_leaf(p) for p in (*atom.searched, *atom.known)):
            searched, known = self.pair(atom.searched[0], atom.known[0])
        else:
            searched, known = self.total(atom.searched), self.total(atom.known)
        return specs.CompareSpec(searched, atom.operator, known, direction, key.nulls_come_first)

    def sorting(self, beside: Sequence[str] = ()) -> tuple[Order, ...]:
        """Return ORDER BY over row columns, then all other columns, and `beside`: rows that still tie are identical."""
        keys = {self.columns[k.sql] for k in key_columns(self.keys)}
        found: list[Order] = []
        for key in self.window.order:
            value = self.translated(key.expr)
            own = SqlValue(name(self.column(value)), value.type)
            if value.missing is not None:
                own = replace(own, missing=name(self.column(SqlValue(value.missing, pa.bool_()))))
            found += sort_orders(key, own)
        sorted_by = {c for o in found for c in columns_of(o.expr)}
        ties = [c for t, c in self.columns.items() if c not in sorted_by | keys and not unsortable(self.texts[t])]
        ties += [c for c in beside if c not in sorted_by | keys | set(ties)]
        return (*found, *(Order(column(c)) for c in ties))

    def resolved(self, output: specs.ResultColumn) -> specs.ResultColumn:
        """Return the output with row columns in place of texts."""

        def column(text: str) -> str:
            return self.column(SqlValue(text, self.texts[text]))

        if isinstance(output, (specs.Gather, specs.Nth)):
            return replace(output, column=column(output.column))
        if isinstance(output, specs.Members):
            return replace(output, fields=tuple((n, column(t)) for n, t in output.fields))
        if isinstance(output, specs.WindowAggregate):
            included = None if output.included is None else column(output.included)
            return replace(output, column=column(output.column), included=included)
        return output

    def results(self) -> QueryBlock:
        """Return the rest of the block over the kernel's output; fills `after` and `used`."""
        window = self.window
        for variable, (side, role) in window.variables.items():
            self.after[variable] = self.boundary_value(side, role)
        lets = changed_lets(self.block.window_lets, self.rewrite)
        having = None if self.block.window_having is None else self.rewrite(self.block.window_having)
        select = self.block.select.changed(self.rewrite)
        local: dict[str, Value] = {**self.outside, **self.after}
        for let in lets:
            local[let.name.text] = self.use(let.value, local)
        for expr in (*(() if having is None else (having,)), *select.expressions):
            self.use(expr, local)
        return replace(self.block, window_lets=lets, window_having=having, select=select)

    def use(self, expr: Expr, local: Mapping[str, Value]) -> Value:
        """Record the outputs that an expression reads."""
        try:
            value = translate(expr, local)
        except Untranslatable:
            for known in free_in(expr) & set(local):
                self.note(local[known])
            return SqlValue("NULL", pa.null())
        self.note(value)
        return value

    def note(self, value: Value) -> None:
        if isinstance(value, Object):
            for inner in value.fields.values():
                self.note(inner)
        else:
            self.used.update(COLUMN.findall(value.sql))
        if value.missing is not None:
            self.used.update(COLUMN.findall(value.missing))

    def flag(self, side: str, role: str) -> str | None:
        """Return the condition that a boundary's tuple is MISSING; None for never."""
        window = self.window
        always = {
            "label": True,
            "start": window.label is None or window.start.unbounded,
            "end": window.only or window.end is None or window.end.unbounded,
        }[side]
        if always and role in ("item", "position"):
            return None
        found = next(
            (n for n, o in self.candidates.items() if isinstance(o, specs.Flag) and (o.side, o.role) == (side, role)),
            None,
        )
        return name(found) if found else self.output(specs.Flag(self.names.fresh("f"), side, role), pa.bool_()).sql

    def boundary_value(self, side: str, role: str) -> Value:
        flag = self.flag(side, "item" if role == "position" else role)
        if role == "position":
            return replace(self.output(specs.BoundaryPosition(self.names.fresh("o"), side), pa.int64()), missing=flag)
        return self.mirrored(self.item, side, role, flag)

    def mirrored(self, value: Value, side: str, role: str, flag: str | None) -> Value:
        """Return the item's value at a boundary, leaf by leaf."""
        missing = flag
        if value.missing is not None:
            missing = any_of(flag, self.gathered(SqlValue(value.missing, pa.bool_()), side, role).sql)
        if isinstance(value, Object):
            return Object({n: self.mirrored(f, side, role, flag) for n, f in value.fields.items()}, missing)
        return replace(self.gathered(value, side, role), missing=missing)

    def gathered(self, value: SqlValue, side: str, role: str) -> SqlValue:
        return self.output(specs.Gather(self.names.fresh("o"), side, role, self.text(value)), value.type)


def _is_leaf(part: Summand) -> bool:
    return bool(part.side) and part.role not in (*COUNTED, "sum") and part.sign > 0


def key_columns(keys: Sequence[Value]) -> list[SqlValue]:
    """Return the values that identify a partition, in the order of partitions."""
    found: list[SqlValue] = []
    for value in map(merge, keys):
        found.append(value)
        if value.missing is not None:
            found.append(SqlValue(f"NOT ({value.missing})", pa.bool_()))  # MISSING comes before NULL
    return found
