"""Executors in separate processes, each with its own folder, unlike in local mode; messages of unusable clusters."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from belvedere.store import open_store
from tests.cluster.standalone import free_port
from tests.run.processes import start_run

SCRIPT = """
IMPORT data.Bid;
Highest := SELECT item, max(price) AS top, count(*) AS bids FROM Bid GROUP BY item;
Winners := SELECT b.n, b.item, h.top FROM Bid b JOIN Highest h ON b.item = h.item AND b.price = h.top;
Rising := FROM Bid AS b WINDOW BY w PARTITION BY b.item ORDER BY b.n TYPE SLIDING START AS s ONLY END NEXT AS e WHEN
    e.price < s.price
    SELECT s.n, s.item, e.price AS lower;
"""
PROJECT = """
[sources.data]
connector = "files"
path = "data"
max_files = 1
[spark]
master = "{master}"
wait = "20 seconds"
"spark.executor.memory" = "512m"
"spark.executor.defaultJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
[run]
driver_memory_mb = 1
{run}
"""
"""With so little memory rows go through scratch files. Each file is an epoch."""


def project(folder: Path, master: str, run: str = "") -> Path:
    (folder / "data" / "Bid").mkdir(parents=True)
    (folder / "belvedere.toml").write_text(PROJECT.format(master=master, run=run))
    script = folder / "bids.sqrl"
    script.write_text(SCRIPT)
    return script


def write(folder: Path, first: int, count: int) -> list[dict[str, int]]:
    chance = random.Random(first)
    found = [
        {"n": n, "item": chance.randrange(300), "price": chance.randrange(1_000)} for n in range(first, first + count)
    ]
    (folder / "data" / "Bid" / f"{first}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return found


def expected(bids: list[dict[str, int]]) -> dict[str, set[tuple[int, ...]]]:
    by_item = defaultdict(list)
    for bid in bids:
        by_item[bid["item"]].append(bid)
    top = {item: max(b["price"] for b in found) for item, found in by_item.items()}
    lower = (
        (b["n"], item, next((c["price"] for c in found[k + 1 :] if c["price"] < b["price"]), None))
        for item, found in by_item.items()
        for k, b in enumerate(found)
    )
    return {
        "Highest": {(item, top[item], len(found)) for item, found in by_item.items()},
        "Winners": {(b["n"], b["item"], b["price"]) for b in bids if b["price"] == top[b["item"]]},
        "Rising": {row for row in lower if row[2] is not None},
    }


def run(script: Path, *arguments: str, code: int = 0) -> str:
    process = start_run(script, "--once", *arguments)
    _, reported = process.communicate(timeout=300)
    assert (process.returncode, "Traceback" in reported) == (code, False), reported
    return reported


def differing(script: Path, bids: list[dict[str, int]]) -> list[str]:
    """The views that are not what they should be."""
    columns = {"Highest": "item, top, bids", "Winners": "n, item, top", "Rising": "n, item, lower"}
    with sqlite3.connect(script.with_suffix(".db")) as connection:
        stored = {view: connection.execute(f"SELECT {names} FROM {view}").fetchall() for view, names in columns.items()}
    assert all(len(found) == len(set(found)) for found in stored.values())
    return [view for view, rows in expected(bids).items() if set(stored[view]) != rows]


@pytest.mark.nightly
@pytest.mark.spark
def test_two_epochs_with_executors_elsewhere(tmp_path: Path) -> None:
    script = project(tmp_path, "local-cluster[2,1,1024]")
    bids = write(tmp_path, 0, 4_000) + write(tmp_path, 4_000, 3_000)
    run(script)
    assert differing(script, bids) == []
    assert not any(script.with_suffix(".scratch").glob("*/*"))


NOTED = (
    "CREATE TABLE noted (name text)",
    "CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO noted SELECT object_identity FROM pg_event_trigger_ddl_commands(); END $$",
    "CREATE EVENT TRIGGER noting ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION note()",
)
"""Notes the tables that are made."""


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_executors_copy_served_rows_into_the_database(tmp_path: Path, postgres_url: str) -> None:
    """So many rows that none of them passes through the driver."""
    script = project(tmp_path, "local-cluster[2,1,1024]")
    script.write_text("IMPORT data.Bid; Dear := SELECT n, item, price FROM Bid WHERE price >= 100;")
    bids = write(tmp_path, 0, 300_000) + write(tmp_path, 300_000, 1_000)
    store = open_store(postgres_url)
    for statement in NOTED:
        store._session.execute(statement)  # type: ignore[attr-defined]
    run(script, "--store", postgres_url)
    reader = store.reader()
    try:
        rows = reader.execute('SELECT n, item, price FROM "Dear" ORDER BY n')
        assert rows == [tuple(b.values()) for b in bids if b["price"] >= 100]
        assert reader.execute("SELECT count(*) FROM noted WHERE name LIKE '%copied%'") == [
            (2,)
        ]  # the stream's and the view's
        assert reader.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE '%copied%'") == [(0,)]
    finally:
        reader.close()
        store._session.execute("DROP EVENT TRIGGER noting")  # type: ignore[attr-defined]
        store.close()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "code", "expected"),
    [("spark://127.0.0.1:{port}", "B7035", "cannot be reached"), ("spark:/here", "B9112", "not a Spark master")],
)
def test_a_master_that_is_none(tmp_path: Path, master: str, code: str, expected: str) -> None:
    script = project(tmp_path, "local")
    write(tmp_path, 0, 1)
    reported = run(script, "--master", master.format(port=free_port()), code=1)
    assert code in reported
    assert expected in reported


@pytest.mark.parametrize("value", ["s3://bucket/scratch", ""])
def test_a_scratch_folder_is_a_path(tmp_path: Path, value: str) -> None:
    reported = run(project(tmp_path, "local", f'scratch = "{value}"'), code=1)
    assert "B9104" in reported
