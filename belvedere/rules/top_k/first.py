"""First: the first rows overall, from a limited number of stored rows.

An append-only input needs only the shown rows; others need some more to replace deleted ones.

Rows after the last stored one are not known. If enough stored rows are left after a change, the stage reads nothing
else; otherwise it reads all rows once. Source: Yi, Yu, Yang, Xia, Chen, 'Efficient maintenance of materialized top-k
views', ICDE 2003.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, combined
from belvedere.engine.sql.plan_sql import order_text
from belvedere.engine.sql.stage_sql import DELTA, ROWS, WEIGHT_COLUMN, WEIGHTED, Texts
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Project, Scan, TopK, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.rewrites.rewrite import with_column
from belvedere.rules.builder import StageOwner
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.top import OWN, maintain_top, needs_only_top
from belvedere.rules.whole import OperatorStage, maintain_whole
from belvedere.schema import KEY, WEIGHT
from belvedere.store.stage_memory import StageMemory, remembered

MORE = 1_000
"""Minimum number of rows stored beyond those that a view of first rows shows."""
MANY = 10_000
"""Maximum number of first rows that are maintained in the driver.

Larger views are recomputed whole if rows are deleted.
"""
PLACE = "_row"
PLACE_FIELD = pa.field(PLACE, pa.int64())


@dataclass
class FirstMemory(StageMemory):
    """`complete`: 1 if the stored first rows are all rows of the input."""

    complete: int = remembered("$complete", 0)


@dataclass(frozen=True)
class FirstStage(OperatorStage):
    """Stage of the first rows.

    `plan` is a TopK; the first `least` of its rows are shown, the others replace them if some are deleted.
    """

    least: int

    rule = "first"
    in_driver = "the first rows"
    looks_up = True
    memory = FirstMemory

    @property
    def limit(self) -> int:
        """Return the maximum number of stored rows."""
        assert isinstance(self.plan, TopK)
        return self.plan.limit or 0

    def texts(self, texts: Texts) -> Mapping[str, str]:
        """Return the texts.

        `rows` gives the first rows of all; `placed` gives the changes and the stage's own rows (weight 0) with their
        positions.
        """
        top, names = self.plan, texts.names
        assert isinstance(top, TopK)
        changes = with_column(top.input, WEIGHT_COLUMN, names)
        none = exp.cast(exp.Literal.number(0), "bigint")
        columns = (*top.schema, WEIGHT_COLUMN)
        own = Project(
            Scan(OWN, top.schema), (*(item_of(c) for c in top.schema), replace(item_of(WEIGHT_COLUMN), expr=none))
        )
        both = Union((Project(changes, tuple(item_of(c) for c in columns)), own))
        order = ", ".join(order_text(o) for o in top.order + top.tie_order) or "1"
        place = f"{WEIGHTED}, CAST(row_number() OVER (ORDER BY {order}) AS BIGINT) AS `{PLACE}`"
        kinds = {**dict.fromkeys(names, DELTA), OWN: ROWS}
        return {"rows": texts.rows(top, ROWS), "placed": texts.rows(both, kinds, place)}

    def run(self, work: Work) -> Rows | None:
        """Insert changed rows at their positions among the stored ones. If too few rows are left, read all rows."""
        if work.is_fresh:
            return self._read_all(work)
        if not work.put_deltas():
            return None
        if sum(d.num_rows for d in work.deltas if d is not None) <= work.compute.small:
            known, changed = self._placed(work)
            if not len(changed):
                return None
            if known is not None:
                return work.replace(KEY, *self._difference(known, changed, work))
        return self._read_all(work)

    def _read_all(self, work: Work) -> Rows:
        work.put_rows(None)
        rows = work.rows("rows")
        work.recall(FirstMemory).complete = int(rows.num_rows < self.limit)
        return work.replace(None, None, rows)

    def _placed(self, work: Work) -> tuple[pa.Table | None, pa.Array]:
        """Return the first rows after the change in their order, and all changed keys.

        The rows are None if too few are known.

        Rows that are not stored come after the last stored row, even if that row has been deleted.
        """
        work.put(OWN, ROWS, work.look_up(self.output, None, None))
        both = work.rows("placed", WEIGHT_FIELD, PLACE_FIELD).table
        both = both.take(pc.sort_indices(both[PLACE]))
        weights = combined(both[WEIGHT]).to_numpy(zero_copy_only=False)
        changed = combined(pc.unique(both.filter(pa.array(weights != 0))[KEY]))
        touched = combined(pc.is_in(both[KEY], value_set=changed)).to_numpy(zero_copy_only=False)
        there = (weights > 0) | ((weights == 0) & ~touched)
        if not work.recall(FirstMemory).complete:
            own = np.flatnonzero(weights == 0)
            there[own[-1] + 1 if len(own) else 0 :] = False
            if there.sum() < self.least:
                return None, changed
        return both.filter(pa.array(there)), changed

    def _difference(self, known: pa.Table, changed: pa.Array, work: Work) -> tuple[pa.Array, Rows]:
        """Return the keys whose stored rows change, and their new rows. Rows over the limit are deleted."""
        if known.num_rows > self.limit:
            work.recall(FirstMemory).complete = 0
        over = combined(known[KEY].slice(self.limit))
        first = known.slice(0, self.limit)
        rows = first.filter(pc.is_in(first[KEY], value_set=changed)).drop_columns([WEIGHT, PLACE])
        return combined(pc.unique(pa.chunked_array([changed, over]))), Rows(rows)

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return {}


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, TopK) or top.limit is None or top.partition or needs_clock(top):
        return None
    return partial(_maintain, site, top)


def _maintain(site: Site, top: TopK) -> Relation:
    builder, owner = site.builder, site.part.owner
    shown = top.offset + (top.limit or 0)
    whole = replace(top, limit=shown, offset=0)
    if needs_only_top(builder, whole):
        if not top.offset:
            return maintain_top(site, top, Partition(((),), (), ()))
        first = builder.shared(whole, owner)
    elif shown > MANY:
        return maintain_whole(site)
    else:
        first = _maintain_more(site, top, shown, StageOwner(builder.fresh(owner), owner, None))
    few = replace(top, input=Scan(first.name, first.schema))
    return maintain_whole(replace(site, plan=site.over(few), top=few))


def _maintain_more(site: Site, top: TopK, shown: int, part: StageOwner) -> Relation:
    """Maintain the rows that are shown, and a limited number of further rows.

    Other views do not share this relation, since its size depends on the view.
    """
    slots, operator = site.builder.slots(top, None, part.owner)
    more = max(shown, MORE)
    longer = replace(top, input=operator.inputs[0], limit=shown + more, offset=0)
    reason = f"the first {shown} and up to {more} more: all rows are read when fewer than {shown} are left"
    return site.builder.emit(FirstStage(part.name, longer, slots, part.owner, reason, shown), part)


FIRST = Rule("first", _applies)
