"""The plain rules: row by row, key by key, a join of changes, and the whole recomputed."""

from __future__ import annotations

from dataclasses import replace

from belvedere.engine.relation import Relation
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Aggregate, Join, Node, Scan, TopK, Window
from belvedere.plan.window_by import WindowBlock
from belvedere.rules.builder import Builder, Part
from belvedere.rules.facts import Partition, equalities, is_linear, needs_clock
from belvedere.rules.outer_expiry import times_to_carry
from belvedere.rules.pipeline import Rule, Stage
from belvedere.rules.rewrite import carry, replace_node


def keep_linear(builder: Builder, plan: Node, part: Part) -> Relation:
    if any(isinstance(n, Scan) or not is_linear(n) for n in plan.walk() if n.inputs or isinstance(n, Scan)):
        plan = builder.settle(plan, part.owner)
    rendered, slots = builder.delta_slots(plan)
    grows = all(builder.drafts[s.relation].relation.append_only for s in slots)
    rule = Rule.LINEAR if slots else Rule.CONSTANT
    reason = "each changed row by itself" if slots else "does not depend on any input"
    return builder.emit(Stage(part.name, rule, rendered, slots, None, part.owner, reason), grows, part.view)


def keep_keyed(builder: Builder, plan: Node, top: Node, partition: Partition, part: Part, why: str = "") -> Relation:
    """All rows of the changed keys; `why` not less."""
    slots, operator = builder.slots(top, partition, part.owner)
    whole = replace_node(plan, top, operator)
    times = times_to_carry(whole, operator, builder.bounds_of(operator, slots)) if isinstance(operator, Join) else ()
    whole, names = carry(whole, operator, (*partition.items, *times))
    reason = "key by key: " + (", ".join(e.sql(dialect="spark") for e in partition.output) or "one group")
    reason += f"; {why}" if why else ""
    if isinstance(top, WindowBlock):
        why = f" ({top.why_all})" if top.why_all else ""
        reason = f"all windows of the changed {', '.join(top.by)}{why}; {top.found}"
    stage = Stage(part.name, Rule.KEYED, whole, slots, None, part.owner, reason)
    relation = builder.emit(stage, False, part.view)
    path = builder.drafts[part.name].path(tuple(column(n) for n in names[: len(partition.types)]), partition.types)
    builder.stages[-1] = replace(stage, path=path)
    return relation


def keep_whole(builder: Builder, plan: Node, top: Node, part: Part, more: str = "") -> Relation:
    """All rows; `more` says why, where not every operator of the kind is kept so."""
    slots, operator = builder.slots(top, None, part.owner)
    clocked = needs_clock(top)
    why = "it reads now()" if clocked else _why_whole(top)
    why += f"; {more}" if more and not clocked else ""
    rendered = replace_node(plan, top, operator)
    stage = Stage(part.name, Rule.WHOLE, rendered, slots, None, part.owner, why, clocked)
    return builder.emit(stage, False, part.view)


def keep_join(builder: Builder, plan: Node, top: Join, part: Part) -> Relation:
    pairs = equalities(top)
    partition = None
    if pairs:
        sides = (tuple(a for a, _, _ in pairs), tuple(b for _, b, _ in pairs))
        partition = Partition(sides, (), tuple(t for _, _, t in pairs))
    slots, operator = builder.slots(top, partition, part.owner)
    grows = all(builder.drafts[s.relation].relation.append_only for s in slots)
    reason = "changed rows joined with all rows of the other side: no equality to look up by"
    if pairs:
        reason = f"changed rows of one side joined with rows of the other by {', '.join(a.name for a, _, _ in pairs)}"
    rendered = replace_node(plan, top, operator)
    return builder.emit(Stage(part.name, Rule.JOIN, rendered, slots, None, part.owner, reason), grows, part.view)


def _why_whole(node: Node) -> str:
    match node:
        case TopK():
            return "a limit over rows that change or are few"
        case Join():
            return f"no equality between columns in the {node.kind} join"
        case Aggregate():
            return "grouping sets share no key"
        case Window():
            return "window functions without PARTITION BY"
        case WindowBlock() if len(node.relations) > 1:
            return f"it reads several tables, not by joins on equal columns alone: join them in a view of its own; {node.found}"
        case WindowBlock():
            why = node.why_all or "no column of the table in PARTITION BY"
            return f"any row may change any window: {why}; {node.found}"
        case _:
            return "no key to split by"
