"""SPL join: two streams, each joined with the other's sliding window.

The state is the rows in both windows, indexed by join key, by partition and by the clock at their arrival. An epoch
looks up the rows that arriving rows can match or replace, and the rows that have become too old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.row_identity import key_text
from belvedere.engine.sql.stage_sql import DELTA, ROWS, Texts
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.plan.expressions import column
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.nodes import Join, JoinKind, Scan
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.spl_windows import Time
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.spl.arriving_rows import check_that_rows_arrive
from belvedere.rules.spl.firing_memory import FiringMemory
from belvedere.rules.spl.join_epoch import run_join
from belvedere.rules.spl.join_stage import AT, HELD_COLUMNS, MATCHED, PART, SplJoins
from belvedere.rules.spl.pairs import SIDES, pairs_plan
from belvedere.schema import Schema


@dataclass(frozen=True)
class SplJoinStage(SplJoins):
    """Stage that joins arriving rows with the rows in the other side's window."""

    rule = "spl join"
    in_driver = "all of its rows: it computes the windows"
    memory = FiringMemory

    def texts(self, texts: Texts) -> Mapping[str, str]:
        found = {
            "pairs": texts.query(pairs_plan(self.node), ROWS),
            "rows": texts.rows(Scan("made", texts.output.schema), ROWS),
        }
        for n, window in enumerate(self.node.windows):
            source = self.plan.inputs[n]
            by = Schema(tuple(source.schema[name] for name in window.partition), window.partition)
            clock = f"unix_micros({quote(window.clock)}) AS `{AT}`"
            arrived = (
                f"SELECT *, {key_text(by)} AS `{PART}`, {clock}, FALSE AS `{MATCHED}` FROM "
                f"({texts.query(source, DELTA)}) AS i"
            )
            found[SIDES[n]] = texts.identified(texts.relations[self.buffered[n]], arrived)
        return found

    def run(self, work: Work) -> Rows | None:
        return run_join(self, work)

    # --- explaining

    def frees(self, relation: Relation) -> str | None:
        return "rows leave as their window evicts them" if relation.name in self.buffered else None

    def holds(self, relation: Relation) -> str:
        return "the rows that the window holds" if relation.name in self.buffered else super().holds(relation)


def _applies(site: Site) -> Maintain | None:
    return partial(_maintain, site, site.top) if isinstance(site.top, SplJoin) else None


def _maintain(site: Site, top: SplJoin) -> Relation:
    """Maintain the operator as a relation of its own, and the rows in its windows beside it."""
    if site.plan is not top:
        return site.apart()
    builder, part = site.builder, site.part
    sources, slots = builder.delta_slots(
        top.with_inputs(tuple(builder.with_relations(i, part.owner) for i in top.inputs))
    )
    check_that_rows_arrive(builder, slots, part.owner, "joins windows")
    pairs = equalities(Join(top.left, top.right, JoinKind.INNER, top.condition))
    types = tuple(t for _, _, t in pairs)
    partitions, keys = [], []
    for n, window in enumerate(top.windows):
        schema = Schema((*top.inputs[n].schema.columns, *HELD_COLUMNS), (window.order,))
        held = builder.state_of(part, f"${SIDES[n]}", schema, (AT,))
        names, by_time = window.partition, isinstance(window.eviction, Time)
        kinds = tuple(top.inputs[n].schema[name].type for name in names)
        partitions.append(None if by_time else held.path(tuple(column(name) for name in names), kinds))
        keys.append(held.path(tuple(p[n] for p in pairs), types) if pairs else None)
    fields = {"node": top, "partitions": tuple(partitions), "keys": tuple(keys)}
    stage = site.stage(SplJoinStage, sources, slots, _reason(top), **fields)
    return builder.emit(stage, part, schema=top.schema, append_only=True)


def _reason(top: SplJoin) -> str:
    left, right = (w.window.text for w in top.windows)
    return (
        f"arriving rows joined with the rows in the other side's window: {left}; {right}; the rows that they "
        "hold are its state"
    )


SPL_JOIN = Rule("spl join", _applies, is_optional=False)
