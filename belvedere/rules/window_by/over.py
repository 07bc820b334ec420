"""Over: WINDOW BY over joins, groups or keys that are expressions: these become relations of their own below it."""

from __future__ import annotations

from functools import partial

from belvedere.plan.window_by import WindowBlock
from belvedere.rules.rule import Maintain, Rule, Site


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, WindowBlock) or not top.over:
        return None
    settled = top.with_inputs(tuple(site.builder.with_relations(i, site.part.owner) for i in top.inputs))
    return None if settled == top else partial(site.maintain, settled)


OVER = Rule("over", _applies, is_optional=False)
