"""The paper's queries give the rows that its rules give: by the interpreter, and on Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.paper import CASES, FIGURES, close, table


@pytest.mark.parametrize("case", CASES, ids=FIGURES)
def test_the_interpreter_gives_the_papers_rows(case: dict[str, Any]) -> None:
    found = compile_query(parse_window_query(case["query"]))({"Ghcn": table(case)})
    assert close(found, case["expected"])


@pytest.mark.spark
def test_spark_gives_the_papers_rows_in_order(spark: Any) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    for case in CASES:
        frame = spark.createDataFrame(pa.Table.from_pylist(table(case)).to_pandas())
        found = [row.asDict() for row in run_window_query(spark, case["query"], {"ghcn": frame}).collect()]
        assert close(found, case["expected"]), case["figure"]
