"""Aggregates over paths, rewritten as local queries: `avg(sensors.lastReading.temp)`, `sum(items.price *
items.amount)`.

In: an expression, and the resolution of names along relationships. Out: the same with scalar subqueries.

The rows of an aggregate are those at the end of its longest path. Its other paths are prefixes of that one, or lead to
a single row from one of its steps. A nested aggregate is computed for each row before the last step to several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.functions.function_table import is_aggregate, unwrap_aggregate
from belvedere.lang.names.scope import name_parts
from belvedere.lang.select.grouping import contains_aggregate

PATH_ALIAS = "path"
"""Alias of related rows in a subquery that replaces a dotted name."""


@dataclass(frozen=True)
class RelatedPath:
    """A dotted name resolved: from a row (its alias) along steps to the rest of the name, a column and its fields."""

    start: str
    steps: tuple[exp.Identifier, ...]
    rest: tuple[exp.Identifier, ...]
    many: int
    """Number of steps up to the last one that may lead to several rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the start and the steps, folded."""
        return (self.start.casefold(), *(s.name.casefold() for s in self.steps))


@dataclass(frozen=True)
class PathNames:
    """Resolution of names along relationships at the position of an expression."""

    lead: Callable[[Sequence[exp.Identifier]], RelatedPath | None]
    """Function that resolves a dotted name; None if it does not begin with a relationship."""
    own: Callable[[exp.Identifier], str | None]
    """Function that returns the alias of the row with a column of this name."""
    refuse: Callable[[str, exp.Expr, str], Exception]
    """Function that creates an error from a message, a position and a hint."""


def is_scalar(query: exp.Select) -> bool:
    """Return whether a query gives one value per row of the enclosing table: one output column with aggregates, without
    GROUP BY."""
    return len(query.expressions) == 1 and query.args.get("group") is None and contains_aggregate(query.expressions[0])


def expand_path_aggregates(expression: exp.Expr, ways: PathNames) -> exp.Expr:
    """Rewrite `avg(sensors.lastReading.temp)` as `(SELECT avg(path.temp) FROM _.sensors.lastReading path)`."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query) or not is_aggregate(unwrap_aggregate(node)):
            return node
        return LocalSelect(node, ways).subquery() if _base(node, ways) else node

    return expression.copy().transform(change)


def path_aggregates(expression: exp.Expr, ways: PathNames) -> Iterator[exp.Expr]:
    """Yield the outermost aggregates of an expression over a path to several rows, except those of window functions."""
    if isinstance(expression, exp.Query | exp.Window):
        return
    if is_aggregate(unwrap_aggregate(expression)):
        if any(w.many for _, w in _all_references(expression, ways)):
            yield expression
        return
    for child in expression.iter_expressions():
        yield from path_aggregates(child, ways)


class LocalSelect:
    """The query of one aggregate. `known` are aliases of outer queries, by the names that lead to their rows."""

    def __init__(self, call: exp.Expr, ways: PathNames, known: dict[tuple[str, ...], str] | None = None):
        self.call, self.ways = call.copy(), ways
        self.base = _base(call, ways)
        self.aliases = known or {(way.start.casefold(),): way.start for _, way in _all_references(call, ways)}
        self.around = set(self.aliases)
        self.aliases = dict(self.aliases)

    def subquery(self) -> exp.Subquery:
        """Return `(SELECT agg(...) FROM ...)`, with the position of the call."""
        cuts = {len(self.base), *(len(b) for _, b in _parts(self.call, self.ways) if len(b) < len(self.base))}
        known = max((n for n in self.aliases if n == self.base[: len(n)]), key=len)
        items, at = [], known
        for length in sorted(c for c in cuts if c > len(known)):
            items.append(self._item(at, length))
            at = self.base[:length]
        for node, way in list(_references(self.call, self.ways)):
            node.replace(self._named(node, way))
        for inner, _ in list(_inner(self.call, self.ways)):
            inner.replace(LocalSelect(inner, self.ways, self.aliases).subquery())
        for node in list(_columns(self.call)):
            self._qualify(node)
        first, *others = items
        query = exp.Select(expressions=[self.call], from_=exp.From(this=first))
        query.set("joins", [exp.Join(this=table) for table in others])
        query.meta.update(self.call.meta)
        return exp.Subquery(this=query)

    def _item(self, at: tuple[str, ...], length: int) -> exp.Table:
        """Return a FROM item: the steps of the base from one named row to the next."""
        _, way = next(
            (n, w) for n, w in _all_references(self.call, self.ways) if w.names[:length] == self.base[:length]
        )
        steps = [s.copy() for s in way.steps[len(at) - 1 : length - 1]]
        number = len(self.aliases)
        self.aliases[self.base[:length]] = alias = PATH_ALIAS if number == 1 else f"{PATH_ALIAS}_{number}"
        name = exp.TableAlias(this=exp.to_identifier(alias))
        return exp.Table(this=exp.Dot.build([_alias(self.aliases[at]), *steps]), alias=name)

    def _named(self, node: exp.Expr, way: RelatedPath) -> exp.Expr:
        """Return the name over the aliases: that of the nearest preceding row, followed by single steps and fields."""
        if not way.rest and way.names in self.aliases:
            return exp.Star()
        near = max((n for n in self.aliases if n == way.names[: len(n)]), key=len)
        if (
            near in self.around and len(near) < len(way.names) and way.rest
        ):  # another single row, from a row of the outer query
            beside = over_path((_alias(self.aliases[near]), *way.steps[len(near) - 1 :]), way.rest[0].copy(), node)
            value: exp.Expr = exp.Subquery(this=beside)
            for field in way.rest[1:]:
                value = exp.Dot(this=value, expression=field.copy())
            return value
        parts = (_alias(self.aliases[near]), *way.steps[len(near) - 1 :], *way.rest)
        return _dotted(parts, node)

    def _qualify(self, node: exp.Column) -> None:
        """Qualify a column of the outer row, because a related row may have a column of that name."""
        owner = self.ways.own(node.this) if not node.table and isinstance(node.this, exp.Identifier) else None
        if owner is not None:
            node.set("table", _alias(owner))


def _alias(name: str) -> exp.Identifier:
    """Return the alias of a row as an identifier; `_`, the row of the enclosing table, is not quoted."""
    return exp.to_identifier(name, quoted=name != OWNER)


def _base(call: exp.Expr, ways: PathNames) -> tuple[str, ...]:
    """Return the names of the rows that an aggregate is over; empty if it has no path."""
    parts = _parts(call, ways)
    longest = max((names for _, names in parts), key=len, default=())
    for node, names in parts:
        if names != longest[: len(names)]:
            shown = [".".join(n[1:]) for n in (longest, names)]
            message = (
                f"an aggregate cannot be over the rows of `{shown[0]}` and of `{shown[1]}`: neither leads to the other"
            )
            raise ways.refuse(message, node, "aggregate each of them, and combine the values")
    return longest


def _parts(call: exp.Expr, ways: PathNames) -> list[tuple[exp.Expr, tuple[str, ...]]]:
    """Yield the paths and nested aggregates of an aggregate, with the names of their rows, up to the last step to
    several rows.

    If no path leads to several rows, the first step of each is followed.
    """
    found = list(_references(call, ways))
    several = any(w.many for _, w in _all_references(call, ways))
    parts = [(n, w.names if _is_alone(call, n) else w.names[: 1 + (w.many if several else 1)]) for n, w in found]
    return [*parts, *_inner(call, ways)]


def _is_alone(call: exp.Expr, node: exp.Expr) -> bool:
    """Return whether a path is the only argument of an aggregate."""
    argument = unwrap_aggregate(call).args.get("this")
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    return argument is node


def _inner(call: exp.Expr, ways: PathNames) -> Iterator[tuple[exp.Expr, tuple[str, ...]]]:
    """Yield the aggregates within one, each with the names of the rows for which it is computed."""
    for inner in _aggregates_within(call):
        base = _base(inner, ways)
        if not base:
            continue
        many = max(min(w.many, len(base) - 1) for _, w in _all_references(inner, ways))
        before = base[: max(many, 1)]
        if len(before) < 2:
            path = ".".join(base[1:])
            hint = "leave one of the aggregates out, or begin the path at a table above"
            raise ways.refuse(
                f"an aggregate of an aggregate needs a path of two steps to many rows, and `{path}` has one",
                inner,
                hint,
            )
        yield inner, before


def _aggregates_within(call: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregates in the arguments of one."""
    todo = [*unwrap_aggregate(call).iter_expressions()]
    if call is not unwrap_aggregate(call) and isinstance(call.args.get("expression"), exp.Expr):
        todo.append(call.args["expression"])
    while todo:
        node = todo.pop(0)
        if isinstance(node, exp.Query):
            continue
        if is_aggregate(unwrap_aggregate(node)):
            yield node
        else:
            todo = [*node.iter_expressions(), *todo]


def _references(call: exp.Expr, ways: PathNames) -> Iterator[tuple[exp.Expr, RelatedPath]]:
    """Yield the dotted names of an aggregate that follow relationships, except those of nested aggregates."""
    inside = {id(a) for a in _aggregates_within(call)}
    yield from _found(call, ways, inside)


def _all_references(call: exp.Expr, ways: PathNames) -> Iterator[tuple[exp.Expr, RelatedPath]]:
    yield from _found(call, ways, set())


def _found(node: exp.Expr, ways: PathNames, outside: set[int]) -> Iterator[tuple[exp.Expr, RelatedPath]]:
    if id(node) in outside or isinstance(node, exp.Query):
        return
    parts = name_parts(node)
    if parts:
        way = ways.lead(parts)
        if way is not None:
            yield node, way
        return
    for child in list(node.iter_expressions()):
        yield from _found(child, ways, outside)


def _columns(node: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns of an expression, except those of subqueries."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Column):
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from _columns(child)


def _dotted(parts: Sequence[exp.Identifier], place: exp.Expr) -> exp.Expr:
    """Return a dotted name with the position of another."""
    table, name, *fields = [p.copy() for p in parts]
    value: exp.Expr = exp.Column(this=name, table=table)
    value.meta.update(place.meta)
    for field in fields:
        value = exp.Dot(this=value, expression=field)
        value.meta.update(place.meta)
    return value


def over_path(parts: Sequence[exp.Identifier], column: exp.Expr, place: exp.Expr) -> exp.Select:
    """Return `SELECT path.column FROM a.b.c path`, with the position of the replaced name."""
    value = exp.Column(this=column, table=exp.to_identifier(PATH_ALIAS))
    value.meta.update(place.meta)
    alias = exp.TableAlias(this=exp.to_identifier(PATH_ALIAS))
    table = exp.Table(this=exp.Dot.build([part.copy() for part in parts]), alias=alias)
    return exp.Select(expressions=[value], from_=exp.From(this=table))
