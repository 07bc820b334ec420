"""Windows: WINDOW BY by the windows that a change can affect, if END's class or the stored windows identify them.

The stage reads the rows around the change, and more of them until the reach is proven. It replaces the windows that
start there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.work import Work
from belvedere.plan.expressions import column
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Item, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow, Ranges, WindowForm
from belvedere.plan.operators.window_explanation import search_of
from belvedere.plan.plan_properties import base_scan, partition_of
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import carry, push_down
from belvedere.rules.affected_ranges import AffectedRangeStage
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.window_by.affected_windows import Reach, window_neighbourhood
from belvedere.rules.window_by.over import keeps_key


@dataclass(frozen=True)
class WindowsStage(AffectedRangeStage):
    """Stage of windows. `reach` determines the rows of a key that a change can affect."""

    reach: Reach

    rule = "windows"

    def neighbourhood(self, work: Work, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
        return window_neighbourhood(work, delta, self.reach, self.path)


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, PredicateWindow) or top.ranges is None or top.identity is None:
        return None
    if _has_computed_keys(top, top.ranges):
        return partial(_over_stored_keys, site, top)
    if base_scan(site.over(Scan("top", top.schema))) is None and base_scan(top.input) is not None:
        return site.apart  # for example members of arrays of windows, which are results of their own
    return partial(_keep, site, top, top.ranges) if _determines_windows(site, top, top.ranges) else None


def _has_computed_keys(top: PredicateWindow, ranges: Ranges) -> bool:
    """Return whether keys of PARTITION BY or ORDER BY are computed from columns of a table."""
    if base_scan(top.input) is None:
        return False
    below = push_down(top.input, tuple(column(n) for n in (*top.spec.keys, ranges.column)))
    return not all(isinstance(e, exp.Column) for e in below)


def _over_stored_keys(site: Site, top: PredicateWindow) -> Relation:
    """Return the input stored with its keys.

    The store must distinguish a key's rows from those of another key with the same hash.
    """
    state = site.builder.shared(carry_keys(top.input), site.part.owner)
    return site.maintain(top.with_inputs((Scan(state.name, state.schema),)))


def _determines_windows(site: Site, top: PredicateWindow, ranges: Ranges) -> bool:
    """Return whether the input's rows are stored under its key, and each result has the key of the row at its start."""
    builder, base = site.builder, base_scan(top.input)
    if base is None:
        return False
    relation = builder.drafts[builder.relation_of_scan(base)].relation
    key = top.input.schema.key or ()
    named = (*key, ranges.column, *top.spec.keys)
    below = push_down(top.input, tuple(column(n) for n in named))
    if not relation.is_state or not all(isinstance(e, exp.Column) for e in below):
        return False
    own = relation.schema
    given = top.input.schema
    pairs = [(own[e.name], given[n]) for e, n in zip(below, named, strict=True)]
    same = all((a.type, a.nullable) == (b.type, b.nullable) for a, b in pairs)
    return same and tuple(e.name for e in below[: len(key)]) == own.key and keeps_key(site)


def _keep(site: Site, top: PredicateWindow, ranges: Ranges) -> Relation:
    builder, part = site.builder, site.part
    keys = tuple(column(n) for n in top.spec.keys)
    partition = partition_of(top) or Partition(((),), (), ())
    slots, operator = builder.slots(top, partition, part.owner)
    extra = [*partition.items]
    if top.start is not None:
        place = top.schema[top.start]
        extra.append(Item("_start", column(place.name), place.type, place.nullable))
    whole, names = carry(site.over(operator), operator, tuple(extra))
    start = None if top.start is None else names[-1]
    order, *own = push_down(top.input, (column(ranges.column), *keys))
    reach = Reach(ranges, order.name, tuple(e.name for e in own), start)
    path = builder.path_of(part, tuple(column(n) for n in names[: len(keys)]), partition.types)
    relation = builder.emit(site.stage(WindowsStage, whole, slots, _said(top, ranges), path=path, reach=reach), part)
    builder.span(slots[0].relation, slots[0].path, reach.order)
    if start is not None:
        builder.span(part.name, path, start)
    return relation


def _said(top: PredicateWindow, ranges: Ranges) -> str:
    by = f"the changed {', '.join(top.by)}" if top.partition else "the sequence"
    since = "the last stored start before it" if ranges.form is WindowForm.TUMBLING else "the last end before it"
    until = (
        "the next start that remains a start"
        if ranges.form is WindowForm.TUMBLING
        else "the end of the windows around it"
    )
    if ranges.form is WindowForm.LABELLED:
        since, until = "the last label whose window ends before it", "the first one whose window begins after it"
    return f"of {by} the windows around the change: from {since} to {until}; {search_of(top)}"


WINDOWS = Rule("windows", _applies)
