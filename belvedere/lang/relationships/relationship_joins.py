"""Joins of a relationship: USING and NATURAL become conditions, and unsupported joins are rejected.

In: `T.r := JOIN ...` as parsed, the FROM item of its owner. Out: the same statement, with the condition of the first
join in ON only. The rows of a relationship belong to a row of the owner, so an outer join on the owner's side has no
meaning in a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.lang.select.from_items import lower_item
from belvedere.lang.select.from_using import shared_columns
from belvedere.lang.select.query_frame import Frame
from belvedere.plan.expressions import conjuncts
from belvedere.syntax.query_tree import path_of
from belvedere.syntax.statement_tree import DefineRelationship

KEPT = ("", "INNER", "CROSS", "OUTER")
"""Kinds of joins whose rows are those of the last table."""


def spelled_out(frame: Frame, statement: DefineRelationship) -> DefineRelationship:
    """Return the statement with the first join's USING or NATURAL in its ON. Raises B4045, and B2002 for columns that
    are not on both sides.

    `frame` holds the owner as its only FROM item.
    """
    for number, join in enumerate(statement.joins):
        _refuse_kind(frame, statement, join, number)
    _refuse_unlinked(frame, statement)
    first = statement.joins[0]
    natural = (first.args.get("method") or "").upper() == "NATURAL"
    if not natural and not first.args.get("using"):
        return statement
    if not isinstance(first.this, exp.Table) or path_of(first.this)[0].name == OWNER:
        words = "NATURAL" if natural else "USING"
        raise frame.fail("B4045", f"{words} needs the name of a table", first, "write the condition in ON")
    _, targets = lower_item(Frame(frame.context), first.this)
    names = [theirs.name for _, theirs in shared_columns(frame, first, targets)]
    return replace(statement, joins=(with_equalities(first, names), *statement.joins[1:]))


def with_equalities(join: exp.Join, names: Sequence[str] | None = None) -> exp.Join:
    """Return a join whose ON equates the owner's and the table's columns of these names (by default those of USING)."""
    shared = [i.name for i in join.args.get("using") or ()] if names is None else names
    made = join.copy()
    made.set("using", None)
    made.set("method", None)
    alias = join.this.alias_or_name
    equal = [exp.EQ(this=_column(alias, n), expression=_column(OWNER, n)) for n in shared]
    for condition in equal:
        for node in condition.walk():
            node.meta.update(join.meta)
    if equal:
        made.set("on", exp.and_(*equal, copy=False))
    return made


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True))


def _refuse_kind(frame: Frame, statement: DefineRelationship, join: exp.Join, number: int) -> None:
    side, kind, method = ((join.args.get(a) or "").upper() for a in ("side", "kind", "method"))
    outer = side in ("RIGHT", "FULL") or (side == "LEFT" and not number)
    if outer and kind in KEPT:
        owner = ".".join(part.text for part in statement.path.owner)
        message = (
            f"{side} JOIN is not allowed in a relationship: it adds rows that are not related to a row of `{owner}`"
        )
        last = statement.path.last.text
        hint = (
            f"write JOIN; to include rows of `{owner}` without related rows, query `FROM {owner} t LEFT JOIN "
            f"t.{last} r`"
        )
        raise frame.fail("B4045", message, join, hint)
    if (
        kind not in KEPT
        or method not in ("", "NATURAL")
        or (method == "NATURAL" and number == 0 < len(statement.joins) - 1)
    ):
        shown = " ".join(w for w in (method, side, kind, "JOIN") if w)
        hint = "write JOIN ... ON or USING, or define a view and a relationship to it"
        raise frame.fail("B4045", f"{shown} is not supported in a relationship", join, hint)


def _refuse_unlinked(frame: Frame, statement: DefineRelationship) -> None:
    """Reject a further table without a join condition: each of its rows would occur once for each row before it."""
    ons = [j.args.get("on") for j in statement.joins]
    conditions = [c for written in (*ons, statement.where) for c in conjuncts(written)]
    linked = [{c.table.casefold() for c in condition.find_all(exp.Column)} for condition in conditions]
    for join in statement.joins[1:]:
        table = join.this
        own = table.alias_or_name.casefold()
        if (
            not isinstance(table, exp.Table)
            or len(path_of(table)) > 1
            or join.args.get("using")
            or join.args.get("method")
        ):
            continue
        if join.args.get("on") is not None or any(own in names and (len(names) > 1 or "" in names) for names in linked):
            continue
        message = f"no condition joins `{table.alias_or_name}`: this would be a cross join"
        hint = f"write JOIN {table.sql(dialect='spark')} ON ..., or remove the other table"
        raise frame.fail("B4045", message, join, hint)
