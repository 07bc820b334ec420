"""Navigation to a single related row inside an expression: `m.parent.name`, `lastReading.temp`.

In: a dotted name that does not begin with a column, and the query's FROM items. Out: its value. It is a LEFT JOIN along
the relationships if the frame's FROM is complete, else a scalar subquery. More than one related row is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from belvedere.catalog.resolved_query import ResolvedPath
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.scope import FromItem, Scope, dotted, private_column
from belvedere.lang.relationships.path_aggregates import over_path
from belvedere.lang.select.query_frame import Frame, StatementContext
from belvedere.lang.select.subqueries import Pending, join_single
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr
from belvedere.syntax.query_tree import span_of
from belvedere.syntax.wording import did_you_mean


@dataclass(frozen=True)
class Navigation:
    """A FROM item, the relationships from it, and the column (with its fields) at their end."""

    source: FromItem
    steps: tuple[exp.Identifier, ...]
    rest: tuple[exp.Identifier, ...]
    target: NamedRelation
    resolved: ResolvedPath

    @property
    def path(self) -> str:
        """Return the relationships, by folded name."""
        return ".".join((self.source.alias, *(s.name for s in self.steps))).casefold()

    def query(self, column: exp.Expr) -> exp.Select:
        """Return a query of a column (or `*`) over the related rows."""
        return over_path([exp.to_identifier(self.source.alias, quoted=True), *self.steps], column, self.rest[0])


def navigation(context: StatementContext, scope: Scope, parts: Sequence[exp.Identifier]) -> Navigation | None:
    """Return how a name leads along relationships to a column; None if it does not."""
    source = scope.source(parts[0].name)
    if source is not None and (found := _walk(context, source, parts[1:])) is not None:
        return found
    starts = [s for s in scope.sources if s.addressable and s.bare]
    ways = [w for s in starts if (w := _walk(context, s, parts)) is not None]
    if len(ways) > 1:
        hint = " or ".join(f"`{w.source.alias}.{dotted(parts)}`" for w in ways)
        raise context.fail("B2003", f"`{dotted(parts)}` could start at more than one table", parts[0], f"write {hint}")
    return ways[0] if ways else None


def _walk(context: StatementContext, source: FromItem, parts: Sequence[exp.Identifier]) -> Navigation | None:
    if source.starts is None:
        return None
    way = context.definitions.steps(source.starts, (p.name for p in parts))
    if not 0 < len(way) < len(parts):
        return None
    target = context.definitions.relations[way[-1].target]
    resolved = ResolvedPath(source.alias, steps=tuple(way))
    return Navigation(source, tuple(parts[: len(way)]), tuple(parts[len(way) :]), target, resolved)


def navigate(frame: Frame, found: Navigation, written: exp.Expr) -> Expr:
    """Return the value at the end; NULL if there is no related row."""
    last = found.target.schema.find(found.rest[0].name)
    if last is not None and last.name in found.target.sealed:
        raise private_column(last.name, span_of(found.rest[0], frame.context.file))
    if last is None:
        shown = f"{found.source.alias}.{dotted(found.steps)}"
        names = [c.name for c in found.target.schema.visible]
        hint = did_you_mean(found.rest[0].name, names)
        raise frame.fail("B2002", f"`{shown}` has no column `{found.rest[0].name}`", found.rest[0], hint)
    frame.context.resolved(found.steps, found.resolved)
    if not frame.final or last.hidden:
        return _fields(_pending(frame, found, found.rest[0].copy(), written).value(), found)
    if found.path not in frame.navigated:
        outputs = join_single(frame, _pending(frame, found, exp.Star(), written))
        names = [c.name.casefold() for c in found.target.schema.visible]
        frame.navigated[found.path] = dict(zip(names, (o.name for o in outputs), strict=True))
    return _fields(column(frame.navigated[found.path][last.name.casefold()]), found)


def _pending(frame: Frame, found: Navigation, column: exp.Expr, written: exp.Expr) -> Pending:
    query = found.query(column)
    inner = frame.subquery(query)
    if not inner.single:
        rows, last = dotted(found.steps), found.rest[0].name
        hint = (
            f"aggregate, as in `max({rows}.{last})` in a column's definition, or join it: `JOIN "
            f"{found.source.alias}.{rows} x`"
        )
        raise frame.fail("B4032", f"`{rows}` can have more than one row", written, hint)
    return Pending("scalar", query, inner, written)


def _fields(value: Expr, found: Navigation) -> Expr:
    for field in found.rest[1:]:
        value = exp.Dot(this=value, expression=exp.to_identifier(field.name, quoted=True))
    return value
