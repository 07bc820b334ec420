"""Open windows: WINDOW BY over input that arrives in time.

Final windows are not recomputed, and their rows leave the state.

The stage finds the windows of the stored rows, then drops the rows that no open window needs. Final windows have no row
in the state, so they are neither found again nor replaced. If windows look back at such rows, some rows stay and are
recognized by their time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import Rows, keys_of
from belvedere.engine.sql.stage_sql import ROWS, Texts
from belvedere.engine.sql.staged_operators import print_plan
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.plan.expressions import column
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_explanation import search_of
from belvedere.plan.plan_properties import base_scan
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.rules.builder import Builder, StageOwner
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.window_by.expiry import FINAL, ROW, SINCE, Settling, forget_final, open_rows
from belvedere.rules.window_by.over import keeps_key
from belvedere.schema import KEY, Column, Schema

SUFFIX = "$state"


@dataclass(frozen=True)
class OpenWindowsStage(Stage):
    """Stage of open windows.

    `settling` determines when rows leave the slot's relation; `since` is the relation that stores from which time on
    windows are not final.
    """

    settling: Settling
    since: str | None

    rule = "open windows"
    in_driver = "the times of the windows of changed partitions"
    looks_up = True

    @property
    def states(self) -> tuple[str, ...]:
        return () if self.since is None else (self.since,)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.all_rows(self.plan)}

    def run(self, work: Work) -> Rows | None:
        """Compute the windows of the partitions in which rows arrived.

        A window's key is that of the row at its start.
        """
        slot, _ = work.slots[0]
        (delta,) = work.deltas
        if delta is None or slot.path is None:
            return None
        keys = keys_of([(delta, slot.path)])
        rows = work.look_up(slot.relation, slot.path, keys)
        work.put(slot.name, ROWS, rows)
        work.put_windows(rows.num_rows)
        sql, replaced = work.sql["rows"], rows
        if self.since is not None:
            final = work.look_up(self.since, work.prepared.states[self.since].paths[0].name, keys)
            work.put(slot.name, FINAL, final)
            if not final.is_empty:
                replaced = open_rows(work, self.settling)
                work.put(slot.name, "open", replaced)
                still = work.view(slot.name, "open")
                sql = f"SELECT f.* FROM ({sql}) AS f LEFT SEMI JOIN {still} AS o ON f.{quote(KEY)} = o.{quote(KEY)}"
        changed = work.replace(KEY, keys_of([(replaced, KEY)]), work.query(sql))
        bound = self.settling.bound(work.bounds.__getitem__)
        if bound > NEVER:
            forget_final(work, self.settling, rows, bound)
        return changed

    def frees(self, relation: Relation) -> str | None:
        if relation.name != self.since:
            return None
        return (
            f"a row for each {', '.join(self.settling.block.by) or 'the sequence'}: the start of its windows "
            "that are not final"
        )


def settling_of(builder: Builder, block: PredicateWindow) -> Settling | None:
    """Return how rows leave the state of `block`, or None if they stay: they are served, can change, arrive late, or
    have no bound."""
    if block.resume is None or block.identity is None or not builder.grows(block.input):
        return None
    base = base_scan(block.input)
    if base is not None and builder.drafts[builder.relation_of_scan(base)].relation.is_state:
        return None
    source = builder.final_source(block.input, block.resume.column)
    return None if source is None else Settling(block, block.resume, source)


def _applies(site: Site) -> Maintain | None:
    if not isinstance(site.top, PredicateWindow):
        return None
    settling = settling_of(site.builder, site.top) if site.top.has_rows_key else None
    return None if settling is None else partial(_keep, site, site.top, settling)


def _keep(site: Site, top: PredicateWindow, settling: Settling) -> Relation:
    if not keeps_key(site):
        return site.apart()
    builder, part, column_name = site.builder, site.part, top.order_word
    name = builder.fresh(part.owner)
    state = builder.maintain(carry_keys(top.input), StageOwner(name, part.owner, None))
    draft = builder.drafts[name]
    leaves = f"rows leave once all their windows end below the watermark of {column_name}"
    draft.relation = replace(
        draft.relation, serves=print_plan(top), leaves=leaves
    )  # any other query would miss the rows that left
    types = tuple(state.schema[n].type for n in top.spec.keys)
    slot = Slot("s0", name, draft.path(tuple(column(n) for n in top.spec.keys), types))
    by = f"the changed {', '.join(top.by)}" if top.partition else "the sequence"
    reason = f"the open windows of {by}; rows leave once their windows end below the watermark of {column_name}"
    reason += ", except rows that later windows read" * settling.resume.looks_back
    since = _state_of_final(builder, top, part) if settling.resume.looks_back else None
    operator = site.over(top.with_inputs((Scan(slot.name, state.schema),)))
    fields = {"settling": settling, "since": since}
    return builder.emit(site.stage(OpenWindowsStage, operator, (slot,), f"{reason}; {search_of(top)}", **fields), part)


def _state_of_final(builder: Builder, top: PredicateWindow, part: StageOwner) -> str:
    """Create the relation that stores from which time on windows are not final: a row for each partition of which rows
    have left."""
    types = tuple(top.input.schema[n].type for n in top.spec.keys)
    by = tuple(Column(f"by{n}", t) for n, t in enumerate(types))
    columns = (Column(ROW, pa.string(), nullable=False), *by, Column(SINCE, pa.int64(), nullable=False))
    draft = builder.state_of(part, SUFFIX, Schema(columns, (ROW,)))
    draft.path(tuple(column(c.name) for c in by), types)
    return draft.relation.name


OPEN_WINDOWS = Rule("open windows", _applies)
