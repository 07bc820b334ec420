"""`T.r := SELECT * FROM X x WHERE x.k = _.k ORDER BY ... LIMIT n`: a relationship written as a query.

In: a local query as written. Out: the relationship, if the query selects unchanged rows of one relation. None for other
queries, which define a column or a nested table. Nothing is resolved here.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.names.definitions import Definitions
from belvedere.lang.select.select_list import ordinal
from belvedere.syntax.query_tree import path_of, unwrap_query
from belvedere.syntax.statement_tree import DefineLocalQuery, DefineRelationship

CLAUSES = frozenset(("kind", "expressions", "from_", "where", "order", "limit"))
TABLE = frozenset(("this", "db", "catalog", "alias"))


def selected_relationship(statement: DefineLocalQuery, definitions: Definitions) -> DefineRelationship | None:
    """Return the relationship that a local query defines; None if it computes new rows."""
    query = unwrap_query(statement.query)
    if not isinstance(query, exp.Select) or not _given(query) <= CLAUSES:
        return None
    table = _table(query, definitions)
    where = query.args.get("where")
    order, limit = query.args.get("order"), query.args.get("limit")
    if table is None or not _is_star(query, table) or (where is not None and where.find(exp.Query) is not None):
        return None
    orders = tuple(o for o in order.expressions if isinstance(o, exp.Ordered)) if order is not None else ()
    if order is not None and (order.args.get("within") is not None or not all(map(_by_row, orders))):
        return None
    first = _number(limit) if limit is not None else None
    written = limit.expression if isinstance(limit, exp.Limit) else None
    most = written.name if statement.parameters and isinstance(written, (exp.Placeholder, exp.Parameter)) else None
    if limit is not None and first is None and not most:
        return None
    return DefineRelationship(
        span=statement.span,
        doc=statement.doc,
        path=statement.path,
        joins=(exp.Join(this=table.copy()),),
        where=where.this if where is not None else None,
        order=orders,
        limit=first,
        most=most,
        parameters=statement.parameters,
    )


def _given(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _table(query: exp.Select, definitions: Definitions) -> exp.Table | None:
    """Return the only relation of FROM, by its name."""
    clause = query.args.get("from_")
    table = clause.this if clause is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or not _given(table) <= TABLE:
        return None
    alias = table.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return None
    path = path_of(table)
    named = len(path) == 1 or definitions.find(".".join(p.name for p in path)) is not None
    return table if named and path[0].name != OWNER else None


def _is_star(query: exp.Select, table: exp.Table) -> bool:
    """Return whether the query selects `*` or `x.*`, without EXCEPT."""
    if len(query.expressions) != 1:
        return False
    item = query.expressions[0]
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star) or _given(star):
        return False
    return star is item or item.table.casefold() == table.alias_or_name.casefold()


def _by_row(order: exp.Ordered) -> bool:
    """Return whether a sort key is an expression over one row: not the number of an output column, not an aggregate."""
    several = (isinstance(n, exp.Query | exp.Window) or is_aggregate(n) for n in order.walk())
    return ordinal(order.this) is None and not any(several)


def _number(limit: exp.Expr) -> int | None:
    written = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(written, exp.Literal) or written.is_string or not written.name.isdigit():
        return None
    return int(written.name) or None
