"""Many rows of a stream are stored without Spark: as they are stored with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.scratch_rows import Scratch
from belvedere.schema import KEY, UID
from belvedere.spark.compute import SparkCompute
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE STREAM Clicks (who INT, page STRING, at TIMESTAMP);
Counts := SELECT who, count(*) AS clicks, median(length(page)) AS middle FROM Clicks GROUP BY who;
"""
START = datetime(2024, 1, 1, tzinfo=UTC)


def clicks(first: int, size: int) -> list[dict[str, Any]]:
    at = [START + timedelta(microseconds=n) for n in range(first, first + size)]
    return [{"who": (first + n) % 7 or None, "page": "ü" * (n % 5), "at": at[n]} for n in range(size)]


def stored(wb: Workbench, name: str) -> list[dict[str, Any]]:
    reader = wb.engine.store.reader()
    try:
        (table,) = [t for t in wb.engine.store.tables() if t.name == name]
        rows: list[dict[str, Any]] = reader.rows(table).to_pylist()
        return sorted(rows, key=lambda r: r[UID] if UID in r else r[KEY])
    finally:
        reader.close()


@pytest.mark.spark
def test_rows_are_stored_without_spark_as_with_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    direct, through = Workbench(SCRIPT, spark=spark), Workbench(SCRIPT, spark=spark)
    texts: list[str] = []
    compute = direct.engine.compute.compute
    direct.engine.compute.compute = lambda sql, schema=None: texts.append(sql) or compute(sql, schema)  # type: ignore[method-assign, func-returns-value]
    for number, size in enumerate((500, 3)):
        for wb in (direct, through):
            wb.clock(START + timedelta(minutes=number))
            wb.insert("Clicks", clicks(number * 500, size))
            with monkeypatch.context() as patched:
                if wb is through:
                    patched.setattr("belvedere.engine.ingest.is_identified", lambda relation, _paths=None: False)
                wb.step()
        for name in ("Clicks", "Counts"):
            assert stored(direct, name) == stored(through, name)
        assert {s[KEY] for s in stored(direct, "Clicks")} == {str(s[UID]) for s in stored(direct, "Clicks")}
        assert not any("_0_s0_delta" in t for t in texts)
    assert sorted(direct.rows("Counts"), key=str) == sorted(direct.batch("Counts"), key=str)
    direct.close()
    through.close()


@pytest.mark.spark
def test_a_filter_on_a_file_with_a_large_dictionary(spark: Any) -> None:
    """Spark looks into the dictionaries of a file's columns; what it reads of an lz4 one of more than 8 KB is
    broken."""
    names = [f"customer number {n % 2_000} of Bern" for n in range(40_000)]
    scratch = Scratch(pa.schema([pa.field("customer", pa.string()), pa.field("id", pa.int64())]), few=0)
    scratch.add(pa.table({"customer": names, "id": range(40_000)}))
    found = scratch.rows()
    assert isinstance(found, Rows)
    compute = SparkCompute(spark, "dictionaries")
    try:
        compute.put("orders", found)
        asked = f"SELECT id FROM `{compute.view_name('orders')}` WHERE customer = 'customer number 7 of Bern'"
        assert sorted(compute.compute(asked).table["id"].to_pylist()) == list(range(7, 40_000, 2_000))
    finally:
        compute.close()
