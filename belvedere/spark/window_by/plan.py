"""Plan a WINDOW BY block for the kernels: which columns Spark prepares, how the boundaries are found, what comes out.

In: the binding tuples before the clause, and the block. Out: a `WindowPlan` (the rows' columns, a `KernelSpec`, and the block
with everything about the window replaced by variables over the kernel's output), or `Untranslatable` with the reason, after
which the interpreter does the block. It moves no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.kernels import specs
from belvedere.lang.window_by.blocks import ends_of
from belvedere.lang.window_by.classes import ItemFacts, item_expression
from belvedere.lang.window_by.names import free_in
from belvedere.lang.window_by.tree import Block, Expr
from belvedere.spark.window_by.native import translate
from belvedere.spark.window_by.plan_boundaries import BoundaryPlanner
from belvedere.spark.window_by.plan_results import Rewriter
from belvedere.spark.window_by.relation import fresh, sort_texts
from belvedere.spark.window_by.sql_values import Object, SqlValue, Untranslatable, Value, any_of, merge, name, unsortable

FRESH = re.compile(r"`(_[a-z]+\d+)`")


@dataclass
class WindowPlan:
    """What to do: `columns` are the row columns by SQL text, `sort` the ORDER BY texts over them, `types` those of the outputs."""

    spec: specs.KernelSpec
    columns: dict[str, str]
    types: dict[str, pa.DataType]
    sort: tuple[str, ...]
    block: Block
    variables: Mapping[str, Value]
    item: ItemFacts
    identity: tuple[str, ...] = ()
    """The output's columns with the identity of each window's label or start."""

    def ends(self, nullable: bool) -> specs.Ends | None:
        """What blocks of rows must know of END to find their windows alone; None where that is not enough. `nullable` as in `ends_of`."""
        assert self.block.window is not None
        found = ends_of(self.block.window, self.item, nullable)
        return None if isinstance(found, str) else found


class BlockPlanner(BoundaryPlanner):
    """Plans one block."""

    def plan(self) -> WindowPlan:
        """The whole plan."""
        window = self.window
        order = item_expression(window.order[0].expr, tuple(self.variables))
        item = ItemFacts(self.item.type, order, {n: v.type for n, v in self.environment().items()})
        label = self.single(window.label.when) if window.label is not None else None
        alone = window.label is None and not window.start.unbounded
        start = self.single(window.start.when) if alone else self.searched("start", window.start, item)
        end = None if window.end is None else self.searched("end", window.end, item)
        block = self.results()
        outputs = tuple(dict.fromkeys(self.resolved(o) for n, o in self.candidates.items() if n in self.used))
        own = self.identified("label" if window.label is not None else "start")
        outputs += own
        keys = tuple(self.column(k) for k in self.key_columns())
        spec = specs.KernelSpec(keys, window.tumbling, window.only, label, start, end, outputs, fresh("pos"))
        gathered = tuple(o.output for o in own)
        return WindowPlan(spec, self.columns, self.types, self.sorting(), block, self.after, item, gathered)

    def identified(self, side: str) -> tuple[specs.Gather, ...]:
        """The columns of identity at the label or start of each window."""
        for column in self.identity:
            self.columns[name(column)] = column
            self.texts[name(column)] = pa.null()
        return tuple(specs.Gather(fresh("i"), side, "item", column) for column in self.identity)

    def sorting(self) -> tuple[str, ...]:
        """ORDER BY over row columns, then all other columns: rows that tie there too cannot be told apart by the query."""
        keys = {self.columns[k.sql] for k in self.key_columns()}
        found: list[str] = []
        for key in self.window.order:
            value = self.translated(key.expr)
            column = SqlValue(name(self.column(value)), value.type)
            if value.missing is not None:
                column = replace(column, missing=name(self.column(SqlValue(value.missing, pa.bool_()))))
            found += sort_texts(key, column)
        sorted_by = {c for text in found for c in FRESH.findall(text)}
        ties = [c for t, c in self.columns.items() if c not in sorted_by | keys and not unsortable(self.texts[t])]
        return (*found, *(f"{name(c)} ASC" for c in ties))

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

    def results(self) -> Block:
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
            if item.expr is None:
                raise Untranslatable("SELECT *")
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
            if self.window.name.text in free_in(expr):
                raise
            for column in expr.find_all(exp.Column):
                if column.name in local:
                    self.note(local[column.name])
            return SqlValue("NULL", pa.null())
        self.note(value)
        return value

    def note(self, value: Value) -> None:
        if isinstance(value, Object):
            for inner in value.fields.values():
                self.note(inner)
        else:
            self.used.update(FRESH.findall(value.sql))
        if value.missing is not None:
            self.used.update(FRESH.findall(value.missing))

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
        return name(found) if found else self.output(specs.Flag(fresh("f"), side, role), pa.bool_())

    def boundary_value(self, side: str, role: str) -> Value:
        flag = self.flag(side, "item" if role == "position" else role)
        if role == "position":
            return SqlValue(self.output(specs.BoundaryPosition(fresh("o"), side), pa.int64()), pa.int64(), flag)
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
        return self.output(specs.Gather(fresh("o"), side, role, self.text(value)), value.type)
