"""Existence: SEMI and ANTI joins without an equality.

Two sets of left rows are joined with all rows of the other side: changed rows, and rows with a match among the other
side's changed rows. The other left rows keep their result. Pairs are not stored: there can be far more pairs than rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Rows, keys_of
from belvedere.engine.sql.stage_sql import DELTA, KEY_COLUMN, ROWS, Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.nodes import Join, JoinKind, Node, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.rewrites.rewrite import passes_key, with_column
from belvedere.rules.bounds_below import operator_of
from belvedere.rules.keyed import counted_slots
from belvedere.rules.rule import Maintain, Refusal, Rule, Site
from belvedere.rules.whole import replace_all
from belvedere.schema import KEY

KEYS = pa.schema([pa.field(KEY, pa.string(), nullable=False)])


@dataclass(frozen=True)
class ExistenceStage(Stage):
    """Stage that finds which left rows have a match, or none."""

    rule = "existence"
    looks_up = True
    by_cost = True

    def texts(self, texts: Texts) -> Mapping[str, str]:
        join = operator_of(self.plan)
        assert isinstance(join, Join)
        own, other = self.slots
        left = with_column(join.left, KEY_COLUMN, frozenset({own.name}))
        pairs = Project(Join(left, join.right, JoinKind.INNER, join.condition), (item_of(KEY_COLUMN),))
        matched = texts.query(pairs, {own.name: ROWS, other.name: DELTA})
        return {"rows": texts.rows(self.plan, ROWS), "matched": f"SELECT DISTINCT `{KEY}` FROM ({matched}) AS p"}

    def run(self, work: Work) -> Rows | None:
        if work.is_fresh or work.prefers_whole():
            return replace_all(work)
        own, other = self.slots
        own_delta, other_delta = work.deltas
        touched = [] if own_delta is None else [(own_delta, KEY)]
        if other_delta is not None:
            work.put(own.name, ROWS, work.look_up(own.relation, None, None))
            work.put(other.name, DELTA, other_delta)
            touched.append((work.compute.compute(work.sql["matched"], KEYS), KEY))
        if not touched:
            return None
        keys = keys_of(touched)
        if keys.is_empty:
            return None
        work.put(own.name, ROWS, work.look_up(own.relation, KEY, keys))
        work.put(other.name, ROWS, work.look_up(other.relation, None, None))
        return work.replace(KEY, keys, work.rows("rows"))

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return {}

    @property
    def counted(self) -> tuple[str, ...]:
        return counted_slots(self)


def _applies(site: Site) -> Maintain | Refusal | None:
    top, builder = site.top, site.builder
    if (
        not isinstance(top, Join)
        or top.kind not in (JoinKind.SEMI, JoinKind.ANTI)
        or equalities(top)
        or needs_clock(top)
    ):
        return None
    if set(top.left.schema.names) & set(top.right.schema.names):
        return None
    slots, operator = builder.slots(top, None, site.part.owner)
    own = builder.drafts[slots[0].relation].relation.schema
    rendered = site.over(operator)
    if not passes_key(rendered, operator, operator.inputs[0], own):
        return Refusal("the key of the left side does not identify its rows")
    return partial(_maintain, site, rendered, slots)


def _maintain(site: Site, rendered: Node, slots: object) -> Relation:
    reason = (
        "changed rows, and rows that match changed rows of the other side, joined with all of its rows: no "
        "equality to look up by"
    )
    return site.builder.emit(site.stage(ExistenceStage, rendered, slots, reason), site.part)


EXISTENCE = Rule("existence", _applies)
