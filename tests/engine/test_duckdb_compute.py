"""DuckDB in Spark's place: what the engine computes by itself beside queries must be what the queries give."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.engine.arrow_copy import hashes
from belvedere.engine.compute import Compute
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.schema import TIMESTAMP
from tests.engine.duckdb_compute import DuckDBCompute, in_duckdb, use_duckdb


def test_hashes_of_numbers_and_times_are_those_of_the_driver() -> None:
    numbers = pa.array([1, None, -5, 2**62], pa.int64())
    times = pa.array([datetime(2024, 2, 29, tzinfo=UTC), None, None, datetime(1, 1, 1, tzinfo=UTC)], TIMESTAMP)
    compute = DuckDBCompute()
    compute.put("given", Rows(pa.table({"n": numbers, "t": times})))
    found = compute.compute(
        f"SELECT xxhash64(CAST(n AS BIGINT), CAST(t AS TIMESTAMP)) AS h FROM {compute.view_name('given')}"
    )
    assert found.table["h"].to_pylist() == hashes([numbers, times], 4).tolist()
    compute.close()


def test_calls_within_calls_are_rewritten() -> None:
    assert in_duckdb("SELECT timestamp_micros(a - pmod(unix_micros(t), 5))") == (
        "SELECT MAKE_TIMESTAMP(a - (((EPOCH_US(t)) % (5)) + (5)) % (5))"
    )


def test_it_answers_what_the_engine_asks_but_for_executors() -> None:
    asked = {n for n in vars(Compute) if not n.startswith("_")}
    assert asked - set(dir(DuckDBCompute())) == {
        "run_apart",
        "run_buckets",
        "run_tasks",
        "buckets",
        "filed",
        "scratch",
    }


def test_a_view_that_does_not_follow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch answers are made of the log alone: a stage that loses a change differs from them."""
    from belvedere.rules.merge.merge_rule import MergeStage

    use_duckdb(monkeypatch)
    wb = Workbench("CREATE TABLE T (id INT PRIMARY KEY, g INT); V := SELECT g, count(*) AS n FROM T GROUP BY g;")
    wb.insert("T", [{"id": 1, "g": 1}])
    wb.step()
    assert wb.rows("V") == wb.batch("V") == [{"g": 1, "n": 1}]
    monkeypatch.setattr(MergeStage, "run", lambda *_: None)
    wb.insert("T", [{"id": 2, "g": 1}])
    wb.step()
    assert wb.rows("V") == [{"g": 1, "n": 1}]
    assert wb.batch("V") == [{"g": 1, "n": 2}]
    wb.close()
