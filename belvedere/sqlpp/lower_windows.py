"""Translation of WINDOW BY into a `PredicateWindow` over the block's binding tuples.

In: `Bindings` before the clause and the block. Out: `Bindings` after it, and the block in which variables over the
operator's results replace all expressions on windows. Raises `Untranslatable` if the kernels cannot find the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column, replace_columns
from belvedere.plan.expressions import columns_of as columns_in
from belvedere.plan.operators import window_specs as specs
from belvedere.plan.operators.nodes import Item, Node, Order, Project
from belvedere.plan.operators.predicate_window import PredicateWindow, WindowForm, output_names
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.push_conditions import push_conditions
from belvedere.schema import Column
from belvedere.spark_sql.dialect import SparkSql
from belvedere.sqlpp.bindings import Bindings, columns_of, stored_type, with_columns
from belvedere.sqlpp.lower_tuples import Tables, TupleLowering
from belvedere.sqlpp.query_tree import Expr, Missing, QueryBlock, QueryExpression, Selected, WindowBy, reference
from belvedere.sqlpp.spark_text.sql_text import is_column, parsed
from belvedere.sqlpp.spark_text.sql_values import SqlValue, Value, merge, name
from belvedere.sqlpp.window_limits import HIDDEN
from belvedere.sqlpp.windows.blocks import ends_of
from belvedere.sqlpp.windows.plan_block import BlockPlanner, key_columns
from belvedere.sqlpp.windows.ranges import closing_search, ranges_of
from belvedere.sqlpp.windows.resume import resume_of


def windowed(
    lowering: TupleLowering, bindings: Bindings, block: QueryBlock, tables: Tables
) -> tuple[Bindings, QueryBlock]:
    """Return the operator as bindings, and the block over its results."""
    window = block.window
    assert window is not None
    bindings, partition = lowering.values(bindings, list(window.partition), tables)
    apart = [SqlValue(name(c), bindings.node.schema[c].type) for c in bindings.apart]
    partition = [*apart, *partition]
    bindings, keys = lowering.with_queries(bindings, [k.expr for k in window.order], tables)
    bindings = lowering.with_tables(bindings, keys, tables)
    order = tuple(replace(k, expr=key) for k, key in zip(window.order, keys, strict=True))
    whens = [b.when for _, b in window.boundaries if b.when is not None]
    bindings = lowering.with_tables(bindings, whens, tables, frozenset(window.variables))
    kept = {**bindings.outside, **bindings.variables}
    node, pinned = lowering.names.pin(bindings.node, [*partition, *kept.values()])
    values = dict(zip(kept, pinned[len(partition) :], strict=True))
    variables = {n: values[n] for n in bindings.variables}
    node = push_conditions(node)  # an equality in WHERE may shorten the key of a join
    if lowering.is_keyed:
        node = carry_keys(node)
    outside = {n: values[n] for n in bindings.outside if n not in bindings.variables}
    parts = [_comparable(merge(k)) for k in pinned[: len(partition)]]
    block = _without_star(replace(block, window=replace(window, order=order)), window)
    planner = BlockPlanner(block, variables, parts, outside, lowering.names)
    found, block = _Windows(planner, node, window, pinned[: len(partition)], apart).lowered()
    names = dict(zip(bindings.apart, found.apart, strict=True))
    around = {n: with_columns(v, names) for n, v in outside.items() if names.keys() >= set(columns_of(v))}
    return replace(found, outside=around), block


def _comparable(key: SqlValue) -> SqlValue:
    """Return a key of PARTITION BY; arrays and objects become texts that are equal if the values are."""
    if not pa.types.is_nested(key.type):
        return key
    return SqlValue(f"to_json(named_struct('k', {key.sql}))", pa.string(), key.missing)


def _without_star(block: QueryBlock, window: WindowBy) -> QueryBlock:
    """Return the block with `*` in SELECT expanded into variables."""
    names = [
        *(n for n in window.variables if not n.startswith(HIDDEN)),
        window.name.text,
        *(let.name.text for let in block.window_lets),
    ]
    every = tuple(Selected(reference(n), n) for n in names)
    items = tuple(s for i in block.select.items for s in ((i,) if i.expr is not None else every))
    return replace(block, select=replace(block.select, items=items))


class _Windows:
    """Lowers one WINDOW BY clause."""

    def __init__(
        self, planner: BlockPlanner, node: Node, window: WindowBy, partition: Sequence[Value], apart: Sequence[SqlValue]
    ):
        self.planner, self.node, self.window, self.partition, self.apart = planner, node, window, partition, apart
        self.typed = planner.typed()
        self.side = "label" if window.label is not None else "start"
        self.gathers: dict[str, specs.Gather] = {}
        """By input column: the output column with its value at each window's label or start."""

    def lowered(self) -> tuple[Bindings, QueryBlock]:
        planner, window = self.planner, self.window
        label, start, end = planner.boundaries(self.typed)
        block = planner.results()
        outputs = tuple(dict.fromkeys(planner.resolved(o) for n, o in planner.candidates.items() if n in planner.used))
        keys = tuple(planner.column(k) for k in key_columns(planner.keys))
        first = planner.translated(planner.window.order[0].expr)
        leading = None if first.missing is not None else self.row_column(planner.column(first))
        reach = ranges_of(self.typed, planner.block, leading)
        ranges, why_all = (None, reach) if isinstance(reach, str) else (reach, "")
        if ranges is not None and ranges.closing:
            closing = planner.search(closing_search(self.typed, ranges.closing), self.typed)
            ranges = replace(ranges, closing_end=specs.BoundarySpec(search=closing))
        order = planner.sorting(self.node.schema.key or ())
        after = (*(Order(column(planner.column(k))) for k in key_columns(self.partition)), *order)
        for read in (*keys, *(self.node.schema.key or ()), *(c for o in after for c in sorted(columns_in(o.expr)))):
            self.gather(read)
        apart = tuple(self.gather(planner.column(value)) for value in self.apart)
        start_column = None
        if ranges is not None and ranges.form is WindowForm.TUMBLING:
            start_column = self.gather(ranges.column)
        spec = specs.KernelSpec(
            keys, window.tumbling, window.only, label, start, end, (*outputs, *self.gathers.values())
        )
        found = PredicateWindow(
            self.rows(), spec, order, self.columns(spec), self.identity(keys), tuple(self.gather(k) for k in keys),
            start_column, resume_of(self.typed, leading, ranges, planner.block), ranges, why_all,
            (*("an expression" for _ in apart), *map(_word, window.partition)), _word(window.order[0].expr),
            *self.ends(),
        )  # fmt: skip
        names = {c: column(g.output) for c, g in self.gathers.items()}
        orders = tuple(replace(o, expr=replace_columns(o.expr, names)) for o in after)
        nested = any(pa.types.is_nested(p.type) for p in self.partition)
        return Bindings(found, planner.after, orders, not nested, apart=apart), block

    def row_column(self, column_name: str) -> Column:
        """Return a column of the rows."""
        known = self.node.schema.find(column_name)
        if known is not None:
            return known
        text = next(t for t, c in self.planner.columns.items() if c == column_name)
        return Column(column_name, stored_type(self.planner.texts[text]))

    def gather(self, column_name: str) -> str:
        """Return the result column with a row column's value at the label or start."""
        if column_name not in self.gathers:
            label = self.planner.names.named("_at_" + column_name.rpartition("$")[2])
            self.gathers[column_name] = specs.Gather(label, self.side, "item", column_name)
        return self.gathers[column_name].output

    def rows(self) -> Node:
        """Return the input with the columns of the plan, and its key."""
        items = {k: item_of(self.node.schema[k]) for k in self.node.schema.key or ()}
        for text, label in self.planner.columns.items():
            known = self.node.schema.find(label) if is_column(text) else None
            made = Item(label, parsed(text), stored_type(self.planner.texts[text])) if known is None else item_of(known)
            items.setdefault(label, made)
        return Project(self.node, tuple(items.values()))

    def columns(self, spec: specs.KernelSpec) -> tuple[Column, ...]:
        """Return the columns of the results."""
        gathered = {
            g.output: replace(self.row_column(c), name=g.output, hidden=True, doc=None) for c, g in self.gathers.items()
        }
        types = self.planner.types
        names = (n for o in spec.outputs for n in output_names(o))
        return tuple(gathered[n] if n in gathered else Column(n, types[n]) for n in names)

    def identity(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the columns of the results that identify windows."""
        key = self.node.schema.key
        if key is None:
            return None
        one_each = self.window.label is None and self.window.start.unbounded
        return tuple(self.gather(k) for k in (keys if one_each else key))

    def ends(self) -> tuple[tuple[specs.Ends | None, specs.Ends | None], str]:
        found = [ends_of(self.typed, nullable) for nullable in (False, True)]
        one, other = (None if isinstance(e, str) else e for e in found)
        return (one, other), found[0] if isinstance(found[0], str) else ""


def _word(key: Expr) -> str:
    """Return a key as the user wrote it, or a description."""
    if isinstance(key, exp.Dot) and isinstance(key.this, exp.Column):
        return str(key.expression.name)
    return "an expression" if key.find(Missing, QueryExpression) else key.sql(dialect=SparkSql)
