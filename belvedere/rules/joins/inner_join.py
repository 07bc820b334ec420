"""Join: an inner join computed from the changes of its sides: dL x R + L x dR.

R and L are the rows after the change, looked up by the keys of the changed rows. The keys of deleted pairs come from dL
x dR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from belvedere.engine.relation import Relation, Slot, delta_schema
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, keys_of, loses
from belvedere.engine.rows.selected_rows import RowTest, choose
from belvedere.engine.sql.stage_sql import DELTA, ROWS, WEIGHT_COLUMN, Texts
from belvedere.engine.stage import BoundsNow, Stage
from belvedere.engine.work import Work, without
from belvedere.functions.spark_types import quote
from belvedere.plan.bound_rules import Bounds, implied_bounds
from belvedere.plan.bounds import bounds_of
from belvedere.plan.expressions import column
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Join, JoinKind
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.rewrites.rewrite import with_column
from belvedere.rules.bounds_below import operator_of, side_of, through
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import KEY, WEIGHT

NEW = "_new"
"""Column that marks pairs that exist after the epoch."""
NEW_FIELD = pa.field(NEW, pa.bool_())


@dataclass(frozen=True)
class JoinStage(Stage):
    """Stage that joins changed rows of one side with rows of the other."""

    rule = "join"
    defers = True
    looks_up = True
    by_cost = True

    def texts(self, texts: Texts) -> Mapping[str, str]:
        new = f", `{WEIGHT}` > 0 AS `{NEW}`"
        left, right = (with_column(self.plan, WEIGHT_COLUMN, frozenset({s.name})) for s in self.slots)
        return {
            "s0": texts.rows(left, {"s0": DELTA, "s1": ROWS}, new),
            "s1": texts.rows(right, {"s0": ROWS, "s1": DELTA}, new),
            "both": texts.rows(self.plan, DELTA, f", FALSE AS `{NEW}`"),
            "rows": texts.rows(self.plan, ROWS),
        }

    def run(self, work: Work) -> Rows | None:
        if work.prefers_whole():
            return _whole(work)
        deltas = work.deltas
        if deltas == (None, None):
            return None
        grows = [_only_grows(delta, r) for (_, r), delta in zip(work.slots, deltas, strict=True)]
        # pairs of two new rows are made once: with the rows of the other side before the change
        apart = (
            not work.is_fresh
            and not work.context.resumed
            and None not in deltas
            and all(s.path is not None for s in self.slots)
            and all(grows)
        )
        terms = []
        for n, (own, delta) in enumerate(zip(self.slots, deltas, strict=True)):
            if delta is None:
                continue
            other = self.slots[1 - n]
            keys = None if own.path is None else keys_of([(delta, own.path)])
            work.put(own.name, DELTA, delta)
            if apart and n and other.path is not None and keys is not None:
                found = work.look_up_before(other.relation, other.path, keys)
            else:
                found = work.look_up(other.relation, other.path, keys)
            work.put(other.name, ROWS, found)
            terms.append(work.sql[own.name])
        if apart or (len(terms) == 1 and work.output.append_only):
            return _pairs(" UNION ALL ".join(terms), work)
        if len(terms) == 2 and not all(grows):
            terms.append(work.sql["both"])
        rows = work.query(" UNION ALL ".join(terms), NEW_FIELD)
        new = work.first_of_each_key(rows, NEW_FIELD) if len(terms) > 1 else rows
        test = RowTest.of_column(NEW)
        if work.output.append_only:
            return work.added(work.where(new, test.test, without(new, NEW)))
        return work.replace(KEY, keys_of([(rows, KEY)]), choose(new, test, NEW))

    def reads_from(self, slot: Slot, now: BoundsNow) -> Bounds:
        operator = operator_of(self.plan)
        side = side_of(operator, slot.name)
        if side is None or not isinstance(operator, Join):
            return {}
        below = bounds_of(operator.inputs[1 - side], now.known(self.slots))
        columns = operator.inputs[side].schema.names
        requested = {n: b for n, b in implied_bounds(below, operator.condition).items() if n in columns}
        return through(operator.inputs[side], ((column(n), b) for n, b in requested.items()))


def _pairs(text: str, work: Work) -> Rows:
    """Return the new pairs, each once."""
    names = ", ".join(quote(n) for n in delta_schema(work.output).names)
    weighted = f"SELECT {names}, 1L AS {quote(WEIGHT)} FROM ({text}) AS p"
    if work.prepared.is_fused:
        return work.defer(weighted)
    if work.output.append_only:
        return work.append(work.query(weighted, WEIGHT_FIELD))
    rows = work.query(text)
    return work.replace(KEY, keys_of([(rows, KEY)]), rows)


def _whole(work: Work) -> Rows:
    work.put_rows(None)
    rows = work.rows("rows")
    if not work.output.append_only:
        return work.replace(None, None, rows)
    return work.added(rows)


def _only_grows(delta: Rows | None, relation: Relation) -> bool:
    if delta is None or delta.is_empty:
        return False
    return relation.append_only or not loses(delta)


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, Join) or top.kind is not JoinKind.INNER or needs_clock(top):
        return None
    return partial(_maintain, site, top)


def _maintain(site: Site, top: Join) -> Relation:
    pairs = equalities(top)
    partition = None
    reason = "changed rows joined with all rows of the other side: no equality to look up by"
    if pairs:
        sides = (tuple(a for a, _, _ in pairs), tuple(b for _, b, _ in pairs))
        partition = Partition(sides, (), tuple(t for _, _, t in pairs))
        reason = f"changed rows of one side joined with rows of the other by {', '.join(a.name for a, _, _ in pairs)}"
    slots, operator = site.builder.slots(top, partition, site.part.owner)
    stage = site.stage(JoinStage, site.over(operator), slots, reason)
    return site.builder.emit(stage, site.part, append_only=site.builder.only_grow(slots))


JOIN = Rule("join", _applies)
