"""DISTINCT as an aggregate with keys only, which is maintained by counting rows."""

from __future__ import annotations

from functools import partial

from belvedere.plan.operators.nodes import Aggregate, Distinct
from belvedere.plan.operators.project import item_of
from belvedere.rules.rule import Maintain, Rule, Site


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, Distinct):
        return None
    return partial(site.maintain, Aggregate(top.input, tuple(item_of(c) for c in top.schema), ()))


DISTINCT = Rule("distinct", _applies)
