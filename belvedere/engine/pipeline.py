"""A pipeline: the maintenance of every view, as data that `explain` prints and the engine runs.

In: nothing. Out: relations by name, and stages in the order in which an epoch runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.engine.relation import Relation
from belvedere.engine.stage import Stage
from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.nodes import Node
from belvedere.plan.plan_properties import needs_clock


@dataclass(frozen=True)
class Pipeline:
    """All relations by name and the stages in order: a stage comes after those that feed it."""

    relations: Mapping[str, Relation] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    served: Mapping[str, str] = field(default_factory=dict)
    """The relation behind each public id."""
    never_final: frozenset[str] = frozenset()
    """Inputs whose rows may change below their bounds. Their bounds make no row final."""
    by_cost: bool = True
    """Whether keyed operators and joins are recomputed whole in epochs in which most of their input changes."""
    at_read: Mapping[str, Node] = field(default_factory=dict)
    """Views without a stage. The database computes them at read time, by these plans over served relations."""

    def is_served(self, relation: str) -> bool:
        """Return whether a relation is read from outside the pipeline. Its rows are then results."""
        return relation in self.served.values()

    @property
    def reads_clock(self) -> bool:
        """Return whether time alone changes some view. The clock must then start epochs."""
        computed = (n for plan in self.at_read.values() for n in plan.walk())
        return any(s.reads_clock for s in self.stages) or any(map(needs_clock, computed))

    @cached_property
    def stage_depths(self) -> dict[str, int]:
        """Return by relation the maximum number of stages below it.

        Stages of the same level do not wait for each other.
        """
        found: dict[str, int] = {}
        for stage in self.stages:
            found[stage.output] = 1 + max((found.get(s.relation, 0) for s in stage.slots), default=0)
        return found

    @property
    def delays(self) -> frozenset[int]:
        """Return the delays after which changes are emitted, in microseconds."""
        return frozenset(s.delay for s in self.stages if s.delay is not None)
