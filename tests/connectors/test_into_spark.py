"""Transfer of Arrow rows to Spark: large ones are not a local relation, whose expressions Spark would interpret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import belvedere
from belvedere.connectors.into_spark import LOCAL_BYTES, THRESHOLD, into_spark

PACKAGE = Path(belvedere.__file__).parent


def test_nothing_else_puts_rows_into_spark() -> None:
    called = {
        str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if re.search(r"\.createDataFrame\(", p.read_text())
    }
    assert called == {"connectors/into_spark.py"}


@pytest.mark.spark
def test_large_rows_are_no_local_relation(spark: Any) -> None:
    before = spark.conf.get(THRESHOLD)
    small, large = pa.table({"n": range(1000)}), pa.table({"n": range(LOCAL_BYTES // 8 + 1)})
    assert _is_local(into_spark(spark, small))
    found = into_spark(spark, large)
    assert not _is_local(found)
    assert found.selectExpr("sum(n)").collect()[0][0] == sum(range(large.num_rows))
    assert spark.conf.get(THRESHOLD) == before


def _is_local(frame: Any) -> bool:
    return str(frame._jdf.queryExecution().logical().nodeName()) == "LocalRelation"
