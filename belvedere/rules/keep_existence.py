"""SEMI and ANTI joins without an equality: the rows that changed, and those with a match among the changed rows of the other side.

In: a join whose condition no hash can look up. Out: a stage that joins these alone. No pairs are stored: there may be far more of them than
rows.
"""

from __future__ import annotations

from belvedere.engine.relation import Relation
from belvedere.plan.nodes import Join, JoinKind, Node
from belvedere.rules.builder import Builder, Part
from belvedere.rules.facts import equalities, needs_clock
from belvedere.rules.pipeline import Rule, Stage
from belvedere.rules.rewrite import passes_key, replace_node


def keep_existence(builder: Builder, plan: Node, top: Join, part: Part) -> Relation | None:
    """None for other joins, and where rows of the left side and of the output are not told apart by the same key."""
    if top.kind not in (JoinKind.SEMI, JoinKind.ANTI) or equalities(top) or needs_clock(top):
        return None
    if set(top.left.schema.names) & set(top.right.schema.names):
        return None
    slots, operator = builder.slots(top, None, part.owner)
    own = builder.drafts[slots[0].relation].relation.schema
    rendered = replace_node(plan, top, operator)
    if not passes_key(rendered, operator, operator.inputs[0], own):
        return None
    reason = "changed rows, and rows that match changed rows of the other side, joined with all of its rows: no equality to look up by"
    return builder.emit(Stage(part.name, Rule.EXISTENCE, rendered, slots, None, part.owner, reason), False, part.view)
