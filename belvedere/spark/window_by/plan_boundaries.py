"""LABEL, START and END for the kernels: conditions as boolean columns, comparisons as columns of numbers.

In: the classified boundaries. Out: `BoundarySpec`s over columns of the rows, or `Untranslatable` with the reason.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.window_by import DURATION, is_number, unify
from belvedere.kernels import specs
from belvedere.kernels.values import MISSING
from belvedere.lang.window_by.classes import (
    ITEM,
    Compare,
    ItemFacts,
    Local,
    Search,
    Summand,
    classify,
    is_monotone,
    local_condition,
    neighbours_compared,
)
from belvedere.lang.window_by.names import renamed
from belvedere.lang.window_by.tree import Boundary, Expr
from belvedere.spark.window_by.interpret import compile_expression
from belvedere.spark.window_by.native import boolean, scalar, translate
from belvedere.spark.window_by.plan_pairs import PairPlanner
from belvedere.spark.window_by.plan_values import plain_constant
from belvedere.spark.window_by.sql_values import (
    Object,
    SqlValue,
    Untranslatable,
    Value,
    converted,
    merge,
    micros,
    quoted,
    sql_type,
)


class BoundaryPlanner(PairPlanner):
    """Plans the boundaries of one block."""

    def single(self, side: str, when: Expr | None) -> specs.BoundarySpec:
        if when is None or (isinstance(when, exp.Boolean) and when.this):
            return specs.BoundarySpec()
        return specs.BoundarySpec(local=(self.local(local_condition(self.window, side, when)),))

    def start(self, item: ItemFacts) -> tuple[specs.BoundarySpec, Search | None]:
        boundary = self.window.start
        if boundary.unbounded:
            return specs.BoundarySpec(unbounded=True), None
        if self.window.label is None:
            return self.single("start", boundary.when), None
        found = classify(self.window, "start", item)
        if found is None:
            assert boundary.when is not None
            return specs.BoundarySpec(scan=self.condition(boundary.when)), None
        return specs.BoundarySpec(search=self.search(found, item)), found

    def end(self, boundary: Boundary, item: ItemFacts) -> tuple[specs.BoundarySpec, Search | None]:
        found = classify(self.window, "end", item)
        if found is None:
            assert boundary.when is not None
            return specs.BoundarySpec(scan=self.condition(boundary.when)), None
        return specs.BoundarySpec(search=self.search(found, item)), found

    def search(self, found: Search, item: ItemFacts) -> tuple[specs.ConjunctionSpec, ...]:
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
        value = boolean(renamed(expr, {f"${role}": ITEM}), {**self.environment(), ITEM: self.item})
        missing = {f"${r}": MISSING for r in ("item", "previous", "next")}
        nowhere = compile_expression(expr)({**self.constants, **missing}) is True
        return specs.LocalSpec(self.column(value), role, edge=nowhere, missing=nowhere)

    def plain_compare(self, atom: Compare | None) -> specs.CompareSpec:
        """A comparison of a tuple with its neighbours."""
        if atom is None:
            raise Untranslatable("a condition over several tuples")
        return self.compare(atom, ItemFacts(self.item.type, None, {}))

    def compare(self, atom: Compare, item: ItemFacts) -> specs.CompareSpec:
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

    def part_value(self, part: Summand) -> SqlValue | None:
        if part.role == "position":
            return None
        if part.side == "":
            return scalar(part.expr, self.environment())
        value = translate(part.expr, {**self.environment(), ITEM: self.item})
        if pa.types.is_list(value.type) or pa.types.is_map(value.type):
            raise Untranslatable("a comparison of arrays")
        return value if isinstance(value, SqlValue) and not pa.types.is_struct(value.type) else text_key(value)

    def part(self, part: Summand, value: SqlValue | None, common: pa.DataType | None) -> specs.PartSpec:
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


def comparable(value: SqlValue, common: pa.DataType | None) -> SqlValue:
    """A value as the kernels compare it."""
    type_ = value.type
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_) or type_ == DURATION:
        return SqlValue(micros(value), pa.int64())
    if common is not None and is_number(common):
        if pa.types.is_decimal(common):
            return SqlValue(f"CAST({value.sql} AS {sql_type(common)})", common)
        return SqlValue(converted(value, common), common)
    if is_number(type_):
        return SqlValue(converted(value, pa.int64()), pa.int64())
    return value


def text_key(value: Value) -> SqlValue:
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
    return SqlValue(text if value.missing is None else f"IF({value.missing}, NULL, {text})", pa.string(), value.missing)
