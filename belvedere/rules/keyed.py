"""Keyed: recomputes all rows of the changed keys. It applies to every operator with a partition.

This is the general rule, and the test oracle of the cheaper ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import Rows, keys_of
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import BoundsNow, Stage
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.expressions import column
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Join, JoinKind, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_explanation import search_of
from belvedere.plan.plan_properties import partition_of
from belvedere.plan.rewrites.rewrite import carry
from belvedere.rules.bounds_below import by_key, of_keys, operator_of, side_of, through
from belvedere.rules.joins.outer_expiry import beside_final_results, final_results, join_of, needed, times_to_carry
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.whole import OperatorStage, replace_all
from belvedere.spark_sql.dialect import SparkSql


@dataclass(frozen=True)
class KeyedStage(OperatorStage):
    """Stage that recomputes all rows of the changed keys. `path` is the output's access path by these keys."""

    path: str

    rule = "keyed"
    looks_up = True
    by_cost = True

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.all_rows(self.plan)}

    def run(self, work: Work) -> Rows | None:
        return replace_all(work) if work.prefers_whole() else self.run_keys(work)

    def run_keys(self, work: Work) -> Rows | None:
        """Recompute the keys that the changes affect, from the inputs' rows of those keys."""
        pairs = zip(self.slots, work.deltas, strict=True)
        found = [(delta, slot.path) for slot, delta in pairs if delta is not None and slot.path is not None]
        more = []
        if work.is_fresh and not work.output.path(self.path).exprs:
            more.append(pa.array([0], pa.int64()))  # one group over nothing is still a group
        if not found and not more:
            return None
        keys = keys_of(found, *more)
        work.put_rows(keys)
        rows = work.rows("rows")
        limits = work.limits
        if not limits or work.is_fresh:
            return work.replace(self.path, keys, rows)
        stored = work.look_up(self.output, self.path, keys)
        return work.replace(self.path, keys, beside_final_results(rows, stored, limits))

    # --- expiry

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return of_keys(own, output, self.path) | final_results(self.plan, own)

    def reads_from(self, slot: Slot, now: BoundsNow) -> Bounds:
        operator, known = operator_of(self.plan), now.known(self.slots)
        side, partition = side_of(operator, slot.name), partition_of(operator)
        if side is None or partition is None:
            return {}
        if join_of(self.plan) is not None:
            requested = needed(self.plan, now.relations[self.output], side)
            together = through(operator.inputs[side], ((column(n), b) for n, b in requested.items()))
            if together:
                return together
        return by_key(operator, partition, side, known)

    def final_results(self, own: Bounds) -> dict[str, int]:
        return final_results(self.plan, own)

    # --- explaining

    @property
    def counted(self) -> tuple[str, ...]:
        return counted_slots(self)


def counted_slots(stage: Stage) -> tuple[str, ...]:
    """Return the slots whose row counts matter. For a join that only tests for a match, this is the left side."""
    operator = operator_of(stage.plan)
    names = {s.name for s in stage.slots}
    if isinstance(operator, Join) and operator.kind in (JoinKind.SEMI, JoinKind.ANTI):
        names &= {n.relation for n in operator.left.walk() if isinstance(n, Scan)}
    return tuple(s.relation for s in stage.slots if s.name in names)


def _applies(site: Site) -> Maintain | None:
    partition = partition_of(site.top)
    return None if partition is None else partial(_maintain, site, partition)


def _maintain(site: Site, partition: Partition) -> Relation:
    builder, part = site.builder, site.part
    slots, operator = builder.slots(site.top, partition, part.owner)
    whole = site.over(operator)
    times = times_to_carry(whole, operator, builder.bounds_of(operator, slots)) if isinstance(operator, Join) else ()
    whole, names = carry(whole, operator, (*partition.items, *times))
    path = builder.path_of(part, tuple(column(n) for n in names[: len(partition.types)]), partition.types)
    return builder.emit(site.stage(KeyedStage, whole, slots, _reason(site, partition), path=path), part)


def _reason(site: Site, partition: Partition) -> str:
    if isinstance(site.top, PredicateWindow):
        why = f" ({site.top.why_all})" if site.top.why_all else ""
        return f"all windows of the changed {', '.join(site.top.by)}{why}; {search_of(site.top)}"
    by = ", ".join(e.sql(dialect=SparkSql) for e in partition.output) or "one group"
    return "; ".join([f"key by key: {by}", *site.refused])


KEYED = Rule("keyed", _applies, is_optional=False)
