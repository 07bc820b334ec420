"""Files that are appended after they were read: each new line counts once, over restarts and failed epochs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from belvedere.api.http.status import status_of
from belvedere.api.http.view_metrics import view_metrics
from belvedere.connectors.run_records import REJECTED
from belvedere.errors import BelvedereError
from belvedere.store import open_reader, open_store
from belvedere.store.write.transaction import EpochTransaction
from tests.run.loops import Loop

PROJECT = (
    '[sources.shop]\npath = "data"\nappends = true\n[sources.shop.tables.Items]\ncolumns = { id = "BIGINT", '
    'note = "STRING" }\n'
)
SCRIPT = """
IMPORT shop.Orders KEEP 7 DAYS;
IMPORT shop.Items AS _Items;
Totals := SELECT count(*) AS n, sum(price) AS price FROM Orders;
Counts := SELECT count(*) AS n, sum(id) AS ids FROM _Items;
"""


def appending(folder: Path) -> Callable[[str, str], None]:
    (folder / "data").mkdir(exist_ok=True)

    def append(name: str, text: str) -> None:
        with (folder / "data" / name).open("a") as file:
            file.write(text)

    return append


def totals(loop: Loop) -> tuple[Any, ...]:
    (orders,), (items,) = loop.rows("Totals"), loop.rows("Counts")
    return orders["n"], orders["price"], items["n"], items["ids"]


@pytest.mark.spark
def test_new_lines_are_read_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, append = Loop(spark, tmp_path, SCRIPT, PROJECT), appending(tmp_path)
    append("Orders.1.jsonl", '{"id": 1, "price": 10}\n{"id": 2, "pri')
    append("Items.csv", 'id,note\n1,a\n2,"two\nlines')
    loop.once()
    assert totals(loop) == (1, 10, 1, 1)
    append("Orders.1.jsonl", 'ce": 20}\n')
    append("Items.csv", '"\n3,c\n')
    loop.once()
    assert totals(loop) == (2, 30, 3, 6)
    loop.once()
    assert totals(loop) == (2, 30, 3, 6)

    append("Orders.1.jsonl", '{"id": 3, "price": 30}\n')
    append("Orders.2.jsonl", '{"id": 4, "price": 40}\n')
    append("Items.csv", "x,bad\n5,e\n")
    with monkeypatch.context() as failing:
        failing.setattr(EpochTransaction, "commit", lambda self, row: (_ for _ in ()).throw(BelvedereError(())))
        with pytest.raises(BelvedereError):
            loop.once()
    append("Orders.1.jsonl", '{"id": 5, "price": 50}\n')
    loop.once()
    assert totals(loop) == (5, 150, 4, 11)
    with closing(open_reader(loop.url)) as reader:
        assert [(r["file"], r["line"]) for r in reader.rows(REJECTED).to_pylist()] == [
            (str(tmp_path / "data/Items.csv"), 6)
        ]

    loop.script += "\nNotes := SELECT id, note FROM _Items;\nPrices := SELECT id, price FROM Orders WHERE price > 10;"
    loop.once()  # all parts are read again, as they were
    assert {r["id"]: r["note"] for r in loop.rows("Notes")} == {1: "a", 2: "two\nlines", 3: "c", 5: "e"}
    assert totals(loop) == (5, 150, 4, 11)
    assert sorted(r["id"] for r in loop.rows("Prices")) == [2, 3, 4, 5]


@pytest.mark.spark
def test_growth_that_is_not_read_is_told(spark: Any, tmp_path: Path) -> None:
    loop, append = Loop(spark, tmp_path, SCRIPT, PROJECT.replace("true", "false")), appending(tmp_path)
    append("Orders.1.jsonl", '{"id": 1, "price": 10}\n')
    append("Items.csv", "id,note\n1,a\n")
    loop.once()
    append("Orders.1.jsonl", '{"id": 2, "price": 20}\n')
    (tmp_path / "data" / "Items.csv").write_text("id,note\n")
    loop.once()
    assert totals(loop) == (1, 10, 1, 1)
    evolved, replaced = sorted(loop.reported, reverse=True)
    assert ("appends = true" in evolved, "Orders.1.jsonl" in evolved) == (True, True)
    assert "Items.csv" in replaced
    store = open_store(loop.url)
    row = store.last_epoch()
    store.close()
    status = status_of(loop.compiled().catalog, row, False)
    assert {i["name"]: i.get("changed_files") for i in status["inputs"]} == {
        "Orders": {"grown": 1},
        "_Items": {"replaced": 1},
    }
    assert 'belvedere_input_changed_files{input="Orders",how="grown"} 1' in view_metrics(status, row)


@pytest.mark.spark
def test_files_grow_from_some_day_on(spark: Any, tmp_path: Path) -> None:
    """What was read before that is read again as far as it was read, whatever was appended since."""
    loop, append = Loop(spark, tmp_path, SCRIPT, PROJECT.replace("true", "false")), appending(tmp_path)
    append("Orders.1.jsonl", '{"id": 1, "price": 10}\n')
    append("Items.csv", "id,note\n1,a\n")
    loop.once()
    loop.project(PROJECT)
    append("Items.csv", "2,b\n")
    loop.once()
    loop.script += "\nNotes := SELECT id, note FROM _Items;"
    loop.once()
    assert {r["id"]: r["note"] for r in loop.rows("Notes")} == {1: "a", 2: "b"}
    assert totals(loop) == (1, 10, 2, 3)
