"""One SELECT -> a plan.

In: a select as written, and the scope around it if it is a subquery. Out: `Inner`: the plan, its outputs and what links it to the
outer row. The order of work is SQL's: FROM, WHERE, GROUP BY, HAVING, window functions, QUALIFY, select list, DISTINCT, ORDER BY.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.lang import types as t
from belvedere.lang.aggregates import is_window_function, unwrap_aggregate
from belvedere.lang.frame import Context, Frame
from belvedere.lang.grouping import Grouping, contains_aggregate, grouping_sets, over_nothing
from belvedere.lang.lower_from import generator_call, lower_from, unnest
from belvedere.lang.names import did_you_mean
from belvedere.lang.resolve import Resolver, unwrap_query
from belvedere.lang.scope import Scope, Source
from belvedere.lang.subqueries import (
    Inner,
    Pending,
    Totals,
    attach_all,
    keep_where_exists,
    keep_where_in,
    keep_where_in_all,
    keep_where_not_in,
    needs_domain,
    reads_outer,
)
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts
from belvedere.plan.nodes import Distinct, Expr, Filter, Item, Node, Order, Project, TopK, Unnest, Window
from belvedere.plan.push import push_conditions


@dataclass
class Output:
    """One select item on its way."""

    name: str
    expr: Expr
    written: exp.Expr
    doc: str | None = None


class SelectLowering:
    """The state of one SELECT while it is lowered."""

    def __init__(
        self,
        select: exp.Select,
        context: Context,
        outer: Scope | None = None,
        *,
        domain: Node | None = None,
        sources: Sequence[Source] = (),
        implied: Sequence[Item] = (),
    ):
        self.select = select
        self.context = context
        self.frame = Frame(context, outer)
        self.frame.scope.sources += sources
        self.domain = domain
        if domain is not None:
            self.frame.plan = domain
        self.implied = list(implied)
        self.pending: list[Pending] = []
        self.correlated: list[Expr] = []
        self.pairs: list[tuple[Expr, str, bool]] = []
        self.residual: list[Expr] = []
        self.outputs: list[Output] = []
        self.orders: list[tuple[Order, exp.Expr]] = []
        self.grouping: Grouping | None = None
        self.havings: list[tuple[Expr, exp.Expr]] = []
        self.qualifies: list[tuple[Expr, exp.Expr]] = []

    def lower(self, *, named: bool) -> Inner:
        """The whole select. `named`: outputs keep their names; else they get names that no other query has."""
        self._refuse()
        self.correlated += lower_from(self.frame, self.select)
        self.frame.settled = True
        self._where()
        self.frame.plan = push_conditions(self.frame.plan)
        self._link()
        self._select_items()
        self._order_items()
        self._group()
        self._attach()
        self._windows()
        return self._finish(named=named)

    def _refuse(self) -> None:
        for key, word in (
            ("connect", "CONNECT BY"),
            ("cluster", "CLUSTER BY"),
            ("sort", "SORT BY"),
            ("distribute", "DISTRIBUTE BY"),
        ):
            if self.select.args.get(key):
                raise self.context.fail("B3040", f"{word} is not supported", self.select, "write ORDER BY ... LIMIT")
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            hint = "write `V := DISTINCT T ON key ORDER BY ...`, or QUALIFY row_number() OVER (...) = 1"
            raise self.context.fail("B3040", "SELECT DISTINCT ON is not supported", self.select, hint)

    # -- WHERE --------------------------------------------------------------------------------------------------------

    def _where(self) -> None:
        where = self.select.args.get("where")
        for part in conjuncts(where.this if where is not None else None):
            if contains_aggregate(part):
                raise self.context.fail("B3031", "an aggregate cannot stand in WHERE", part, "write HAVING")
            if not self._subquery_condition(part):
                self._condition(part)

    def _condition(self, part: exp.Expr) -> None:
        resolver = Resolver(self.frame, self._alias_before_items)
        condition = resolver.resolve(part)
        typed = self.frame.inference().typed(condition)
        if typed.type not in (pa.bool_(), pa.null()):
            raise self.context.fail("B3002", f"a condition is needed here, not {t.a_type(typed.type)}", part)
        self.frame.plan, condition = attach_all(self.frame.plan, condition, resolver.pending)
        if self.frame.is_outer(condition):
            self.correlated.append(condition)
        else:
            self.frame.plan = Filter(self.frame.plan, condition)

    def _alias_before_items(self, node: exp.Column) -> Expr | None:
        """An alias of the select list where a condition names it (the paper's WHERE after GROUP BY does)."""
        for item in self.select.expressions:
            if (
                isinstance(item, exp.Alias)
                and item.alias.casefold() == node.name.casefold()
                and not contains_aggregate(item.this)
            ):
                return Resolver(self.frame).resolve(item.this)
        return None

    def _subquery_condition(self, part: exp.Expr) -> bool:
        """EXISTS and IN that stand alone become semi and anti joins."""
        negated = isinstance(part, exp.Not)
        inner_part = part.this.unnest() if negated else part
        lower = self.context.lower_select
        if isinstance(inner_part, exp.Exists) and isinstance(inner_part.this, exp.Query):
            inner = lower(unwrap_query(inner_part.this), self.context, self.frame.scope)
            if needs_domain(inner) or self._links_out(inner) or (inner.totals is not None and inner.conditional):
                return False
            keep_where_exists(self.frame, inner, negated=negated)
            return True
        if isinstance(inner_part, exp.In) and inner_part.args.get("query") is not None:
            if isinstance(inner_part.this.unnest(), exp.Tuple) or isinstance(inner_part.this, exp.Tuple):
                return self._tuple_in(inner_part, negated=negated)
            inner = lower(unwrap_query(inner_part.args["query"]), self.context, self.frame.scope)
            operand = Resolver(self.frame).resolve(inner_part.this)
            if len(inner.outputs) != 1 or inner.total is not None or needs_domain(inner) or self._links_out(inner):
                return False
            if self.frame.is_outer(operand) or not columns_of(operand) <= set(self.frame.plan.schema.names):
                return False
            self.frame.inference().typed(operand)
            self._comparable(operand, inner, inner_part)
            (keep_where_not_in if negated else keep_where_in)(self.frame, inner, operand)
            return True
        return False

    def _tuple_in(self, part: exp.In, *, negated: bool) -> bool:
        """`(a, b) IN (SELECT ...)`: a semi join on all of them."""
        operands = [Resolver(self.frame).resolve(e) for e in part.this.expressions]
        inner = self.context.lower_select(unwrap_query(part.args["query"]), self.context, self.frame.scope)
        if negated or len(operands) != len(inner.outputs) or needs_domain(inner) or self._links_out(inner):
            raise self.context.fail(
                "B3014", "this comparison with a subquery is not supported", part, "write EXISTS or NOT EXISTS"
            )
        for operand, output in zip(operands, inner.outputs, strict=True):
            self.frame.inference().typed(exp.EQ(this=operand, expression=operand.copy()))
            if not t.same_kind(self.frame.inference().type(operand), output.type):
                raise self.context.fail("B3002", "the types of this comparison do not fit", part, "CAST one side")
        keep_where_in_all(self.frame, inner, operands)
        return True

    def _comparable(self, operand: Expr, inner: Inner, written: exp.Expr) -> None:
        left, right = self.frame.inference().type(operand), inner.outputs[0].type
        if not t.same_kind(left, right):
            message = f"{t.a_type(left)} cannot be compared with {t.a_type(right)}"
            raise self.context.fail("B3002", message, written, "CAST one side to the type of the other")

    def _links_out(self, inner: Inner) -> bool:
        """Whether the subquery reads columns that are not of this frame's plan."""
        return not set(inner.used) <= set(self.frame.plan.schema.names)

    # -- links to the outer row ---------------------------------------------------------------------------------------

    def _link(self) -> None:
        for item in self.implied:
            self.pairs.append((exp.Null(), item.name, True))
        if self.domain is not None and not self.implied and self.frame.scope.outer is not None:
            self._link_domain()
        for part in self.correlated:
            pair = self._pair(part)
            if pair is None:
                self.residual.append(part)
                continue
            own, outer = pair
            if isinstance(own, exp.Column):
                item = self.frame.item(self.context.names.fresh("link"), own)
            else:
                item = self.frame.item(self.context.names.fresh("link"), own)
            self.implied.append(item)
            self.pairs.append((outer, item.name, False))

    def _link_domain(self) -> None:
        assert self.domain is not None
        for c in self.domain.schema:
            name = self.context.names.fresh("link")
            self.implied.append(Item(name, column(c.name), c.type, c.nullable))
            self.pairs.append((column(c.name), name, True))

    def _pair(self, part: Expr) -> tuple[Expr, Expr] | None:
        """(own side, outer side) of an equality that links this query to the outer row."""
        if isinstance(part, exp.Paren):
            return self._pair(part.this)
        if not isinstance(part, exp.EQ):
            return None
        own = set(self.frame.plan.schema.names)
        for a, b in ((part.this, part.expression), (part.expression, part.this)):
            if columns_of(a) <= own and columns_of(a) and columns_of(b) and not columns_of(b) & own:
                return a, b
        return None

    # -- select list --------------------------------------------------------------------------------------------------

    def _select_items(self) -> None:
        self._unnested = [n for n in self.frame.plan.walk() if isinstance(n, Unnest)]
        for written in self.select.expressions:
            bare = written.unalias() if isinstance(written, exp.Alias) else written
            if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
                self._star(bare)
            elif generator_call(written.this if isinstance(written, (exp.Alias, exp.Aliases)) else written) is not None:
                self._generator(written)
            else:
                resolver = Resolver(self.frame, self._earlier_alias)
                resolver.pending = self.pending
                resolved = resolver.resolve(bare)
                name = output_name(written)
                self.outputs.append(Output(name if bare is not written else as_defined(name, resolved), resolved, written))

    def _earlier_alias(self, node: exp.Column) -> Expr | None:
        found = next((o for o in self.outputs if o.name.casefold() == node.name.casefold()), None)
        return exp.paren(found.expr.copy(), copy=False) if found is not None and isinstance(found.written, exp.Alias) else None

    def _star(self, star: exp.Expr) -> None:
        sources = [s for s in self.frame.scope.sources if s.addressable and s.bare]
        options: exp.Expr = star
        if isinstance(star, exp.Column):
            options = star.this
            alias = star.args["table"].name
            found = self.frame.scope.source(alias)
            if found is None:
                names = [s.alias for s in sources]
                raise self.context.fail("B2004", f"`{alias}` is not a table of this query", star, did_you_mean(alias, names))
            sources = [found]
        elif not sources:
            raise self.context.fail("B3041", "`*` needs a FROM", star)
        excluded = {e.name.casefold() for e in options.args.get("except_") or ()}
        self._check_excluded(excluded, sources, options)
        merged = self.frame.scope.merged if not isinstance(star, exp.Column) else {}
        for c in merged.values():
            if c.name.casefold() not in excluded:
                self.outputs.append(Output(c.name, column(c.internal), star, c.doc))
        for c in (c for s in sources for c in s.columns):
            if not c.hidden and c.name.casefold() not in excluded and c.name.casefold() not in merged:
                self.outputs.append(Output(c.name, column(c.internal), star, c.doc))

    def _check_excluded(self, excluded: set[str], sources: Sequence[Source], star: exp.Expr) -> None:
        names = [n for s in sources for n in s.names]
        for name in excluded - {n.casefold() for n in names}:
            raise self.context.fail("B2002", f"column `{name}` of EXCEPT is not defined", star, did_you_mean(name, names))

    def _generator(self, written: exp.Expr) -> None:
        call = written.this if isinstance(written, (exp.Alias, exp.Aliases)) else written
        found = generator_call(call)
        assert found is not None
        if any(isinstance(n, Unnest) and n not in self._unnested for n in self.frame.plan.walk()):
            raise self.context.fail("B3047", "one SELECT unnests once", written, "use LATERAL VIEW for the others")
        name, argument, outer = found
        resolver = Resolver(self.frame)
        expr = resolver.resolve(argument)
        names = [written.alias] if isinstance(written, exp.Alias) else []
        if isinstance(written, exp.Aliases):
            names = [i.name for i in written.expressions]
        source = unnest(self.frame, name, expr, name, names, outer=outer, node=written)
        for c in source.columns:
            if not c.hidden:
                self.outputs.append(Output(c.name, column(c.internal), written))

    def _order_items(self) -> None:
        order = self.select.args.get("order")
        for ordered in order.expressions if order is not None else ():
            self.orders.append((self._order(ordered), ordered))

    def _order(self, ordered: exp.Expr) -> Order:
        written = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        position = ordinal(written)
        if position is not None:
            expr = self._output_at(position, written).expr
        else:
            resolver = Resolver(self.frame, first=self._output_first)
            resolver.pending = self.pending
            expr = resolver.resolve(written)
        return make_order(ordered, expr)

    def _output_first(self, node: exp.Column) -> Expr | None:
        if len(node.parts) > 1:
            return None
        found = next((o for o in self.outputs if o.name.casefold() == node.name.casefold()), None)
        return found.expr.copy() if found is not None else None

    def _output_at(self, position: int, written: exp.Expr) -> Output:
        if not 1 <= position <= len(self.outputs):
            raise self.context.fail("B3042", f"there is no output column {position}", written, f"there are {len(self.outputs)}")
        return self.outputs[position - 1]

    # -- GROUP BY and HAVING ------------------------------------------------------------------------------------------

    def _group(self) -> None:
        group, having = self.select.args.get("group"), self.select.args.get("having")
        qualify = self.select.args.get("qualify")
        self.qualifies = [(self._late(p), p) for p in conjuncts(qualify.this if qualify is not None else None)]
        exprs = [o.expr for o in self.outputs] + [o.expr for o, _ in self.orders] + [q for q, _ in self.qualifies]
        if group is None and having is None and not any(contains_aggregate(e) for e in exprs):
            return
        keys, sets = self._keys(group)
        self.grouping = Grouping(self.frame, [*self.implied, *keys], sets, fixed=len(self.implied))
        self.havings = [(self._late(p), p) for p in conjuncts(having.this if having is not None else None)]
        self._rewrite_all()
        for item in (*self.grouping.keys, *self.grouping.aggregates):
            self.frame.inference().typed(item.expr)
        self.frame.plan = self.grouping.node()
        self.implied = [Item(i.name, column(i.name), i.type, i.nullable) for i in self.implied]

    def _late(self, part: exp.Expr) -> Expr:
        """HAVING and QUALIFY may name aliases of the select list."""
        resolver = Resolver(self.frame, self._earlier_alias)
        resolver.pending = self.pending
        return resolver.resolve(part)

    def _rewrite_all(self) -> None:
        assert self.grouping is not None
        lift = self.grouping.lift
        for output in self.outputs:
            output.expr = lift(output.expr, output.written)
        self.orders = [(Order(lift(o.expr, w), o.descending, o.nulls_first), w) for o, w in self.orders]
        self.havings = [(lift(e, w), w) for e, w in self.havings]
        self.qualifies = [(lift(e, w), w) for e, w in self.qualifies]

    def _keys(self, group: exp.Group | None) -> tuple[list[Item], list[tuple[int, ...]] | None]:
        if group is None:
            return [], None
        if group.args.get("all"):
            exprs = [o.expr for o in self.outputs if not contains_aggregate(o.expr)]
            return [self._key(e, group) for e in dict.fromkeys(exprs)], None
        written, sets = grouping_sets(group, lambda _: 0)
        if sets is not None and len({frozenset(s) for s in sets}) < len(sets):
            hint = "leave one out, or write UNION ALL"
            raise self.context.fail("B3037", "a grouping set stands twice", group, hint)
        return [self._key(self._key_expression(w), w) for w in written], sets

    def _key_expression(self, written: exp.Expr) -> Expr:
        position = ordinal(written)
        if position is not None:
            return self._output_at(position, written).expr.copy()
        return Resolver(self.frame, self._earlier_alias).resolve(written)

    def _key(self, expr: Expr, written: exp.Expr) -> Item:
        expr = expr.unnest()
        if contains_aggregate(expr):
            raise self.context.fail("B3035", "an aggregate cannot be grouped by", written, "group by it in an outer query")
        name = expr.name if isinstance(expr, exp.Column) else self.context.names.fresh("group")
        if any(i.name == name for i in self.implied):
            name = self.context.names.fresh("group")
        self.pending_free(expr, written)
        return self.frame.item(name, expr)

    def pending_free(self, expr: Expr, written: exp.Expr) -> None:
        """Grouping by a subquery's value needs a query of its own."""
        from belvedere.lang.infer import SubqueryValue

        if expr.find(SubqueryValue) is not None:
            raise self.context.fail(
                "B3033", "a subquery cannot be grouped by", written, "select it in a subquery of FROM first"
            )

    # -- subqueries, windows ------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        for output in self.outputs:
            output.expr = self._joined(output.expr)
        self.havings = [(self._joined(e), w) for e, w in self.havings]
        self.unfiltered = self.frame.plan
        for condition, _ in self.havings:
            self.frame.filter(condition)
        self.qualifies = [(self._joined(e), w) for e, w in self.qualifies]
        self.orders = [(Order(self._joined(o.expr), o.descending, o.nulls_first), w) for o, w in self.orders]

    def _joined(self, expr: Expr) -> Expr:
        self.frame.plan, result = attach_all(self.frame.plan, expr, self.pending)
        return result

    def _windows(self) -> None:
        items: list[Item] = []
        for output in self.outputs:
            output.expr = self._without_windows(output.expr, output.written, items)
        self.orders = [(Order(self._without_windows(o.expr, w, items), o.descending, o.nulls_first), w) for o, w in self.orders]
        self.qualifies = [(self._without_windows(e, w, items), w) for e, w in self.qualifies]
        if items:
            self.frame.plan = Window(self.frame.plan, tuple(items))
        for condition, _ in self.qualifies:
            self.frame.filter(condition)

    def _without_windows(self, expr: Expr, written: exp.Expr, items: list[Item]) -> Expr:
        if isinstance(expr, exp.Window):
            return self._window(expr, written, items)
        if is_window_function(unwrap_aggregate(expr)):
            raise self.context.fail(
                "B3036", "a window function needs OVER", written, "write `OVER (PARTITION BY ... ORDER BY ...)`"
            )
        copied = expr.copy()
        for key, value in list(copied.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, (exp.Identifier, exp.DataType)):
                copied.set(key, self._without_windows(value.copy(), written, items))
            elif isinstance(value, list):
                parts = [self._without_windows(v.copy(), written, items) if isinstance(v, exp.Expr) else v for v in value]
                copied.set(key, parts)
        return copied

    def _window(self, expr: exp.Window, written: exp.Expr, items: list[Item]) -> Expr:
        window = self._named_window(expr, written)
        if self.implied:
            window.set("partition_by", [*(i.expr.copy() for i in self.implied), *(window.args.get("partition_by") or ())])
        for item in items:
            if item.expr == window:
                return column(item.name)
        items.append(self.frame.item(self.context.names.fresh("window"), window))
        return column(items[-1].name)

    def _named_window(self, expr: exp.Window, written: exp.Expr) -> exp.Window:
        window = expr.copy()
        name = window.args.get("alias")
        if name is None:
            return window
        found = next((w for w in self.select.args.get("windows") or () if w.name.casefold() == name.name.casefold()), None)
        if found is None:
            raise self.context.fail("B2006", f"window `{name.name}` is not defined", written)
        for key in ("partition_by", "order", "spec"):
            value = found.args.get(key)
            if isinstance(value, list):
                window.set(key, [Resolver(self.frame).resolve(v) for v in value])
            elif value is not None:
                window.set(key, Resolver(self.frame).resolve(value))
        window.set("alias", None)
        return window

    # -- the top ------------------------------------------------------------------------------------------------------

    def _finish(self, *, named: bool) -> Inner:
        prefix = "" if named else self.context.names.fresh("value") + "."
        items = self._items(prefix)
        totals = self._totals(items)
        total = totals.only if totals is not None else None
        limit, offset = limits(self.select, self.context)
        distinct = self.select.args.get("distinct") is not None
        partition = tuple(i.name for i in self.implied)
        below = not distinct
        links = tuple(Item(i.name, i.expr, i.type, i.nullable, hidden=True) for i in self.implied)
        if below and self._is_top(limit, offset, named=named):
            if links:
                self.frame.plan = _extended(self.frame.plan, links)
                links = tuple(Item(i.name, column(i.name), i.type, i.nullable, hidden=True) for i in links)
            self.frame.plan = TopK(self.frame.plan, tuple(o for o, _ in self.orders), limit, offset, partition)
        plan: Node = Project(self.frame.plan, (*items, *links, *self._residual_items(items)))
        if distinct:
            plan = Distinct(plan)
            if self._is_top(limit, offset, named=named):
                plan = TopK(plan, self._orders_over(items), limit, offset, partition)
        outputs = tuple(Item(i.name, column(i.name), i.type, i.nullable, doc=i.doc) for i in items)
        single = totals is not None or limit == 1 or _at_most_one(plan, partition)
        used = dict(self.frame.scope.used)
        grouped = self.grouping is not None or distinct or limit is not None or bool(offset) or self._has_windows()
        beyond = reads_outer(plan, used) or (totals is not None and reads_outer(totals.plan, used))
        linked = tuple(self.pairs), tuple(self.residual)
        return Inner(plan, outputs, *linked, used, single, total, bool(self.havings), grouped, beyond, totals)

    def _has_windows(self) -> bool:
        return any(isinstance(n, Window) for n in self.frame.plan.walk())

    def _is_top(self, limit: int | None, offset: int, *, named: bool) -> bool:
        return limit is not None or bool(offset) or (named and bool(self.orders))

    def _items(self, prefix: str) -> tuple[Item, ...]:
        seen: dict[str, exp.Expr] = {}
        items = []
        for output in self.outputs:
            folded = output.name.casefold()
            if folded in seen:
                hint = "give one of them another name with AS"
                raise self.context.fail("B3043", f"two output columns are called `{output.name}`", output.written, hint)
            seen[folded] = output.written
            items.append(self.frame.item(prefix + output.name, output.expr, doc=output.doc))
        return tuple(items)

    def _totals(self, items: tuple[Item, ...]) -> Totals | None:
        """An aggregate without GROUP BY: each output also where no row links, and whether it has a row at all."""
        grouping = self.grouping
        if grouping is None or self.select.args.get("group") is not None:
            return None
        if self.havings and not self.pairs:
            return None
        limit, offset = limits(self.select, self.context)
        if limit == 0 or offset or self.select.args.get("distinct") is not None or self._has_windows():
            return None
        values = (over_nothing(i.expr, grouping.aggregates) if self.pairs else i.expr for i in items)
        having = conjunction([over_nothing(c, grouping.aggregates) for c, _ in self.havings])
        return Totals(self.unfiltered, tuple(values), having)

    def _residual_items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """The own columns that conditions on the outer row still need."""
        if self.grouping is not None:
            return ()
        own = self.frame.plan.schema
        needed = sorted({n for r in self.residual for n in columns_of(r) if n in own.names} - {i.name for i in items})
        return tuple(Item(n, column(n), own[n].type, own[n].nullable, hidden=True) for n in needed)

    def _orders_over(self, items: tuple[Item, ...]) -> tuple[Order, ...]:
        """With DISTINCT the order is over output columns."""
        orders = []
        for order, written in self.orders:
            found = next((i for i in items if i.expr == order.expr), None)
            if found is None:
                raise self.context.fail("B3045", "with DISTINCT, ORDER BY takes output columns only", written, "select it too")
            orders.append(Order(column(found.name), order.descending, order.nulls_first))
        return tuple(orders)


def _extended(plan: Node, items: Sequence[Item]) -> Node:
    kept = tuple(Item(c.name, column(c.name), c.type, c.nullable, c.hidden, c.doc) for c in plan.schema)
    names = set(plan.schema.names)
    return Project(plan, (*kept, *(i for i in items if i.name not in names)))


def _at_most_one(plan: Node, links: Sequence[str]) -> bool:
    key = plan.schema.key
    return key is not None and set(key) <= set(links)


def ordinal(written: exp.Expr) -> int | None:
    """The number of an output column, where ORDER BY or GROUP BY says a whole number."""
    if isinstance(written, exp.Literal) and not written.is_string and str(written.this).isdigit():
        return int(written.this)
    return None


def make_order(ordered: exp.Expr, expr: Expr) -> Order:
    """A sort key with the direction that was written; NULLs where it says or where Spark puts them."""
    if not isinstance(ordered, exp.Ordered):
        return Order(expr)
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return Order(expr, descending, bool(nulls_first) if nulls_first is not None else None)


def limits(query: exp.Query, context: Context) -> tuple[int | None, int]:
    """LIMIT and OFFSET as numbers."""
    found: list[int | None] = []
    for key in ("limit", "offset"):
        clause = query.args.get(key)
        value = clause.expression if clause is not None else None
        if value is None or (isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "ALL"):
            found.append(None)
        elif isinstance(value, exp.Literal) and str(value.this).isdigit():
            found.append(int(value.this))
        else:
            raise context.fail("B3046", f"{key.upper()} takes a whole number", value, "the API has limit and offset of its own")
    return found[0], found[1] or 0


def as_defined(name: str, resolved: Expr) -> str:
    """The name of a plain column in the spelling of its definition, whatever its case where it is used."""
    tail = resolved.name[-len(name) :] if isinstance(resolved, exp.Column) else name
    return tail if tail.casefold() == name.casefold() else name


def output_name(written: exp.Expr) -> str:
    """The name of a select item: its alias, its column's name, or one made of what it says (`max(temp)` is `max_temp`)."""
    if isinstance(written, exp.Alias):
        return written.alias
    if isinstance(written, (exp.Column, exp.Dot)):
        return written.name or written.expression.name
    if isinstance(written, exp.Paren):
        return output_name(written.this)
    text = re.sub(r"\W+", "_", written.sql("spark").replace("`", "")).strip("_").lower()
    return text[:60].strip("_") or "column"


__all__ = ["Output", "SelectLowering", "conjunction", "limits", "make_order", "ordinal", "output_name"]
