"""Paths in FROM as standard SQL: `FROM Sensors s JOIN s.readings r` with the join that `readings` stands for.

In: a SELECT of the script and the catalog's relationships. Out: the same SELECT with tables and conditions in place of paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from belvedere.catalog import Catalog, Relationship
from belvedere.lang.definitions import OWNER, TARGET
from belvedere.lang.statements import path_of
from belvedere.plan.expressions import conjuncts
from belvedere.plan.nodes import Expr, Order


def base_name(id_: str) -> str:
    """The name behind an id: `Sensors` of `Sensors~1`."""
    return id_.partition("~")[0]


class PathExpansion:
    """Expands paths over one catalog."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog

    def expand(self, select: exp.Select, outer: dict[str, str], reserved: Iterable[str] = ()) -> None:
        """Replace the paths in FROM and JOIN. `outer`: aliases of the query around with the tables behind them."""
        clause = select.args.get("from_")
        if clause is None:
            return
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

    def _steps(self, item: exp.Expr, known: dict[str, str]) -> tuple[str, Sequence[str]] | None:
        """The alias that a path starts from and the relationships after it; None for a plain FROM item."""
        if not isinstance(item, exp.Table) or len(item.parts) < 2:
            return None
        names = [p.name for p in path_of(item)]
        start = next((a for a in known if a.casefold() == names[0].casefold()), None)
        return (start, names[1:]) if start is not None else None

    def _joined(
        self, steps: tuple[str, Sequence[str]], item: exp.Expr, known: dict[str, str], taken: set[str], select: exp.Select
    ) -> Iterable[tuple[exp.Expr, exp.Expr | None, str, str]]:
        alias, names = steps
        relation = known[alias]
        for n, name in enumerate(names):
            found = self._relationship(relation, name)
            if found is None:
                return
            last = n == len(names) - 1
            wanted = item.alias if last and item.alias and item.alias != "path" else found.alias or name[:1].lower()
            target = fresh(wanted, taken)
            if last and item.alias == "path":
                requalify(select, "path", target)
            condition: exp.Expr | None = _condition(found, alias, target)
            if found.limit is not None and _mixed(found):
                table: exp.Expr = self._lateral(found, alias, target)
                condition = None
            else:
                table = self._target(found, target, select)
            yield table, condition, target, base_name(found.target)
            alias, relation = target, base_name(found.target)

    def _relationship(self, owner: str, name: str) -> Relationship | None:
        return next(
            (
                r
                for r in self.catalog.relationships
                if base_name(r.owner).casefold() == base_name(owner).casefold() and r.name.casefold() == name.casefold()
            ),
            None,
        )

    def _target(self, found: Relationship, alias: str, select: exp.Select) -> exp.Expr:
        """The table of a relationship; with LIMIT, its first rows per key (the seed's second figure)."""
        name = exp.to_identifier(found.target, quoted="." in found.target or "~" in found.target)
        if found.limit is None:
            return exp.Table(this=name, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        read = {c.name.casefold() for c in select.find_all(exp.Column)} | {t.casefold() for _, t in found.pairs}
        columns = [c.name for c in self.catalog.schema_of(found.target).visible if c.name.casefold() in read]
        window = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(t) for _, t in found.pairs],
            order=exp.Order(expressions=[_ordered(o) for o in found.order]),
            over="OVER",
        )
        numbered = exp.select(*columns, exp.alias_(window, "row_no")).from_(exp.Table(this=name))
        for condition in conjuncts(found.residual):
            if all(c.table == TARGET for c in condition.find_all(exp.Column)):
                numbered = numbered.where(_bare(condition))
        bound = exp.EQ if found.limit == 1 else exp.LTE
        first = bound(this=exp.column("row_no"), expression=exp.Literal.number(found.limit))
        cut = exp.select(*columns).from_(numbered.subquery()).where(first)
        return cut.subquery(alias)

    @staticmethod
    def _lateral(found: Relationship, owner: str, alias: str) -> exp.Expr:
        """A relationship with LIMIT whose condition is more than equalities: its first rows, row by row."""
        inner = fresh(alias, {alias.casefold()})
        name = exp.to_identifier(found.target, quoted="." in found.target or "~" in found.target)
        table = exp.Table(this=name, alias=exp.TableAlias(this=exp.to_identifier(inner)))
        query = exp.select("*").from_(table).where(_condition(found, owner, inner, everything=True))
        query.set("order", exp.Order(expressions=[_ordered(o) for o in found.order]))
        lateral = exp.Lateral(
            this=query.limit(found.limit or 0).subquery(), alias=exp.TableAlias(this=exp.to_identifier(alias))
        )
        return lateral

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
    """Give the columns of one alias another."""
    for c in node.find_all(exp.Column):
        if c.table.casefold() == old.casefold():
            c.set("table", exp.to_identifier(new))


def _mixed(found: Relationship) -> bool:
    """Whether a condition beside the equalities reads the owner's row."""
    return any(c.table == OWNER for r in conjuncts(found.residual) for c in r.find_all(exp.Column))


def _condition(found: Relationship, owner: str, target: str, *, everything: bool = False) -> exp.Expr:
    parts: list[exp.Expr] = [exp.EQ(this=exp.column(t, target), expression=exp.column(o, owner)) for o, t in found.pairs]
    for condition in conjuncts(found.residual):
        if not everything and found.limit is not None and all(c.table == TARGET for c in condition.find_all(exp.Column)):
            continue
        copied = condition.copy()
        for c in copied.find_all(exp.Column):
            c.replace(exp.column(c.name, owner if c.table == OWNER else target))
        parts.append(copied)
    return exp.and_(*parts) if parts else exp.true()


def _bare(expr: Expr) -> exp.Expr:
    return expr.copy().transform(lambda n: exp.column(n.name) if isinstance(n, exp.Column) else n)


def _ordered(order: Order) -> exp.Ordered:
    return exp.Ordered(this=_bare(order.expr), desc=order.descending, nulls_first=order.nulls_come_first)
