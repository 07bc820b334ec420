"""A stage: one step of an epoch, as the data that a rule created.

In: nothing. Out: the base of all rules' stages: the interface for the epoch, the expiry of state, `explain` and the
fingerprints of stored tables. A stage's rule defines how it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.sql.staged_operators import print_plan
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.bounds import bounds_of
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.operators.nodes import Node
from belvedere.plan.plan_properties import needs_clock
from belvedere.store.stage_memory import StageMemory


@dataclass(frozen=True)
class BoundsNow:
    """Bounds of every relation's columns, in microseconds; `inputs` are those of the inputs, including columns that are
    never final.

    `earlier` returns the bounds some microseconds ago: rows that a delay has not emitted yet stay for that time.
    """

    relations: Mapping[str, Bounds]
    inputs: Known
    earlier: Callable[[int], BoundsNow]

    def known(self, slots: tuple[Slot, ...]) -> Known:
        """Return the bounds behind the scans of a stage's plan. Its own rows set no bound."""
        return slots_known(slots, self.relations)


def slots_known(slots: tuple[Slot, ...], bounds: Mapping[str, Bounds]) -> Known:
    """Return the bounds behind the scans of a stage's plan. Its own rows set no bound."""
    relations = {s.name: s.relation for s in slots}
    return lambda scan: bounds.get(relations[scan], {}) if scan in relations else None


@dataclass(frozen=True)
class Stage:
    """Computes the change of the relation `output` from the changes of its slots' relations.

    `plan` is a tree over `Scan`s of the slots; `owner` is the id of the view to which the stage belongs; `reason` says
    why the rule was chosen, for people.
    """

    output: str
    plan: Node
    slots: tuple[Slot, ...]
    owner: str
    reason: str

    rule: ClassVar[str]
    """Name of the rule in `RULES`, `explain` and `Options`."""
    looks_up: ClassVar[bool] = False
    """Whether the stage looks up old rows of its slots' relations."""
    is_result: ClassVar[bool] = False
    """Whether its rows are results whatever their name. Results are never deleted."""
    is_input: ClassVar[bool] = False
    """Whether the epoch passes it the arrived rows."""
    emits_changes: ClassVar[bool] = False
    """Whether its rows describe changes of its slot's relation.

    After a recomputation they describe the differences.
    """
    defers: ClassVar[bool] = False
    """Whether its change can be computed within the query of its only reader, so that the output needs no rows of its
    own."""
    reads_once: ClassVar[bool] = False
    """Whether the stage reads each change in one query, so that the computation of the change can be a part of that
    query."""
    reads_keys: ClassVar[bool] = True
    """Whether it reads the `_key` of its slots' changes."""
    rebuilds: ClassVar[bool] = True
    """Whether its output can be recomputed from stored rows, whatever their arrival times."""
    by_cost: ClassVar[bool] = False
    """Whether it computes all rows in epochs in which most of its input changes."""

    @property
    def reads_clock(self) -> bool:
        """Return whether time alone changes the output. The stage then runs in every epoch."""
        return False

    def due(self, clock: int, least: Callable[[str, str], int | None]) -> int:
        """Return the time, in microseconds, from which time alone may change the output, after an epoch at `clock`.

        `least` returns the least time in a column of a stored relation of the stage's own.
        """
        return NEVER if self.reads_clock else FOREVER

    @property
    def delay(self) -> int | None:
        """Return the microseconds after which changes are emitted, or None if they are emitted at once."""
        return None

    @property
    def states(self) -> tuple[str, ...]:
        """Return the names of the relations that the stage stores in addition to its output."""
        return ()

    @property
    def definition(self) -> tuple[str, ...]:
        """Return the definition of the output, as text. Stored rows are valid while it stays the same."""
        return (print_plan(self.plan),)

    def columns_read(self, slot: Slot) -> frozenset[str] | None:
        """Return the columns of a slot's relation that affect the stage, or None if all may."""
        return None

    def retracts(self, relations: Mapping[str, Relation]) -> bool:
        """Return whether its result is exactly the difference, so that the output's old rows need not be looked up."""
        return False

    @property
    def restores(self) -> bool:
        """Return whether all rows of its output can be computed from its own states."""
        return False

    # --- running

    in_driver: ClassVar[str] = ""
    """Rows of a large epoch that pass through the driver, where executors look up and change the others."""
    memory: ClassVar[type[StageMemory]] = StageMemory
    """Type of its memory between epochs, in addition to its rows."""

    def texts(self, texts: Texts) -> Mapping[str, str]:
        """Return the Spark SQL from which `run` chooses, by name. It is created once."""
        raise NotImplementedError

    def run(self, work: Work) -> Rows | None:
        """Compute the change of the output and write it to the epoch's transaction.

        Return None if the output cannot have changed.
        """
        raise NotImplementedError

    # --- expiry: which rows bounds make final

    def bounds(self, inputs: Known, relations: Mapping[str, Bounds]) -> Bounds:
        """Return the bounds of the output's columns.

        `relations` are those before it, `inputs` the bounds of final inputs.
        """
        if any(needs_clock(n) for n in self.plan.walk()):
            return {}  # time alone removes rows
        return bounds_of(self.plan, slots_known(self.slots, relations))

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        """Return bounds of the output's columns below which the stage never writes a row again."""
        return own

    def reads_from(self, slot: Slot, now: BoundsNow) -> Bounds:
        """Return bounds of a slot's columns below which the stage never looks up a row again; empty if it needs rows of
        any age."""
        return {}

    def final_states(self, relations: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        """Return the bounds below which rows are final, by column, for its own relations besides the output."""
        return {}

    def final_results(self, own: Bounds) -> dict[str, int]:
        """Return columns of the output and bounds: rows below are final, even if not all of their input rows still
        exist.
        """
        return {}

    # --- explaining

    def explain(self, relations: Mapping[str, Relation], by_cost: bool) -> str:
        """Return the reason, and when all rows are computed nevertheless; `by_cost`: if that is cheaper."""
        own = [relations[n] for n in (self.output, *(s.relation for s in self.slots))]
        plain = not (own[0].append_only or any(r.loses_rows for r in own))
        if self.by_cost and by_cost and plain:
            return f"{self.reason}; whole in epochs that change a third of the rows or more"
        return self.reason

    def frees(self, relation: Relation) -> str | None:
        """Return the cause that removes rows from the output, or from a relation beside it, by itself; None if there is
        none.
        """
        return None

    def holds(self, relation: Relation) -> str:
        """Return the number of rows in the output, or in a relation beside it, in words."""
        return "the view's own rows" if relation.view is not None else "as many rows as its input asks for"

    def is_bounded(self, output: Relation) -> bool:
        """Return whether the number of output rows does not depend on the number of input rows."""
        return False

    @property
    def counted(self) -> tuple[str, ...]:
        """Return the relations of which more rows can mean more rows of the output."""
        return tuple(s.relation for s in self.slots)
