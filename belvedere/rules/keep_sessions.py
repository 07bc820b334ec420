"""Session windows over what bounds complete: the open sessions are all the state there is.

In: `Session` over rows whose time has a bound. Out: a stage whose own rows are its state, and the views above it. A session whose end is at
or below the bound has all its rows and keeps them, as a later row is a gap away at least: its rows leave, and what is computed for
others does not miss them. Where no bound is possible the plain rule keeps all rows of a key.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.engine.relation import Relation
from belvedere.plan.nodes import Node, Scan
from belvedere.plan.time_nodes import TimeWindow, TimeWindowKind
from belvedere.rules.builder import Builder, Part
from belvedere.rules.facts import Partition, partition_of
from belvedere.rules.pipeline import Rule, Stage
from belvedere.rules.rewrite import replace_node
from belvedere.rules.window_by.keep_windows import settled_source


def sessions_end(builder: Builder, top: TimeWindow) -> bool:
    """Whether these are sessions that bounds make final."""
    if top.kind is not TimeWindowKind.SESSION or top.schema.key is None:
        return False
    return settled_source(builder, top.input, top.time) is not None


def keep_sessions(builder: Builder, plan: Node, top: TimeWindow, part: Part) -> Relation:
    """The sessions that a change can reach: those of its key that have not ended below the bound."""
    if plan is not top or part.view is not None:
        first = builder.shared(top, part.owner)
        return builder.maintain(replace_node(plan, top, Scan(first.name, first.schema)), part)
    source, slots = builder.delta_slots(builder.settle(top.input, part.owner))
    partition = partition_of(top) or Partition(((),), (), ())
    slots = builder.hash_changes(top.input, slots, partition)
    by = f"the changed {', '.join(top.partition)}" if top.partition else "the sequence"
    reason = f"the open sessions of {by}; they leave once they end at or below the bound on {top.time}"
    stage = Stage(part.name, Rule.SESSIONS, top.with_inputs((source,)), slots, None, part.owner, reason)
    relation = builder.emit(stage, False, None, schema=top.schema)
    path = builder.drafts[part.name].path(partition.output, partition.types)
    builder.stages[-1] = replace(stage, path=path)
    return relation
