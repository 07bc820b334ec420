"""The interface of rules. A rule checks an operator, and maintains it or returns the reason why not.

In: the operator with the linear ones above it. Out: a way to maintain it, or a refusal. Each file of this package is
one rule: whether it applies, its stage with its SQL, how that runs, what expires, and its text in `explain`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from belvedere.engine.relation import Relation
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.rewrite import replace_node
from belvedere.rules.builder import Builder, StageOwner


@dataclass(frozen=True)
class Refusal:
    """Reason why a rule does not maintain an operator for which it is made.

    `explain` shows the reason beside the chosen rule.
    """

    reason: str


@dataclass(frozen=True)
class Site:
    """An operator, `top`, below linear ones, in `plan`. The maintained relation is that of `part`."""

    builder: Builder
    plan: Node
    top: Node
    part: StageOwner
    refused: list[str] = field(default_factory=list)
    """Reasons of the rules that refused before."""

    def over(self, operator: Node) -> Node:
        """Put the linear operators over another operator."""
        return replace_node(self.plan, self.top, operator)

    def maintain(self, operator: Node) -> Relation:
        """Maintain the plan with another operator of the same meaning, for which a rule is chosen again."""
        return self.builder.maintain(self.over(operator), self.part)

    def apart(self) -> Relation:
        """Maintain the operator as a relation of its own, and the linear ones over it."""
        first = self.builder.shared(self.top, self.part.owner)
        return self.maintain(Scan(first.name, first.schema))

    def stage(self, type_: Callable[..., Any], plan: Node, slots: Any, reason: str, **fields: Any) -> Any:
        """Create a stage of this part."""
        return type_(self.part.name, plan, slots, self.part.owner, reason, **fields)


Maintain = Callable[[], Relation]


@dataclass(frozen=True)
class Rule:
    """One rule, as `RULES` lists it.

    `applies` returns a way to maintain an operator, a refusal with its reason, or None if the rule is not made for the
    operator.
    """

    name: str
    applies: Callable[[Site], Maintain | Refusal | None]
    is_optional: bool = True
    """Whether `Options` can switch the rule off. The rules after it then give the same answer."""
