"""Paths in FROM as standard SQL: `FROM Sensors s JOIN s.readings r` with the join that `readings` stands for.

In: a SELECT of the script and the catalog's relationships. Out: the same SELECT with tables and conditions in place of paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import OWNER, TARGET, Relationship
from belvedere.lang.names.scope import name_parts
from belvedere.plan.expressions import conjuncts, map_columns, row_number
from belvedere.plan.operators.nodes import Expr, Order
from belvedere.schema import find_named
from belvedere.syntax.query_tree import path_of


def base_name(id_: str) -> str:
    """The name behind an id: `Sensors` of `Sensors~1`."""
    return id_.partition("~")[0]


class PathExpansion:
    """Expands paths over one catalog."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog

    def expand_all(self, query: exp.Expr, outer: dict[str, str]) -> None:
        """Replace the paths of all queries in an expression; subqueries see the FROM items around them."""
        known: dict[int, dict[str, str]] = {}
        for select in list(query.find_all(exp.Select)):
            around = select.parent_select
            known[id(select)] = self.expand(select, known.get(id(around), outer))

    def expand(self, select: exp.Select, outer: dict[str, str], reserved: Iterable[str] = ()) -> dict[str, str]:
        """Replace the paths in FROM and JOIN, and names that lead along relationships. `outer`: aliases of the query around with the
        tables behind them; the result has those of this query too."""
        clause = select.args.get("from_")
        if clause is None:
            return outer
        known = dict(outer)
        taken = {a.casefold() for a in (*known, *reserved)}
        joins: list[exp.Join] = []
        conditions: list[exp.Expr] = []
        first: exp.Expr | None = None
        for item, join in [(clause.this, None), *((j.this, j) for j in select.args.get("joins") or ())]:
            steps = self._steps(item, known)
            if steps is None:
                if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
                    known[item.alias_or_name] = ".".join(p.name for p in path_of(item))
                taken.add(item.alias_or_name.casefold())
                if first is None:
                    first = item
                elif join is not None:
                    joins.append(join)
                continue
            found = list(self._joined(steps, item, known, taken, select))
            for n, (table, condition, alias, name) in enumerate(found):
                known[alias] = name
                on = join.args.get("on") if join is not None and n == len(found) - 1 else None
                parts = [c for c in (condition, on) if c is not None]
                if first is None:
                    first = table
                    conditions += parts
                else:
                    side = join.args.get("side") if join is not None else None
                    joins.append(exp.Join(this=table, on=exp.and_(*parts) if parts else exp.true(), side=side))
        select.set("from_", exp.From(this=first))
        select.set("joins", joins)
        if conditions:
            where = select.args.get("where")
            parts = [*conditions, *conjuncts(where.this if where is not None else None)]
            select.set("where", exp.Where(this=exp.and_(*parts)))
        self.navigate(select, known, taken)
        return known

    def navigate(self, select: exp.Select, known: dict[str, str], taken: set[str]) -> None:
        """LEFT JOINs for the names in a SELECT that lead along relationships to a single row: `m.parent.name`."""
        joined: dict[tuple[str, ...], str] = {}
        joins: list[exp.Join] = []
        for node in list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))):
            way = self._way(_names(node), known)
            if way is None:
                continue
            (start, *steps), rest = way
            path: tuple[str, ...] = (start.casefold(),)
            relation = known[start]
            for n, name in enumerate(steps):
                before, path = joined.get(path, start), (*path, name.casefold())
                found = self._relationship(relation, name)
                assert found is not None
                if path not in joined:
                    joined[path] = fresh(found.alias or name[:1].lower(), taken)
                    table, condition = self._joining(found, before, joined[path], select, steps[n + 1 : n + 2])
                    joins.append(exp.Join(this=table, on=condition, side="LEFT"))
                relation = base_name(found.target)
            value: exp.Expr = exp.column(rest[0], joined[path])
            for field in rest[1:]:
                value = exp.Dot(this=value, expression=exp.to_identifier(field))
            node.replace(exp.alias_(value, rest[-1]) if node.parent is select and node.arg_key == "expressions" else value)
        if joins:
            self._qualify(select, known)
            select.set("joins", [*(select.args.get("joins") or ()), *joins])

    def _way(self, names: Sequence[str], known: dict[str, str]) -> tuple[Sequence[str], Sequence[str]] | None:
        """(alias with the relationships from it, column and fields at their end) of a dotted name; None where it is a column."""
        if len(names) < 2:
            return None
        first = next((a for a in known if a.casefold() == names[0].casefold()), None)
        starts = [(first, names[1:])] if first is not None else [(a, names) for a in known if a != OWNER]
        for alias, parts in starts:
            taken = self.follow(known[alias], parts)
            if 0 < taken < len(parts):
                return (alias, *parts[:taken]), parts[taken:]
        return None

    def _qualify(self, select: exp.Select, known: dict[str, str]) -> None:
        """Names without an alias keep their meaning beside the tables that were joined."""
        for node in list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))):
            if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
                owner = next((a for a, r in known.items() if self._has_column(r, node.name)), None)
                if owner is not None:
                    node.set("table", exp.to_identifier(owner))

    def _has_column(self, relation: str, name: str) -> bool:
        found = self.catalog.find(relation)
        return found is not None and self.catalog.schema_of(found).find(name) is not None

    def _steps(self, item: exp.Expr, known: dict[str, str]) -> tuple[str, Sequence[str]] | None:
        """The alias that a path starts from and the relationships after it; None for a plain FROM item."""
        if not isinstance(item, exp.Table) or len(item.parts) < 2:
            return None
        names = [p.name for p in path_of(item)]
        start = next((a for a in known if a.casefold() == names[0].casefold()), None)
        return (start, names[1:]) if start is not None else None

    def _joined(
        self, steps: tuple[str, Sequence[str]], item: exp.Expr, known: dict[str, str], taken: set[str], select: exp.Select
    ) -> Iterable[tuple[exp.Expr, exp.Expr, str, str]]:
        alias, names = steps
        relation = known[alias]
        for n, name in enumerate(names):
            found = self._relationship(relation, name)
            if found is None:
                return
            last = n == len(names) - 1
            requested = item.alias if last and item.alias and item.alias != "path" else found.alias or name[:1].lower()
            target = fresh(requested, taken)
            if last and item.alias == "path":
                requalify(select, "path", target)
            table, condition = self._joining(found, alias, target, select, names[n + 1 : n + 2])
            yield table, condition, target, base_name(found.target)
            alias, relation = target, base_name(found.target)

    def _joining(
        self, found: Relationship, owner: str, alias: str, select: exp.Select, following: Sequence[str]
    ) -> tuple[exp.Expr, exp.Expr]:
        """The table at the end of a relationship and the condition that joins it. `following`: the step of the path after it."""
        if found.limit is not None and found.columns_of(OWNER):  # row by row
            return self._lateral(found, owner, alias), exp.true()
        after = self._relationship(base_name(found.target), following[0]) if following else None
        return self._target(found, alias, select, [o for o, _ in after.pairs] if after is not None else []), _condition(
            found, owner, alias
        )

    def _relationship(self, owner: str, name: str) -> Relationship | None:
        folded = base_name(owner).casefold()
        return find_named([r for r in self.catalog.relationships if base_name(r.owner).casefold() == folded], name)

    def _target(self, found: Relationship, alias: str, select: exp.Select, linking: Sequence[str]) -> exp.Expr:
        """The table of a relationship; with LIMIT, its first rows per key (the seed's second figure)."""
        name = exp.to_identifier(found.target, quoted="." in found.target or "~" in found.target)
        if found.limit is None or self._is_unique(found):
            return exp.Table(this=name, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        read = {c.name.casefold() for c in select.find_all(exp.Column)} | {t.casefold() for _, t in found.pairs}
        read |= {name.casefold() for name in linking}
        columns = [c.name for c in self.catalog.schema_of(found.target).visible if c.name.casefold() in read]
        order = exp.Order(expressions=[_ordered(o) for o in found.order]) if found.order else None
        window = row_number([exp.column(t) for _, t in found.pairs], order)
        numbered = exp.select(*columns, exp.alias_(window, "row_no")).from_(exp.Table(this=name))
        for condition in conjuncts(found.residual):
            if all(c.table == TARGET for c in condition.find_all(exp.Column)):
                numbered = numbered.where(_bare(condition))
        bound = exp.EQ if found.limit == 1 else exp.LTE
        first = bound(this=exp.column("row_no"), expression=exp.Literal.number(found.limit))
        cut = exp.select(*columns).from_(numbered.subquery()).where(first)
        return cut.subquery(alias)

    def _is_unique(self, found: Relationship) -> bool:
        """Whether the key of the target is given, so that LIMIT cuts nothing."""
        key = self.catalog.schema_of(found.target).key
        return found.residual is None and key is not None and {t for _, t in found.pairs} >= set(key)

    @staticmethod
    def _lateral(found: Relationship, owner: str, alias: str) -> exp.Expr:
        """A relationship with LIMIT whose condition is more than equalities: its first rows, row by row."""
        inner = fresh(alias, {alias.casefold()})
        name = exp.to_identifier(found.target, quoted="." in found.target or "~" in found.target)
        table = exp.Table(this=name, alias=exp.TableAlias(this=exp.to_identifier(inner)))
        query = exp.select("*").from_(table).where(_condition(found, owner, inner, everything=True))
        query.set("order", exp.Order(expressions=[_ordered(o, owner, inner) for o in found.order]))
        return exp.Lateral(this=query.limit(found.limit or 0).subquery(), alias=exp.TableAlias(this=exp.to_identifier(alias)))

    def follow(self, relation: str, names: Sequence[str]) -> int:
        """How many of the names lead from a table through relationships."""
        for n, name in enumerate(names):
            found = self._relationship(relation, name)
            if found is None:
                return n
            relation = base_name(found.target)
        return len(names)

    def aliases(self) -> set[str]:
        """The aliases that relationships were defined with, folded."""
        return {r.alias.casefold() for r in self.catalog.relationships if r.alias}


def fresh(alias: str, taken: set[str]) -> str:
    """The alias, or the first of `alias2`, `alias3` ... that is free; taken from then on."""
    found, n = alias, 1
    while found.casefold() in taken:
        n += 1
        found = f"{alias}{n}"
    taken.add(found.casefold())
    return found


def requalify(node: exp.Expr, old: str, new: str) -> None:
    """Give the names that begin with one alias another."""
    for c in node.find_all(exp.Column):
        first = next((k for k in ("catalog", "db", "table") if c.args.get(k) is not None), None)
        if first is not None and c.args[first].name.casefold() == old.casefold():
            c.set(first, exp.to_identifier(new))


def _names(node: exp.Expr) -> Sequence[str]:
    """The parts of a dotted name; none for other expressions, and for the inner parts of one."""
    return () if isinstance(node.parent, exp.Dot) else [p.name for p in name_parts(node)]


def _condition(found: Relationship, owner: str, target: str, *, everything: bool = False) -> exp.Expr:
    parts: list[exp.Expr] = [exp.EQ(this=exp.column(t, target), expression=exp.column(o, owner)) for o, t in found.pairs]
    for condition in conjuncts(found.residual):
        if not everything and found.limit is not None and all(c.table == TARGET for c in condition.find_all(exp.Column)):
            continue
        parts.append(_bound(condition, owner, target))
    return exp.and_(*parts) if parts else exp.true()


def _bound(expr: Expr, owner: str, target: str) -> exp.Expr:
    """A relationship's expression over two aliases."""
    return map_columns(expr, lambda c: exp.column(c.name, owner if c.table == OWNER else target))


def _bare(expr: Expr) -> exp.Expr:
    return map_columns(expr, lambda c: exp.column(c.name))


def _ordered(order: Order, owner: str | None = None, target: str | None = None) -> exp.Ordered:
    expr = _bound(order.expr, owner, target) if owner is not None and target is not None else _bare(order.expr)
    return exp.Ordered(this=expr, desc=order.descending, nulls_first=order.nulls_come_first)
