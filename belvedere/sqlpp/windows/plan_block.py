"""Plan a WINDOW BY block for the kernels: which columns Spark prepares, how the boundaries are found, what comes out.

In: the binding tuples before the clause, and the block. Out: the rows' columns, what the kernels are told, and the block with everything
about the window replaced by variables over the kernels' output; or `Untranslatable` with the reason. It moves no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from belvedere.plan.expressions import column, columns_of
from belvedere.plan.operators import window_specs as specs
from belvedere.plan.operators.nodes import Order
from belvedere.sqlpp.bindings import sort_orders
from belvedere.sqlpp.lower_tuples import unsortable
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import Expr, QueryBlock
from belvedere.sqlpp.spark_text.native import translate
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Untranslatable, Value, any_of, merge, name
from belvedere.sqlpp.windows.boundary_classes import ItemFacts, item_expression
from belvedere.sqlpp.windows.plan_boundaries import BoundaryPlanner
from belvedere.sqlpp.windows.plan_results import Rewriter

COLUMN = re.compile(r"`([^`]+)`")


class BlockPlanner(BoundaryPlanner):
    """Plans one block."""

    def facts(self) -> ItemFacts:
        """What classification knows of the items."""
        order = item_expression(self.window.order[0].expr, tuple(self.variables))
        return ItemFacts(self.item.type, order, {n: v.type for n, v in self.environment().items()})

    def boundaries(self, item: ItemFacts) -> tuple[specs.BoundarySpec | None, specs.BoundarySpec, specs.BoundarySpec | None]:
        """LABEL, START and END."""
        window = self.window
        label = self.single(window.label.when) if window.label is not None else None
        alone = window.label is None and not window.start.unbounded
        start = self.single(window.start.when) if alone else self.searched("start", window.start, item)
        return label, start, None if window.end is None else self.searched("end", window.end, item)

    def sorting(self, beside: Sequence[str] = ()) -> tuple[Order, ...]:
        """ORDER BY over row columns, then all other columns, and those beside: rows that tie there too cannot be told apart."""
        keys = {self.columns[k.sql] for k in self.key_columns()}
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
        """The output with row columns in place of texts."""

        def column(text: str) -> str:
            return self.column(SqlValue(text, self.texts[text]))

        if isinstance(output, (specs.Gather, specs.Nth)):
            return replace(output, column=column(output.column))
        if isinstance(output, specs.Members):
            return replace(output, fields=tuple((n, column(t)) for n, t in output.fields))
        if isinstance(output, specs.WindowAggregate):
            included = None if output.included is None else column(output.included)
            return replace(output, column=None if output.column is None else column(output.column), included=included)
        return output

    def key_columns(self) -> list[SqlValue]:
        found: list[SqlValue] = []
        for key in self.keys:
            value = merge(key)
            found.append(value)
            if value.missing is not None:
                found.append(SqlValue(f"NOT ({value.missing})", pa.bool_()))  # MISSING comes before NULL
        return found

    def results(self) -> QueryBlock:
        """The rest of the block over the kernel's output; fills `after` and `used`."""
        window = self.window
        for variable, (side, role) in window.variables.items():
            self.after[variable] = self.boundary_value(side, role)
        rewriter = Rewriter(self)
        lets = tuple(replace(let, value=rewriter.rewrite(let.value)) for let in self.block.window_lets)
        having = None if self.block.window_having is None else rewriter.rewrite(self.block.window_having)
        select = self.block.select
        value = None if select.value is None else rewriter.rewrite(select.value)
        items = []
        for item in select.items:
            assert item.expr is not None
            items.append(replace(item, expr=rewriter.rewrite(item.expr)))
        select = replace(select, value=value, items=tuple(items))
        local: dict[str, Value] = {**self.environment(), **self.after}
        for let in lets:
            local[let.name.text] = self.use(let.value, local)
        for expr in [having, value, *(i.expr for i in items)]:
            if expr is not None:
                self.use(expr, local)
        return replace(self.block, window_lets=lets, window_having=having, select=select)

    def use(self, expr: Expr, local: Mapping[str, Value]) -> Value:
        """Note which outputs an expression reads."""
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
        """The text that says whether a boundary's tuple is MISSING; None for never."""
        window = self.window
        always = {
            "label": True,
            "start": window.label is None or window.start.unbounded,
            "end": window.only or window.end is None or window.end.unbounded,
        }[side]
        if always and role in ("item", "position"):
            return None
        found = next(
            (n for n, o in self.candidates.items() if isinstance(o, specs.Flag) and (o.side, o.role) == (side, role)), None
        )
        return name(found) if found else self.output(specs.Flag(self.names.fresh("f"), side, role), pa.bool_())

    def boundary_value(self, side: str, role: str) -> Value:
        flag = self.flag(side, "item" if role == "position" else role)
        if role == "position":
            return SqlValue(self.output(specs.BoundaryPosition(self.names.fresh("o"), side), pa.int64()), pa.int64(), flag)
        return self.mirrored(self.item, side, role, flag)

    def mirrored(self, value: Value, side: str, role: str, flag: str | None) -> Value:
        """The item's value, leaf by leaf, as gathered at a boundary."""
        missing = flag
        if value.missing is not None:
            missing = any_of(flag, self.gathered(SqlValue(value.missing, pa.bool_()), side, role))
        if isinstance(value, Object):
            return Object({n: self.mirrored(f, side, role, flag) for n, f in value.fields.items()}, missing)
        return SqlValue(self.gathered(value, side, role), value.type, missing)

    def gathered(self, value: SqlValue, side: str, role: str) -> str:
        return self.output(specs.Gather(self.names.fresh("o"), side, role, self.text(value)), value.type)
