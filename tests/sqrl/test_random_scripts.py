"""Random scripts over random rows: after every epoch, and after restarts, each view is its batch answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.scenarios.cells import same_rows
from tests.depth import at_night
from tests.sqrl.random_scripts import Data, random_script

EPOCHS = 3


def check(seed: int, spark: Any, statements: int = 8) -> None:
    from belvedere import Workbench

    random = Random(seed)
    text = random_script(random, statements)
    data, wb = Data(random), Workbench(text, spark=spark)
    try:
        for epoch in range(EPOCHS):
            wb.clock(f"2024-05-01 11:0{epoch}:00")
            for table in "TUSBN":
                for row in data.deletes(table):
                    wb.delete(table, [row])
                wb.insert(table, data.inserts(table))
            wb.step()
            if random.random() < 0.4:
                wb.restart()
            for id_, computed in wb.batches(v for v in wb.catalog.views if v in wb.engine.tables.by_name).items():
                view, kept = wb.catalog.views[id_], wb.rows(id_)
                same = same_rows(computed, kept, view.schema.visible, ordered=False)
                assert same, f"seed {seed}, epoch {epoch}, view {view.name}:\n{text}\nkept  {kept}\nbatch {computed}"
    finally:
        wb.close()


@pytest.mark.parametrize("seed", [0, 1, *at_night([2])])
def test_views_are_their_batch_answers(seed: int, executor: Any) -> None:
    check(seed, executor)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 116))
def test_views_of_many_scripts_are_their_batch_answers(seed: int, spark: Any) -> None:
    check(seed, spark, 14)


@pytest.mark.parametrize("seed", range(40))
def test_every_random_script_compiles(seed: int) -> None:
    text = random_script(Random(seed), 25)
    compiled = compile_script(text)
    assert compiled.ok, [
        (d.code, d.message, text[d.span.start : d.span.end] if d.span else "") for d in compiled.diagnostics
    ]
