"""First: the first rows of all, from a stored few: no more than the view shows where rows only arrive, else some to follow them.

Rows behind the last stored one are not known: as long as enough stored rows are left nothing else is read; when too few are, all rows are
read once. Source: Yi, Yu, Yang, Xia, Chen, 'Efficient maintenance of materialized top-k views', ICDE 2003.
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
"""Views that show more first rows than these are recomputed whole where rows go: the driver puts them in order by itself."""
PLACE = "_row"
PLACE_FIELD = pa.field(PLACE, pa.int64())


@dataclass
class FirstMemory(StageMemory):
    """`complete`: 1 where the stored first rows are all rows there are."""

    complete: int = remembered("$complete", 0)


@dataclass(frozen=True)
class FirstStage(OperatorStage):
    """`plan` is a TopK; of its rows the first `least` are shown, the others are there to follow when some of them go."""

    least: int

    rule = "first"
    looks_up = True
    memory = FirstMemory

    @property
    def limit(self) -> int:
        """How many rows are stored at most."""
        assert isinstance(self.plan, TopK)
        return self.plan.limit or 0

    def texts(self, texts: Texts) -> Mapping[str, str]:
        """`rows` are the first of all; `placed` are changes beside the stage's own rows (weight 0) with their place among these."""
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
        """Put changed rows in their place among the stored ones, or read all rows where that leaves too few."""
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
        return work.replace(None, None, rows.reader())

    def _placed(self, work: Work) -> tuple[pa.Table | None, pa.Array]:
        """The first rows after the change in their order, None where too few are known, and all keys that changed.

        Whatever is not stored comes after the last stored row, be that one still there or not.
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

    def _difference(self, known: pa.Table, changed: pa.Array, work: Work) -> tuple[pa.Array, pa.RecordBatchReader]:
        """The keys whose stored rows change, and the rows that they have then: what is over the limit goes."""
        if known.num_rows > self.limit:
            work.recall(FirstMemory).complete = 0
        over = combined(known[KEY].slice(self.limit))
        first = known.slice(0, self.limit)
        rows = first.filter(pc.is_in(first[KEY], value_set=changed)).drop_columns([WEIGHT, PLACE])
        return combined(pc.unique(pa.chunked_array([changed, over]))), rows.combine_chunks().to_reader()

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
    """At least the rows that are shown, and at most as many more. No other view has this relation: how many there are is its own."""
    slots, operator = site.builder.slots(top, None, part.owner)
    more = max(shown, MORE)
    longer = replace(top, input=operator.inputs[0], limit=shown + more, offset=0)
    reason = f"the first {shown} and up to {more} more: all rows are read when fewer than {shown} are left"
    return site.builder.emit(FirstStage(part.name, longer, slots, part.owner, reason, shown), part)


FIRST = Rule("first", _applies)
