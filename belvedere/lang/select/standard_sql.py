"""A view in standard SQL: paths as joins, local queries as subqueries, DISTINCT ON as row numbers.

In: a compiled catalog and a view's id. Out: SQL text for people (`explain --sql`), as in the seed's figures 'how SQRL syntax expands to
standard SQL'. It names other views as the script does. Nothing is executed from it: plans are what runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import OWNER
from belvedere.catalog.shown_names import shown_names
from belvedere.catalog.views import View
from belvedere.lang.relationships.path_aggregates import expand_path_aggregates, is_scalar
from belvedere.lang.select.standard_sql_paths import PathExpansion, base_name, fresh, requalify
from belvedere.lang.statements.lower_relationships import joined_query
from belvedere.plan.expressions import row_number
from belvedere.plan.operators.nodes import Scan
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.parse import parse_script
from belvedere.syntax.query_tree import WindowByBlock, unwrap_query
from belvedere.syntax.statement_tree import (
    CreateSubscription,
    DefineColumn,
    DefineLocalQuery,
    DefineRelationship,
    DefineView,
    DistinctOn,
    Statement,
)


def expand(catalog: Catalog, id_: str) -> str:
    """`CREATE VIEW ... AS` the standard SQL of a view."""
    view = catalog.views[id_]
    query = _Expansion(catalog).query(view)
    for identifier in query.find_all(exp.Identifier):
        identifier.set("this", shown_names(identifier.this))
    name = exp.to_identifier(view.name, quoted="." in view.name).sql(SparkSql)
    if isinstance(query, WindowByBlock):
        return f"CREATE VIEW {name} AS\n{query.sql(dialect=Sqrl)}"  # the standard has no such clause
    for version in query.find_all(exp.Version):
        version.set("this", "FOR SYSTEM_TIME")  # the standard's words
    # EMIT, SELECT STREAM and windows of SPL are printed as they stand: what is standard has no such clauses
    text = query.sql(dialect=Sqrl, pretty=True, comments=False, max_text_width=100)
    return f"CREATE VIEW {name} AS\n{text}"


class _Expansion:
    """Expands one view; keeps the aliases apart."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self.paths = PathExpansion(catalog)

    def query(self, view: View) -> exp.Query:
        statement = self._statement(view)
        match statement:
            case DefineView() | CreateSubscription():
                return self.plain(statement.query, view)
            case DistinctOn():
                return self._distinct(statement, view)
            case DefineColumn() | DefineLocalQuery() if self._is_column(statement, view):
                return self._with_columns(view)
            case DefineLocalQuery():
                return self._nested(unwrap_query(statement.query), view)
            case DefineRelationship():
                return self._nested(joined_query(statement), view)
            case _:
                return self._nested_data(view)

    @staticmethod
    def _statement(view: View) -> Statement | None:
        statements = parse_script(view.sql, view.name).statements if view.sql else ()
        return statements[0] if statements else None

    @staticmethod
    def _is_column(statement: Statement, view: View) -> bool:
        """Whether the statement adds a column to the view, rather than defines it."""
        if isinstance(statement, DefineColumn):
            return True
        return isinstance(statement, DefineLocalQuery) and statement.path.text.casefold() != view.name.casefold()

    # -- plain queries: paths in FROM ---------------------------------------------------------------------------------

    def plain(self, query: exp.Query, view: View) -> exp.Query:
        """A query with every path replaced by joins and every table named by its version."""
        copied = query.copy()
        self.paths.expand_all(copied, {})
        self._name_versions(copied, view)
        return copied

    def _name_versions(self, query: exp.Expr, view: View) -> None:
        ids = {n.relation for n in view.plan.walk() if isinstance(n, Scan)}
        for table in query.find_all(exp.Table):
            if len(table.parts) > 1 and (nested := self.catalog.find(".".join(p.name for p in table.parts))) is not None:
                named = exp.Table(this=exp.to_identifier(nested, quoted=True), alias=table.args.get("alias"))
                table.replace(named)
            if len(table.parts) == 1 and isinstance(table.this, exp.Identifier):
                found = [i for i in ids if base_name(i).casefold() == table.name.casefold()]
                if len(found) == 1 and found[0].casefold() != table.name.casefold():
                    if not table.alias:
                        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
                    table.set("this", exp.to_identifier(found[0], quoted=True))

    # -- definitions --------------------------------------------------------------------------------------------------

    def _distinct(self, statement: DistinctOn, view: View) -> exp.Query:
        scanned = next(n for n in view.plan.walk() if isinstance(n, Scan))
        columns = [c.name for c in scanned.schema.visible]
        order = exp.Order(expressions=[o.copy() for o in statement.order]) if statement.order else None
        window = row_number(statement.keys, order)
        called = statement.alias.text if statement.alias is not None else base_name(scanned.relation)
        table = exp.Table(this=exp.to_identifier(scanned.relation, quoted="~" in scanned.relation))
        if called != scanned.relation:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(called)))
        numbered = exp.select(*columns, exp.alias_(window, "row_no")).from_(table)
        return exp.select(*columns).from_(numbered.subquery()).where("row_no = 1")

    def _with_columns(self, view: View) -> exp.Query:
        """The chain of versions that added columns, as one SELECT where no column reads another added one."""
        added: list[tuple[str, Statement]] = []
        base, current = view.id, self.catalog.views.get(view.id)
        while current is not None:
            statement = self._statement(current)
            if not isinstance(statement, (DefineColumn, DefineLocalQuery)) or not self._is_column(statement, current):
                break
            if any(statement.path.last.text.casefold() in {c.name.casefold() for c in _columns(s)} for _, s in added):
                break
            added.insert(0, (statement.path.last.text, statement))
            base = _before(current)
            current = self.catalog.views.get(base)
        return self._extended(base, added, view)

    def _extended(self, base: str, added: Sequence[tuple[str, Statement]], view: View) -> exp.Query:
        taken: set[str] = set()
        for _, s in added:
            taken |= {t.alias_or_name.casefold() for t in _definition(s).find_all(exp.Table) if t.alias_or_name}
        alias = fresh(view.name.rpartition(".")[2][:1].lower(), taken | self.paths.aliases())
        new = {n.casefold(): self._value(s, alias, view) for n, s in added}
        items: list[exp.Expr] = []
        for c in self.catalog.schema_of(base).visible:
            overriding = new.pop(c.name.casefold(), None)
            items.append(exp.alias_(overriding, c.name) if overriding is not None else exp.column(c.name))
        # a column that is defined twice stands once, with its last definition
        items += [exp.alias_(value, n) for n, _ in added if (value := new.pop(n.casefold(), None)) is not None]
        query = exp.select(*items)
        view_before = self.catalog.views.get(base)
        query = query.from_(self.query(view_before).subquery(alias) if view_before is not None else _table(base, alias))
        self.paths.navigate(query, {alias: view.name}, {*taken, alias.casefold()})
        return query

    def _value(self, statement: Statement, alias: str, view: View) -> exp.Expr:
        if isinstance(statement, DefineColumn):
            value = expand_path_aggregates(statement.expression, lambda names: self.paths.follow(view.name, names))
        else:
            assert isinstance(statement, DefineLocalQuery)
            value = exp.Subquery(this=unwrap_query(statement.query).copy())
        self.paths.expand_all(value, {OWNER: view.name})
        requalify(value, OWNER, alias)
        return value

    def _nested(self, query: exp.Query, view: View) -> exp.Query:
        """A nested table: joined to its parent's rows, grouped by their key."""
        select = query.copy()
        if not isinstance(select, exp.Select):
            return select
        parent = base_name(view.parent or "")
        alias = fresh(parent.rpartition(".")[2][:1].lower(), self.paths.aliases())
        keys = [p for _, p in view.parent_key]
        self.paths.expand(select, {OWNER: parent}, (alias,))
        requalify(select, OWNER, alias)
        own = _table(view.parent or "", alias, quoted="." in parent)
        where = select.args.get("where")
        first = exp.Join(this=select.args["from_"].this, on=where.this if where is not None else exp.true())
        select.set("where", None)
        select.set("from_", exp.From(this=own))
        select.set("joins", [first, *(select.args.get("joins") or ())])
        if select.args.get("group") is not None or is_scalar(select) or any(e.find(exp.AggFunc) for e in select.expressions):
            group = select.args.get("group")
            plain = [e.unalias() for e in select.expressions if not e.find(exp.AggFunc)]
            written = group.expressions if group is not None else plain
            select.set("group", exp.Group(expressions=[*(exp.column(k, alias) for k in keys), *written]))
        select.set("expressions", [*(exp.column(k, alias) for k in keys), *select.expressions])
        self._name_versions(select, view)
        return select

    @staticmethod
    def _nested_data(view: View) -> exp.Query:
        """A table of nested data: the elements of its parent's array."""
        field = view.name.rpartition(".")[2]
        keys = [exp.alias_(exp.column(p, "t"), own) for own, p in view.parent_key]
        items = [exp.column(c.name, "e") for c in view.schema.visible]
        lateral = exp.Lateral(
            this=exp.Inline(this=exp.column(field, "t")), view=True, alias=exp.TableAlias(this=exp.to_identifier("e"))
        )
        return exp.select(*keys, *items).from_(_table(view.parent or "", "t")).lateral(lateral)


def _before(view: View) -> str:
    """The id of the version to which a view adds a column."""
    scans = (n.relation for n in view.plan.walk() if isinstance(n, Scan))
    return next(r for r in scans if base_name(r).casefold() == view.name.casefold())


def _table(id_: str, alias: str, *, quoted: bool = True) -> exp.Table:
    return exp.Table(this=exp.to_identifier(id_, quoted=quoted), alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _definition(statement: Statement) -> exp.Expr:
    """The expression or query of a statement that adds a column."""
    if isinstance(statement, DefineColumn):
        return statement.expression
    assert isinstance(statement, DefineLocalQuery)
    return statement.query


def _columns(statement: Statement) -> list[exp.Column]:
    """The columns of the table's own row that a definition reads."""
    own = isinstance(statement, DefineColumn)
    return [c for c in _definition(statement).find_all(exp.Column) if c.table == OWNER or (own and not c.table)]
