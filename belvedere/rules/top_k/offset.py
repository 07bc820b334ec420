"""OFFSET as the rows that are not among the first ones, so that cheaper rules apply to the result.

In: a TopK. Out: operators of the same meaning: an ANTI join with the first rows, by key, and the first rows of its
result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.nodes import Join, JoinKind, Node, Project, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.first import MANY
from belvedere.rules.top_k.top import needs_only_top
from belvedere.schema import has_map

GONE = "_gone."
"""Prefix of the key columns of the first rows."""


def _without_first(site: Site, top: TopK) -> Node | None:
    """Return the plan without the first rows.

    Return None if the rows are maintained together with those before them, or if these are too many.
    """
    schema, limit = top.input.schema, top.limit
    if top.partition or needs_clock(top) or not 0 < top.offset <= MANY:
        return None
    if limit is not None and (
        not limit <= MANY < limit + top.offset or needs_only_top(site.builder, replace(top, offset=0))
    ):
        return None
    if not schema.key or any(has_map(schema[n].type) for n in schema.key):
        return None
    first = replace(top, limit=top.offset, offset=0)
    keys = tuple(replace(item_of(schema[n]), name=GONE + n, hidden=True) for n in schema.key)
    if any(n.startswith(GONE) for n in schema.names):
        return None
    same = conjunction([exp.NullSafeEQ(this=i.expr, expression=column(i.name)) for i in keys])
    rest = Join(top.input, Project(first, keys), JoinKind.ANTI, same)
    return rest if limit is None else replace(top, input=rest, offset=0)


def _applies(site: Site) -> Maintain | None:
    plain = _without_first(site, site.top) if isinstance(site.top, TopK) else None
    return None if plain is None else partial(site.maintain, plain)


OFFSET = Rule("offset", _applies)
