"""Plan a WINDOW BY block for the kernels: which columns Spark prepares, how the boundaries are found, what comes out.

In: the binding tuples before the clause, and the block. Out: a `WindowPlan` (the rows' columns, a `KernelSpec`, and the block
with everything about the window replaced by variables over the kernel's output), or `Untranslatable` with the reason, after
which the interpreter does the block. It moves no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.lang.window_by import Block, Expr, QueryExpression, WindowBy
from belvedere.lang.window_by_classes import (
    ITEM,
    Compare,
    Item,
    Local,
    Part,
    Search,
    classify,
    is_monotone,
    item_expression,
    local_condition,
    neighbours_compared,
)
from belvedere.lang.window_by_functions import DURATION, WINDOW_AGGREGATES, canonical, is_number, unify, unify_numbers
from belvedere.spark.window_by import specs
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.layout import stored_type
from belvedere.spark.window_by.native import (
    Object,
    Scalar,
    Untranslatable,
    Value,
    any_of,
    boolean,
    converted,
    merge,
    micros,
    name,
    quoted,
    scalar,
    sql_type,
    translate,
)
from belvedere.spark.window_by.native import (
    field as field_of,
)
from belvedere.spark.window_by.relation import fresh, is_column, sort_texts
from belvedere.spark.window_by.values import MISSING, instant

EPOCH = instant(date(1970, 1, 1))
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
    start: Search | None
    end: Search | None


def literal(value: Any) -> Value:
    """A Python constant as SQL text."""
    if isinstance(value, bool):
        return Scalar(str(value).upper(), pa.bool_())
    if isinstance(value, int):
        return Scalar(f"{value}L", pa.int64())
    if isinstance(value, float):
        return Scalar(f"CAST('{value!r}' AS DOUBLE)", pa.float64())
    if isinstance(value, str):
        return Scalar(quoted(value), pa.string())
    raise Untranslatable("constant")


def literal_or_none(value: Any) -> Value | None:
    """As `literal`; None where there is no such text."""
    try:
        return literal(value)
    except Untranslatable:
        return None


@dataclass
class Planner:
    """Plans one block. `variables` are pinned; `constants` the values of names outside the block."""

    block: Block
    variables: Mapping[str, Value]
    keys: Sequence[Value]
    constants: Mapping[str, Any]
    columns: dict[str, str] = field(default_factory=dict)
    texts: dict[str, pa.DataType] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    candidates: dict[str, specs.Output] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    after: dict[str, Value] = field(default_factory=dict)

    @property
    def window(self) -> WindowBy:
        assert self.block.window is not None
        return self.block.window

    @property
    def item(self) -> Value:
        if len(self.variables) == 1:
            return next(iter(self.variables.values()))
        return Object(dict(self.variables))

    def environment(self) -> dict[str, Value]:
        """Names outside the block that have simple values."""
        found: dict[str, Value] = {}
        for known, value in self.constants.items():
            try:
                found[known] = literal(value)
            except Untranslatable:
                continue
        return found

    def column(self, value: Scalar) -> str:
        """The row column that holds the value."""
        if value.sql not in self.columns:
            plain = value.sql.strip("`") if is_column(value.sql) else fresh("r")
            self.columns[value.sql] = plain
            self.texts[value.sql] = value.type
        return self.columns[value.sql]

    # -- boundaries --

    def plan(self) -> WindowPlan:
        """The whole plan."""
        window = self.window
        order = item_expression(window.order[0].expr, tuple(self.variables))
        item = Item(self.item.type, order, {n: v.type for n, v in self.environment().items()})
        label = self.single("label", window.label.when) if window.label is not None else None
        start, starting = self.start(item)
        ending = None
        end: specs.BoundarySpec | None = None
        if window.end is not None:
            end = specs.BoundarySpec(unbounded=True)
            if not window.end.unbounded:
                ending = classify(window, "end", item)
                if ending is None:
                    raise Untranslatable("END of class d")
                end = specs.BoundarySpec(search=self.search(ending, item))
        block = self.results()
        outputs = tuple(dict.fromkeys(self.resolved(o) for n, o in self.candidates.items() if n in self.used))
        keys = tuple(self.column(k) for k in self.key_columns())
        spec = specs.KernelSpec(keys, window.tumbling, window.only, label, start, end, outputs, fresh("pos"))
        return WindowPlan(spec, self.columns, self.types, self.sorting(), block, self.after, starting, ending)

    def sorting(self) -> tuple[str, ...]:
        """ORDER BY over row columns, then all other columns: rows that tie there too cannot be told apart by the query."""
        keys = {self.columns[k.sql] for k in self.key_columns()}
        found: list[str] = []
        for key in self.window.order:
            value = self.translated(key.expr)
            column = Scalar(name(self.column(value)), value.type)
            if value.missing is not None:
                column = replace(column, missing=name(self.column(Scalar(value.missing, pa.bool_()))))
            found += sort_texts(key, column)
        sorted_by = {c for text in found for c in FRESH.findall(text)}
        ties = [c for t, c in self.columns.items() if c not in sorted_by | keys and not _unsortable(self.texts[t])]
        return (*found, *(f"{name(c)} ASC" for c in ties))

    def resolved(self, output: specs.Output) -> specs.Output:
        """The output with row columns in place of texts."""

        def column(text: str) -> str:
            return self.column(Scalar(text, self.texts[text]))

        if isinstance(output, (specs.Gather, specs.Nth)):
            return replace(output, column=column(output.column))
        if isinstance(output, specs.Members):
            return replace(output, fields=tuple((n, column(t)) for n, t in output.fields))
        if isinstance(output, specs.Aggregate):
            included = None if output.included is None else column(output.included)
            return replace(output, column=None if output.column is None else column(output.column), included=included)
        return output

    def text(self, value: Scalar) -> str:
        """The value's text, with its type noted."""
        self.texts.setdefault(value.sql, value.type)
        return value.sql

    def translated(self, expr: Expr) -> Scalar:
        return merge(translate(expr, {**self.environment(), **self.variables}))

    def key_columns(self) -> list[Scalar]:
        found: list[Scalar] = []
        for key in self.keys:
            value = merge(key)
            found.append(value)
            if value.missing is not None:
                found.append(Scalar(value.missing, pa.bool_()))
        return found

    def single(self, side: str, when: Expr | None) -> specs.BoundarySpec:
        if when is None or (isinstance(when, exp.Boolean) and when.this):
            return specs.BoundarySpec()
        return specs.BoundarySpec(local=(self.local(local_condition(self.window, side, when)),))

    def start(self, item: Item) -> tuple[specs.BoundarySpec, Search | None]:
        boundary = self.window.start
        if boundary.unbounded:
            return specs.BoundarySpec(unbounded=True), None
        if self.window.label is None:
            return self.single("start", boundary.when), None
        found = classify(self.window, "start", item)
        if found is None:
            raise Untranslatable("START of class d")
        return specs.BoundarySpec(search=self.search(found, item)), found

    def search(self, found: Search, item: Item) -> tuple[specs.ConjunctionSpec, ...]:
        return tuple(
            specs.ConjunctionSpec(
                tuple((x.side, self.local(x)) for x in c.known),
                tuple(self.local(x) for x in c.local),
                tuple(self.compare(x, item) for x in c.compares),
            )
            for c in found.conjunctions
        )

    def local(self, atom: Local, positive: bool = True) -> specs.Mask:
        """A condition on one tuple and its neighbours as columns of the rows."""
        if len(atom.roles) <= 1 and "position" not in atom.roles:
            return self.column_mask(atom, positive)
        expr = atom.expr
        if isinstance(expr, exp.Not):
            return self.local(Local(atom.side, expr.this), not positive)
        if isinstance(expr, (exp.And, exp.Or)):
            parts = tuple(self.local(Local(atom.side, e), positive) for e in (expr.left, expr.right))
            return specs.Junction(isinstance(expr, exp.And) == positive, parts)
        return self.plain_compare(neighbours_compared(atom, positive, self.item.type))

    def column_mask(self, atom: Local, positive: bool) -> specs.LocalSpec:
        """A condition on one tuple as a boolean column."""
        role = next(iter(atom.roles), "item")
        expr = atom.expr if positive else exp.Not(this=atom.expr.copy())
        value = boolean(_renamed(expr, f"${role}", ITEM), {**self.environment(), ITEM: self.item})
        missing = {f"${r}": MISSING for r in ("item", "previous", "next")}
        nowhere = compile_expression(expr)({**self.constants, **missing}) is True
        return specs.LocalSpec(self.column(value), role, edge=nowhere, missing=nowhere)

    def plain_compare(self, atom: Compare | None) -> specs.CompareSpec:
        """A comparison of a tuple with its neighbours."""
        if atom is None:
            raise Untranslatable("a condition over several tuples")
        return self.compare(atom, Item(self.item.type, None, {}))

    def compare(self, atom: Compare, item: Item) -> specs.CompareSpec:
        """A comparison of two tuples by columns of the rows."""
        monotone = is_monotone(atom, item)
        key = self.window.order[0]
        position = atom.searched[0].role == "position"
        direction = 0 if not monotone else 1 if position or not key.descending else -1
        whole = len(atom.searched) > 1 or len(atom.known) != 1 or position or any(p.role == "position" for p in atom.known)
        whole = whole or any(p.sign < 0 for p in atom.searched + atom.known)
        values = [self.part_value(p) for p in (*atom.searched, *atom.known)]
        common = None if whole else unify([v.type for v in values if v is not None])
        if not whole and (common is None or pa.types.is_null(common)):
            raise Untranslatable("a comparison of different types")
        parts = [self.part(p, v, common) for p, v in zip((*atom.searched, *atom.known), values, strict=True)]
        cut = len(atom.searched)
        nulls_first = key.nulls_come_first
        return specs.CompareSpec(tuple(parts[:cut]), atom.operator, tuple(parts[cut:]), direction, nulls_first)

    def part_value(self, part: Part) -> Scalar | None:
        if part.role == "position":
            return None
        if part.side == "":
            return scalar(part.expr, self.environment())
        value = translate(part.expr, {**self.environment(), ITEM: self.item})
        return value if isinstance(value, Scalar) and not pa.types.is_struct(value.type) else text_key(value)

    def part(self, part: Part, value: Scalar | None, common: pa.DataType | None) -> specs.PartSpec:
        if value is None:
            return specs.PartSpec(part.side, "position", None, None, part.sign)
        if part.side == "":
            constant = plain_constant(compile_expression(part.expr)(dict(self.constants)))
            if constant is None:
                raise Untranslatable("a comparison with NULL")
            if common is not None and pa.types.is_floating(common):
                constant = float(constant)
            return specs.PartSpec("", "", None, constant, part.sign)
        return specs.PartSpec(part.side, part.role, self.column(comparable(value, common)), None, part.sign)

    # -- results --

    def results(self) -> Block:
        """The rest of the block over the kernel's output; fills `after` and `used`."""
        window = self.window
        for variable, (side, role) in window.variables.items():
            self.after[variable] = self.boundary_value(side, role)
        rewriter = _Rewriter(self)
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
            for column in expr.find_all(exp.Column):
                if column.name in local:
                    self.note(local[column.name])
            return Scalar("NULL", pa.null())
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

    def output(self, output: specs.Output, type_: pa.DataType) -> str:
        self.candidates[output.output] = output
        self.types[output.output] = stored_type(type_)
        return name(output.output)

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
            return Scalar(self.output(specs.Place(fresh("o"), side), pa.int64()), pa.int64(), flag)
        return self.mirrored(self.item, side, role, flag)

    def mirrored(self, value: Value, side: str, role: str, flag: str | None) -> Value:
        """The item's value, leaf by leaf, as gathered at a boundary."""
        missing = flag
        if value.missing is not None:
            missing = any_of(flag, self.gathered(Scalar(value.missing, pa.bool_()), side, role))
        if isinstance(value, Object):
            return Object({n: self.mirrored(f, side, role, flag) for n, f in value.fields.items()}, missing)
        return Scalar(self.gathered(value, side, role), value.type, missing)

    def gathered(self, value: Scalar, side: str, role: str) -> str:
        return self.output(specs.Gather(fresh("o"), side, role, self.text(value)), value.type)


class _Rewriter:
    """Replaces what a query says about the window by variables over the kernel's output."""

    def __init__(self, planner: Planner):
        self.planner = planner
        self.window = planner.window.name.text

    def rewrite(self, expr: Expr) -> Expr:
        span = expr.meta.get("span")
        found: Expr = self.walk(expr.copy())
        if self.mentions(found):
            raise Untranslatable("the window as a whole in a subquery")
        if span is not None:
            found.meta["span"] = span
        return found

    def mentions(self, expr: Expr) -> bool:
        from belvedere.spark.window_by.run import variables_in

        if any(node for node in expr.find_all(QueryExpression)):
            return bool(variables_in(expr) & {self.window, *self.planner.window.variables})
        return any(c.name == self.window for c in expr.find_all(exp.Column))

    def is_window(self, node: Any) -> bool:
        return isinstance(node, exp.Column) and node.name == self.window

    def starred(self, node: Any) -> str | None:
        """The field's name of `w[*].field`."""
        if not isinstance(node, exp.Dot) or not isinstance(node.this, exp.Bracket):
            return None
        bracket = node.this
        return node.expression.name if self.is_window(bracket.this) and isinstance(bracket.expressions[0], exp.Star) else None

    def variable(self, value: Value) -> Expr:
        label = f"${len(self.planner.after)}"
        self.planner.after[label] = value
        return exp.Column(this=exp.to_identifier(label))

    def walk(self, node: Any) -> Any:
        found = self.replaced(node)
        if found is not None:
            return found
        for slot, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(slot, self.walk(value))
            elif isinstance(value, list):
                node.set(slot, [self.walk(v) if isinstance(v, exp.Expr) else v for v in value])
        return node

    def replaced(self, node: Any) -> Expr | None:
        if isinstance(node, exp.Anonymous):
            function = canonical(node.name)
            if function in ("LEN", "ARRAY_LENGTH") and self.is_window(node.expressions[0]):
                output = self.planner.output(specs.Length(fresh("o")), pa.int64())
                return self.variable(Scalar(output, pa.int64()))
            if function in WINDOW_AGGREGATES:
                value = self.aggregate(function, node)
                return None if value is None else self.variable(value)
        if isinstance(node, exp.Bracket) and self.is_window(node.this):
            place = _whole(node.expressions[0])
            if place is not None:
                return self.variable(self.nth(self.planner.item, place))
        starred = self.starred(node)
        if starred is not None:
            return self.variable(self.members(field_of(self.planner.item, starred)))
        if self.is_window(node):
            return self.variable(self.members(self.planner.item))
        return None

    def nth(self, value: Value, place: int) -> Value:
        """`w[place]`, leaf by leaf."""
        if isinstance(value, Object):
            leaves = {n: self.nth(f, place) for n, f in value.fields.items()}
            if not leaves:
                raise Untranslatable("an empty object")
            return Object(leaves, next(iter(leaves.values())).missing)
        planner = self.planner
        output = specs.Nth(fresh("o"), fresh("f"), place, planner.text(value))
        text = planner.output(output, value.type)
        planner.candidates[output.flag] = output
        planner.types[output.flag] = pa.bool_()
        return Scalar(text, value.type, name(output.flag))

    def members(self, value: Value) -> Value:
        """The window's rows as an array; elements that are MISSING are NULL in it."""
        if isinstance(value, Object):
            leaves = [(n, merge(f)) for n, f in value.fields.items()]
            output = specs.Members(fresh("o"), tuple((n, self.planner.text(s)) for n, s in leaves), False)
        else:
            if pa.types.is_null(value.type):
                raise Untranslatable("an array of nothing")
            output = specs.Members(fresh("o"), (("", self.planner.text(value)),), True)
        return Scalar(self.planner.output(output, pa.list_(value.type)), pa.list_(value.type))

    def aggregate(self, function: str, node: Expr) -> Value | None:
        """An aggregate of the window's rows; None where its argument has another form."""
        prefix, kind = function.split("_", 1)
        fraction = 0.5
        if kind == "PERCENTILE":
            given = (
                compile_expression(node.expressions[1])(dict(self.planner.constants))
                if not self.mentions(node.expressions[1])
                else None
            )
            if not isinstance(given, int | float) or not 0 <= given <= 1:
                return None
            fraction = float(given)
        argument = node.expressions[0]
        if (
            kind == "COUNT"
            and prefix == "ARRAY"
            and isinstance(argument, exp.Anonymous)
            and canonical(argument.name) == "ARRAY_DISTINCT"
        ):
            argument, kind = argument.expressions[0], "DISTINCT"
        source = self.source(argument)
        return None if source is None else self.aggregated(kind, prefix == "STRICT", fraction, *source)

    def source(self, argument: Expr) -> tuple[Scalar, Scalar | None, bool] | None:
        """What is aggregated over the item: value, restriction, and whether the MISSING of an unclosed window counts."""
        planner = self.planner
        starred = self.starred(argument)
        if starred is not None:
            return merge(field_of(planner.item, starred)), None, True
        if self.is_window(argument):
            return merge(planner.item), None, True
        if not isinstance(argument, QueryExpression):
            return None
        found = _simple_subquery(argument, self.window)
        if found is None:
            return None
        variable, value, where = found
        if {c.name for e in (value, where) if e is not None for c in e.find_all(exp.Column)} - {
            variable,
            *planner.environment(),
        }:
            return None
        env: dict[str, Value] = {**planner.environment(), variable: planner.item}
        nowhere = {**planner.constants, variable: MISSING}
        kept = where is None or compile_expression(where)(nowhere) is True
        if kept and compile_expression(value)(nowhere) is not MISSING and compile_expression(value)(nowhere) is not None:
            return None
        condition = None if where is None else boolean(where, env)
        return merge(translate(value, env)), condition, kept

    def aggregated(self, kind: str, strict: bool, fraction: float, value: Scalar, where: Scalar | None, extra: bool) -> Value:
        numeric = kind not in ("COUNT", "MIN", "MAX", "DISTINCT")
        kind = {"MEDIAN": "PERCENTILE", "STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP"}.get(kind, kind)
        if numeric and (not is_number(value.type) or pa.types.is_decimal(value.type)):
            raise Untranslatable(f"{kind} of {value.type}")
        column = value
        if numeric:
            column = Scalar(converted(value, unify_numbers([value.type])), unify_numbers([value.type]))
        elif pa.types.is_nested(value.type):
            if kind != "COUNT":
                raise Untranslatable(f"{kind} of objects or arrays")
            column = Scalar(f"IF({merge(value).sql} IS NULL, NULL, 1L)", pa.int64())
        type_ = {"COUNT": pa.int64(), "DISTINCT": pa.int64(), "MIN": value.type, "MAX": value.type}.get(kind, pa.float64())
        if kind == "SUM":
            type_ = column.type
        included = self.planner.text(where) if where is not None else None
        output = specs.Aggregate(fresh("o"), kind, self.planner.text(column), included, strict, extra, fraction)
        return Scalar(self.planner.output(output, type_), type_)


def _unsortable(type_: pa.DataType) -> bool:
    if pa.types.is_list(type_):
        return _unsortable(type_.value_type)
    if pa.types.is_struct(type_):
        return any(_unsortable(f.type) for f in type_)
    return bool(pa.types.is_map(type_))


def _simple_subquery(node: QueryExpression, window: str) -> tuple[str, Expr, Expr | None] | None:
    """`(SELECT VALUE e FROM w AS x WHERE c)` as (x, e, c)."""
    query = node.query
    if len(query.blocks) != 1 or query.bindings or query.order or query.limit is not None or query.offset is not None:
        return None
    block = query.blocks[0]
    simple = (
        len(block.sources) == 1
        and not block.lets
        and block.group is None
        and block.window is None
        and not block.select.distinct
    )
    if not simple or block.select.value is None:
        return None
    source = block.sources[0]
    if not isinstance(source.expr, exp.Column) or source.expr.name != window or source.position is not None:
        return None
    if any(e.find(QueryExpression) for e in (block.select.value, block.where) if e is not None):
        return None
    return source.variable.text, block.select.value, block.where


def _whole(node: Expr) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _renamed(expr: Expr, old: str, new: str) -> Expr:
    def change(node: Any) -> Any:
        return exp.Column(this=exp.to_identifier(new)) if isinstance(node, exp.Column) and node.name == old else node

    result: Expr = expr.transform(change)
    return result


def plain_constant(value: Any) -> Any:
    """A constant as the kernels compare it: times and durations as microseconds."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date):
        return (instant(value) - EPOCH) // timedelta(microseconds=1)
    return None if value is MISSING else value


def comparable(value: Scalar, common: pa.DataType | None) -> Scalar:
    """A value as the kernels compare it."""
    type_ = value.type
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_) or type_ == DURATION:
        return Scalar(micros(value), pa.int64())
    if common is not None and is_number(common):
        if pa.types.is_decimal(common):
            return Scalar(f"CAST({value.sql} AS {sql_type(common)})", common)
        return Scalar(converted(value, common), common)
    if is_number(type_):
        return Scalar(converted(value, pa.int64()), pa.int64())
    return value


def text_key(value: Value) -> Scalar:
    """An object as text that is equal exactly where the objects are, for deep equality of objects of one type."""
    if not isinstance(value, Object):
        raise Untranslatable("a comparison of objects")
    parts = []
    for label, inner in value.fields.items():
        leaf = merge(inner)
        if pa.types.is_nested(leaf.type):
            raise Untranslatable("a comparison of nested objects")
        if pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type) or leaf.type == DURATION:
            text = micros(leaf)
        elif pa.types.is_floating(leaf.type):
            text = f"CAST({leaf.sql} + 0.0D AS STRING)"
        else:
            text = leaf.sql
        parts.append(f"{quoted(label)}, {text}")
    text = f"to_json(named_struct({', '.join(parts)}))"
    return Scalar(text if value.missing is None else f"IF({value.missing}, NULL, {text})", pa.string(), value.missing)
