"""The rows that `why` names are sufficient and necessary: a view over them alone has the row, and loses it without
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Join,
    JoinKind,
    Node,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
    Window,
)
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.plan_text import plan_text
from belvedere.provenance.findings import FoundRows, Why
from belvedere.provenance.why.input_rows import root_predicate
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.provenance.worlds import Row, World, computed, filled, inlined, is_among

ALL = 10_000
STORES_AND_SEEDS = [
    ("sqlite", s) if s % 2 else pytest.param("postgres", s, marks=pytest.mark.postgres) for s in range(100, 150)
]
"""Each seed checks some 20 rows: 1,000 in all."""


def has_negation(plan: Node) -> bool:
    """Whether rows are there since others are not: with fewer rows of an input there may be more of those others."""
    return any(getattr(n, "kind", None) in (SetKind.EXCEPT, JoinKind.ANTI) for n in plan.walk())


def merges(node: Node) -> bool:
    """Whether one row of an operator is made of several of its input's, so that it may stay when some of them go."""
    if isinstance(node, Join):
        return node.kind is JoinKind.SEMI
    if isinstance(node, TimeWindow):
        return node.kind is TimeWindowKind.SESSION
    return isinstance(node, Aggregate | Distinct | SetOperation | Window | TopK)


def has_choice(node: Node) -> bool:
    """Whether an operator has another row when one is gone: of another branch, one without its partner, the next in the
    order."""
    return isinstance(node, Union | TopK) or (
        isinstance(node, Join) and node.kind in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
    )


def is_sure(plan: Node) -> bool:
    """Whether each input that a row comes from is needed for it: taking all of its named rows away changes or removes
    the row."""
    for node in plan.walk():
        if isinstance(node, Aggregate) and not node.keys:
            return False
        if merges(node) and any(has_choice(n) for i in node.inputs for n in i.walk()):
            return False
    return True


def assert_no_more(plan: Node, read: FoundRows) -> None:
    """Where no row is made of several, each scan of an input gives one row at most."""
    if not any(merges(n) for n in plan.walk()):
        scans = [n for n in plan.walk() if isinstance(n, Scan) and n.relation == read.relation]
        assert read.count <= len(scans), (read, plan_text(plan))


def without(rows: Sequence[Row], taken: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """The rows that are left when those with the keys of others are taken away."""
    gone = {tuple(r[n] for n in key) for r in taken}
    return [r for r in rows if tuple(r[n] for n in key) not in gone]


def worlds_of(wb: Workbench, plan: Node, found: Why, everything: Mapping[str, list[Row]]) -> list[World]:
    """The named rows alone; then for each input all rows of all inputs but those that are named of it."""
    requested = root_predicate(plan, found.row)
    for read in found.inputs:
        assert not read.untold, read
        assert read.count == len(read.rows)
        assert_no_more(plan, read)
    alone = World({r.relation: r.rows for r in found.inputs}, requested)
    if not is_sure(plan):
        return [alone]
    return [alone, *(World({**everything, r.relation: left_by(wb, r, everything)}, requested) for r in found.inputs)]


def left_by(wb: Workbench, read: FoundRows, everything: Mapping[str, list[Row]]) -> list[Row]:
    """The rows of an input that are not named."""
    return without(everything[read.relation], read.rows, wb.catalog.inputs[read.relation].schema.key or ())


def check(spark: Any, seed: int, rows: int) -> tuple[int, int]:
    """How many rows were made again, and how many of those were taken apart."""
    wb = filled(spark, seed)
    random, made, apart = Random(seed), 0, 0
    everything = {i: list(wb._stored(i).to_pylist()) for i in wb.catalog.inputs}
    try:
        for view in wb.catalog.views:
            plan = inlined(wb, view)
            if has_negation(plan):
                continue
            stored = wb._stored(view).to_pylist()
            keys = wb.catalog.views[view].plan.schema.key or ()
            chosen = random.sample(stored, min(rows, len(stored)))
            answers = [wb.why(view, {n: r[n] for n in keys}, size=ALL) for r in chosen]
            worlds = [worlds_of(wb, plan, a, everything) for a in answers]
            results = iter(computed(wb, plan, [w for ws in worlds for w in ws]))
            for answer, own in zip(answers, worlds, strict=True):
                row = {n: answer.row[n] for n in wb.catalog.views[view].plan.schema.names}
                again, *less = [next(results) for _ in own]
                assert is_among(row, again), (view, row, again, answer.inputs, plan_text(plan))
                for read, left in zip(answer.inputs, less, strict=False):
                    assert not is_among(row, left), (view, row, read, plan_text(plan))
                made, apart = made + 1, apart + bool(less)
    finally:
        wb.close()
    return made, apart


@pytest.mark.thorough
@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_a_row_can_be_made_again_of_the_rows_that_are_named_and_of_no_less(executor: Any, seed: int) -> None:
    made, apart = check(executor, seed, 1 if depth.quick else 3)
    assert made >= 4
    assert apart >= 2


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), STORES_AND_SEEDS, indirect=["each_store"])
def test_a_thousand_rows_can_be_made_again(spark: Any, seed: int) -> None:
    assert check(spark, seed, 4)[0] >= 8
