"""The result of `why_not` is true over random catalogs and rows: Spark computes every operator that it passed again.

Each operator on a way down is claimed to give no such row, the one that is named to have input that would do. Here the
tests stand on top of the operator over the inputs; `why_not` pushes them down and asks what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Filter, Join, JoinKind, Node, Scan, SetOperation, TopK, Window
from belvedere.plan.operators.time_window import TimeWindow
from belvedere.plan.plan_text import plan_text
from belvedere.plan.rewrites.rewrite import inline
from belvedere.provenance.findings import PruningKind, PruningOperator, WhyNot
from belvedere.provenance.found_rows import COUNT, counted
from belvedere.provenance.key_tests import key_tests
from belvedere.provenance.narrowing import restricted
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why_not import why_not as asking
from belvedere.provenance.why_not.pruning import Descent, DescentPath, Losses, condition_text
from belvedere.schema import TIMESTAMP
from belvedere.spark.plan_answers import by_spark
from belvedere.workbench.workbench import Workbench
from tests.provenance.worlds import Row, filled, inlined, is_among
from tests.rules.random_plans import DOUBLE, INT, LONG, TEXT
from tests.rules.test_recomputation import NUMBERS, START, WORDS, random_row

FULL = """
CREATE TABLE A (k INT, x STRING, y INT, PRIMARY KEY (k));
CREATE TABLE B (k INT, z INT, PRIMARY KEY (k));
Both := SELECT a.k, a.x, a.y, b.z FROM A a FULL JOIN B b ON a.k < b.k;
"""
AT_ONCE = 16
VALUES: dict[Any, Sequence[Any]] = {
    INT: range(8),
    LONG: range(8),
    TEXT: WORDS,
    DOUBLE: NUMBERS,
    TIMESTAMP: [None, START],
}
REACHED = ("reached it", "came after them", "the group as it is", "the groups that there are", "the row as it is")
CLAIMED = frozenset((*REACHED, "on the left", "on the right"))
"""Words of rows whose number is compared, too."""


@dataclass
class Descents:
    """Which operators a question passed with which tests, and where each finding was made."""

    passed: list[tuple[Node, RowPredicate]] = field(default_factory=list)
    places: list[tuple[PruningOperator, Node, RowPredicate]] = field(default_factory=list)

    def watching(self, losses: Losses) -> Losses:
        """The same table of operators, which notes what is asked of them."""
        return {kind: self._watched(step) for kind, step in losses.items()}

    def _watched(self, step: Any) -> Any:
        def watched(
            descent: Descent, node: Node, requested: RowPredicate, way: DescentPath
        ) -> Iterator[PruningOperator]:
            self.passed.append((node, requested))
            for lost in step(descent, node, requested, way):
                if all(lost is not known for known, *_ in self.places):
                    self.places.append((lost, node, requested))
                yield lost

        return watched

    def place(self, lost: PruningOperator) -> tuple[Node, RowPredicate]:
        """The operator at which a finding was made, and what was wanted of it."""
        return next((node, requested) for known, node, requested in self.places if known is lost)


@dataclass(frozen=True)
class GraphQLRequest:
    """A question, its answer, and how that was found."""

    view: str
    key: Row
    answer: WhyNot
    descents: Descents


def ask(wb: Workbench, view: str, key: Row, patch: pytest.MonkeyPatch) -> GraphQLRequest:
    descents = Descents()
    with patch.context() as inner:
        inner.setattr(asking, "LOSSES", descents.watching(asking.LOSSES))
        answer = wb.why_not(view, key)
    return GraphQLRequest(view, key, answer, descents)


@dataclass(frozen=True)
class Claim:
    """That an operator has so many rows that are wanted; None: some."""

    node: Node
    requested: RowPredicate
    count: int | None
    of: GraphQLRequest


def claims(asked: GraphQLRequest, scan: Scan, requested: RowPredicate) -> Iterator[Claim]:
    """All that follows from an answer."""
    yield Claim(scan, requested, asked.answer.there, asked)
    for node, tests in asked.descents.passed:
        yield Claim(node, tests, 0, asked)
    for lost in asked.answer.lost:
        near = {r.words: r.count for r in lost.near}
        for words, node, tests in had(*asked.descents.place(lost)):
            known = [near[w] for w in words & near.keys() & CLAIMED]
            yield Claim(node, tests, known[0] if known else None, asked)


def had(node: Node, requested: RowPredicate) -> Iterator[tuple[set[str], Node, RowPredicate]]:
    """The rows that an operator must have if wanted ones vanish there, with the words that tell of them."""
    if isinstance(node, Filter):
        yield {"reached it", "came after them"}, node.input, requested
    elif isinstance(node, TopK):
        yield {"came after them"}, node.input, requested.split(node.input.schema.names)[0]
    elif isinstance(node, Window | TimeWindow):
        below = node if isinstance(node, Window) else node.input
        yield {"the row as it is"}, below, requested.split(node.input.schema.names)[0]
    elif isinstance(node, Aggregate):
        yield {"the group as it is", "the groups that there are"}, node, requested.split([k.name for k in node.keys])[0]
    elif isinstance(node, SetOperation):
        pairs = dict(zip(node.left.schema.names, map(column, node.right.schema.names), strict=True))
        yield {"on the left"}, node.left, requested
        yield {"on the right"}, node.right, requested.over(pairs)
    elif isinstance(node, Join) and node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        yield {"reached it"}, node.left, requested


def assert_true(wb: Workbench, found: Sequence[Claim]) -> None:
    views = wb.catalog.views
    plans = [
        counted(inline(restricted(c.node, c.requested), lambda i: views[i].plan if i in views else None)) for c in found
    ]
    rows = {i: wb._stored(i) for i in wb.catalog.inputs}
    epoch = wb.store.last_epoch()
    assert epoch is not None
    for n in range(0, len(plans), AT_ONCE):
        answers = by_spark(lambda: wb.spark, wb.catalog)(plans[n : n + AT_ONCE], rows, epoch.clock)
        for claim, answer in zip(found[n : n + AT_ONCE], answers, strict=True):
            count = answer[COUNT][0].as_py()
            right = count > 0 if claim.count is None else count == claim.count
            assert right, (
                f"{count}, not {claim.count}: {condition_text(claim.requested)}",
                plan_text(claim.node),
                claim.of.view,
                claim.of.key,
                claim.of.answer,
                plan_text(inlined(wb, claim.of.view)),
            )


def check_answers(wb: Workbench, questions: Sequence[GraphQLRequest]) -> None:
    """That rows are told as missing where they are, and that all that is told is true."""
    found: list[Claim] = []
    for asked in questions:
        answer = asked.answer
        assert bool(answer.there) != bool(answer.lost), (asked.view, asked.key, answer)
        assert all(lost.at not in (PruningKind.UNTOLD, PruningKind.VIEW) for lost in answer.lost), answer
        scan = Scan(asked.view, wb.catalog.schema_of(asked.view))
        found += claims(asked, scan, key_tests(wb.catalog, asked.view, asked.key))
    assert_true(wb, found)


def is_exact(wb: Workbench, view: str, name: str) -> bool:
    """Whether a column has the same value however it is computed."""
    return wb.catalog.schema_of(view)[name].type != DOUBLE or "stddev" not in plan_text(inlined(wb, view)).lower()


def random_key(wb: Workbench, view: str, rows: Sequence[Row], random: Random) -> Row:
    """Values of some columns: of a row that is there, or one of them another."""
    names = [c.name for c in wb.catalog.schema_of(view).visible if is_exact(wb, view, c.name)]
    chosen = random.sample(names, min(len(names), random.randint(1, 2)))
    own = random.choice(rows) if rows else dict.fromkeys(names)
    key = {n: own[n] for n in chosen}
    if random.random() < 0.7:
        changed = random.choice(chosen)
        type_ = wb.catalog.schema_of(view)[changed].type
        key[changed] = random.choice(VALUES.get(type_, [None]))
    return key


def visible_rows(wb: Workbench) -> dict[str, list[Row]]:
    return {v: list(wb.rows(v)) for v in wb.catalog.views}


def check_random_keys(wb: Workbench, random: Random, each: int, patch: pytest.MonkeyPatch) -> int:
    """Keys of which some are there; how many were missing."""
    keys = [(v, random_key(wb, v, rows, random)) for v, rows in visible_rows(wb).items() for _ in range(each)]
    questions = [ask(wb, v, k, patch) for v, k in keys if k]
    check_answers(wb, questions)
    return sum(not a.answer.there for a in questions)


def check_deleted(wb: Workbench, random: Random, table: str, most: int, patch: pytest.MonkeyPatch) -> int:
    """A row of an input is deleted, rows of views are told as lost where that input is read, and come back with it."""
    before = visible_rows(wb)
    shown = [c.name for c in wb.catalog.inputs[table].schema.visible]
    row = {n: v for n, v in random.choice(wb._stored(table).to_pylist()).items() if n in shown}
    wb.delete(table, [row])
    wb.step()
    after = visible_rows(wb)
    gone = [(v, r) for v, rows in before.items() for r in rows if not is_among(r, after[v])]
    chosen = [
        (v, {n: x for n, x in r.items() if is_exact(wb, v, n)}) for v, r in random.sample(gone, min(most, len(gone)))
    ]
    questions = [ask(wb, v, k, patch) for v, k in chosen if k]
    check_answers(wb, questions)
    for asked in questions:
        assert asked.answer.there or any(reads(wb, asked.descents.place(f)[0], table) for f in asked.answer.lost), (
            row,
            asked,
        )
    wb.insert(table, [row])
    wb.step()
    for view, key in chosen:
        if not any(isinstance(n, TopK) for n in inlined(wb, view).walk()):  # it came later than it did, and loses ties
            assert wb.why_not(view, key).there, (view, key)
    return len(questions)


def reads(wb: Workbench, node: Node, table: str) -> bool:
    """Whether an operator's rows come from an input."""
    views = wb.catalog.views
    whole = inline(node, lambda i: views[i].plan if i in views else None)
    return any(isinstance(n, Scan) and n.relation == table for n in whole.walk())


def check(spark: Any, seed: int, each: int, most: int, patch: pytest.MonkeyPatch) -> Mapping[str, int]:
    wb, random = filled(spark, seed), Random(seed)
    try:
        missing = check_random_keys(wb, random, each, patch)
        wb.insert("Keyed", [random_row(random, 3)])
        wb.step()
        return {"missing": missing, **{t: check_deleted(wb, random, t, most, patch) for t in ("Keyed", "Bag")}}
    finally:
        wb.close()


def test_a_row_of_a_full_join_is_looked_for_on_the_side_whose_values_it_has(executor: Any) -> None:
    wb = Workbench(FULL, spark=executor)
    wb.insert("A", [{"k": 2, "x": "a", "y": None}])
    wb.step()
    (lost,) = wb.why_not("Both", {"k": 1, "y": None, "z": None}).lost
    assert (lost.view, lost.at) == ("A", PruningKind.INPUT)
    wb.close()


@pytest.mark.thorough
@pytest.mark.deep
def test_what_is_told_of_missing_rows_is_true(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(executor, 1, 1, 2, monkeypatch)["missing"] >= 2


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(
    ("each_store", "seed"),
    [("sqlite", s) if s % 2 else pytest.param("postgres", s, marks=pytest.mark.postgres) for s in range(200, 216)],
    indirect=["each_store"],
)
def test_what_is_told_of_many_missing_rows_is_true(spark: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(spark, seed, 2, 4, monkeypatch)
