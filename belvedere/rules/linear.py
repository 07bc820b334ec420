"""Linear: filter, projection, UNION ALL, unnest, Tumble, Hop: the operator applied to each changed row by itself.

What has no input at all is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from belvedere.engine.relation import Relation
from belvedere.engine.rows import WEIGHT_FIELD, Rows
from belvedere.engine.stage import Stage
from belvedere.engine.texts import Texts
from belvedere.engine.work import Work
from belvedere.plan.facts import is_linear, needs_clock
from belvedere.plan.nodes import Scan, Values
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import WEIGHT


@dataclass(frozen=True)
class LinearStage(Stage):
    """The plan over changes is the change of the plan."""

    rule = "linear"
    defers = True
    reads_once = True

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"changes": texts.changes(self.plan)}

    def run(self, work: Work) -> Rows | None:
        moved = work.moved()
        if moved is not None:
            return work.take(moved)
        if not work.put_deltas():
            return None
        if work.prepared.is_fused:
            return work.defer(work.sql["changes"])
        return work.take(work.rows("changes", WEIGHT_FIELD))


@dataclass(frozen=True)
class ConstantStage(Stage):
    """A relation without inputs: put in once."""

    rule = "constant"

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.rows(self.plan, {}, f", CAST(1 AS BIGINT) AS `{WEIGHT}`")}

    def run(self, work: Work) -> Rows | None:
        return work.take(work.rows("rows", WEIGHT_FIELD)) if work.is_fresh else None

    def frees(self, relation: Relation) -> str | None:
        return "its rows never change"


def _applies(site: Site) -> Maintain | None:
    plain = isinstance(site.top, Scan) or is_linear(site.top) or (isinstance(site.top, Values) and not needs_clock(site.top))
    return partial(_maintain, site) if plain else None


def _maintain(site: Site) -> Relation:
    builder, plan = site.builder, site.plan
    if any(isinstance(n, Scan) or not is_linear(n) for n in plan.walk() if n.inputs or isinstance(n, Scan)):
        plan = builder.with_relations(plan, site.part.owner)
    plan, slots = builder.delta_slots(plan)
    type_, reason = (LinearStage, "each changed row by itself") if slots else (ConstantStage, "does not depend on any input")
    return builder.emit(site.stage(type_, plan, slots, reason), site.part, append_only=builder.only_grow(slots))


LINEAR = Rule("linear", _applies, is_optional=False)
