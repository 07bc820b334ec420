"""The run loop over files and sensors: every row once, whatever happens to the store or the files."""

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

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind, SourceTable
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Item, Scan
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.project.settings import ProjectSettings, Source
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, Column, Schema

pytestmark = pytest.mark.spark


def catalog() -> Catalog:
    """Two inputs of one source, and the sum of each item's amounts."""
    hidden = (
        Column(UID, pa.int64(), nullable=False, hidden=True),
        Column(INGEST_TIME, TIMESTAMP, nullable=False, hidden=True),
    )
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
            "Orders": Input(
                "Orders", "Orders", InputKind.IMPORT, orders, source=SourceTable("shop", "Orders", "files")
            ),
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
        self.reported: list[str] = []
        self.options: dict[str, Any] = {}

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
        from belvedere.connectors.run_records import RECORDS, files_read
        from belvedere.pipeline.choose import maintain
        from belvedere.spark.run.epoch_sources import open_sources
        from belvedere.spark.run.run_loop import RunLoop, RunSettings
        from belvedere.spark.script_engine import open_engine
        from belvedere.store import open_store

        found = catalog()
        project = ProjectSettings(
            self.directory, sources={"shop": Source("shop", path=self.data, options=self.options)}
        )
        store = open_store(self.url)
        store.acquire("test", 60)
        engine = open_engine(self.spark, found, maintain(found), store)
        store.create(RECORDS)
        reader = store.reader()
        sources = open_sources(found, project, store.last_epoch(), files_read(reader), engine.tables.fresh)
        reader.close()
        chosen = RunSettings(**settings)
        return (
            RunLoop(self.spark, engine, store, sources, chosen, self.progress.append, notify=self.reported.append),
            store,
            engine,
        )

    def totals(self, store: Any, engine: Any) -> dict[str, tuple[int, int]]:
        reader = store.reader()
        rows = reader.rows(engine.tables.by_name["Totals"]).to_pylist()
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


def test_a_restored_store_repeats_and_skips_nothing(shop: Shop) -> None:
    shop.orders("1.json", ("a", 1))
    shop.run()
    backup = shop.directory / "backup.db"
    shutil.copy(shop.directory / "shop.db", backup)
    shop.orders("2.json", ("a", 10))
    # what an earlier version left beside the store says nothing
    (shop.directory / "shop.checkpoint" / "query" / "commits").mkdir(parents=True)
    (shop.directory / "shop.checkpoint" / "query" / "commits" / "0").write_text("damaged")
    (shop.directory / "shop.checkpoint" / "belvedere.json").write_text('{"epoch": 7}')
    assert shop.run() == {"a": (11, 2)}
    for path in shop.directory.glob("shop.db*"):
        path.unlink()
    shutil.copy(backup, shop.directory / "shop.db")
    assert shop.run() == {"a": (11, 2)}
    for path in shop.directory.glob("shop.db*"):
        path.unlink()
    assert shop.run() == {"a": (11, 2)}


def test_files_of_any_name(shop: Shop) -> None:
    """Colons, line breaks, patterns, bytes that are no UTF-8, in a folder with a colon: read once, and refused under
    one name."""
    shop.data = shop.directory / "da:ta *é"
    names = ["2024-01-01T10:00:00.jsonl", "a\nb.json", "[x]{y}*?\\.json", "\udcff\udcfe.json", "%41 #;é.json"]
    for name in names:
        shop.orders(name, ("a", 1), ("b", "many"))
    assert shop.run() == {"a": (len(names), len(names))}
    assert shop.run() == {"a": (len(names), len(names))}
    (progress,) = shop.progress
    assert progress.rejected == {"Orders": len(names)}
    from belvedere.connectors.run_records import FILES, REJECTED
    from belvedere.store import open_store

    store = open_store(shop.url)
    reader = store.reader()
    requested = {str(shop.data / "Orders" / n) for n in names if "\udcff" not in n}
    requested.add((shop.data / "Orders" / "\udcff\udcfe.json").as_uri())
    assert {r["file"] for r in reader.rows(REJECTED).to_pylist()} == requested
    noted = {f"Orders/{n}" for n in names if "\udcff" not in n} | {"file:Orders/%FF%FE.json"}
    assert {r["path"] for r in reader.rows(FILES).to_pylist()} == noted
    reader.close()
    store.close()


def test_as_many_files_an_epoch_as_the_source_says(shop: Shop) -> None:
    shop.options = {"max_files": 2}
    for n in range(5):
        shop.orders(f"{n}.json", ("a", 1), modified=1000.0 + n)
    assert shop.run() == {"a": (5, 5)}
    assert [p.rows_in for p in shop.progress] == [{"Orders": 2}, {"Orders": 2}, {"Orders": 1}]


def test_rejected_rows_are_kept_and_the_stream_goes_on(shop: Shop) -> None:
    path = shop.orders("1.json", ("a", 1), ("b", "many"))
    with path.open("a") as file:
        file.write("nonsense\n")
    (shop.data / "Orders" / "2.parquet").write_bytes(b"PAR1 no more")
    (shop.data / "Items.csv").write_text("item,name\n,nameless\nx,X\n")
    assert shop.run() == {"a": (1, 1)}
    from belvedere.connectors.run_records import REJECTED
    from belvedere.store import open_store

    store = open_store(shop.url)
    reader = store.reader()
    rows = reader.rows(REJECTED).to_pylist()
    reader.close()
    store.close()
    assert sorted(
        (r["table"], r["line"], r["text"], r["reason"].split(":")[0], r["epoch"]) for r in rows if r["line"]
    ) == [
        ("Items", 2, ",nameless", 'column "item" is NULL', 1),
        ("Orders", 2, '{"item": "b", "amount": "many"}', 'column "amount"', 1),
        ("Orders", 3, "nonsense", "is not JSON", 1),
    ]
    assert [r["reason"].split(":")[0] for r in rows if not r["line"]] == ["is not a complete Parquet file"]
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


def test_a_folder_whose_rights_go_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, the run goes on, and its files are taken in when they can be; a run that ends by itself says
    what it lacks."""
    shop.orders("1.json", ("a", 1))
    loop, store, engine = shop.open(once=False, interval=0.02)
    scan = os.scandir
    closed = threading.Event()

    def refuse(path: Any) -> Any:
        if closed.is_set():
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_for(lambda: len(shop.progress) == 1)
    closed.set()
    shop.orders("2.json", ("a", 2))
    wait_for(lambda: shop.reported)
    time.sleep(0.2)  # ten more looks
    with pytest.raises(BelvedereError, match="B6023"):
        loop.sources.look(engine.last.clock, once=True)
    closed.clear()
    wait_for(lambda: len(shop.progress) == 2)
    loop.stop()
    thread.join(10)
    assert shop.totals(store, engine) == {"a": (3, 2)}
    orders, items = (
        (shop.data / "Orders", "Orders"),
        (shop.data, "Items"),
    )  # of the items there is no folder of their own
    requested = [f'the folder {folder} of table "{table}" cannot be listed' for folder, table in (orders, items)]
    assert [t.split(":")[0] for t in shop.reported] == requested
    engine.close()
    store.close()


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
