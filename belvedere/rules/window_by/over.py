"""Over: WINDOW BY over joins, groups or arrays, which become relations of their own below it."""

from __future__ import annotations

from functools import partial

from belvedere.engine.relation import Relation
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.plan_properties import base_scan
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import push_down
from belvedere.rules.rule import Maintain, Rule, Site


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, PredicateWindow) or base_scan(top.input) is not None:
        return None
    return partial(_over_relations, site, top)


def _over_relations(site: Site, top: PredicateWindow) -> Relation:
    builder = site.builder
    below = builder.with_relations(top.input, site.part.owner)
    if base_scan(below) is None:
        state = builder.shared(carry_keys(top.input), site.part.owner)
        below = Scan(state.name, state.schema)
    return site.maintain(top.with_inputs((below,)))


OVER = Rule("over", _applies, is_optional=False)


def keeps_key(site: Site) -> bool:
    """Return whether each result below the linear operators has the key of the row at its window's start, or of its
    label."""
    if not isinstance(site.top, PredicateWindow) or not site.top.has_rows_key:
        return False
    chain = site.over(Scan("top", site.top.schema))
    if base_scan(chain) is None:
        return False
    outer = push_down(chain, tuple(column(n) for n in site.plan.schema.key or ()))
    return outer == tuple(column(n) for n in site.top.schema.key or ())
