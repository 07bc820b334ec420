"""Paths in a SELECT as standard SQL: `FROM Sensors s JOIN s.readings r` with the join of `readings`.

In: a SELECT whose names have their resolved meanings (`ResolvedQuery.annotated`), and the catalog. Out: the same SELECT
with tables and conditions in place of paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import OWNER, Relationship
from belvedere.catalog.resolved_query import PATH, ROW_NUMBER, ResolvedPath
from belvedere.catalog.shown_names import shown_names
from belvedere.lang.names.scope import name_parts
from belvedere.lang.relationships.path_aggregates import PATH_ALIAS
from belvedere.plan.expressions import conjuncts, map_columns, row_number
from belvedere.plan.operators.nodes import Expr, Order
from belvedere.syntax.query_tree import path_of


def spell_paths(tree: exp.Expr, catalog: Catalog, around: Mapping[str, str] | None = None) -> None:
    """Replace the paths of all queries in a tree, and name each table by its id. `around` are the ids of outer tables
    by alias."""
    around = around or {}
    named = [t.alias_or_name for t in tree.find_all(exp.Table, exp.Subquery) if t.alias_or_name != PATH_ALIAS]
    known = {id(None): {a.casefold() for a in (*named, *around, OWNER)}}
    for select in list(tree.find_all(exp.Select)):
        known[id(select)] = taken = set(known.get(id(select.parent_select), known[id(None)]))
        joins = PathJoins(catalog, select, taken)
        joins.relations |= around if select is tree else {}
        joins.in_from()
        joins.in_names()
        joins.in_star()
    for table in tree.find_all(exp.Table):
        _name_version(table)


def _name_version(table: exp.Table) -> None:
    parts = path_of(table)
    path = _path(parts[-1:])
    if (
        path is None
        or path.relation is None
        or path.steps
        or shown_names(path.relation).casefold() == table.name.casefold()
    ):
        return
    if len(parts) == 1 and not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    for key in ("db", "catalog"):
        table.set(key, None)
    table.set("this", exp.to_identifier(path.relation, quoted=True))


def table_of(id_: str, alias: str = "") -> exp.Table:
    """Return a relation as a FROM item."""
    name = exp.to_identifier(id_, quoted="." in id_ or "~" in id_)
    return exp.Table(this=name, alias=exp.TableAlias(this=exp.to_identifier(alias)) if alias else None)


def column_names(tree: exp.Expr, catalog: Catalog) -> set[str]:
    """Return the folded names of the columns of all tables in an annotated tree."""
    paths = [path for part in tree.find_all(exp.Identifier) if (path := _path([part])) is not None]
    ids = {p.relation for p in paths if p.relation is not None} | {step.target for p in paths for step in p.steps}
    return {c.name.casefold() for id_ in ids for c in catalog.schema_of(id_)}


class PathJoins:
    """Joins of one SELECT. `taken` are folded aliases; `relations` are the ids of FROM's aliases."""

    def __init__(self, catalog: Catalog, select: exp.Select, taken: set[str]):
        self.catalog = catalog
        self.select = select
        self.taken = taken
        self.relations: dict[str, str] = {}
        self.items: list[str] = []
        """Aliases of FROM as written, which `*` means."""

    def in_from(self) -> None:
        """Replace the paths in FROM and JOIN."""
        clause = self.select.args.get("from_")
        if clause is None:
            return
        joins: list[exp.Join] = []
        for join in (exp.Join(this=clause.this), *(self.select.args.get("joins") or ())):
            path = _path(path_of(join.this)[-1:]) if isinstance(join.this, exp.Table) else None
            if path is not None and path.steps:
                joins += self._joined(path, join)
                continue
            if path is not None and path.relation is not None:
                self.relations[join.this.alias_or_name] = path.relation
            joins.append(join)
            self.items.append(join.this.alias_or_name)
        first, *others = joins
        where = self.select.args.get("where")
        linking = [c for c in conjuncts(first.args.get("on")) if c != exp.true()]
        if linking:
            conditions = [*linking, *conjuncts(where.this if where is not None else None)]
            self.select.set("where", exp.Where(this=exp.and_(*conditions)))
        self.select.set("from_", exp.From(this=first.this))
        self.select.set("joins", others)
        self._qualify(everything=False)

    def _joined(self, path: ResolvedPath, join: exp.Join) -> list[exp.Join]:
        """Return the joins of a path in FROM."""
        made, requested, on = [], join.this.alias, join.args.get("on")
        if path.relation is not None:
            owner = fresh(initial(path.start), self.taken)
            made.append(exp.Join(this=table_of(path.relation, owner), kind="CROSS"))
            path = replace(path, start=owner)
        given = "" if requested == PATH_ALIAS else requested
        ways: dict[tuple[str, ...], str] = {}
        made += self._led(path, ways, join.args.get("side"), given)
        if on is not None:
            made[-1].set("on", exp.and_(made[-1].args["on"], on))
        self.relations |= dict(zip(ways.values(), (s.target for s in path.steps), strict=True))
        *_, alias = ways.values()
        self.items.append(alias)
        if not given:
            requalify(self.select, requested or path.steps[-1].name, alias)
        return made

    def _led(
        self, path: ResolvedPath, ways: dict[tuple[str, ...], str], side: str | None, requested: str = ""
    ) -> Iterator[exp.Join]:
        """Return the joins of a path beyond those in `ways` (aliases by the folded path), and add them there.
        `requested` is the last alias."""
        owner, steps = path.start, path.steps
        for n, step in enumerate(steps, 1):
            key = (path.start.casefold(), *(s.name.casefold() for s in steps[:n]))
            if key not in ways:
                last_alias = requested if n == len(steps) else ""
                ways[key] = last_alias or fresh(step.alias or initial(step.name), self.taken)
                table, condition = self._joining(step, owner, ways[key], steps[n : n + 1])
                yield exp.Join(this=table, on=condition, side=side)
            owner = ways[key]

    def in_names(self) -> None:
        """Add LEFT JOINs for names that lead along relationships to a single row: `m.parent.name`."""
        ways: dict[tuple[str, ...], str] = {}
        joins: list[exp.Join] = []
        for node in _own_nodes(self.select):
            parts = () if isinstance(node.parent, exp.Dot) else name_parts(node)
            end, path = next(((n, p) for n, part in enumerate(parts) if (p := _path([part])) is not None), (0, None))
            if path is None:
                continue
            joins += self._led(path, ways, "LEFT")
            alias = ways[(path.start.casefold(), *(s.name.casefold() for s in path.steps))]
            first, *fields = (part.copy() for part in parts[end + 1 :])
            value = exp.Dot.build([exp.column(first, alias), *fields]) if fields else exp.column(first, alias)
            is_item = node.parent is self.select and node.arg_key == "expressions"
            node.replace(exp.alias_(value, parts[-1].name) if is_item else value)
        if joins:
            self._qualify(everything=True)
            self.select.set("joins", [*(self.select.args.get("joins") or ()), *joins])

    def in_star(self) -> None:
        """Restrict `*` to the columns of the tables as written, without those of tables between them."""
        if 1 + len(self.select.args.get("joins") or ()) == len(self.items) or not all(self.items):
            return
        items: list[exp.Expr] = []
        for item in self.select.expressions:
            whole = isinstance(item, exp.Star) and not any(item.args.values())
            items += [exp.column(exp.Star(), alias) for alias in self.items] if whole else [item]
        self.select.set("expressions", items)

    def _qualify(self, *, everything: bool) -> None:
        """Qualify names without an alias, to keep their meaning beside the added tables: those that such a table also
        has, or all."""
        schemas = {alias: self.catalog.schema_of(relation) for alias, relation in self.relations.items()}
        for node in _own_nodes(self.select):
            if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
                having = [alias for alias, schema in schemas.items() if schema.find(node.name) is not None]
                owner = next((alias for alias in having if alias in self.items), None)
                if owner is not None and (everything or not set(having) <= set(self.items)):
                    node.set("table", exp.to_identifier(owner))

    # -- one relationship ---------------------------------------------------------------------------------------------

    def _joining(
        self, step: Relationship, owner: str, alias: str, following: Sequence[Relationship]
    ) -> tuple[exp.Expr, exp.Expr]:
        """Return the table at the end of a relationship and the condition that joins it. `following` is the next step
        of the path."""
        if step.limit is not None and step.columns_of(OWNER):  # row by row
            return _lateral(step, owner, alias), exp.true()
        linking = {name for after in following for name in (*(own for own, _ in after.pairs), *after.columns_of(OWNER))}
        return self._target(step, alias, linking), _condition(step, owner, alias)

    def _target(self, step: Relationship, alias: str, linking: Iterable[str]) -> exp.Expr:
        """Return the table of a relationship; with LIMIT, its first rows per key (second figure of the SQRL paper)."""
        schema = self.catalog.schema_of(step.target)
        given = {theirs for _, theirs in step.pairs}
        is_unique = step.residual is None and schema.key is not None and given >= set(schema.key)
        if step.limit is None or is_unique:
            return table_of(step.target, alias)
        read = {c.name.casefold() for c in self.select.find_all(exp.Column)}
        read |= {name.casefold() for name in (*linking, *given)}
        whole = any(item.is_star for item in self.select.expressions)
        columns = [c.name for c in schema.visible if whole or c.name.casefold() in read]
        order = exp.Order(expressions=[_ordered(o, _bare) for o in step.order]) if step.order else None
        window = row_number([exp.column(t) for _, t in step.pairs], order)
        numbered = exp.select(*map(exp.column, columns), exp.alias_(window, ROW_NUMBER)).from_(table_of(step.target))
        for condition in conjuncts(step.residual):
            numbered = numbered.where(map_columns(condition, _bare))
        bound = exp.EQ if step.limit == 1 else exp.LTE
        first = bound(this=exp.column(ROW_NUMBER), expression=exp.Literal.number(step.limit))
        return exp.select(*map(exp.column, columns)).from_(numbered.subquery()).where(first).subquery(alias)


def _lateral(step: Relationship, owner: str, alias: str) -> exp.Expr:
    """Return a relationship with LIMIT and a condition beyond equalities: its first rows, row by row."""
    inner = fresh(alias, {alias.casefold()})
    query = exp.select("*").from_(table_of(step.target, inner)).where(_condition(step, owner, inner, everything=True))
    query.set("order", exp.Order(expressions=[_ordered(o, _over(owner, inner)) for o in step.order]))
    return exp.Lateral(
        this=query.limit(step.limit or 0).subquery(), alias=exp.TableAlias(this=exp.to_identifier(alias))
    )


def _condition(step: Relationship, owner: str, target: str, *, everything: bool = False) -> exp.Expr:
    """Return the join condition of two aliases; for a relationship with LIMIT without the conditions that apply before
    it, unless `everything`.
    """
    change = _over(owner, target)
    parts: list[exp.Expr] = [exp.EQ(this=exp.column(t, target), expression=exp.column(o, owner)) for o, t in step.pairs]
    if everything or step.limit is None:
        parts += [map_columns(c, change) for c in conjuncts(step.residual)]
    return exp.and_(*parts) if parts else exp.true()


def _over(owner: str, target: str) -> Callable[[exp.Column], Expr]:
    """Return a function that puts a relationship's columns under two aliases."""
    return lambda c: exp.column(c.name, owner if c.table == OWNER else target)


def _bare(column: exp.Column) -> Expr:
    return exp.column(column.name)


def _ordered(order: Order, change: Callable[[exp.Column], Expr]) -> exp.Ordered:
    return exp.Ordered(this=map_columns(order.expr, change), desc=order.descending, nulls_first=order.nulls_come_first)


def _path(parts: Sequence[exp.Expr]) -> ResolvedPath | None:
    return parts[-1].meta.get(PATH) if parts else None


def _own_nodes(select: exp.Select) -> list[exp.Expr]:
    """Return the nodes of a SELECT without those of its subqueries."""
    return list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query)))


def initial(name: str) -> str:
    """Return the default alias of a relation or relationship: its first letter."""
    return name.rpartition(".")[2].lstrip("_")[:1].lower() or "t"


def fresh(alias: str, taken: set[str]) -> str:
    """Return the alias, or the first unused one of `alias2`, `alias3` ..., and mark it as taken."""
    found, n = alias, 1
    while found.casefold() in taken:
        n += 1
        found = f"{alias}{n}"
    taken.add(found.casefold())
    return found


def requalify(node: exp.Expr, old: str, new: str) -> None:
    """Replace the alias of names by another."""
    for c in node.find_all(exp.Column):
        first = next((k for k in ("catalog", "db", "table") if c.args.get(k) is not None), None)
        if first is not None and c.args[first].name.casefold() == old.casefold():
            c.set(first, exp.to_identifier(new))
    for part in node.find_all(exp.Identifier):
        path = _path([part])
        if path is not None and path.relation is None and path.start.casefold() == old.casefold():
            part.meta[PATH] = replace(path, start=new)
