"""USING and NATURAL: merges the columns that both sides of a join share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.functions.spark_types import Typed
from belvedere.lang.names.scope import FromItem, SourceColumn
from belvedere.lang.select.query_frame import Frame
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Expr, JoinKind, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.syntax.wording import did_you_mean


def join_using(frame: Frame, join: exp.Join, right: Node, sources: Sequence[FromItem], kind: JoinKind) -> None:
    """Join with one column for both sides: the left's (FULL: the one that is not missing)."""
    shared = shared_columns(frame, join, sources)
    lefts = list(frame.scope.sources)
    frame.scope.sources += sources
    frame.join(right, kind, equalities(shared))
    frame.scope.merge([_merged(frame, kind, left, other) for left, other in shared], lefts, sources)


def equalities(shared: Sequence[tuple[SourceColumn, SourceColumn]]) -> Expr | None:
    """Return the condition of the join."""
    return conjunction([exp.EQ(this=column(a.internal), expression=column(b.internal)) for a, b in shared])


def shared_columns(
    frame: Frame, join: exp.Join, sources: Sequence[FromItem]
) -> list[tuple[SourceColumn, SourceColumn]]:
    """Return the pairs of columns in USING, or all pairs of the same name, of the left and the right side."""
    left_sources = list(frame.scope.sources)
    left_merged = {m.column.name.casefold(): m.column for m in reversed(frame.scope.merged)}  # the first of a name
    written = [i.name for i in join.args.get("using") or ()]
    names = written or [
        n
        for n in dict.fromkeys(n for s in left_sources for n in s.names)
        if any(s.seen(n) is not None for s in sources)
    ]
    return [
        (left_merged.get(n.casefold()) or _single(frame, left_sources, n, join), _single(frame, sources, n, join))
        for n in names
    ]


def _merged(frame: Frame, kind: JoinKind, left: SourceColumn, right: SourceColumn) -> SourceColumn:
    if kind is JoinKind.RIGHT:
        return replace(right, name=left.name)
    if kind is not JoinKind.FULL:
        return left
    internal = frame.context.names.fresh("using") + "." + left.name
    value = exp.Coalesce(this=column(left.internal), expressions=[column(right.internal)])
    frame.plan = Project(frame.plan, (*map(item_of, frame.plan.schema), frame.item(internal, value)))
    found = frame.plan.schema[internal]
    return SourceColumn(left.name, internal, Typed(found.type, found.nullable))


def _single(frame: Frame, sources: Sequence[FromItem], name: str, node: exp.Expr) -> SourceColumn:
    found = [c for s in sources if (c := s.seen(name)) is not None]
    if len(found) == 1:
        return found[0]
    names = [n for s in sources for n in s.names]
    problem = "is not on both sides" if not found else "is there more than once"
    raise frame.fail("B2002", f"column `{name}` of USING {problem}", node, did_you_mean(name, names))
