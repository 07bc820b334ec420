"""The run loop over files and sensors: every row once, whatever happens to the checkpoint, the store or the files."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from belvedere.catalog import Catalog, Input, InputKind, SourceTable, View
from belvedere.errors import BelvedereError
from belvedere.plan.expressions import column
from belvedere.plan.keys import carry_keys
from belvedere.plan.nodes import Aggregate, Item, Scan
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, Column, Schema
from belvedere.settings import Project, Source

pytestmark = pytest.mark.spark


def catalog() -> Catalog:
    """Two inputs of one source, and the sum of each item's amounts."""
    hidden = (Column(UID, pa.int64(), nullable=False, hidden=True), Column(INGEST_TIME, TIMESTAMP, nullable=False, hidden=True))
    orders = Schema((Column("item", pa.string()), Column("amount", pa.int64()), *hidden), (UID,))
    items = Schema((Column("item", pa.string(), nullable=False), Column("name", pa.string()), *hidden), (UID,))
    scan = Scan("Orders", orders)
    total = Aggregate(
        scan,
        (Item("item", column("item"), pa.string()),),
        (
            Item("total", exp.Sum(this=column("amount")), pa.int64()),
            Item("n", exp.Count(this=exp.Star(), big_int=True), pa.int64(), nullable=False),
        ),
    )
    plan = carry_keys(total)
    return Catalog(
        inputs={
            "Orders": Input("Orders", "Orders", InputKind.IMPORT, orders, source=SourceTable("shop", "Orders", "files")),
            "Items": Input("Items", "Items", InputKind.IMPORT, items, source=SourceTable("shop", "Items", "files")),
        },
        views={"Totals": View("Totals", "Totals", plan, plan.schema)},
        public=frozenset({"Orders", "Items", "Totals"}),
    )


class Shop:
    """A script's run over a directory of files, in this process."""

    def __init__(self, spark: Any, directory: Path):
        self.spark, self.directory = spark, directory
        self.data = directory / "data"
        self.url = f"sqlite:///{directory / 'shop.db'}"
        self.progress: list[Any] = []

    def orders(self, name: str, *rows: tuple[str, Any], modified: float | None = None) -> Path:
        target = self.data / "Orders" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.directory / "scratch"
        scratch.write_text("".join(json.dumps({"item": i, "amount": a}) + "\n" for i, a in rows))
        if modified is not None:
            os.utime(scratch, (modified, modified))
        os.replace(scratch, target)
        return target

    def run(self, **settings: Any) -> dict[str, tuple[int, int]]:
        """One run to its end; the view afterwards."""
        loop, store, engine = self.open(**{"once": True, **settings})
        try:
            loop.run()
            return self.totals(store, engine)
        finally:
            engine.close()
            store.close()

    def open(self, **settings: Any) -> Any:
        from belvedere.rules import maintain
        from belvedere.spark.engine import Engine
        from belvedere.spark.records import RECORDS
        from belvedere.spark.run_loop import RunLoop, RunSettings
        from belvedere.spark.sources import files_read, open_sources
        from belvedere.store import open_store

        found = catalog()
        project = Project(self.directory, sources={"shop": Source("shop", path=self.data)})
        store = open_store(self.url)
        store.acquire("test", 60)
        engine = Engine(self.spark, found, maintain(found), store)
        store.create(RECORDS)
        reader = store.reader()
        sources = open_sources(found, project, store.last_epoch(), files_read(reader), engine.fresh)
        reader.close()
        chosen = RunSettings(self.directory / "checkpoint", "test", **settings)
        return RunLoop(self.spark, engine, store, sources, chosen, self.progress.append), store, engine

    def totals(self, store: Any, engine: Any) -> dict[str, tuple[int, int]]:
        reader = store.reader()
        rows = reader.rows(engine.tables["Totals"]).to_pylist()
        reader.close()
        return {r["item"]: (r["total"], r["n"]) for r in rows}


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_new_files_are_read_once(shop: Shop) -> None:
    shop.orders("1.json", ("a", 1), ("b", 2), ("a", None))
    assert shop.run() == {"a": (1, 2), "b": (2, 1)}
    assert shop.run() == {"a": (1, 2), "b": (2, 1)}
    assert len(shop.progress) == 1
    shop.orders("0 old é.json", ("a", 5), modified=1000.0)
    (shop.data / "Orders.csv").write_text("item,amount\nc,7\n")
    shop.orders(".unfinished.json", ("a", 100))
    shop.orders("_temporary/0.json", ("a", 100))
    assert shop.run() == {"a": (6, 3), "b": (2, 1), "c": (7, 1)}
    assert [p.rows_in for p in shop.progress] == [{"Orders": 3}, {"Orders": 2}]


def test_a_lost_checkpoint_and_a_restored_store_repeat_and_skip_nothing(shop: Shop) -> None:
    shop.orders("1.json", ("a", 1))
    shop.run()
    backup = shop.directory / "backup.db"
    shutil.copy(shop.directory / "shop.db", backup)
    shop.orders("2.json", ("a", 10))
    assert shop.run() == {"a": (11, 2)}
    shutil.rmtree(shop.directory / "checkpoint")
    assert shop.run() == {"a": (11, 2)}
    for path in shop.directory.glob("shop.db*"):
        path.unlink()
    shutil.copy(backup, shop.directory / "shop.db")
    assert shop.run() == {"a": (11, 2)}
    for path in shop.directory.glob("shop.db*"):
        path.unlink()
    assert shop.run() == {"a": (11, 2)}


def test_a_batch_that_is_in_the_store_is_skipped(shop: Shop) -> None:
    """The crash between the store's commit and Spark's: Spark runs the batch again."""
    shop.orders("1.json", ("a", 1))
    shop.run()
    commits = shop.directory / "checkpoint" / "query" / "commits"
    assert sorted(p.name for p in commits.iterdir() if p.name.isdigit()) == ["0"]
    for path in (*commits.glob("0"), *commits.glob(".0.crc")):
        path.unlink()
    assert shop.run() == {"a": (1, 1)}
    assert len(shop.progress) == 1


def test_a_damaged_checkpoint_heals(shop: Shop) -> None:
    shop.orders("1.json", ("a", 1))
    shop.run()
    for path in (shop.directory / "checkpoint" / "query").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\0nonsense")
    shop.orders("2.json", ("a", 10))
    assert shop.run() == {"a": (11, 2)}
    shutil.rmtree(shop.directory / "checkpoint")
    (shop.directory / "checkpoint").write_text("no folder")
    shop.orders("3.json", ("a", 100))
    assert shop.run() == {"a": (111, 3)}


def test_rejected_rows_are_kept_and_the_stream_goes_on(shop: Shop) -> None:
    path = shop.orders("1.json", ("a", 1), ("b", "many"))
    with path.open("a") as file:
        file.write("nonsense\n")
    (shop.data / "Orders" / "2.parquet").write_bytes(b"PAR1 no more")
    (shop.data / "Items.csv").write_text("item,name\n,nameless\nx,X\n")
    assert shop.run() == {"a": (1, 1)}
    from belvedere.spark.records import REJECTED
    from belvedere.store import open_store

    store = open_store(shop.url)
    reader = store.reader()
    rows = reader.rows(REJECTED).to_pylist()
    reader.close()
    store.close()
    assert sorted((r["table"], r["line"], r["text"], r["reason"].split(":")[0], r["epoch"]) for r in rows if r["line"]) == [
        ("Items", 2, ",nameless", 'column "item" is NULL', 1),
        ("Orders", 2, '{"item": "b", "amount": "many"}', 'column "amount"', 1),
        ("Orders", 3, "nonsense", "is not JSON", 1),
    ]
    assert [r["reason"].split(":")[0] for r in rows if not r["line"]] == ["is not a whole Parquet file"]
    assert shop.progress[0].rejected == {"Orders": 3, "Items": 1}
    assert shop.run() == {"a": (1, 1)}
    assert len(shop.progress) == 1


def test_nothing_to_read_is_an_epoch_too(shop: Shop) -> None:
    assert shop.run() == {}
    assert [p.epoch for p in shop.progress] == [1]


def wait_for(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_files_that_arrive_during_a_run(shop: Shop) -> None:
    loop, store, engine = shop.open(once=False, interval=0.1)
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_for(lambda: len(shop.progress) == 1)
    for n in range(1, 4):
        shop.orders(f"{n}.json", ("a", n))
        wait_for(lambda: sum(p.rows_in.get("Orders", 0) for p in shop.progress) == n)  # noqa: B023
    loop.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert shop.totals(store, engine) == {"a": (6, 3)}
    engine.close()
    store.close()
    assert shop.run() == {"a": (6, 3)}


def test_a_failing_view_ends_the_run_at_the_last_good_epoch(shop: Shop) -> None:
    shop.orders("1.json", ("a", 2**62))
    shop.run()
    bad = shop.orders("2.json", ("a", 2**62))
    with pytest.raises(BelvedereError, match="Totals"):
        shop.run()
    assert len(shop.progress) == 1
    bad.unlink()
    shop.orders("3.json", ("b", 1))
    assert shop.run() == {"a": (2**62, 1), "b": (1, 1)}
