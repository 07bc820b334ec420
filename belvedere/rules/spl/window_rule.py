"""SPL: aggregates over the windows of IBM Streams' SPL.

The state is the rows in windows, and one row per partition. An epoch takes the rows that arrived and the timers that
fell due since the previous epoch, finds the firings by the kernels, and aggregates their contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.row_identity import key_text
from belvedere.engine.sql.stage_sql import DELTA, ROWS, Texts
from belvedere.engine.work import Work
from belvedere.kernels.spl.blocks import can_hold_blocks
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Node, Project, Scan
from belvedere.plan.operators.spl_aggregate import FiringReading, SplAggregate
from belvedere.plan.operators.spl_windows import Interval, Sliding
from belvedere.plan.rewrites.rewrite import inline
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.spl import window_state
from belvedere.rules.spl.accumulated import not_accumulated
from belvedere.rules.spl.arriving_rows import check_that_rows_arrive
from belvedere.rules.spl.block_columns import BLOCK_ROWS, block_schema, has_blocks
from belvedere.rules.spl.contents import CONTENTS, contents_plan, contents_schema, name_of
from belvedere.rules.spl.firing_memory import WindowMemory
from belvedere.rules.spl.sorting import RANKED, ranks_plan
from belvedere.rules.spl.window_epoch import run_panes, run_windows
from belvedere.rules.spl.window_stage import SplWindows
from belvedere.schema import Schema


@dataclass(frozen=True)
class SplStage(SplWindows):
    """Stage of aggregates over windows."""

    rule = "spl"
    in_driver = "all of its rows: it computes the windows"
    memory = WindowMemory

    def texts(self, texts: Texts) -> Mapping[str, str]:
        held = texts.relations[self.buffered]
        given = self.node.input
        by = Schema(
            tuple(given.schema[i.expr.name] for i in self.node.partition),
            tuple(i.expr.name for i in self.node.partition),
        )
        zeros = [f"CAST(0 AS BIGINT) AS `{name}`" for name in (window_state.UNDER, window_state.TIME)]
        added = ", ".join([f"{key_text(by)} AS `{window_state.PART}`", *zeros])
        added += f", CAST(0 AS BIGINT) AS `{window_state.BLOCK}`" if self.in_blocks else ""
        arrived = f"SELECT *, {added} FROM ({texts.query(self.plan.inputs[0], DELTA)}) AS i"
        found = {
            "input": texts.identified(held, arrived),
            "contents": texts.query(contents_plan(self.node), {CONTENTS: ROWS}),
            "rows": texts.rows(Scan("made", texts.output.schema), ROWS),
        }
        if self.node.progressive:
            found[RANKED] = texts.query(ranks_plan(self.node), ROWS)
        if self.path is not None and self.has_panes:
            found["panes"] = texts.groups(_panes(self.node), self.path, ROWS)
        return found

    def run(self, work: Work) -> Rows | None:
        return run_panes(self, work) if self.has_panes else run_windows(self, work)

    # --- explaining

    def frees(self, relation: Relation) -> str | None:
        if relation.name == self.buffered:
            return (
                "rows leave once no open pane has them" if self.has_panes else "rows leave as their window evicts them"
            )
        if relation.name == self.partitions:
            return (
                "partitions leave as the window evicts them" if self.window.forgetting else "a row for each partition"
            )
        return "blocks leave with the first of their rows" if relation.name == self.blocks else None

    def holds(self, relation: Relation) -> str:
        if relation.name == self.blocks:
            return f"aggregates of {BLOCK_ROWS} rows each that windows hold"
        return "the rows that windows hold" if relation.name == self.buffered else super().holds(relation)


def _panes(node: SplAggregate) -> Node:
    """Return the partition and the pane of each row of the contents, under the output's names."""
    assert node.pane is not None
    start = name_of(FiringReading.INTERVAL_START)
    schema = contents_schema(node)
    return Project(Scan(CONTENTS, schema), (*node.partition, Item(node.pane, column(start), schema[start].type, False)))


def _applies(site: Site) -> Maintain | None:
    return partial(_maintain, site, site.top) if isinstance(site.top, SplAggregate) else None


def _maintain(site: Site, top: SplAggregate) -> Relation:
    """Maintain the operator as a relation of its own, and the rows in its windows beside it."""
    if site.plan is not top:
        return site.apart()
    builder, part = site.builder, site.part
    source, slots = builder.delta_slots(builder.with_relations(top.input, part.owner))
    check_that_rows_arrive(builder, slots, part.owner, "has a window")
    views = builder.catalog.views
    full = inline(top.input, lambda i: views[i].plan if i in views else None)
    types = tuple(i.type for i in top.partition)
    in_blocks = has_blocks(top)
    held = builder.state_of(
        part,
        window_state.ROWS,
        window_state.buffered_schema(top.input.schema, top.order, in_blocks),
        (window_state.TIME,),
    )
    by = tuple(i.expr for i in top.partition)
    held.path(by, types)
    if in_blocks:
        held.path((*by, column(window_state.BLOCK)), (*types, pa.int64()))
        builder.state_of(part, window_state.BLOCKS, block_schema(top))
    if not isinstance(top.window.kind, Interval):
        builder.state_of(part, window_state.PARTITIONS, window_state.PARTITION_SCHEMA, (window_state.DUE,))
    path = None
    if not top.every:
        names = [i.name for i in top.partition] + ([] if top.pane is None else [top.pane])
        path = builder.path_of(part, tuple(column(n) for n in names), tuple(top.schema[n].type for n in names))
    fields = {"node": top, "source": full, "path": path}
    stage = site.stage(SplStage, top.with_inputs((source,)), slots, _reason(top), **fields)
    return builder.emit(stage, part, schema=top.schema, append_only=top.every)


def _reason(top: SplAggregate) -> str:
    by = f" by {', '.join(i.name for i in top.partition)}" if top.partition else ""
    timer = isinstance(top.window.kind, Sliding)
    what = "every firing" if top.every else "the last firing"
    said = (
        f"{what} of {'sliding' if timer else 'the'} windows{by}: {top.window.text}; the rows that they hold "
        "are its state"
    )
    if has_blocks(top):
        return f"{said}, read by blocks of {BLOCK_ROWS}"
    whole = not_accumulated(top)
    return f"{said}, read as a whole for {', '.join(whole)}" if whole and can_hold_blocks(top.window) else said


SPL = Rule("spl", _applies, is_optional=False)
