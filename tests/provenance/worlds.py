"""Stores with random rows, and what a view would be if the inputs had other rows: the oracle of where rows come from.

In: a Workbench over a random catalog. Out: rows of its views over given rows of the inputs, computed by Spark in batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa

from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.rewrite import inline, replace_scans
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.spark.plan_answers import by_spark
from belvedere.workbench.workbench import Workbench
from tests.rules.random_plans import catalog_of
from tests.rules.test_recomputation import START, close, exact, random_row

Row = Mapping[str, Any]
AT_ONCE = 12
"""So many worlds are computed by one query of Spark."""


def filled(spark: Any, seed: int, views: int = 8) -> Workbench:
    """A Workbench over a random catalog, after three epochs."""
    random = Random(seed)
    wb = Workbench.of_catalog(catalog_of(seed, views=views, public_stream=True), spark=spark)
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


@dataclass(frozen=True)
class World:
    """The rows of the inputs, by their ids, and the rows of a view that are looked for."""

    inputs: Mapping[str, Sequence[Row]]
    requested: RowPredicate


def computed(wb: Workbench, plan: Node, worlds: Sequence[World]) -> list[list[Row]]:
    """The wanted rows of a plan in each world, hidden columns too."""
    return [rows for n in range(0, len(worlds), AT_ONCE) for rows in _together(wb, plan, worlds[n : n + AT_ONCE])]


def _together(wb: Workbench, plan: Node, worlds: Sequence[World]) -> list[list[Row]]:
    given: dict[str, pa.Table] = {}
    plans = []
    for number, world in enumerate(worlds):

        def own(scan: Scan, number: int = number, world: World = world) -> Scan:
            id_ = f"{scan.relation}@{number}"
            schema = wb.catalog.inputs[scan.relation].schema
            given[id_] = pa.Table.from_pylist(list(world.inputs.get(scan.relation, ())), schema.arrow)
            return Scan(id_, scan.relation_schema)

        plans.append(narrowed(replace_scans(plan, own), world.requested, lambda _: None))
    epoch = wb.store.last_epoch()
    assert epoch is not None
    found = by_spark(lambda: wb.spark, wb.catalog)(plans, given, epoch.clock)
    return [list(rows.to_pylist()) for rows in found]


def is_among(row: Row, rows: Sequence[Row]) -> bool:
    """Whether one of the rows has the row's values; doubles may differ by 1e-9 relative."""
    same = [{n: r[n] for n in row} for r in rows]
    return any(exact(dict(row)) == exact(s) or close(dict(row), s) for s in same)
