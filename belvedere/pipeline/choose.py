"""Chooses how every view is maintained: catalog -> pipeline.

In: a catalog whose views' plans carry their keys. Out: relations and stages. Views that are private and linear are
inlined. Every nonlinear operator becomes a stage whose output is stored, with the linear operators above it in the same
stage. An operator's input is looked up in the stored relation below it, through the linear chain between. If there is
none (a private stream, a union), the chain's result is stored. This module runs nothing.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.catalog.catalog import Catalog
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.shared_joins import share_joins
from belvedere.rules.bounds_below import operator_of
from belvedere.rules.builder import Builder, StageOwner
from belvedere.rules.clock import CLOCK
from belvedere.rules.distinct import DISTINCT
from belvedere.rules.distinct_counts import DISTINCT_COUNTS
from belvedere.rules.emit.emit import EMIT
from belvedere.rules.emit.in_order import IN_ORDER
from belvedere.rules.events import maintain_changes, maintain_events
from belvedere.rules.frames.frames_rule import FRAMES, RUNNING
from belvedere.rules.grouping_sets import GROUPING_SETS
from belvedere.rules.history import maintain_history
from belvedere.rules.ingest import maintain_input
from belvedere.rules.joins.as_of import AS_OF
from belvedere.rules.joins.existence import EXISTENCE
from belvedere.rules.joins.inner_join import JOIN
from belvedere.rules.joins.outer_join import OUTER_JOIN
from belvedere.rules.joins.versions import VERSIONS
from belvedere.rules.keyed import KEYED
from belvedere.rules.linear import LINEAR
from belvedere.rules.merge.merge_rule import MERGE
from belvedere.rules.options import Options
from belvedere.rules.rule import Refusal, Rule, Site
from belvedere.rules.sessions.session_groups import SESSION_GROUPS
from belvedere.rules.sessions.sessions import SESSIONS
from belvedere.rules.spl.join_rule import SPL_JOIN
from belvedere.rules.spl.window_rule import SPL
from belvedere.rules.top_k.first import FIRST
from belvedere.rules.top_k.offset import OFFSET
from belvedere.rules.top_k.row_number import ROW_NUMBER
from belvedere.rules.top_k.top import TOP
from belvedere.rules.whole import WHOLE
from belvedere.rules.window_by.open_windows import OPEN_WINDOWS
from belvedere.rules.window_by.over import OVER
from belvedere.rules.window_by.windows_rule import WINDOWS

RULES: tuple[Rule, ...] = (
    LINEAR,
    CLOCK,
    EMIT,
    IN_ORDER,
    SPL,
    SPL_JOIN,
    DISTINCT,
    OFFSET,
    GROUPING_SETS,
    DISTINCT_COUNTS,
    OVER,
    ROW_NUMBER,
    OUTER_JOIN,
    OPEN_WINDOWS,
    SESSION_GROUPS,
    SESSIONS,
    VERSIONS,
    AS_OF,
    FIRST,
    TOP,
    MERGE,
    JOIN,
    EXISTENCE,
    WINDOWS,
    FRAMES,
    RUNNING,
    KEYED,
    WHOLE,
)
"""The rules in the order of choice: the first that applies maintains the operator."""


def without(*names: str, **options: bool) -> Options:
    """Return options without these rules. Raises ValueError for an unknown rule, or for one without a fallback."""
    known = {r.name for r in RULES if r.is_optional}
    if not set(names) <= known:
        raise ValueError(f"these are not rules that can be switched off: {', '.join(sorted(set(names) - known))}")
    return Options(frozenset(names), **options)


def plain(**options: bool) -> Options:
    """Return options without the rules that have a plainer fallback."""
    return without(*(r.name for r in RULES if r.is_optional), **options)


def maintain(catalog: Catalog, options: Options | None = None) -> Pipeline:
    """Decide how each public view, and its inputs, are maintained."""
    options = options or Options()
    if options.share:
        plans = share_joins({i: v.plan for i, v in catalog.views.items()})
        catalog = replace(catalog, views={i: replace(v, plan=plans[i]) for i, v in catalog.views.items()})
    stored = _roots(catalog)
    builder = Builder(catalog, options, stored, _choose, _make)
    for id_ in stored:
        builder.relation_of(id_)
    for id_ in dict.fromkeys(e.relation for e in catalog.exports if e.relation not in catalog.subscriptions):
        maintain_changes(builder, id_)
    for id_, retention in catalog.histories.items():
        maintain_history(builder, id_, retention)
    return builder.pipeline()


def _roots(catalog: Catalog) -> tuple[str, ...]:
    """Return the relations that must be stored: public ids, observed queries, exports, and inputs of query
    templates.
    """
    order = (*catalog.inputs, *catalog.views, *catalog.subscriptions)
    exported = {e.relation for e in catalog.exports}
    # a former definition makes events only if somebody reads them
    events = {i: s for i, s in catalog.subscriptions.items() if i == s.name or i in exported}
    requested = set(catalog.public) | set(catalog.histories) | {s.view for s in events.values()} | set(events)
    requested |= exported & catalog.views.keys()
    requested -= catalog.placement.at_read.keys()
    requested |= {n.relation for plan in catalog.placement.at_read.values() for n in plan.walk() if isinstance(n, Scan)}
    requested |= {i for i, table in catalog.inputs.items() if table.late_of is not None}
    for template in catalog.templates.values():
        requested |= {
            n.relation for n in template.plan.walk() if isinstance(n, Scan)
        } - catalog.placement.at_read.keys()
    return tuple(i for i in order if i in requested)


def _make(builder: Builder, id_: str) -> None:
    """Create the stages behind an id."""
    catalog = builder.catalog
    if id_ in catalog.inputs:
        maintain_input(builder, catalog.inputs[id_])
    elif id_ in catalog.subscriptions:
        maintain_events(builder, catalog.subscriptions[id_])
    else:
        builder.maintain(catalog.views[id_].plan, StageOwner(id_, id_, id_))


def _choose(builder: Builder, plan: Node, part: StageOwner) -> Relation:
    """Maintain the first operator below the linear ones on top of `plan` by the first rule that applies."""
    site = Site(builder, plan, operator_of(plan), part)
    for rule in RULES:
        if rule.is_optional and rule.name in builder.options.off:
            continue
        found = rule.applies(site)
        if isinstance(found, Refusal):
            site.refused.append(found.reason)
        elif found is not None:
            return found()
    raise AssertionError(f"no rule maintains {type(site.top).__name__}")
