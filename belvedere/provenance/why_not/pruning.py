"""The search for the operators that drop requested rows: a descent through a plan, and its findings.

In: an operator without the requested rows. Out: a `PruningOperator` for each path down: the first operator that has
matching input rows and does not pass them on. The table `pruning_operators` has one function per operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from belvedere.plan.expression_text import expression_text
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.operators.recursion import Recursion
from belvedere.provenance.column_labels import shown
from belvedere.provenance.findings import FoundRows, PruningKind, PruningOperator
from belvedere.provenance.found_rows import Question, answered, relations_of, sample_order
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.store.protocol import EpochRow

MAX_WAYS = 20
"""Maximum number of paths that are returned."""


@dataclass(frozen=True)
class DescentPath:
    """The path of a descent to an operator."""

    view: str
    through: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    unfollowed: tuple[str, ...] = ()

    def by(self, step: str) -> DescentPath:
        """Return the path with one more operator."""
        return replace(self, steps=(*self.steps, step))

    def into(self, id_: str) -> DescentPath:
        """Return the path into a relation that the view reads."""
        return replace(self, view=id_, through=(*self.through, self.view))

    def without(self, left: RowPredicate, operator: str) -> DescentPath:
        """Return the path without tests that the operator's input cannot answer."""
        answered = tuple(f"{expression_text(t)} (not below {operator})" for t in left.tests)
        return replace(self, unfollowed=(*self.unfollowed, *answered))


@dataclass(frozen=True)
class CountedRows:
    """Rows of an operator to count, with a description of their relation to the requested row."""

    node: Node
    requested: RowPredicate
    words: str = ""


Losses = Mapping[type[Node], Callable[["Descent", Any, RowPredicate, DescentPath], Iterator[PruningOperator]]]
"""Functions that explain missing rows, by operator."""


@dataclass
class Descent:
    """One descent through a plan. It read the epochs in `seen`; if that is one epoch, the answer is consistent."""

    query_runner: QueryRunner
    size: int
    losses: Losses
    shows: Callable[[str], bool] = lambda _: True
    """Function that returns whether values of a relation (by id) may be shown, also in sentences."""
    seen: dict[int | None, EpochRow | None] = field(default_factory=dict)

    def below(self, node: Node, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
        """Yield the operators below that drop the requested rows. The caller knows that `node` has none of them."""
        yield from self.losses[type(node)](self, node, requested, way)

    def reached(
        self,
        node: Node,
        requested: RowPredicate,
        way: DescentPath,
        words: str,
        dropped: Callable[[FoundRows], Iterator[PruningOperator]],
    ) -> Iterator[PruningOperator]:
        """If an operator's input has matching rows, yield the explanation of `dropped`; otherwise continue below.

        `words` describe how these rows relate to the requested one.
        """
        (there,) = self.look(CountedRows(node, requested, words))
        if there.untold:
            yield from untold(way, requested, there)
        elif there.count:
            yield from dropped(there)
        else:
            yield from self.below(node, requested, way)

    def look(self, *looks: CountedRows, cheap: bool = False) -> list[FoundRows]:
        """Count and sample rows, all of one epoch. If `cheap`, only the database is queried, not Spark."""
        questions = [_question(self.query_runner, look) for look in looks]
        row, found = answered(
            replace(self.query_runner, spark=None) if cheap else self.query_runner, questions, self.size
        )
        self.seen[row.epoch if row is not None else None] = row
        return found

    @property
    def epoch(self) -> EpochRow | None:
        """Return the last epoch that was read."""
        return next(reversed(self.seen.values()), None)

    def name(self, node: Node) -> str:
        """Return the names of the relations that a plan reads; for a recursion its own name."""
        names = (
            n.name if isinstance(n, Recursion) else self.query_runner.catalog.name_of(n.relation) for n in _read(node)
        )
        return " and ".join(f"`{n}`" for n in dict.fromkeys(names)) or "the literal rows"


def _read(node: Node) -> Iterator[Scan | Recursion]:
    if isinstance(node, Scan | Recursion):
        yield node
        return
    for below in node.inputs:
        yield from _read(below)


def pruning_step(
    way: DescentPath, at: PruningKind, words: str, requested: RowPredicate, near: Sequence[tuple[Node, FoundRows]] = ()
) -> PruningOperator:
    """Return the finding on an operator, with the near matches that exist, without hidden columns."""
    near_ones = tuple(shown(node, read) for node, read in near if read.count or read.untold)
    return PruningOperator(
        way.view, at, words, near_ones, condition_text(requested), way.through, way.steps, way.unfollowed
    )


def untold(way: DescentPath, requested: RowPredicate, *reads: FoundRows) -> Iterator[PruningOperator]:
    """Yield the finding that rows are not available, if any are not."""
    reason = next((r.untold for r in reads if r.untold), "")
    if reason:
        yield pruning_step(way, PruningKind.UNTOLD, f"this cannot be answered here: {reason}", requested)


def condition_text(requested: RowPredicate) -> str:
    """Return the requested predicate as a readable text."""
    return (
        " AND ".join(
            [*map(expression_text, requested.tests), *("a match of the other rows" for _ in requested.matches)]
        )
        or "TRUE"
    )


def _question(query_runner: QueryRunner, look: CountedRows) -> Question:
    relation = next((n.relation for n in look.node.walk() if isinstance(n, Scan)), "")
    between = () if isinstance(look.node, Scan) else relations_of(look.node)
    read = FoundRows(relation, look.words, order=sample_order(look.node.schema), between=between)
    return Question(read, narrowed(look.node, look.requested, query_runner.definition))
