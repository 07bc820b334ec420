"""Names of WITH that read the row of the enclosing table: `WITH x AS (SELECT * FROM _.orders) SELECT sum(x.amount) FROM
x`.

In: a local query as written. Out: the same with such names replaced by subqueries in FROM; other names of WITH stay.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.syntax.query_tree import path_of


def inline_local_tables(query: exp.Query) -> exp.Query:
    """Return a copy of a local query in which no WITH query reads `_`."""
    clause = query.args.get("with_")
    if clause is None or clause.args.get("recursive"):
        return query
    copied = query.copy()
    clause = copied.args["with_"]
    for entry in list(clause.expressions):
        if _reads_owner(entry.this):
            entry.pop()
            _put(copied, entry)
    if not clause.expressions:
        copied.set("with_", None)
    return copied


def _put(query: exp.Query, entry: exp.CTE) -> None:
    """Replace a name of WITH by its query, in the query and in the names after it."""
    for table in list(query.find_all(exp.Table)):
        path = path_of(table)
        if len(path) != 1 or path[0].name.casefold() != entry.alias.casefold():
            continue
        alias = table.args.get("alias") or exp.TableAlias(this=path[0].copy())
        columns = entry.args["alias"].columns
        if columns and not alias.columns:
            alias = exp.TableAlias(this=alias.this.copy(), columns=[c.copy() for c in columns])
        made = exp.Subquery(this=entry.this.copy(), alias=alias.copy())
        made.meta.update(table.meta)
        made.set("joins", [j.copy() for j in table.args.get("joins") or ()] or None)
        table.replace(made)


def _reads_owner(query: exp.Expr) -> bool:
    return any(i.name == OWNER and not i.args.get("quoted") for i in query.find_all(exp.Identifier))
