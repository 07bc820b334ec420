"""WITH RECURSIVE: an entry that reads itself becomes a `Recursion`.

In: the entry, `base UNION [ALL] step`. Out: a plan whose visible columns are the base's, with the names that the entry
gives. The step sees only the rows of the level before it, and each of its rows derives from one of these. So it has no
aggregate over them, reads them once, and not in subqueries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import counted
from belvedere.functions import spark_types as t
from belvedere.lang.select.query_frame import StatementContext
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import (
    Distinct,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    SetKind,
    SetOperation,
    Union,
    Unnest,
)
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.recursion import LEVELS, Last, Recursion, parted
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, has_map
from belvedere.syntax.query_tree import unwrap_query
from belvedere.syntax.wording import misfit

FORM = "write WITH RECURSIVE t AS (first rows UNION ALL SELECT ... FROM t ...)"
OUTSIDE = "compute it in the query that reads the recursion"
PRESERVED = {
    JoinKind.INNER: (0, 1),
    JoinKind.LEFT: (0,),
    JoinKind.RIGHT: (1,),
    JoinKind.SEMI: (0,),
    JoinKind.ANTI: (0,),
}
"""Sides of a join for which each row gives rows of its own."""


def references(query: exp.Expr, name: str) -> list[exp.Table]:
    """Return the places where a query reads a WITH entry of this name, unless it defines the name itself."""
    requested = name.casefold()
    found = (table for table in query.find_all(exp.Table) if not table.db and table.name.casefold() == requested)
    return [table for table in found if not _is_shadowed(table, query, requested)]


def _is_shadowed(table: exp.Table, query: exp.Expr, name: str) -> bool:
    around: exp.Expr | None = table
    while around is not None and around is not query:
        clause = around.args.get("with_")
        if clause is not None and any(e.alias.casefold() == name for e in clause.expressions):
            return True
        around = around.parent
    return False


def refuse_later(entries: list[exp.CTE], context: StatementContext) -> None:
    """Reject an entry that reads a later one: mutual recursion, or the wrong order."""
    for place, entry in enumerate(entries):
        for later in entries[place + 1 :]:
            known = later.alias.casefold() in context.tables or context.definitions.find(later.alias) is not None
            found = [] if known else references(entry.this, later.alias)
            if found:
                mutual = bool(references(later.this, entry.alias))
                hint = (
                    "combine both into one recursion, with a column that distinguishes their rows"
                    if mutual
                    else "define it before"
                )
                raise context.fail(
                    "B3051", f"`{entry.alias}` reads `{later.alias}`, which is defined after it", found[0], hint
                )


def lower_recursion(entry: exp.CTE, context: StatementContext) -> Node:
    """Lower an entry that reads itself."""
    name, query = entry.alias, unwrap_query(entry.this)
    first = references(entry.this, name)[0]
    if not isinstance(query, exp.Union) or query.args.get("by_name"):
        raise context.fail(
            "B3051", f"`{name}` reads itself, so it must be a UNION of first rows and a step", first, FORM
        )
    _refuse_clauses(name, query, context)
    in_base = references(query.left, name)
    if in_base:
        nested = isinstance(unwrap_query(query.left), exp.Union)
        hint = "put the steps in parentheses: first rows UNION ALL (step UNION ALL step)" if nested else FORM
        raise context.fail("B3051", f"the first rows of `{name}` must not read `{name}`", in_base[0], hint)
    base = _named(context.lower_query(query.left, replace(context, repeats=True)), entry, context)
    columns = tuple(Column(c.name, c.type) for c in base.schema)
    last = Last(columns, context.names.fresh("recursion"))
    inside = replace(context, tables={**context.tables, name.casefold(): last}, repeats=True)
    step = _fitting(context.lower_query(query.right, inside), columns, name, query.right, context)
    _check_step(step, last, name, first, context)
    spine, sides = parted(step, last)
    distinct = query.args.get("distinct") is not False
    copy = None if distinct else unused_name("copy", {c.name for c in columns})
    levels = entry.args.get("levels")
    most = LEVELS if levels is None else int(levels.name)
    return Recursion(name, columns, base, sides, spine, distinct, most, copy)


def _refuse_clauses(name: str, query: exp.Union, context: StatementContext) -> None:
    """Reject clauses around the UNION: their meaning in a recursion is undefined."""
    clause = query.args.get("with_")
    for entry in clause.expressions if clause is not None else ():
        if found := references(entry.this, name):
            raise context.fail(
                "B3051",
                f"WITH inside `{name}` must not read `{name}`",
                found[0],
                "write it as a subquery of FROM in the step",
            )
    for key, word in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET"), ("emit", "EMIT")):
        if query.args.get(key):
            raise context.fail("B3051", f"{word} of the recursion `{name}`", query.args[key], OUTSIDE)


def _named(base: Node, entry: exp.CTE, context: StatementContext) -> Node:
    """Return the base with only its visible columns, under the names of the entry."""
    visible = base.schema.visible
    names = [c.name for c in entry.args["alias"].columns] or [c.name for c in visible]
    if len(names) != len(visible):
        raise context.fail("B3025", misfit(entry.alias, visible, names), entry)
    for c in visible:
        if has_map(c.type):
            message = f"column `{c.name}` is {t.a_type(c.type)}, which a recursion cannot compare"
            raise context.fail("B3053", message, entry, f"select map_entries({c.name})")
        if pa.types.is_null(c.type):
            message = f"column `{c.name}` has no type in the first rows of `{entry.alias}`"
            raise context.fail(
                "B3053", message, entry, "write CAST(NULL AS STRING), with the type of the column in the step"
            )
    return Project(base, tuple(item_of(c, n) for n, c in zip(names, visible, strict=True)))


def _fitting(step: Node, columns: tuple[Column, ...], name: str, query: exp.Expr, context: StatementContext) -> Node:
    """Return the step's visible columns with the names and types of the base's."""
    visible = step.schema.visible
    if len(visible) != len(columns):
        sides = f"{counted(len(columns), 'column')}, and its step {counted(len(visible), 'column')}"
        raise context.fail(
            "B3052", f"the first rows of `{name}` have {sides}", query, "select the same number of columns in both"
        )
    items = []
    for c, first in zip(visible, columns, strict=True):
        if t.common_type(first.type, c.type) != first.type:
            message = (
                f"column `{first.name}` is {t.a_type(first.type)} in the first rows of `{name}` and "
                f"{t.a_type(c.type)} in its step"
            )
            hint = f"CAST one of them: to {t.type_text(first.type)} in the step, or to a wider type in the first rows"
            raise context.fail("B3053", message, query, hint)
        expr = column(c.name)
        items.append(Item(first.name, expr if c.type == first.type else t.cast(expr, first.type), first.type))
    return Project(step, tuple(items))


def _check_step(step: Node, last: Last, name: str, place: exp.Table, context: StatementContext) -> None:
    """Reject a step in which a row may derive from several rows of the preceding level, or from the absence of rows."""

    def refuse(what: str, hint: str) -> NoReturn:
        raise context.fail("B3051", f"the step of `{name}` {what}", place, hint)

    def check(node: Node) -> None:
        reading = [n for n, i in enumerate(node.inputs) if last in i.walk()]
        match node:
            case Last() | Project() | Filter() | Unnest() | Union() | Distinct():
                pass
            case Join() if len(reading) > 1:
                refuse(f"reads `{name}` more than once", "read it once, and join other tables")
            case Join() if reading[0] not in PRESERVED.get(node.kind, ()):
                refuse(
                    f"tests `{name}` in a subquery or on the outer side of a join",
                    f"write `{name}` first in FROM, and join or test the other tables",
                )
            case SetOperation() if len(reading) > 1 or (reading != [0] and node.kind is SetKind.EXCEPT):
                refuse(f"compares rows of `{name}` with each other, or excludes them", OUTSIDE)
            case Join() | SetOperation():
                pass
            case _:
                refuse(f"computes over many rows of `{name}` at once: an aggregate, a window or a LIMIT", OUTSIDE)
        for i in reading:
            check(node.inputs[i])

    check(step)
