"""The interface of rules: a rule checks an operator, and maintains it or says why not.

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
    """Why a rule does not maintain an operator that it is made for; `explain` says it with the rule that does."""

    reason: str


@dataclass(frozen=True)
class Site:
    """An operator, `top`, under linear ones, in `plan`; what is made becomes the relation of `part`."""

    builder: Builder
    plan: Node
    top: Node
    part: StageOwner
    refused: list[str] = field(default_factory=list)
    """The reasons of the rules before."""

    def over(self, operator: Node) -> Node:
        """The linear operators over another one."""
        return replace_node(self.plan, self.top, operator)

    def maintain(self, operator: Node) -> Relation:
        """Maintain the plan with another operator of the same meaning: its own rule is chosen."""
        return self.builder.maintain(self.over(operator), self.part)

    def apart(self) -> Relation:
        """Maintain the operator as a relation of its own, and the linear ones over it."""
        first = self.builder.shared(self.top, self.part.owner)
        return self.maintain(Scan(first.name, first.schema))

    def stage(self, type_: Callable[..., Any], plan: Node, slots: Any, reason: str, **fields: Any) -> Any:
        """A stage of this part."""
        return type_(self.part.name, plan, slots, self.part.owner, reason, **fields)


Maintain = Callable[[], Relation]


@dataclass(frozen=True)
class Rule:
    """`applies` gives a way to maintain an operator, a refusal with its reason, or None for operators that the rule is not made for."""

    name: str
    applies: Callable[[Site], Maintain | Refusal | None]
    is_optional: bool = True
    """Whether `Options` may switch it off: the rules behind it give the same answer."""
