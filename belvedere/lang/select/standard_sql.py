"""A view in standard SQL: paths as joins, local queries as subqueries, DISTINCT ON as row numbers.

In: a compiled catalog and a view's id. Out: SQL text for display (`explain --sql`), as in the SQRL paper's figures 'how
SQRL syntax expands to standard SQL'. Names have the meanings that lowering recorded in the view's `query`: nothing is
resolved here. The text is not executed; plans are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import OWNER
from belvedere.catalog.shown_names import shown_names
from belvedere.catalog.views import View
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.standard_sql_paths import (
    PathJoins,
    column_names,
    fresh,
    initial,
    requalify,
    spell_paths,
    table_of,
)
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.nodes import Scan, Unnest
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.query_tree import WindowByBlock, unwrap_query


def expand(catalog: Catalog, id_: str) -> str:
    """Return `CREATE VIEW ... AS` the standard SQL of a view."""
    view = catalog.views[id_]
    query = _Expansion(catalog).query(view)
    for identifier in query.find_all(exp.Identifier):
        identifier.set("this", shown_names(identifier.this))
    name = exp.to_identifier(view.name, quoted="." in view.name).sql(SparkSql)
    if isinstance(query, WindowByBlock):
        return f"CREATE VIEW {name} AS\n{query.sql(dialect=Sqrl)}"  # standard SQL has no such clause
    for version in query.find_all(exp.Version):
        version.set("this", "FOR SYSTEM_TIME")  # the spelling of standard SQL
    # EMIT, SELECT STREAM and SPL windows are printed as written: standard SQL has no such clauses
    text = query.sql(dialect=Sqrl, pretty=True, comments=False, max_text_width=100)
    return f"CREATE VIEW {name} AS\n{text}"


class _Expansion:
    """Expands one view."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self.aliases = {r.alias.casefold() for r in catalog.relationships if r.alias}
        """aliases that relationships use: a row of the outer table needs another name"""

    def query(self, view: View) -> exp.Query:
        written = view.query
        if written is None:
            return _nested_data(view)
        if written.column:
            return self._with_columns(view)
        tree = written.annotated()
        if written.owner is not None:
            return self._nested(unwrap_query(tree), view, written.owner)
        spell_paths(tree, self.catalog)
        assert isinstance(tree, exp.Query)
        return tree

    def _with_columns(self, view: View) -> exp.Query:
        """Return the chain of versions that added columns, as one SELECT if no added column reads another one."""
        added: list[tuple[str, exp.Expr]] = []
        base, current = view.id, self.catalog.views.get(view.id)
        while current is not None and current.query is not None and current.query.column:
            name = current.query.column
            if any(name.casefold() in _columns(value, view.name) for _, value in added):
                break
            added.insert(0, (name, current.query.annotated()))
            base = _before(current)
            current = self.catalog.views.get(base)
        return self._extended(base, added, view.name.rpartition(".")[2])

    def _extended(self, base: str, added: Sequence[tuple[str, exp.Expr]], name: str) -> exp.Query:
        tables = set[str]().union(*(_aliases(value) for _, value in added))
        columns_within = set[str]().union(*(column_names(value, self.catalog) for _, value in added))
        alias = fresh(initial(name), tables | columns_within | self.aliases)
        for _, value in added:
            if name.casefold() not in tables:
                requalify(value, name, OWNER)
            spell_paths(value, self.catalog, {alias: base})
        names = {c.name.casefold(): c.name for c in self.catalog.schema_of(base).visible}
        columns: dict[str, exp.Expr] = {folded: exp.column(n) for folded, n in names.items()}
        # a column that is defined twice occurs once, with its last definition
        columns |= {n.casefold(): exp.alias_(value, names.get(n.casefold(), n)) for n, value in added}
        query = exp.Select(expressions=list(columns.values()))
        joins = PathJoins(self.catalog, query, tables | {alias.casefold()})
        joins.relations[alias], joins.items = base, [alias]
        joins.in_names()
        requalify(query, OWNER, alias)
        before = self.catalog.views.get(base)
        read = {c.name for c in query.find_all(exp.Column) if c.table == alias}
        within = before is not None and before.query is not None and read <= {c.name for c in before.schema.visible}
        return query.from_(self.query(before).subquery(alias) if before and within else table_of(base, alias))

    def _nested(self, select: exp.Query, view: View, owner: str) -> exp.Query:
        """Return a nested table: joined to its parent's rows, grouped by their key."""
        alias = fresh(
            initial(self.catalog.name_of(owner)), _aliases(select) | column_names(select, self.catalog) | self.aliases
        )
        keys = [_called(exp.column(p, alias), own) for own, p in view.parent_key]
        spell_paths(select, self.catalog, {alias: owner})
        requalify(select, OWNER, alias)
        rows = table_of(owner, alias)
        by_row = any(isinstance(e, exp.Star) or e.find(exp.Window) for e in select.expressions)
        if by_row or any(select.args.get(k) for k in ("limit", "offset", "qualify")):
            lateral = exp.Lateral(
                this=exp.Subquery(this=select), alias=exp.TableAlias(this=exp.to_identifier("related"))
            )
            related = exp.Column(this=exp.Star(), table=exp.to_identifier("related"))
            return exp.Select(expressions=[*keys, related], from_=exp.From(this=rows), joins=[exp.Join(this=lateral)])
        where, first = select.args.get("where"), select.args["from_"].this
        conditions = conjuncts(where.this if where is not None else None)
        linking = [c for c in conditions if _reads_only(c, (alias, first.alias_or_name))]
        others = [c for c in conditions if c not in linking]
        select.set("where", exp.Where(this=exp.and_(*others)) if others else None)
        select.set("from_", exp.From(this=rows))
        joined = exp.Join(this=first, on=exp.and_(*linking) if linking else exp.true())
        select.set("joins", [joined, *(select.args.get("joins") or ())])
        group = select.args.get("group")
        if group is not None or any(map(contains_aggregate, select.expressions)):
            group = group or exp.Group()
            group.set(
                "expressions",
                [] if group.args.get("all") else [*(k.unalias().copy() for k in keys), *group.expressions],
            )
            select.set("group", group)
        select.set("expressions", [*keys, *select.expressions])
        return select


def _nested_data(view: View) -> exp.Query:
    """Return a table of nested data: the elements of its parent's array. For an alias of another table, return its
    rows."""
    if not any(isinstance(n, Unnest) for n in view.plan.walk()):
        (relation,) = (n.relation for n in view.plan.walk() if isinstance(n, Scan))
        return exp.select("*").from_(table_of(relation))
    keys = [_called(exp.column(p, "t"), own) for own, p in view.parent_key]
    items = [exp.column(c.name, "e") for c in view.schema.visible]
    array = exp.Inline(this=exp.column(view.name.rpartition(".")[2], "t"))
    lateral = exp.Lateral(this=array, view=True, alias=exp.TableAlias(this=exp.to_identifier("e")))
    return exp.select(*keys, *items).from_(table_of(view.parent or "", "t")).lateral(lateral)


def _before(view: View) -> str:
    """Return the id of the version to which a view adds a column."""
    scans = (n.relation for n in view.plan.walk() if isinstance(n, Scan))
    return next(r for r in scans if r.partition("~")[0].casefold() == view.name.casefold())


def _called(column: exp.Column, name: str) -> exp.Expr:
    return column if column.name == name else exp.alias_(column, name)


def _reads_only(condition: exp.Expr, aliases: Sequence[str]) -> bool:
    return condition.find(exp.Query) is None and all(c.table in aliases for c in condition.find_all(exp.Column))


def _aliases(tree: exp.Expr) -> set[str]:
    return {t.alias_or_name.casefold() for t in tree.find_all(exp.Table)}


def _columns(value: exp.Expr, name: str) -> set[str]:
    """Return the folded names of the columns that a value reads of a row of this table."""
    own = (OWNER, name.rpartition(".")[2].casefold(), *([] if isinstance(value, exp.Subquery) else [""]))
    return {c.name.casefold() for c in value.find_all(exp.Column) if c.table.casefold() in own}
