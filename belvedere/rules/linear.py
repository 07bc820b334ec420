"""Linear: filter, projection, UNION ALL, unnest, Tumble, Hop: the operator is applied to each changed row by itself.

A plan without inputs is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.plan.expressions import columns_of
from belvedere.plan.operators.nodes import Filter, Node, Project, Scan, Values
from belvedere.plan.plan_properties import is_linear, needs_clock
from belvedere.plan.rewrites.rewrite import plain_columns
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import WEIGHT


@dataclass(frozen=True)
class LinearStage(Stage):
    """Stage that applies the plan to changes; the result is the change of the plan's rows."""

    rule = "linear"
    defers = True
    reads_once = True

    def columns_read(self, slot: Slot) -> frozenset[str] | None:
        found = _columns(self.plan) if len(self.slots) == 1 else None
        return None if found is None else found[0]

    def retracts(self, relations: Mapping[str, Relation]) -> bool:
        """Return whether different input rows always give different output rows: every column is shown unchanged."""
        found = _columns(self.plan) if len(self.slots) == 1 else None
        source = relations[self.slots[0].relation] if self.slots else None
        return (
            found is not None
            and source is not None
            and found[1].issuperset(set(source.schema.names) - set(source.internal))
        )

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"changes": texts.changes(self.plan)}

    def run(self, work: Work) -> Rows | None:
        moved = work.changes_by_arrow()
        if moved is not None:
            return work.take(moved)
        if not work.put_deltas():
            return None
        if work.prepared.is_fused:
            return work.defer(work.sql["changes"])
        return work.take(work.rows("changes", WEIGHT_FIELD))


def _columns(plan: Node) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the scan columns that a chain of projections and filters reads, and those that it shows unchanged."""
    requested, shown = frozenset(plan.schema.names), {n: n for n in plan.schema.names}
    node: Node = plan
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            requested |= columns_of(node.condition)
        else:
            requested = frozenset().union(*(columns_of(i.expr) for i in node.items if i.name in requested))
            plain = plain_columns(node)
            shown = {top: plain[n] for top, n in shown.items() if n in plain}
        node = node.input
    return (requested, frozenset(shown.values())) if isinstance(node, Scan) else None


@dataclass(frozen=True)
class ConstantStage(Stage):
    """Stage of a relation without inputs, which is filled once."""

    rule = "constant"

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.rows(self.plan, {}, f", CAST(1 AS BIGINT) AS `{WEIGHT}`")}

    def run(self, work: Work) -> Rows | None:
        return work.take(work.rows("rows", WEIGHT_FIELD)) if work.is_fresh else None

    def frees(self, relation: Relation) -> str | None:
        return "its rows never change"


def _applies(site: Site) -> Maintain | None:
    plain = (
        isinstance(site.top, Scan)
        or is_linear(site.top)
        or (isinstance(site.top, Values) and not needs_clock(site.top))
    )
    return partial(_maintain, site) if plain else None


def _maintain(site: Site) -> Relation:
    builder, plan = site.builder, site.plan
    if any(isinstance(n, Scan) or not is_linear(n) for n in plan.walk() if n.inputs or isinstance(n, Scan)):
        plan = builder.with_relations(plan, site.part.owner)
    plan, slots = builder.delta_slots(plan)
    type_, reason = (
        (LinearStage, "each changed row by itself") if slots else (ConstantStage, "does not depend on any input")
    )
    return builder.emit(site.stage(type_, plan, slots, reason), site.part, append_only=builder.only_grow(slots))


LINEAR = Rule("linear", _applies, is_optional=False)
