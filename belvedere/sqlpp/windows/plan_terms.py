"""Conditions on tuples as terms that the kernels evaluate for many tuples at once.

In: WHEN of a boundary, or a part of it. Out: a `Term` whose leaves are columns of the rows. An expression that reads
one tuple alone becomes a column that Spark computes. The kernels compute arithmetic, comparisons and logic between
tuples. `Untranslatable` rejects everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import DURATION, is_number, unify
from belvedere.plan.operators import window_specs as specs
from belvedere.sqlpp.query_names import free_in
from belvedere.sqlpp.query_tree import MEMBER, Expr, RunningAggregate, called, reference
from belvedere.sqlpp.spark_text.native import boolean, translate
from belvedere.sqlpp.spark_text.sql_text import Open, constant_of
from belvedere.sqlpp.spark_text.sql_values import (
    MISSING_VALUE,
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
from belvedere.sqlpp.substitute import substituted
from belvedere.sqlpp.type_rules import arithmetic_type
from belvedere.sqlpp.windows.boundary_classes import ARITHMETIC, ITEM, OPERATORS, Summand
from belvedere.sqlpp.windows.plan_columns import PlanColumns

CHOICES = {"LEAST": "least", "GREATEST": "greatest", "COALESCE": "known", "IF_MISSING_OR_NULL": "known"}
TypedTerm = tuple[specs.Term, pa.DataType]


class TermPlanner(PlanColumns):
    """Plans conditions on tuples."""

    @cached_property
    def sides(self) -> dict[str, tuple[str, str]]:
        """Return the tuple of each variable: label, start or end; item, previous, next or position."""
        return self.window.variables

    def condition(self, expr: Expr) -> specs.Term:
        """Return the condition as a term: TRUE, FALSE or unknown."""
        leaf = self.leaf(expr)
        if leaf is not None:
            return self.column_of(leaf, boolean(leaf.expr, self.over_item()))
        found, type_ = self.term(expr)
        if not pa.types.is_boolean(type_):
            raise Untranslatable("no condition")
        return found

    def term(self, node: Expr) -> TypedTerm:
        leaf = self.leaf(node)
        if leaf is not None and not self.is_long(leaf):
            return self.read(leaf)
        if isinstance(node, RunningAggregate):
            return self.running(node)
        if isinstance(node, exp.Column) and node.name in self.sides:
            return specs.ColumnTerm(*self.sides[node.name], None), pa.int64()
        if not free_in(node) & set(self.sides) and not node.find(RunningAggregate):
            return self.constant(node)
        if isinstance(node, (exp.And, exp.Or)):
            parts = (self.condition(node.left), self.condition(node.right))
            return specs.OperationTerm("and" if isinstance(node, exp.And) else "or", parts), pa.bool_()
        if isinstance(node, exp.Not):
            return specs.OperationTerm("not", (self.condition(node.this),)), pa.bool_()
        if isinstance(node, exp.Paren):
            return self.term(node.this)
        if isinstance(node, exp.Neg):
            value, type_ = self.term(node.this)
            return specs.OperationTerm("-", (specs.ConstantTerm(0), value)), type_
        if type(node) in OPERATORS:
            return self.compared(OPERATORS[type(node)], node.this, node.expression)
        if isinstance(node, exp.Between):
            low, high = (self.compared(o, node.this, node.args[k])[0] for o, k in ((">=", "low"), ("<=", "high")))
            return specs.OperationTerm("and", (low, high)), pa.bool_()
        if type(node) in ARITHMETIC:
            return calculated(node, self.term(node.this), self.term(node.expression))
        return self.chosen(node)

    def is_long(self, leaf: Summand) -> bool:
        """Return whether a result has too many decimal digits while its operands fit: then its operands are read
        instead."""
        if type(leaf.expr.unnest()) not in ARITHMETIC and not isinstance(leaf.expr, exp.Neg | exp.Paren):
            return False
        type_ = merge(translate(leaf.expr, self.over_item())).type
        return bool(pa.types.is_decimal(type_)) and type_.precision > DECIMAL_DIGITS

    def chosen(self, node: Expr) -> TypedTerm:
        """Return the term of an expression that chooses between values of several tuples."""
        if isinstance(node, exp.In) and node.expressions:
            tests = [self.compared("=", node.this, e)[0] for e in node.expressions]
            return reduce(lambda a, b: specs.OperationTerm("or", (a, b)), tests), pa.bool_()
        if isinstance(node, exp.In) and node.args.get("field") is not None:
            return self.contained(node.this, node.args["field"]), pa.bool_()
        if isinstance(node, exp.Is) and node.expression.name.upper() in ("UNKNOWN", "VALUED"):
            known = specs.OperationTerm("known", (self.term(node.this)[0],))
            unknown = node.expression.name.upper() == "UNKNOWN"
            return (specs.OperationTerm("not", (known,)) if unknown else known), pa.bool_()
        if isinstance(node, exp.Case):
            return self.case(node)
        name = called(node)
        if isinstance(node, exp.DPipe) or name == "CONCAT":
            return self.joined_texts([node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions)
        if name in CHOICES:
            return self.folded(node.expressions, CHOICES[name])
        if name == "ABS":
            (value, type_) = self.term(node.expressions[0])
            return specs.OperationTerm(
                "greatest", (value, specs.OperationTerm("-", (specs.ConstantTerm(0), value)))
            ), type_
        raise Untranslatable(f"{name or node.key.upper()} between tuples")

    def contained(self, value: Expr, array: Expr) -> specs.Term:
        """Return whether an array of one tuple contains a value of another."""
        leaves = self.leaf(value), self.leaf(array)
        if leaves[0] is None or leaves[1] is None:
            raise Untranslatable("IN over arrays that are made between tuples")
        one, other = (merge(translate(leaf.expr, self.over_item())) for leaf in leaves if leaf is not None)
        if not pa.types.is_list(other.type):
            return specs.ConstantTerm()
        members = other.type.value_type
        if unify([one.type, members]) is None or pa.types.is_nested(members):
            raise Untranslatable("IN over an array of values of another type")
        columns = self.column_of(leaves[0], one), self.column_of(leaves[1], other)
        return specs.OperationTerm("in", columns)

    def joined_texts(self, nodes: Sequence[Expr]) -> TypedTerm:
        """Return texts of several tuples, concatenated."""
        given = [self.term(n) for n in nodes]
        if any(not pa.types.is_string(t) and not pa.types.is_null(t) for _, t in given):
            raise Untranslatable("CONCAT of other values than texts between tuples")
        return reduce(lambda a, b: specs.OperationTerm("concat", (a, b)), [t for t, _ in given]), pa.string()

    def folded(self, nodes: Sequence[Expr], operator: str) -> TypedTerm:
        values, type_ = self.alike([self.term(n) for n in nodes])

        def joined(one: specs.Term, other: specs.Term) -> specs.Term:
            if operator == "known":
                return specs.OperationTerm("if", (specs.OperationTerm("known", (one,)), one, other))
            return specs.OperationTerm(operator, (one, other))

        return (
            reduce(joined, values) if operator != "known" else reduce(lambda b, a: joined(a, b), reversed(values))
        ), type_

    def case(self, node: Expr) -> TypedTerm:
        tests: list[specs.Term] = []
        for branch in node.args["ifs"]:
            test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
            tests.append(self.condition(test))
        default = node.args.get("default")
        given = [self.term(b.args["true"]) for b in node.args["ifs"]]
        given.append((specs.ConstantTerm(), given[0][1]) if default is None else self.term(default))
        values, type_ = self.alike(given)
        found = values[-1]
        for test, value in zip(reversed(tests), reversed(values[:-1]), strict=True):
            found = specs.OperationTerm("if", (test, value, found))
        return found, type_

    @staticmethod
    def alike(given: Sequence[TypedTerm]) -> tuple[list[specs.Term], pa.DataType]:
        """Convert values to one type."""
        types = [t for _, t in given if not pa.types.is_null(t)]
        common = unify(types) if types else pa.null()
        if common is None or len({term_kind(t) for t in types}) > 1 or term_kind(common) == "other":
            raise Untranslatable("values of several types between tuples")
        return [aligned(v, common) for v in given], common

    def compared(self, operator: str, left: Expr, right: Expr) -> TypedTerm:
        leaves = self.leaf(left), self.leaf(right)
        if leaves[0] is not None and leaves[1] is not None:
            return specs.OperationTerm(operator, self.pair(leaves[0], leaves[1])), pa.bool_()
        (one, type_), (other, second) = self.term(left), self.term(right)
        if pa.types.is_null(type_) or pa.types.is_null(second):
            return specs.ConstantTerm(), pa.bool_()
        if term_kind(type_) != term_kind(second):
            raise Untranslatable("a comparison of different types")
        common = unify([type_, second]) or type_
        return specs.OperationTerm(
            operator, (aligned((one, type_), common), aligned((other, second), common))
        ), pa.bool_()

    def constant(self, node: Expr) -> TypedTerm:
        value = merge(translate(node, self.outside))
        if pa.types.is_null(value.type):
            return specs.ConstantTerm(), value.type
        if term_kind(value.type) == "other":
            raise Untranslatable("a constant between tuples")
        made = self.constant_term(as_term(value))
        in_column = made.column is not None and pa.types.is_string(value.type)
        return (specs.OperationTerm("text", (made,)) if in_column else made), value.type

    def constant_term(self, value: SqlValue) -> specs.ConstantTerm:
        """Return a value that is the same for all rows, as a column if Spark must compute it."""
        known = constant_of(value.sql)
        return specs.ConstantTerm(column=self.column(value)) if known is Open else specs.ConstantTerm(known)

    def running(self, node: RunningAggregate) -> TypedTerm:
        """Return an aggregate over the window's tuples up to END's tuple."""
        if node.value is None:
            return self.so_far(SqlValue("TRUE", pa.bool_()), counts=True), pa.int64()
        value = merge(translate(substituted(node.value, {MEMBER: reference(ITEM)}), self.over_item()))
        count = self.so_far(value, counts=True)
        if node.function == "COUNT":
            return count, pa.int64()
        extreme = node.function in ("MIN", "MAX")
        if pa.types.is_null(value.type) or not (extreme or is_number(value.type)):
            return specs.ConstantTerm(), pa.null()
        if term_kind(value.type) not in ("number", "time", "span"):
            raise Untranslatable(f"{node.function} of {value.type} in END")
        if extreme:
            return specs.RunningTerm(node.function, self.column(as_term(value))), value.type
        return summed(node.function, *self.running_sum(value, count), count)

    def running_sum(self, value: SqlValue, count: specs.Term) -> TypedTerm:
        """Return the sum of a value: of whole numbers and decimals by differences, of doubles tuple by tuple."""
        if pa.types.is_floating(value.type):
            column = self.column(SqlValue(converted(value, pa.float64()), pa.float64()))
            return specs.RunningTerm("SUM", column), pa.float64()
        some = specs.OperationTerm(">", (count, specs.ConstantTerm(0)))
        found = specs.OperationTerm("if", (some, self.so_far(value, counts=False), specs.ConstantTerm()))
        return found, pa.decimal128(38, value.type.scale) if pa.types.is_decimal(value.type) else pa.int64()

    def so_far(self, value: SqlValue, counts: bool) -> specs.Term:
        return specs.OperationTerm("-", (self.prefix("end", value, counts), self.prefix("start", value, counts)))

    def prefix(self, side: str, value: SqlValue, counts: bool) -> specs.PrefixTerm:
        column = self.column(value if counts else as_term(value))
        return specs.PrefixTerm(side, column, counts, through=side == "end")

    # -- expressions on one tuple alone: columns of the rows --

    def leaf(self, node: Expr) -> Summand | None:
        """Return the expression over `$item` if it reads one tuple and not its position; else None."""
        names = free_in(node) & set(self.sides)
        if node.find(RunningAggregate):
            return None
        own = {self.sides[n] for n in names}
        side, role = next(iter(own), ("", "position"))
        if len(own) > 1 or role == "position":
            return None
        return Summand(side, role, substituted(node, dict.fromkeys(names, reference(ITEM))))

    def over_item(self) -> dict[str, Value]:
        return {**self.outside, ITEM: self.item}

    def read(self, leaf: Summand) -> TypedTerm:
        """Return a column of numbers, times, durations or booleans."""
        value = merge(translate(leaf.expr, self.over_item()))
        if pa.types.is_null(value.type):
            return specs.ConstantTerm(), value.type
        if term_kind(value.type) == "other":
            raise Untranslatable(f"{value.type} between tuples")
        made = self.column_of(leaf, as_term(value))
        return (specs.OperationTerm("text", (made,)) if pa.types.is_string(value.type) else made), value.type

    def column_of(self, leaf: Summand, value: SqlValue) -> specs.ColumnTerm:
        return specs.ColumnTerm(leaf.side, leaf.role, self.column(value), self.where_missing(leaf, value))

    def where_missing(self, leaf: Summand, value: SqlValue) -> specs.ConstantTerm:
        """Return the value for a MISSING tuple."""
        found = merge(translate(leaf.expr, {**self.outside, ITEM: MISSING_VALUE}))
        if pa.types.is_null(found.type) or found.missing == "TRUE":
            return specs.ConstantTerm()
        if kind(value.type) == "other" and value.type != pa.int64():
            raise Untranslatable("a value where a tuple is MISSING")
        return self.constant_term(as_term(found))

    def pair(self, left: Summand, right: Summand) -> tuple[specs.Term, specs.Term]:
        """Return two columns that can be compared."""
        values = [self.whole(x) for x in (left, right)]
        if any(pa.types.is_null(v.type) for v in values):
            return specs.ConstantTerm(), specs.ConstantTerm()
        kinds = {kind(v.type) for v in values}
        common = unify([v.type for v in values]) if "other" in kinds else None
        if ("other" in kinds or len(kinds) > 1) and (common is None or pa.types.is_null(common)):
            raise Untranslatable("a comparison of different types")
        one, other = (self.column_of(x, comparable(v, common)) for x, v in zip((left, right), values, strict=True))
        return one, other

    def whole(self, leaf: Summand) -> SqlValue:
        """Return the value as one SQL text; an object becomes a text that is equal if the object is."""
        value = translate(leaf.expr, self.over_item())
        if pa.types.is_map(value.type):
            raise Untranslatable("a comparison of maps")
        flat = isinstance(value, Object) and not any(pa.types.is_nested(f.type) for f in value.fields.values())
        return text_key(value) if flat else merge(value)

    def total(self, parts: Sequence[Summand]) -> specs.Term:
        """Return a sum of whole numbers, times and durations."""
        found: specs.Term | None = None
        for part in sorted(parts, key=lambda p: -p.sign):
            one = self.summand(part)
            if found is None and part.sign > 0:
                found = one
            else:
                found = specs.OperationTerm("+" if part.sign > 0 else "-", (found or specs.ConstantTerm(0), one))
        return found or specs.ConstantTerm(0)

    def summand(self, part: Summand) -> specs.Term:
        if part.role == "position":
            return specs.ColumnTerm(part.side, "position", None)
        if part.role in ("sum", "count"):
            return self.prefix(part.side, merge(translate(part.expr, self.over_item())), part.role == "count")
        return self.read(part)[0] if part.side else self.constant(part.expr)[0]


def kind(type_: pa.DataType) -> str:
    """Return the class of comparable values to which a type belongs."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return "span" if type_ == DURATION else "boolean" if pa.types.is_boolean(type_) else "other"


DECIMAL_DIGITS = 18
"""Maximum number of decimal digits that fit 64 bits."""


def term_kind(type_: pa.DataType) -> str:
    """Return the class of values that can be combined: decimals are numbers, and texts are concatenated."""
    if pa.types.is_string(type_):
        return "text"
    return "number" if pa.types.is_decimal(type_) else kind(type_)


def as_term(value: SqlValue) -> SqlValue:
    """Return a value in the form of terms: a decimal as its unscaled whole number."""
    if not pa.types.is_decimal(value.type):
        return comparable(value, None)
    if value.type.precision > DECIMAL_DIGITS:
        raise Untranslatable(f"decimals of more than {DECIMAL_DIGITS} digits between tuples")
    scale = value.type.scale
    return SqlValue(
        f"CAST({value.sql} * CAST({10**scale} AS DECIMAL({scale + 1}, 0)) AS BIGINT)", pa.int64(), value.missing
    )


def aligned(given: TypedTerm, common: pa.DataType) -> specs.Term:
    """Convert a number to another type: with more decimals, or as a double."""
    term, type_ = given
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    if pa.types.is_decimal(common):
        more = common.scale - scale
        return (
            term if not more or not is_number(type_) else specs.OperationTerm("*", (term, specs.ConstantTerm(10**more)))
        )
    if pa.types.is_floating(common) and scale:
        return specs.OperationTerm("/", (term, specs.ConstantTerm(10**scale)))
    return term


def summed(function: str, total: specs.Term, type_: pa.DataType, count: specs.Term) -> TypedTerm:
    """Return SUM, or AVG as SUM by COUNT."""
    if function == "SUM":
        return total, type_
    return specs.OperationTerm("/", (aligned((total, type_), pa.float64()), count)), pa.float64()


def calculated(node: Expr, left: TypedTerm, right: TypedTerm) -> TypedTerm:
    """Return `+ - * / DIV %` of two values; decimals keep all digits."""
    types = left[1], right[1]
    type_ = arithmetic_type(node, *types)
    if type_ is None or term_kind(type_) == "other":
        raise Untranslatable("arithmetic between tuples")
    operator = ARITHMETIC[type(node)]
    if not any(map(pa.types.is_decimal, types)):
        return specs.OperationTerm(operator, (left[0], right[0])), type_
    if isinstance(node, exp.IntDiv | exp.Mod):
        raise Untranslatable("DIV and % of decimals between tuples")
    if pa.types.is_decimal(type_) and isinstance(node, exp.Mul):
        scale = sum(t.scale for t in types if pa.types.is_decimal(t))
        return specs.OperationTerm(operator, (left[0], right[0])), pa.decimal128(38, scale)
    return specs.OperationTerm(operator, (aligned(left, type_), aligned(right, type_))), type_


def comparable(value: SqlValue, common: pa.DataType | None) -> SqlValue:
    """Return a value in the form that the kernels compare."""
    type_ = value.type
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_) or type_ == DURATION:
        return SqlValue(micros(value), pa.int64())
    if common is not None and is_number(common):
        if pa.types.is_decimal(common):
            return SqlValue(f"CAST({value.sql} AS {sql_type(common)})", common)
        return SqlValue(converted(value, common), common)
    return SqlValue(converted(value, pa.int64()), pa.int64()) if pa.types.is_integer(type_) else value


def text_key(value: Value) -> SqlValue:
    """Return an object as text that is equal exactly if the objects are, for deep equality of objects of one type."""
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
