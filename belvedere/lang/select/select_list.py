"""Select list: the expression and name of each item, and ORDER BY over it.

In: the frame after FROM and WHERE, and the select. Out: `Output`s and orders over the frame's columns. Grouping and
window functions are applied to them later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from belvedere.errors import BelvedereError, Span, counted, fail
from belvedere.functions import spark_types as t
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem, SourceColumn
from belvedere.lang.relationships.nested_rows import parent_columns
from belvedere.lang.select.query_frame import Frame, StatementContext
from belvedere.lang.select.unnesting import generator_call, unnest
from belvedere.lang.types.leaf_types import parameter_name
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Order, Unnest
from belvedere.schema import find_named
from belvedere.spark_sql.operators import without_plus
from belvedere.syntax.query_tree import PLACE, span_of
from belvedere.syntax.wording import did_you_mean, text_name


@dataclass
class Clause:
    """A sort key or condition while it is rewritten from its written form to one over the plan's columns."""

    expr: Expr
    written: exp.Expr

    @property
    def order(self) -> Order:
        """Return the sort key in the direction as written."""
        return make_order(self.written, self.expr)


@dataclass
class Output(Clause):
    """One select item while it is rewritten."""

    name: str
    doc: str | None = None


class SelectItems:
    """Outputs and orders of one SELECT."""

    def __init__(self, select: exp.Select, frame: Frame):
        self.select = select
        self.frame = frame
        self.context = frame.context
        self.outputs: list[Output] = []
        self.orders: list[Clause] = []

    def read(self) -> None:
        """Read the select list, then ORDER BY, which may name its outputs."""
        self._unnested = [n for n in self.frame.plan.walk() if isinstance(n, Unnest)]
        for written in self.select.expressions:
            bare = written.unalias() if isinstance(written, exp.Alias) else written
            if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
                self._star(bare)
            elif generator_call(written.this if isinstance(written, (exp.Alias, exp.Aliases)) else written) is not None:
                self._generator(written)
            else:
                resolved = Resolver(self.frame, self.earlier_alias).resolve(bare)
                name = output_name(written)
                self.outputs.append(
                    Output(resolved, written, name if bare is not written else as_defined(name, resolved))
                )
        for ordered in sort_keys(self.select, len(self.outputs)):
            self.orders.append(Clause(self._order(ordered), ordered))

    def earlier_alias(self, node: exp.Column) -> Expr | None:
        """Return the expression of an alias of the select list that a later clause names."""
        found = find_named(self.outputs, node.name)
        return (
            exp.paren(found.expr.copy(), copy=False)
            if found is not None and isinstance(found.written, exp.Alias)
            else None
        )

    def _star(self, star: exp.Expr) -> None:
        sources = [s for s in self.frame.scope.sources if s.addressable and s.bare]
        options: exp.Expr = star
        if isinstance(star, exp.Column):
            options = star.this
            alias = star.args["table"].name
            found = self.frame.scope.source(alias)
            if found is None and self._fields(star):
                return
            if found is None:
                names = [s.alias for s in sources]
                raise self.context.fail(
                    "B2004", f"`{alias}` is not a table of this query", star, did_you_mean(alias, names)
                )
            sources = [found]
        elif not sources:
            raise self.context.fail("B3041", "`*` needs a FROM", star)
        excluded = {e.name.casefold() for e in options.args.get("except_") or ()}
        self._check_named(excluded, "EXCEPT", sources, options)
        renamed = {a.this.name.casefold(): a.alias for a in options.args.get("rename") or ()}
        self._check_named(set(renamed), "RENAME", sources, options)
        replaced = {a.alias.casefold(): a for a in options.args.get("replace") or ()}
        self._check_named(set(replaced), "REPLACE", sources, options)
        scope = self.frame.scope
        columns = scope.columns_of(sources[0]) if isinstance(star, exp.Column) else scope.all_columns()
        for c in self._at_place([*self._of_parent(sources), *columns], star):
            name = c.name.casefold()
            if name in excluded:
                continue
            value: Expr = column(c.internal)
            if name in replaced:
                value = Resolver(self.frame).resolve(replaced[name].this)
            self.outputs.append(Output(value, star, renamed.get(name, c.name), c.doc))

    def _of_parent(self, sources: Sequence[FromItem]) -> list[SourceColumn]:
        """Return the parent's key for `*` of a nested table, to identify the parent row. It is not added if a path
        already joins the parent."""
        relation = sources[0].relation
        if len(self.frame.scope.sources) > 1 or relation is None or relation.parent is None or not sources[0].is_named:
            return []
        known = {c.name: c for c in sources[0].columns}
        return [replace(known[own], name=name, hidden=False) for name, own in parent_columns(relation)]

    def _at_place(self, columns: list[SourceColumn], star: exp.Expr) -> list[SourceColumn]:
        """Return all columns, or the one at a given number."""
        place = star.meta.get(PLACE)
        if place is None:
            return columns
        if not 1 <= place <= len(columns):
            found = counted(len(columns), "column")
            raise self.context.fail(
                "B3042",
                "there is no column of this number before AGGREGATE",
                star,
                f"there {'is' if len(columns) == 1 else 'are'} {found}",
            )
        return [columns[place - 1]]

    def _fields(self, star: exp.Column) -> bool:
        """Add the fields of a struct for `s.*`; return whether `s` is a struct."""
        path = [p.copy() for p in (*star.parts[:-1],) if isinstance(p, exp.Identifier)]
        try:
            value = Resolver(self.frame).resolve(exp.column(*reversed(path)))
            type_ = self.frame.inference().type(value)
        except BelvedereError:
            return False
        if not pa.types.is_struct(type_) or any(star.this.args.values()):
            return False
        for field in type_:
            part = exp.Dot(
                this=exp.paren(value.copy(), copy=False), expression=exp.to_identifier(field.name, quoted=True)
            )
            self.outputs.append(Output(part, star, field.name))
        return True

    def _check_named(self, named: set[str], word: str, sources: Sequence[FromItem], star: exp.Expr) -> None:
        names = [*(c.name for c in self._of_parent(sources)), *(n for s in sources for n in s.names)]
        for name in named - {n.casefold() for n in names}:
            raise self.context.fail(
                "B2002", f"column `{name}` of {word} is not defined", star, did_you_mean(name, names)
            )

    def _generator(self, written: exp.Expr) -> None:
        call = written.this if isinstance(written, (exp.Alias, exp.Aliases)) else written
        found = generator_call(call)
        assert found is not None
        if any(isinstance(n, Unnest) and n not in self._unnested for n in self.frame.plan.walk()):
            raise self.context.fail("B3047", "one SELECT unnests once", written, "use LATERAL VIEW for the others")
        name, argument, outer = found
        expr = Resolver(self.frame).resolve(argument)
        names = [written.alias] if isinstance(written, exp.Alias) else []
        if isinstance(written, exp.Aliases):
            names = [i.name for i in written.expressions]
        source = unnest(self.frame, name, expr, name, names, outer=outer, node=written)
        for c in source.columns:
            if not c.hidden:
                self.outputs.append(Output(column(c.internal), written, c.name))

    def _order(self, ordered: exp.Expr) -> Expr:
        written = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        position = ordinal(written)
        if position is not None:
            return self.at(position, written).expr
        return Resolver(self.frame, first=self._output_first).resolve(written)

    def _output_first(self, node: exp.Column) -> Expr | None:
        if len(node.parts) > 1:
            return None
        found = find_named(self.outputs, node.name)
        return found.expr.copy() if found is not None else None

    def at(self, position: int, written: exp.Expr) -> Output:
        """Return the output at a position."""
        if not 1 <= position <= len(self.outputs):
            raise self.context.fail(
                "B3042",
                f"there is no output column {position}",
                written,
                f"it has {counted(len(self.outputs), 'column')}",
            )
        return self.outputs[position - 1]


def number_repeated(outputs: Sequence[Output], context: StatementContext) -> None:
    """Number columns of `*` whose name an earlier output has, as Flink does: `id`, `id0`, `id1`; report a notice
    (B3050)."""
    taken = {o.name.casefold() for o in outputs}
    seen: set[str] = set()
    renamed: dict[int, tuple[Output, list[str]]] = {}
    for output in outputs:
        if output.name.casefold() in seen and output.written.is_star:
            before, n = output.name, 0
            while f"{before}{n}".casefold() in taken:
                n += 1
            output.name = f"{before}{n}"
            taken.add(output.name.casefold())
            renamed.setdefault(id(output.written), (output, []))[1].append(f"`{before}` is `{output.name}`")
        seen.add(output.name.casefold())
    for output, names in renamed.values():
        hint = "join with USING, leave one out with `* EXCEPT (...)`, or name the columns"
        message = f"columns of `*` with equal names are numbered: {', '.join(names)}"
        context.notice("B3050", message, output.written, hint)


def sort_keys(query: exp.Query, outputs: int) -> list[exp.Expr]:
    """Return the ORDER BY expressions of a query; `ORDER BY ALL` becomes the numbers of all its outputs."""
    order = query.args.get("order")
    written: list[exp.Expr] = order.expressions if order is not None else []
    if len(written) != 1 or not isinstance(written[0].this, exp.Var) or written[0].this.name.upper() != "ALL":
        return written
    keys = []
    for number in range(1, outputs + 1):
        key = written[0].copy()
        key.set("this", exp.Literal.number(number))
        keys.append(key)
    return keys


def ordinal(written: exp.Expr) -> int | None:
    """Return the number of an output column if ORDER BY or GROUP BY has an integer literal. Negative ones are not
    numbers."""
    if isinstance(written, exp.Neg) and isinstance(written.this, exp.Literal):
        number = ordinal(written.this)
        return None if number is None else -number
    if isinstance(written, exp.Literal) and not written.is_string and str(written.this).isdigit():
        return int(written.this)
    return None


def make_order(ordered: exp.Expr, expr: Expr) -> Order:
    """Return a sort key with the direction as written; NULLs are placed as written or by Spark's default."""
    if not isinstance(ordered, exp.Ordered):
        return Order(expr)
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return Order(expr, descending, bool(nulls_first) if nulls_first is not None else None)


def limits(query: exp.Query, context: StatementContext) -> tuple[int | None, int]:
    """Return LIMIT and OFFSET as numbers."""
    found: list[int | None] = []
    for key in ("limit", "offset"):
        clause = query.args.get(key)
        value = _count(clause)
        if value is not None and value.find(exp.Binary, exp.Anonymous) is not None:
            value = simplify(value.copy().transform(without_plus))  # `LIMIT 2 * 3`
        if value is None or (isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "ALL"):
            found.append(None)
        elif isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
            found.append(int(value.this))
        elif key == "limit" and limit_parameter(query, context):
            found.append(None)
        else:
            raise context.fail(
                "B3046", f"{key.upper()} takes a whole number", value, "clients pass limit and offset to the API"
            )
    return found[0], found[1] or 0


def limit_parameter(query: exp.Query, context: StatementContext) -> str:
    """Return the parameter `n` of `LIMIT :n`, in a query computed at request time; else an empty text."""
    value = _count(query.args.get("limit"))
    if not context.is_read or not isinstance(value, (exp.Placeholder, exp.Parameter)):
        return ""
    name = parameter_name(value)
    check_limit(name, context.parameters, span_of(value, context.file), f"Q({name} INT) := ... LIMIT :{name}")
    return name


def check_limit(name: str, parameters: Mapping[str, t.Typed], place: Span, declaration: str) -> None:
    """Raise B3004 or B3046 if the parameter of LIMIT is not declared, or is not an integer."""
    if name not in parameters:
        raise fail("B3004", f"parameter `{name}` has no type", span=place, hint=f"declare it: `{declaration}`")
    if not t.is_integer(parameters[name].type):
        message = f"LIMIT takes a whole number, and `{name}` is {t.a_type(parameters[name].type)}"
        raise fail("B3046", message, span=place, hint=f"declare it: `{name} INT`")


def _count(clause: exp.Expr | None) -> exp.Expr | None:
    """Return the number in LIMIT and OFFSET; FETCH FIRST ROW ONLY means one row."""
    if isinstance(clause, exp.Fetch):
        count: exp.Expr = clause.args.get("count") or exp.Literal.number(1)
        return count
    return clause.expression if clause is not None else None


def as_defined(name: str, resolved: Expr) -> str:
    """Return the name of a plain column in the spelling of its definition, regardless of case."""
    tail = resolved.name[-len(name) :] if isinstance(resolved, exp.Column) else name
    return tail if tail.casefold() == name.casefold() else name


def output_name(written: exp.Expr) -> str:
    """Return the name of a select item: its alias, its column's name, or one derived from its expression (`max(temp)`
    is `max_temp`)."""
    if isinstance(written, exp.Alias):
        return written.alias
    if isinstance(written, (exp.Column, exp.Dot)):
        return written.name or written.expression.name
    if isinstance(written, exp.Paren):
        return output_name(written.this)
    if "called" in written.meta:
        return str(written.meta["called"])
    return text_name(written)
