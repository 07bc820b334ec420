"""Warnings and notices on relations of a catalog that grow without limit.

In: a catalog without errors. Out: warnings and notices on public streams without a bound, and joins with unlimited
state (SQRL requires this of `check`).
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import InputKind, LatePolicy
from belvedere.catalog.views import View
from belvedere.errors import Diagnostic, Severity
from belvedere.plan.bound_rules import Bounds, Known, implied_bounds, is_time
from belvedere.plan.bounds import bounds_of, event_time_columns, grouping_columns
from belvedere.plan.expressions import columns_of, reads_clock
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetOperation,
    TopK,
    Values,
    Window,
)
from belvedere.plan.operators.spl_aggregate import SplAggregate

SHOWN = 3
"""Maximum number of views that one notice names."""


def check_catalog(catalog: Catalog) -> list[Diagnostic]:
    """Return notices on unbounded growth."""
    growth = Growth(catalog)
    return [*_unbounded_streams(catalog), *_endless_joins(catalog, growth), *_endless_groups(catalog, growth)]


class Growth:
    """Facts about the relations of a catalog, each computed once for all views that read it."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog
        self.known = event_times(catalog)
        self.final = event_times(catalog, final=True)
        self.endless_relation = cache(self._endless_relation)

    def endless(self, node: Node) -> str | None:
        """Return the input that makes a relation grow without limit; None if keys, limits or the clock bound it."""
        match node:
            case Scan():
                return self.endless_relation(node.relation)
            case SplAggregate():
                return self.endless(node.input) if node.every else None
            case Aggregate() | TopK() | Distinct() | SetOperation() | Values():
                return None
            case Filter() if reads_clock(node.condition):
                return None
            case _:
                return next((n for n in map(self.endless, node.inputs) if n is not None), None)

    def _endless_relation(self, relation: str) -> str | None:
        input_ = self._catalog.inputs.get(relation)
        if input_ is not None:
            return input_.name if input_.append_only else None
        view = self._catalog.views.get(relation)
        return self.endless(view.plan) if view is not None else self._catalog.subscriptions[relation].name


def _unbounded_streams(catalog: Catalog) -> list[Diagnostic]:
    found = []
    for id_, input_ in catalog.inputs.items():
        if id_ not in catalog.public or input_.keep is not None or not input_.append_only or input_.late_of is not None:
            continue
        what = "stream" if input_.kind is InputKind.STREAM else "import"
        hint = (
            f"limit its retention: KEEP 7 DAYS; or make it private (`_{input_.name}`), then `why` cannot show its rows"
        )
        message = f"public {what} `{input_.name}` is kept forever"
        found.append(Diagnostic("B6120", message, Severity.NOTICE, input_.span, hint=hint))
    return found


# -- joins ------------------------------------------------------------------------------------------------------------


def _endless_joins(catalog: Catalog, growth: Growth) -> list[Diagnostic]:
    """Return notices on joins of two relations whose rows are never removed."""
    found = []
    for view in catalog.views.values():
        nodes = tuple(view.plan.walk())
        versions = {
            id(n.input): n for n in nodes if isinstance(n, TopK)
        }  # FOR SYSTEM_TIME AS OF: joined, then reduced to the last version
        for join in (n for n in nodes if isinstance(n, Join)):
            sides = [growth.endless(side) for side in (join.left, join.right)]
            cut = versions.get(id(join))
            bounded = _bounds_time(join, growth) or (cut is not None and _settles(cut, growth))
            if None not in sides and sides[0] != sides[1] and not bounded:
                late = [
                    t for t in catalog.inputs.values() if t.name in sides and t.watermarks and t.late is LatePolicy.KEEP
                ]
                ties = cut is not None or _ties_times(join, growth.known)
                used = [t.name for t in late] if ties else []
                found.append(_endless_join(view, sides[0] or "", sides[1] or "", versions=cut is not None, late=used))
                break
    return found


def _endless_join(view: View, left: str, right: str, *, versions: bool, late: list[str]) -> Diagnostic:
    """Return the notice on a join. `late` are its streams whose late rows are used, if this is the only reason to keep
    the rows."""
    message = f"the join in `{view.name}` keeps all rows of `{left}` and `{right}` forever"
    if late:
        names = " and ".join(f"`{n}`" for n in late)
        hint = f"declare LATE DROP for {names}: as long as late rows are used, no watermark makes rows final"
    elif versions:
        times = f"the times of `{left}` and `{right}`"
        hint = f"declare WATERMARK FOR {times}: rows and versions leave the state once both watermarks have passed them"
    else:
        hint = (
            "filter one side by `time + n DAY >= now()`, or reduce it to its last rows: `DISTINCT T ON key ORDER BY "
            "time DESC`"
        )
    return Diagnostic("B6121", message, Severity.NOTICE, view.span, hint=hint)


def _bounds_time(join: Join, growth: Growth) -> bool:
    if join.kind in (JoinKind.SEMI, JoinKind.ANTI) or (join.condition is not None and reads_clock(join.condition)):
        return True
    return join.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL) and _ties_times(
        join, growth.final
    )


def _ties_times(join: Join, known: Known) -> bool:
    """Return whether each side's rows become final as the other side's bound rises."""
    for one, other in ((join.left, join.right), (join.right, join.left)):
        tied = implied_bounds(bounds_of(other, known), join.condition)
        if not any(c.name in tied and is_time(c.type) for c in one.schema):
            return False
    return True


def _settles(cut: TopK, growth: Growth) -> bool:
    """Return whether watermarks of both sides determine which rows keep the version that they were joined with."""
    found = bounds_of(cut, growth.final)
    return any(n in found and is_time(cut.schema[n].type) for n in cut.alike)


def event_times(catalog: Catalog, final: bool = False) -> Known:
    """Return the columns of inputs and views that may have a bound; with `final` only those of inputs that do not
    change below it."""

    @cache  # without the cache, views that read a view twice would double the work at each level
    def known(relation: str) -> Bounds | None:
        table = catalog.inputs.get(relation)
        if table is not None:
            changes = not table.append_only or table.late is LatePolicy.KEEP
            return {} if final and changes else {w.column: NEVER for w in table.watermarks}
        return bounds_of(catalog.views[relation].plan, known) if relation in catalog.views else {}

    return known


# -- groups -----------------------------------------------------------------------------------------------------------


def _endless_groups(catalog: Catalog, growth: Growth) -> list[Diagnostic]:
    """Return notices on GROUP BY over rows with event time, without a key that follows it: such groups are never
    complete (One SQL, extension 2). Each is reported once.
    """
    found: dict[str, tuple[View, str]] = {}
    for view in catalog.views.values():
        for node in view.plan.walk():
            times = _unused_times(node, growth) if isinstance(node, Aggregate) and node.keys else []
            if times:
                found.setdefault(view.name, (view, times[0].rpartition(".")[2]))
    if not found:
        return []
    view, time = next(iter(found.values()))
    names = ", ".join(f"`{name}`" for name in [*found][:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    message = f"the groups of {names}{more} are never complete: there is one for each key that ever arrived"
    hint = (
        f"this is fine for a limited number of keys; otherwise also group by a window of `{time}`, or by the time "
        "rounded down"
    )
    return [Diagnostic("B6122", message, Severity.NOTICE, view.span, hint=hint)]


def _unused_times(node: Aggregate, growth: Growth) -> list[str]:
    """Return the event-time columns of an unbounded input, if no group key is one of them or follows one."""
    known = growth.known
    if growth.endless(node.input) is None or event_time_columns(node, known) or grouping_columns(node, known):
        return []
    endless = [k for k in node.keys if not pa.types.is_boolean(k.type)]
    if all(_limited(c, node.input, growth) for k in endless for c in columns_of(k.expr)):
        return []
    below = bounds_of(node.input, known)
    return [c.name for c in node.input.schema if c.name in below and is_time(c.type) and not c.hidden]


def _limited(column: str, node: Node, growth: Growth) -> bool:
    """Return whether the number of a column's values is limited by the rows of a relation that does not grow without
    limit."""
    if growth.endless(node) is None:
        return True
    if isinstance(node, Project):
        expr = next(i.expr for i in node.items if i.name == column)
        return all(_limited(c, node.input, growth) for c in columns_of(expr))
    if isinstance(node, Filter | Join | Window | TopK):
        return any(column in i.schema.names and _limited(column, i, growth) for i in node.inputs)
    return False
