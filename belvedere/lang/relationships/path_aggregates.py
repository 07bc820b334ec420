"""Aggregates over paths, as the local queries that they mean: `avg(sensors.lastReading.temp)`, `sum(items.price *
items.amount)`.

In: an expression, and how names follow relationships from the rows at hand. Out: the same with scalar subqueries.

The rows of an aggregate are those at the end of its longest path. Its other paths begin that one, or lead to a single
row from a step of it. An aggregate within an aggregate is computed for each row before the last step that leads to
many.
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
"""The alias of related rows in a subquery that stands for a dotted name."""


@dataclass(frozen=True)
class RelatedPath:
    """Where a dotted name leads: from a row (its alias) along steps to what remains of the name, a column and its
    fields.
    """

    start: str
    steps: tuple[exp.Identifier, ...]
    rest: tuple[exp.Identifier, ...]
    many: int
    """How many steps there are up to the last one that may lead to several rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The start and the steps, folded."""
        return (self.start.casefold(), *(s.name.casefold() for s in self.steps))


@dataclass(frozen=True)
class PathNames:
    """How names are followed at the place of an expression."""

    lead: Callable[[Sequence[exp.Identifier]], RelatedPath | None]
    """Where a dotted name leads; None where it begins with no relationship."""
    own: Callable[[exp.Identifier], str | None]
    """The alias of the row that has a column of this name."""
    refuse: Callable[[str, exp.Expr, str], Exception]
    """The error of a message, a place and a hint."""


def is_scalar(query: exp.Select) -> bool:
    """One output column, aggregates, no GROUP BY: a value per row of the table around."""
    return len(query.expressions) == 1 and query.args.get("group") is None and contains_aggregate(query.expressions[0])


def expand_path_aggregates(expression: exp.Expr, ways: PathNames) -> exp.Expr:
    """`avg(sensors.lastReading.temp)` as `(SELECT avg(path.temp) FROM _.sensors.lastReading path)`."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query) or not is_aggregate(unwrap_aggregate(node)):
            return node
        return LocalSelect(node, ways).subquery() if _base(node, ways) else node

    return expression.copy().transform(change)


def path_aggregates(expression: exp.Expr, ways: PathNames) -> Iterator[exp.Expr]:
    """The aggregates of an expression that are over a path to several rows, the outermost ones; none of a window
    function.
    """
    if isinstance(expression, exp.Query | exp.Window):
        return
    if is_aggregate(unwrap_aggregate(expression)):
        if any(w.many for _, w in _all_references(expression, ways)):
            yield expression
        return
    for child in expression.iter_expressions():
        yield from path_aggregates(child, ways)


class LocalSelect:
    """The query of one aggregate. `known` are aliases of queries around it, by the names that lead to their rows."""

    def __init__(self, call: exp.Expr, ways: PathNames, known: dict[tuple[str, ...], str] | None = None):
        self.call, self.ways = call.copy(), ways
        self.base = _base(call, ways)
        self.aliases = known or {(way.start.casefold(),): way.start for _, way in _all_references(call, ways)}
        self.around = set(self.aliases)
        self.aliases = dict(self.aliases)

    def subquery(self) -> exp.Subquery:
        """`(SELECT agg(...) FROM ...)`, with the place of the call."""
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
        """A FROM item: the steps of the base from one row to the next that is named."""
        _, way = next(
            (n, w) for n, w in _all_references(self.call, self.ways) if w.names[:length] == self.base[:length]
        )
        steps = [s.copy() for s in way.steps[len(at) - 1 : length - 1]]
        number = len(self.aliases)
        self.aliases[self.base[:length]] = alias = PATH_ALIAS if number == 1 else f"{PATH_ALIAS}_{number}"
        name = exp.TableAlias(this=exp.to_identifier(alias))
        return exp.Table(this=exp.Dot.build([_alias(self.aliases[at]), *steps]), alias=name)

    def _named(self, node: exp.Expr, way: RelatedPath) -> exp.Expr:
        """The name over the aliases: of the nearest row before it, with single steps and fields behind."""
        if not way.rest and way.names in self.aliases:
            return exp.Star()
        near = max((n for n in self.aliases if n == way.names[: len(n)]), key=len)
        if (
            near in self.around and len(near) < len(way.names) and way.rest
        ):  # a single row beside, from a row of the query around
            beside = over_path((_alias(self.aliases[near]), *way.steps[len(near) - 1 :]), way.rest[0].copy(), node)
            value: exp.Expr = exp.Subquery(this=beside)
            for field in way.rest[1:]:
                value = exp.Dot(this=value, expression=field.copy())
            return value
        parts = (_alias(self.aliases[near]), *way.steps[len(near) - 1 :], *way.rest)
        return _dotted(parts, node)

    def _qualify(self, node: exp.Column) -> None:
        """Name the table of a column of the row around, lest a related row has one of its name."""
        owner = self.ways.own(node.this) if not node.table and isinstance(node.this, exp.Identifier) else None
        if owner is not None:
            node.set("table", _alias(owner))


def _alias(name: str) -> exp.Identifier:
    """The alias of a row as an identifier; `_`, the row of the table around, is written without quotes."""
    return exp.to_identifier(name, quoted=name != OWNER)


def _base(call: exp.Expr, ways: PathNames) -> tuple[str, ...]:
    """The names of the rows that an aggregate is over; empty where it has no path."""
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
    """The paths of an aggregate, and the aggregates in it, with the names of the rows that they need: up to the last
    step to many.

    Where no path leads to many, the first step of each is followed.
    """
    found = list(_references(call, ways))
    several = any(w.many for _, w in _all_references(call, ways))
    parts = [(n, w.names if _is_alone(call, n) else w.names[: 1 + (w.many if several else 1)]) for n, w in found]
    return [*parts, *_inner(call, ways)]


def _is_alone(call: exp.Expr, node: exp.Expr) -> bool:
    """Whether a path is all that an aggregate is over."""
    argument = unwrap_aggregate(call).args.get("this")
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    return argument is node


def _inner(call: exp.Expr, ways: PathNames) -> Iterator[tuple[exp.Expr, tuple[str, ...]]]:
    """The aggregates within one, each with the names of the rows for which it is computed."""
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
    """The outermost aggregates in the arguments of one."""
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
    """The dotted names of an aggregate that follow relationships, those of aggregates within aside."""
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
    """The columns of an expression, those of subqueries aside."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Column):
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from _columns(child)


def _dotted(parts: Sequence[exp.Identifier], place: exp.Expr) -> exp.Expr:
    """A dotted name at the place of another."""
    table, name, *fields = [p.copy() for p in parts]
    value: exp.Expr = exp.Column(this=name, table=table)
    value.meta.update(place.meta)
    for field in fields:
        value = exp.Dot(this=value, expression=field)
        value.meta.update(place.meta)
    return value


def over_path(parts: Sequence[exp.Identifier], column: exp.Expr, place: exp.Expr) -> exp.Select:
    """`SELECT path.column FROM a.b.c path`, with the place in the script of what it stands for."""
    value = exp.Column(this=column, table=exp.to_identifier(PATH_ALIAS))
    value.meta.update(place.meta)
    alias = exp.TableAlias(this=exp.to_identifier(PATH_ALIAS))
    table = exp.Table(this=exp.Dot.build([part.copy() for part in parts]), alias=alias)
    return exp.Select(expressions=[value], from_=exp.From(this=table))
