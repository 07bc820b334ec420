"""Checks of a query's form, before names are resolved.

In: a query whose nodes know their positions. Out: problems and notices. Marks a WHERE that follows GROUP BY.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.errors import Severity
from belvedere.syntax.problems import Problem


def check_query(query: exp.Expr) -> list[Problem]:
    """All findings of this module, in the order of the text."""
    found = []
    for select in query.find_all(exp.Select):
        found += _empty_clauses(select)
        where, group = select.args.get("where"), select.args.get("group")
        if where is not None and group is not None and where.meta["start"] > group.meta["start"]:
            found.append(_where_after_group(select, where, group))
    return found


def _empty_clauses(select: exp.Select) -> list[Problem]:
    group = select.args.get("group")
    found = []
    if group is not None and not any(group.args.values()):
        found.append(Problem("B1002", "GROUP BY needs at least one key", group.meta["start"], group.meta["end"]))
    for node in select.find_all(exp.In):
        if not any(node.args.get(key) for key in ("expressions", "query", "unnest", "field")):
            found.append(Problem("B1002", "IN needs at least one value", node.meta["start"], node.meta["end"]))
    return found


def _where_after_group(select: exp.Select, where: exp.Where, group: exp.Group) -> Problem:
    where.meta["after_group"] = True
    keys = {key.alias_or_name.casefold() for key in group.expressions}
    keys |= {item.name.casefold() for item in select.expressions if isinstance(item, exp.Column) and item in group.expressions}
    for column in where.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(column, exp.Column) and column.name.casefold() not in keys:
            message = f"WHERE follows GROUP BY, but `{column.name}` is not a group key"
            hint = "write WHERE before GROUP BY, or HAVING for a condition on groups"
            return Problem("B1023", message, column.meta["start"], column.meta["end"], hint)
    start = where.meta["start"]
    notice = Problem(
        "B1022", "WHERE stands after GROUP BY", start, start + 5, "write it before GROUP BY (`belvedere fmt` moves it)"
    )
    notice.severity = Severity.NOTICE
    return notice
