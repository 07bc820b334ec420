"""One SELECT -> a plan.

In: a select as written, and the scope around it if it is a subquery. Out: `Inner`: the plan, its outputs and its
correlation with the outer row. The order of work is SQL's: FROM, WHERE, GROUP BY, HAVING, window functions, QUALIFY,
select list, DISTINCT, ORDER BY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.functions.function_table import is_aggregate, unwrap_aggregate
from belvedere.lang.names.resolve import BARE, Resolver
from belvedere.lang.names.scope import REPEATED, SAME, FromItem, Scope
from belvedere.lang.relationships.local_aggregates import expand_local_aggregates
from belvedere.lang.select.from_clause import lower_from
from belvedere.lang.select.grouping import Grouping, contains_aggregate, ends_of_starts, grouping_sets, over_nothing
from belvedere.lang.select.query_frame import Frame, StatementContext
from belvedere.lang.select.select_list import Clause, SelectItems, limit_parameter, limits, number_repeated, ordinal
from belvedere.lang.select.subqueries import Inner, Totals, attach_all, attach_same, reads_outer
from belvedere.lang.select.where_clause import apply_where
from belvedere.lang.select.window_functions import WindowFunctions
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts, map_operands
from belvedere.plan.operators.nodes import Distinct, Expr, Item, Node, Order, Project, TopK, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.push_conditions import push_conditions
from belvedere.schema import find_named
from belvedere.syntax.query_tree import PLACE


class SelectLowering:
    """State of one SELECT while it is lowered."""

    def __init__(
        self,
        select: exp.Select,
        context: StatementContext,
        outer: Scope | None = None,
        *,
        domain: Node | None = None,
        sources: Sequence[FromItem] = (),
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
        self.items = SelectItems(select, self.frame)
        self.frame.scope.named = tuple(item.alias for item in select.expressions if isinstance(item, exp.Alias))
        self.outputs = self.items.outputs
        self.correlated: list[Expr] = []
        self.pairs: list[tuple[Expr, str, bool]] = []
        self.residual: list[Expr] = []
        self.orders = self.items.orders
        self.grouping: Grouping | None = None
        self.one_group = False
        """Whether its only group keys are the columns correlated with the outer row."""
        self.havings: list[Clause] = []
        self.qualifies: list[Clause] = []

    def lower(self, *, named: bool) -> Inner:
        """Lower the whole select. With `named` outputs keep their names; otherwise they get names that no other query
        has."""
        self._from()
        expand_local_aggregates(self.select, self.context, self.frame.scope)
        self.frame.final = True
        self._partitions()
        self.correlated += apply_where(self.frame, self.select)
        self.frame.plan = push_conditions(self.frame.plan)
        self._link()
        self.items.read()
        if named or self.select.args.get("limit"):
            self.orders += self._order_of_view()
        self._group()
        self._attach()
        self._windows()
        return self._finish(named=named)

    def _partitions(self) -> None:
        """Reject SORT BY and similar clauses with a limit, which would return arbitrary rows. Otherwise report that
        they have no effect."""
        for key in ("sort", "distribute", "cluster"):
            clause = self.select.args.get(key)
            if clause is None:
                continue
            hint = "write ORDER BY, which is the order of the endpoint"
            if self.select.args.get("limit") or self.select.args.get("offset"):
                raise self.context.fail("B3061", f"LIMIT with {key.upper()} BY returns arbitrary rows", clause, hint)
            self.context.notice("B3061", f"{key.upper()} BY has no effect: a view has no partitions", clause, hint)

    def _from(self) -> None:
        self.correlated += lower_from(self.frame, self.select)

    # -- correlation with the outer row -------------------------------------------------------------------------------

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
            item = self.frame.item(self.context.names.fresh("link"), own)
            self.implied.append(item)
            self.pairs.append((outer, item.name, False))

    def _link_domain(self) -> None:
        assert self.domain is not None
        for c in self.domain.schema:
            name = self.context.names.fresh("link")
            self.implied.append(item_of(c, name, hidden=False))
            self.pairs.append((column(c.name), name, True))

    def _pair(self, part: Expr) -> tuple[Expr, Expr] | None:
        """Return (own side, outer side) of an equality that correlates this query with the outer row."""
        if isinstance(part, exp.Paren):
            return self._pair(part.this)
        if not isinstance(part, exp.EQ):
            return None
        own = set(self.frame.plan.schema.names)
        for a, b in ((part.this, part.expression), (part.expression, part.this)):
            if columns_of(a) <= own and columns_of(a) and columns_of(b) and not columns_of(b) & own:
                return a, b
        return None

    def _order_of_view(self) -> list[Clause]:
        """Return the order of the only view that is read, if the query is read or limited and has no order of
        its own."""
        sources, given = self.frame.scope.sources, self.select.args
        grouped = any(given.get(k) for k in ("group", "having", "distinct")) or any(
            map(contains_aggregate, self.select.expressions)
        )
        asked = self.context.is_read or given.get("limit") is not None
        if (
            self.orders
            or grouped
            or not asked
            or len(sources) != 1
            or sources[0].relation is None
            or self.domain is not None
        ):
            return []
        view = self.context.definitions.views.get(sources[0].relation.id)
        found = [(o, sources[0].find(o.expr.name)) for o in view.order] if view is not None else []
        return [Clause(column(c.internal), _written(o)) for o, c in found if c is not None]

    # -- GROUP BY and HAVING ------------------------------------------------------------------------------------------

    def _group(self) -> None:
        group = self.select.args.get("group")
        self.qualifies = self._late("qualify")
        clauses = (*self.outputs, *self.orders, *self.qualifies)
        if (
            group is None
            and not self.select.args.get("having")
            and not any(contains_aggregate(c.expr) for c in clauses)
        ):
            return
        self.havings = self._late("having")
        keys, sets = self._keys(group)
        grouped = [k.expr.unnest() for k in (*self.implied, *keys)]
        _rewrite(self.havings, lambda expr, _: self._with_outputs(expr, grouped))
        ends = ends_of_starts(self.frame, keys) if sets is None else {}
        keys = [k for k in keys if not isinstance(k.expr, exp.Column) or k.expr.name not in ends]
        whole = not keys and sets is None
        self.one_group = sets is None and bool(keys) and all(any(k.expr == i.expr for i in self.implied) for k in keys)
        self.grouping = Grouping(
            self.frame, [*self.implied, *keys], sets, ends=ends, whole=whole, fixed=len(self.implied)
        )
        _rewrite((*self.outputs, *self.orders, *self.havings, *self.qualifies), self.grouping.lift)
        for item in (*self.grouping.keys, *self.grouping.aggregates):
            self.frame.inference().typed(item.expr)
        self.frame.plan = self.grouping.node()
        self.implied = [item_of(i.column) for i in self.implied]

    def _late(self, key: str) -> list[Clause]:
        """Return the conditions of HAVING or QUALIFY, which may name aliases of the select list."""
        clause = self.select.args.get(key)
        parts = conjuncts(clause.this if clause is not None else None)
        return [Clause(Resolver(self.frame, self.items.earlier_alias).resolve(p), p) for p in parts]

    def _with_outputs(self, expr: Expr, keys: Sequence[Expr]) -> Expr:
        """Return a condition of HAVING with output columns: a column that is neither a key nor aggregated means the
        output of that name, if any."""
        if expr.unnest() in keys or is_aggregate(unwrap_aggregate(expr)):
            return expr
        if not isinstance(expr, exp.Column):
            return map_operands(expr.copy(), lambda e: self._with_outputs(e, keys))
        output = find_named(self.outputs, expr.meta[BARE]) if BARE in expr.meta else None
        return exp.paren(output.expr.copy(), copy=False) if output is not None else expr

    def _keys(self, group: exp.Group | None) -> tuple[list[Item], list[tuple[int, ...]] | None]:
        if group is None:
            return [], None
        if group.args.get("all") and any(group.args.get(k) for k in ("expressions", "rollup", "cube", "grouping_sets")):
            raise self.context.fail("B3040", "GROUP BY ALL with further keys is not supported", group, "name all keys")
        if group.args.get("all"):
            exprs = [o.expr for o in self.outputs if not contains_aggregate(o.expr)]
            return [self._key(e, group) for e in dict.fromkeys(exprs)], None
        written, sets = grouping_sets(group)
        if sets == [()] and not written:
            return [], None  # one group of all rows, which exists even without rows
        found: list[Item] = []
        for w in written:
            key = self._key(self._key_expression(w), w, found)
            if sets is not None or all(key.expr != k.expr for k in found):  # a repeated key has no effect
                found.append(key)
        return found, sets

    def _key_expression(self, written: exp.Expr) -> Expr:
        position = ordinal(written)
        if position is not None:
            if any(item.is_star and PLACE not in item.meta for item in self.select.expressions):
                hint = "name the columns, in the select list or here"
                raise self.context.fail(
                    "B3042", "a number in GROUP BY is not allowed with `*` in the select list", written, hint
                )
            return self.items.at(position, written).expr.copy()
        return Resolver(self.frame, self.items.earlier_alias).resolve(written)

    def _key(self, expr: Expr, written: exp.Expr, others: Iterable[Item] = ()) -> Item:
        expr = expr.unnest()
        if contains_aggregate(expr):
            raise self.context.fail(
                "B3035", "GROUP BY cannot contain an aggregate", written, "group by it in an outer query"
            )
        name = expr.name if isinstance(expr, exp.Column) else self.context.names.fresh("group")
        if any(i.name == name for i in (*self.implied, *others)):
            name = self.context.names.fresh("group")
        if expr.find(exp.Window) is not None:
            raise self.context.fail(
                "B3038", "GROUP BY cannot contain a window function", written, "compute it in a subquery of FROM"
            )
        if expr.find(SubqueryValue) is not None:
            expr = self._attach_key(expr)
        return self.frame.item(name, expr)

    def _attach_key(self, key: Expr) -> Expr:
        """Join a subquery in a group key before grouping; other uses of it become the key."""
        clauses = (*self.outputs, *self.orders, *self.qualifies, *self.havings)
        attached, others = attach_same(self.frame, key, [c.expr for c in clauses])
        for clause, expr in zip(clauses, others, strict=True):
            clause.expr = expr
        return attached

    # -- subqueries, windows ------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        def joined(expr: Expr, _: exp.Expr) -> Expr:
            return attach_all(self.frame, expr)

        same = [(order, output) for order in self.orders for output in self.outputs if order.expr == output.expr]
        _rewrite((*self.outputs, *self.havings), joined)
        for order, output in same:
            order.expr = output.expr.copy()
        self.unfiltered = self.frame.plan
        for having in self.havings:
            self.frame.filter(having.expr, having.written, "HAVING")
        _rewrite((*self.qualifies, *self.orders), joined)

    def _windows(self) -> None:
        windows = WindowFunctions(self.select, self.frame, self.implied)
        _rewrite((*self.outputs, *self.orders, *self.qualifies), windows.lift)
        if windows.items:
            self.frame.plan = Window(self.frame.plan, tuple(windows.items))
        for qualify in self.qualifies:
            self.frame.filter(qualify.expr, qualify.written, "QUALIFY")

    # -- the result ---------------------------------------------------------------------------------------------------

    def _finish(self, *, named: bool) -> Inner:
        prefix = "" if named else self.context.names.fresh("value") + "."
        items = self._items(prefix)
        totals = self._totals(items)
        limit, offset = limits(self.select, self.context)
        most = limit_parameter(self.select, self.context)
        bounded = limit is not None or bool(offset) or bool(most)
        for key in self.orders:
            self.frame.check_order(key.expr, key.written)
        distinct = self.select.args.get("distinct") is not None
        partition = tuple(i.name for i in self.implied)
        links = tuple(replace(i, hidden=True, doc=None) for i in self.implied)
        top = bounded or (named and bool(self.orders))
        if not distinct and top:
            if links:
                self.frame.plan = _extended(self.frame.plan, links)
                links = tuple(item_of(i.column) for i in links)
            orders = tuple(o.order for o in self.orders)
            self.frame.plan = TopK(self.frame.plan, orders, limit, offset, partition, most=most)
        # correlation columns first: the first copy of a key column is the key, and correlation fixes the row
        plan: Node = Project(self.frame.plan, (*links, *items, *self._residual_items(items)))
        if distinct:
            plan = Distinct(plan)
            if top:
                plan = TopK(plan, self._orders_over(items), limit, offset, partition, most=most)
        outputs = tuple(item_of(i.column) for i in items)
        single = self.frame.open or self.one_group or totals is not None or limit == 1 or _at_most_one(plan, partition)
        used = dict(self.frame.scope.used)
        grouped = self.grouping is not None or distinct or bounded or self._has_windows()
        beyond = self.frame.open or reads_outer(plan, used) or (totals is not None and reads_outer(totals.plan, used))
        return Inner(plan, outputs, tuple(self.pairs), tuple(self.residual), used, single, grouped, beyond, totals)

    def _has_windows(self) -> bool:
        return any(isinstance(n, Window) for n in self.frame.plan.walk())

    def _items(self, prefix: str) -> tuple[Item, ...]:
        seen: dict[str, list[Expr]] = {}
        items = []
        if not prefix and not self.context.repeats:
            number_repeated(self.outputs, self.context)
        for output in self.outputs:
            folded = output.name.casefold()
            before = seen.setdefault(folded, [])
            same = SAME if isinstance(output.expr, exp.Column) and output.expr in before else ""
            before.append(output.expr)
            again = f"{REPEATED}{len(before)}{same}" if len(before) > 1 else ""
            if again and not prefix and not self.context.repeats:
                hint = "give one of them another name with AS"
                raise self.context.fail("B3043", f"two output columns are called `{output.name}`", output.written, hint)
            items.append(self.frame.item(prefix + output.name + again, output.expr, doc=output.doc))
        return tuple(items)

    def _totals(self, items: tuple[Item, ...]) -> Totals | None:
        """Return the outputs of an aggregate without GROUP BY, and the condition under which it has a row. The outputs
        are also correct for outer rows without a match."""
        grouping = self.grouping
        if grouping is None or not grouping.whole:
            return None
        if self.havings and not self.pairs:
            return None
        limit, offset = limits(self.select, self.context)
        if (
            limit == 0
            or limit_parameter(self.select, self.context)
            or offset
            or self.select.args.get("distinct") is not None
            or self._has_windows()
        ):
            return None
        values = (over_nothing(i.expr, grouping.aggregates) if self.pairs else i.expr for i in items)
        having = conjunction([over_nothing(h.expr, grouping.aggregates) for h in self.havings])
        return Totals(self.unfiltered, tuple(values), having)

    def _residual_items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the own columns that conditions on the outer row still need."""
        if self.grouping is not None:
            return ()
        own = self.frame.plan.schema
        needed = sorted({n for r in self.residual for n in columns_of(r) if n in own.names} - {i.name for i in items})
        return tuple(item_of(own[n], hidden=True) for n in needed)

    def _orders_over(self, items: tuple[Item, ...]) -> tuple[Order, ...]:
        """Return the orders, which are over output columns with DISTINCT."""
        orders = []
        for key in self.orders:
            found = next((i for i in items if i.expr == key.expr), None)
            if found is None:
                message = "with DISTINCT, ORDER BY accepts only output columns"
                raise self.context.fail("B3045", message, key.written, "select it too")
            orders.append(replace(key.order, expr=column(found.name)))
        return tuple(orders)


def _written(order: Order) -> exp.Ordered:
    return exp.Ordered(this=order.expr.copy(), desc=order.descending, nulls_first=order.nulls_come_first)


def _rewrite(clauses: Iterable[Clause], change: Callable[[Expr, exp.Expr], Expr]) -> None:
    for clause in clauses:
        clause.expr = change(clause.expr, clause.written)


def _extended(plan: Node, items: Sequence[Item]) -> Node:
    names = set(plan.schema.names)
    return Project(plan, (*map(item_of, plan.schema), *(i for i in items if i.name not in names)))


def _at_most_one(plan: Node, links: Sequence[str]) -> bool:
    """Return whether the columns correlated with the outer row, or copies of them, contain the key."""
    fixed = set(links)
    if isinstance(plan, Project):
        same = {i.expr for i in plan.items if i.name in fixed}
        fixed |= {i.name for i in plan.items if i.expr in same}
    return plan.schema.key is not None and set(plan.schema.key) <= fixed
