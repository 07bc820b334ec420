"""Sessions: session windows over input with bounds. The state is only the open sessions.

A session whose end is below the bound is final: a later row is more than a gap away. Its rows leave, and the
computation of other sessions does not need them. If no bound is possible, the plain rule stores all rows of a key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.sql.stage_sql import WEIGHT_COLUMN, Texts
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Filter, Join, JoinKind, Node, Project, Scan, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.plan_properties import partition_of
from belvedere.plan.rewrites.rewrite import with_column
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.top import OWN, OwnRowsStage
from belvedere.schema import WEIGHT


@dataclass(frozen=True)
class SessionsStage(OwnRowsStage):
    """Stage that recomputes the sessions that a change can reach: those of its key that have not ended below the bound.

    It reads no row of an ended session, so it never writes an ended session again.
    """

    rule = "sessions"

    @property
    def changed(self) -> Node:
        return self.plan.inputs[0]

    def beside_own(self, texts: Texts) -> Node:
        """Return the operator over its stored rows except changed ones, and the changed rows with their present
        values.
        """
        given, output = self.plan.inputs[0], texts.output
        items = tuple(item_of(c) for c in given.schema)
        own: Node = Scan(OWN, output.schema)
        if not all(texts.relations[s.relation].append_only for s in self.slots):
            gone = tuple(replace(item_of(output.schema[n]), name=f"_gone.{n}") for n in output.schema.key or ())
            same = conjunction([exp.NullSafeEQ(this=i.expr, expression=column(i.name)) for i in gone])
            own = Join(own, Project(given, gone), JoinKind.ANTI, same)
        changes = with_column(given, WEIGHT_COLUMN, texts.names)
        come = Filter(changes, exp.GT(this=column(WEIGHT), expression=exp.Literal.number(0)))
        return self.plan.with_inputs((Union((Project(come, items), Project(own, items))),))


def _applies(site: Site) -> Maintain | None:
    """Return the rule's choice for sessions that bounds make final."""
    top = site.top
    if not isinstance(top, TimeWindow) or top.kind is not TimeWindowKind.SESSION or top.schema.key is None:
        return None
    return None if site.builder.final_source(top.input, top.time) is None else partial(_maintain, site, top)


def _maintain(site: Site, top: TimeWindow) -> Relation:
    if site.plan is not top or site.part.view is not None:
        return site.apart()
    builder, part = site.builder, site.part
    source, slots = builder.delta_slots(builder.with_relations(top.input, part.owner))
    partition = partition_of(top) or Partition(((),), (), ())
    slots = builder.hash_changes(top.input, slots, partition)
    path = builder.path_of(part, partition.output, partition.types)
    by = f"the changed {', '.join(top.partition)}" if top.partition else "the sequence"
    reason = f"the open sessions of {by}; they leave once they end below the watermark of {top.time}"
    stage = site.stage(SessionsStage, top.with_inputs((source,)), slots, reason, path=path)
    return builder.emit(stage, part, schema=top.schema, view=None)


SESSIONS = Rule("sessions", _applies)
