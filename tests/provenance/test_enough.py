"""The rows that `why` names are enough: a view computed from them alone has the row again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.plan.nodes import JoinKind, Node, SetKind
from belvedere.plan.rewrite import inline
from belvedere.plan.text import plan_text
from belvedere.provenance.inputs import root_wanted
from belvedere.provenance.reads import Read
from belvedere.provenance.wanted import narrowed
from belvedere.spark.plan_answers import by_spark
from belvedere.workbench import Workbench
from tests import depth
from tests.depth import stores_by_turns
from tests.rules.random_plans import catalog_of
from tests.rules.test_recomputation import START, close, exact, random_row

ALL = 10_000


def filled(spark: Any, seed: int) -> Workbench:
    """A Workbench over a random catalog, after three epochs."""
    random = Random(seed)
    wb = Workbench.of_catalog(catalog_of(seed, views=8, public_stream=True), spark=spark)
    live: list[dict[str, Any]] = []
    for epoch in range(3):
        wb.clock(START + timedelta(seconds=60 * epoch))
        for _ in range(4):
            wb.insert("Keyed", [random_row(random, random.randint(0, 6))])
        wb.insert("Stream", [random_row(random, random.randint(0, 6)) for _ in range(5)])
        added = [random_row(random, random.randint(0, 6)) for _ in range(4)]
        wb.insert("Bag", added)
        if live:
            wb.delete("Bag", [live.pop()])
        live += added
        wb.step()
    return wb


def inlined(wb: Workbench, view: str) -> Node:
    """A view's plan over the inputs alone."""
    views = wb.catalog.views
    return inline(views[view].plan, lambda i: views[i].plan if i in views else None)


def has_negation(plan: Node) -> bool:
    """Whether rows are there since others are not: with fewer rows of an input there may be more of those others."""
    return any(getattr(n, "kind", None) in (SetKind.EXCEPT, JoinKind.ANTI) for n in plan.walk())


def again(wb: Workbench, view: str, row: Mapping[str, Any], named: list[Read]) -> list[dict[str, Any]]:
    """The rows with the key of a view's row, computed from the named rows of the inputs alone."""
    catalog = wb.catalog
    plan = inlined(wb, view)
    given = {i: t.schema.arrow.empty_table() for i, t in catalog.inputs.items()}
    for read in named:
        assert not read.untold, read
        assert read.count == len(read.rows)
        given[read.relation] = pa.Table.from_pylist(list(read.rows), given[read.relation].schema)
    wanted = narrowed(plan, root_wanted(plan, row), lambda _: None)
    epoch = wb.store.last_epoch()
    assert epoch is not None
    return by_spark(lambda: wb.spark, catalog)(wanted, given, epoch.clock).to_pylist()


def check(spark: Any, seed: int, rows: int) -> int:
    wb = filled(spark, seed)
    random, checked = Random(seed), 0
    try:
        for view in wb.catalog.views:
            plan = wb.catalog.views[view].plan
            if has_negation(inlined(wb, view)):
                continue
            stored = wb._stored(view).to_pylist()
            for row in random.sample(stored, min(rows, len(stored))):
                key = {n: row[n] for n in plan.schema.key or ()}
                found = wb.why(view, key, size=ALL)
                made = again(wb, view, found.row, list(found.inputs))
                names = plan.schema.names
                want = {n: found.row[n] for n in names}
                assert any(
                    exact({n: m[n] for n in names}) == exact(want) or close({n: m[n] for n in names}, want) for m in made
                ), (
                    view,
                    want,
                    made,
                    found.inputs,
                    plan_text(plan),
                )
                checked += 1
    finally:
        wb.close()
    return checked


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_a_row_can_be_made_again_of_the_rows_that_are_named(spark: Any, seed: int) -> None:
    assert check(spark, seed, 1 if depth.quick else 3) >= 4


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(100, 140)), indirect=["each_store"])
def test_many_rows_can_be_made_again(spark: Any, seed: int) -> None:
    assert check(spark, seed, 4) >= 8
