"""Checks of a query's form, before names are resolved.

In: a query whose nodes know their positions. Out: problems and notices. Marks a WHERE that follows GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from belvedere.errors import Severity
from belvedere.syntax.forms.builders import ROUNDS
from belvedere.syntax.problems import Problem


def check_query(query: exp.Expr) -> list[Problem]:
    """Return all findings of this module, in the order of the text."""
    found = []
    for select in query.find_all(exp.Select):
        found += _empty_clauses(select)
        where, group = select.args.get("where"), select.args.get("group")
        if where is not None and group is not None and where.meta["start"] > group.meta["start"]:
            found.append(_where_after_group(select, where, group))
    return found


def rounding_calls(tree: exp.Expr, text: str) -> Iterator[Problem]:
    """Yield a warning (B3055) for each call that rounds a time down here and returns a number in Spark; `text` is the
    script."""
    for node in tree.find_all(exp.TimestampTrunc):
        start, end = node.meta.get("start"), node.meta.get("end")
        if not node.meta.get(ROUNDS) or start is None or end is None or node.this is None:
            continue
        unit = node.text("unit")
        shown = f"{unit.lower()}(t)"
        message = f"`{shown}` rounds a time down to the {unit.lower()}, but is a number in Spark"
        hint = (
            f"write date_trunc('{unit}', t) to round down, extract({unit} FROM t) for the number: both are the "
            "same in Spark"
        )
        inner = node.this.meta.get("start"), node.this.meta.get("end")
        fix = f"date_trunc('{unit}', {text[inner[0] : inner[1]]})" if None not in inner else None
        warning = Problem("B3055", message, start, end, hint, fix)
        warning.severity = Severity.WARNING
        yield warning


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
    keys |= {
        item.name.casefold()
        for item in select.expressions
        if isinstance(item, exp.Column) and item in group.expressions
    }
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
