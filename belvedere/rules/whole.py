"""Whole: plans without a key to split by, and plans that use now() in other ways than to let rows enter and leave.

The stage computes all rows and writes the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.errors import counted
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.clock_steps import clock_step, next_step
from belvedere.plan.operators.nodes import Aggregate, Join, Node, TopK, Window
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Recursion
from belvedere.plan.operators.window_explanation import search_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.rules.bounds_below import operator_of
from belvedere.rules.rule import Maintain, Rule, Site


@dataclass(frozen=True)
class OperatorStage(Stage):
    """A stage whose operator determines the number of rows of its output."""

    def holds(self, relation: Relation) -> str:
        operator = operator_of(self.plan)
        if not isinstance(operator, TopK) or operator.limit is None or relation.view is not None:
            return super().holds(relation)
        by = f" for each group by {', '.join(operator.partition)}" if operator.partition else ""
        return f"at most {counted(operator.limit, 'row')}{by}"

    def is_bounded(self, output: Relation) -> bool:
        """Return whether the operator has one group, or a limited number of first rows."""
        operator = operator_of(self.plan)
        if isinstance(operator, Aggregate):
            return not operator.keys
        return isinstance(operator, TopK) and operator.limit is not None and not operator.partition


@dataclass(frozen=True)
class WholeStage(OperatorStage):
    """Stage that computes all rows of the plan from all rows of the slots."""

    rule = "whole"
    looks_up = True

    @property
    def reads_clock(self) -> bool:
        return needs_clock(operator_of(self.plan))

    def due(self, clock: int, least: Callable[[str, str], int | None]) -> int:
        """Return the next step of the clock, if all expressions that read the clock round it."""
        step = clock_step(self.plan.walk()) if self.reads_clock else None
        return super().due(clock, least) if step is None else next_step(clock, step)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.all_rows(self.plan)}

    def run(self, work: Work) -> Rows | None:
        return replace_all(work) if work.is_touched or self.reads_clock else None

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return {}


def replace_all(work: Work) -> Rows:
    """Recompute everything from all rows of the inputs, by the text `rows`."""
    work.put_rows(None)
    return work.replace(None, None, work.rows("rows"))


def _applies(site: Site) -> Maintain:
    return partial(maintain_whole, site)


def maintain_whole(site: Site) -> Relation:
    """Maintain all rows, for any operator."""
    slots, operator = site.builder.slots(site.top, None, site.part.owner)
    clocked = needs_clock(site.top)
    why = "it reads now()" if clocked else "; ".join([_why(site.top), *site.refused])
    return site.builder.emit(site.stage(WholeStage, site.over(operator), slots, why), site.part)


def _why(node: Node) -> str:
    match node:
        case TopK():
            return "a limit over rows that change or are few"
        case Join():
            return f"no equality between columns in the {node.kind} join"
        case Aggregate():
            return "grouping sets share no key"
        case Window():
            return "window functions without PARTITION BY"
        case Recursion():
            return "one row can be the first match of any number of rows"
        case PredicateWindow():
            why = node.why_all or "windows have no PARTITION BY"
            return f"any row can change any window: {why}; {search_of(node)}"
        case _:
            return "no key to split by"


WHOLE = Rule("whole", _applies, is_optional=False)
