"""A SELECT over windows of SPL -> a plan: assigns windows to tables and selects the kind of plan.

In: the SELECT as written. Out: its plan, by `SplLowering` (aggregates of a window), `SplSorting` (its rows) or
`SplJoinLowering` (two windows).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.spl.lower_join import SplJoinLowering
from belvedere.lang.spl.lower_sort import SplSorting, sorts_rows
from belvedere.lang.spl.lower_window import SplLowering
from belvedere.lang.spl.spl_functions import as_called
from belvedere.plan.operators.nodes import Node
from belvedere.syntax.spl.window_tree import SplClause, clause_of
from belvedere.syntax.wording import did_you_mean

REFUSED = {
    "distinct": "DISTINCT",
    "qualify": "QUALIFY",
    "windows": "WINDOW w AS (...)",
}
REFUSED_OF_FIRINGS = {"order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET"}


def has_window(query: exp.Expr) -> bool:
    """Return whether a SELECT reads a table through a window of SPL."""
    if not isinstance(query, exp.Select):
        return False
    return bool(query.args.get("spl")) or any(clause_of(i) is not None for i in _sources(query))


def _sources(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    return [*([clause.this] if clause is not None else []), *(j.this for j in select.args.get("joins") or ())]


def lower_window(select: exp.Select, context: StatementContext) -> Node:
    """Return the plan of a SELECT over one window, or over two joined ones."""
    every = bool(select.args.get("stream"))
    plain, found = _split(select, context)
    if len(found) == 2:
        return SplJoinLowering(plain, context, [c for _, c in found], [s for s, _ in found]).whole()
    ((_, clause),) = found
    sorts = every and sorts_rows(plain)
    for key, shown in {**REFUSED, **(REFUSED_OF_FIRINGS if every else {})}.items():
        if plain.args.get(key) and not (sorts and key == "order"):
            hint = "write the window as a view, and this in a query of the view"
            raise context.fail("B5214", f"{shown} is not supported together with a window", _place(plain, key), hint)
    return (SplSorting if sorts else SplLowering)(plain, context, clause, every=every).whole()


def _place(select: exp.Select, key: str) -> exp.Expr:
    found = select.args[key]
    found = found[0] if isinstance(found, list) else found
    return found if isinstance(found, exp.Expr) and "start" in found.meta else select


def _split(select: exp.Select, context: StatementContext) -> tuple[exp.Select, list[tuple[exp.Expr, SplClause]]]:
    """Return the SELECT without its windows, and each table with a window, in the order of FROM."""
    plain = as_called(select.copy())
    sources = _sources(plain)
    clauses: list[tuple[exp.Expr, SplClause]] = [(i, c) for i in sources if (c := clause_of(i)) is not None]
    for clause in plain.args.get("spl") or ():
        clauses.append((_labelled(clause, sources, context), clause))
    for n, (source, clause) in enumerate(clauses):
        _check_label(source, clause, context)
        if any(source is other for other, _ in clauses[:n]):
            raise context.fail("B5215", "a table has two windows", clause, "read it twice, or define two views")
    if len(clauses) < len(sources) or len(sources) > 2 or plain.args.get("laterals"):
        hint = (
            "give both tables of the join a window (sliding, count(1), partitioned BY key is the last row of a "
            "key), or join views"
        )
        raise context.fail("B5214", "a join is not supported together with a window", clauses[0][1], hint)
    for source in sources:
        source.set("spl", None)
    plain.set("spl", None)
    plain.set("stream", None)
    return plain, [(s, next(c for other, c in clauses if other is s)) for s in sources]


def _name(source: exp.Expr) -> str:
    return source.alias or (source.name if isinstance(source, exp.Table) else "")


def _labelled(clause: SplClause, sources: Sequence[exp.Expr], context: StatementContext) -> exp.Expr:
    label = clause.args["label"]
    found = [s for s in sources if _name(s).casefold() == label.name.casefold()]
    if len(found) != 1:
        hint = did_you_mean(label.name, [_name(s) for s in sources])
        raise context.fail("B5215", f"no table of FROM is called `{label.name}`", label, hint)
    return found[0]


def _check_label(source: exp.Expr, clause: SplClause, context: StatementContext) -> None:
    label = clause.args.get("label")
    if label is not None and label.name.casefold() != _name(source).casefold():
        raise context.fail(
            "B5215", f"the window has the label `{label.name}`, but the table has none", label, "remove the label"
        )
