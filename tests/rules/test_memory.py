"""The driver's memory is bounded by a setting, however large an epoch is, and what goes through files is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.pipeline.choose import plain
from belvedere.rules.options import Options
from belvedere.spark.compute import SparkCompute
from belvedere.workbench.workbench import Workbench
from tests.rules.test_recomputation import same_rows
from tests.run.processes import linux

SCRIPT = """
CREATE TABLE Orders (id INT PRIMARY KEY, who INT, what STRING, amount DECIMAL(10, 2), at TIMESTAMP);
CREATE STREAM Clicks (who INT, page STRING, at TIMESTAMP);
CREATE TABLE Words (word STRING);
Wide := SELECT id, upper(what) AS what, amount * 2 AS twice FROM Orders WHERE who > 1;
Sums := SELECT who, count(*) AS n, sum(amount) AS total FROM Orders GROUP BY who WITH HISTORY;
Middle := SELECT who, median(amount) AS middle, collect_set(what) AS things FROM Orders GROUP BY who;
Pairs := SELECT o.id, c.page FROM Orders o JOIN Clicks c ON o.who = c.who;
Rest := SELECT o.id, s.n FROM Orders o LEFT JOIN Sums s ON o.who = s.who AND s.n > 1;
Latest := SELECT who, page, at FROM (SELECT *, row_number() OVER (PARTITION BY who ORDER BY at DESC, page) AS rank
    FROM Clicks) AS r
          WHERE rank <= 2;
Recent := SELECT id, at FROM Orders WHERE at <= now() AND at > now() - INTERVAL 5 MINUTES;
First := SELECT id, amount FROM Orders ORDER BY amount DESC, id LIMIT 3;
Vocabulary := SELECT DISTINCT word FROM Words;
Both := SELECT what AS word FROM Orders INTERSECT ALL SELECT word FROM Words;
Fixed := SELECT 1 AS one;
Changed := SUBSCRIBE ON CHANGE SELECT who, total FROM Sums;
"""
START = datetime(2024, 1, 1, 8, tzinfo=UTC)
WORDS = [None, "a", "b", "c", "d|e", "~"]


def fill(wb: Workbench, random: Random, epoch: int) -> None:
    pick = random.choice
    wb.clock(START + timedelta(minutes=2 * epoch))
    for _ in range(6):
        at = START + timedelta(minutes=2 * epoch + pick(range(-8, 8)))
        order = {
            "id": pick(range(8)),
            "who": pick([None, 1, 2, 3]),
            "what": pick(WORDS),
            "amount": pick([None, 1, 2, 3]),
            "at": at,
        }
        wb.insert("Orders", [order])
        wb.insert("Clicks", [{"who": pick([1, 2, 3]), "page": pick(WORDS), "at": at}])
        wb.insert("Words", [{"word": "a"}, {"word": pick(WORDS)}])
    if epoch:
        wb.delete("Orders", [{"id": pick(range(8))}])
        wb.delete("Words", [{"word": "a"}])


PLAIN = plain()


@pytest.mark.spark
@pytest.mark.usefixtures("tiny_memory")
@pytest.mark.parametrize(
    ("each_store", "options"),
    [("sqlite", Options()), pytest.param("postgres", PLAIN, marks=[pytest.mark.postgres, pytest.mark.nightly])],
    indirect=["each_store"],
)
def test_a_driver_without_memory_has_the_same_views(
    spark: Any, each_store: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart: list[str] = []
    whole: list[bool] = []
    compute, keep = SparkCompute._compute_apart, SparkCompute.keep

    def computed(exchange: SparkCompute, sql: str, schema: pa.Schema) -> Rows:
        apart.append(sql)
        return compute(exchange, sql, schema)

    def kept(exchange: SparkCompute, rows: pa.RecordBatchReader) -> Rows:
        found = keep(exchange, rows)
        if exchange is wb.engine.compute:  # batch answers are held
            whole.append(found.is_collected and not found.is_empty)
        return found

    monkeypatch.setattr(SparkCompute, "_compute_apart", computed)
    monkeypatch.setattr(SparkCompute, "keep", kept)
    random, sums = Random(3), []
    wb = Workbench(SCRIPT, spark=spark, options=options)
    try:
        for epoch in range(2):
            fill(wb, random, epoch)
            wb.step()
            for name, batch in wb.batches(wb.catalog.views).items():
                assert same_rows(wb.rows(name), batch), (epoch, name)
            sums.append(wb.rows("Sums"))
        assert all(same_rows(wb.rows("Sums", as_of=n), then) for n, then in enumerate(sums, 1))
        assert len(apart) > 20
        assert whole
        assert not any(whole)
    finally:
        wb.close()


@pytest.mark.spark
def test_rows_are_the_same_in_memory_in_files_and_in_spark(spark: Any) -> None:
    """Every type that goes through files, with a name that Parquet does not take."""
    types = {
        "a": pa.int8(), "b c": pa.int64(), "d,(;)": pa.float64(), "e": pa.string(), "f": pa.binary(), "g": pa.date32(),
        "h": pa.timestamp("us", "UTC"), "i": pa.timestamp("us"), "j": pa.decimal128(38, 3), "k": pa.bool_(),
        "l": pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])), "m": pa.map_(pa.string(), pa.float64()),
        "n": pa.duration("us"), "o": pa.float32(),
    }  # fmt: skip
    rows = [
        dict.fromkeys(types),
        {
            "a": -1, "b c": 2**62, "d,(;)": float("inf"), "e": "\0é", "f": b"\0", "g": datetime(1, 1, 1).date(),
            "h": datetime(1, 1, 1, tzinfo=UTC), "i": datetime(9999, 12, 31), "j": 1, "k": True,
            "l": [{"x": 1, "y": None}, None],
            "m": [("k", None)], "n": timedelta(microseconds=-5), "o": -0.0,
        },
    ]  # fmt: skip
    for names in (list(types), [n for n in types if n != "n"]):  # lengths of time go by way of the driver
        table = pa.Table.from_pylist(
            [{n: r[n] for n in names} for r in rows], pa.schema([(n, types[n]) for n in names])
        )
        for memory in (0, 1 << 20):
            exchange = SparkCompute(spark, f"types_{len(names)}_{memory}", small=0, memory=memory)
            try:
                exchange.put("given", exchange.keep(table.to_reader()))
                found = exchange.compute(f"SELECT * FROM `{exchange.view_name('given')}`", table.schema)
                assert found.num_rows == 2
                assert found.is_collected == (memory > 0 or "n" in names)
                assert sorted(map(repr, found.table.to_pylist())) == sorted(map(repr, table.to_pylist()))
            finally:
                exchange.close()


@pytest.mark.spark
def test_nan_in_a_file_is_greater_than_any_number(spark: Any) -> None:
    """A file's least and greatest values leave NaN out: a filter must not go by them."""
    exchange = SparkCompute(spark, "nan_in_files", small=0, memory=0)
    try:
        table = pa.table({"x": pa.array([0.5, float("nan")])})
        exchange.put("given", exchange.keep(table.to_reader()))
        found = exchange.compute(f"SELECT x FROM `{exchange.view_name('given')}` WHERE x > 1", table.schema)
        assert [str(r["x"]) for r in found.table.to_pylist()] == ["nan"]
    finally:
        exchange.close()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("each_store")
@linux
def test_two_million_rows_need_no_more_memory_than_the_setting_says(
    request: pytest.FixtureRequest, each_store: str
) -> None:
    url = request.getfixturevalue("postgres_url") if each_store == "postgres" else "sqlite://"
    rows, bound = 2_000_000, 64
    command = [sys.executable, "-m", "tests.rules.large_epoch", str(rows), str(bound), url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["summary"] == [{"n": rows // 2, "rows": 2 * rows}]
    assert found["rich"][0] == rows // 2
    assert found["middle"] == [1000, rows, 1.0, 1000.0]
    assert found["changes"]["Accounts"] == 2 * rows
    assert found["arrow"] < 2 * bound << 20
    assert found["process"] < (bound + FIXED) << 20


FIXED = 384
"""Megabytes that do not depend on the rows: caches of SQLite, buffers of its sorts and of files, the allocators'
slack."""
