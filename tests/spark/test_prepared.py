"""Queries over few rows are planned once and run again over the rows of each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.engine.rows.epoch_rows import Rows
from belvedere.spark.code_generation import SOME
from belvedere.spark.compute import SparkCompute
from belvedere.spark.prepared_queries import MAX_BYTES
from tests.depth import examples

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.float64()), pa.field("s", pa.string())])
OTHER = pa.schema([pa.field("k", pa.int64()), pa.field("name", pa.string(), nullable=False)])
values = st.tuples(
    st.none() | st.integers(-2, 2), st.none() | st.floats(), st.none() | st.text("aß\U0001f600\0", max_size=2)
)
names = st.tuples(st.none() | st.integers(-2, 2), st.text(max_size=2))


@pytest.fixture
def compute(spark: Any) -> Iterator[SparkCompute]:
    made = SparkCompute(spark, "prepared")
    yield made
    made.close()


def table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([r[n] for r in rows], f.type) for n, f in enumerate(schema)], schema)


QUERIES = {
    "SELECT a.k, a.s, b.name FROM `{a}` AS a JOIN `{b}` AS b ON a.k = b.k WHERE a.v > 0 OR a.v IS NULL": True,
    "SELECT k, count(*) AS n, max(v) AS v, collect_list(s) AS s FROM `{a}` GROUP BY k": True,
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC, s) AS n FROM `{a}`": True,
    "SELECT b.k, a.s FROM `{b}` AS b LEFT JOIN `{a}` AS a ON a.k = b.k UNION ALL SELECT k, name FROM `{b}`": True,
    "SELECT k FROM `{a}` WHERE v > (SELECT max(k) FROM `{b}`)": False,
    "SELECT DISTINCT x.s FROM (SELECT s FROM `{a}` UNION ALL SELECT name FROM `{b}`) AS x": True,
}


def answer(compute: SparkCompute, sql: str) -> list[str]:
    schema = compute.compute(sql).schema
    return sorted(map(str, compute.collect(sql, schema).to_pylist()))


@given(epochs=st.lists(st.tuples(st.lists(values, max_size=6), st.lists(names, max_size=4)), min_size=1, max_size=4))
@pytest.mark.deep
@settings(max_examples=examples(8), deadline=None)
def test_each_epoch_has_the_answer_of_its_own_rows(spark: Any, epochs: list[tuple[list[Any], list[Any]]]) -> None:
    compute, plain = SparkCompute(spark, "standing"), SparkCompute(spark, "plain")
    plain._standing = None
    try:
        for a, b in epochs:
            for one in (compute, plain):
                one.put("a", Rows(table(a, SCHEMA)))
                one.put("b", Rows(table(b, OTHER)))
            for text in QUERIES:
                sql, same = (text.format(a=one.view_name("a"), b=one.view_name("b")) for one in (compute, plain))
                assert answer(compute, sql) == answer(plain, same)
            compute.sweep()
    finally:
        compute.close()
        plain.close()


def test_plans_are_kept_where_they_read_their_files_again(compute: SparkCompute) -> None:
    for name, schema in (("a", SCHEMA), ("b", OTHER)):
        compute.put(name, Rows(schema.empty_table()))
    kept = {}
    for text in QUERIES:
        sql = text.format(a=compute.view_name("a"), b=compute.view_name("b"))
        answer(compute, sql)
        assert compute._standing is not None
        kept[text] = any(frame is not None for (known, _), frame in compute._standing._plans.items() if known == sql)
    assert kept == QUERIES


def test_rows_that_a_frame_will_read_are_not_written_over(compute: SparkCompute) -> None:
    schema = pa.schema([pa.field("k", pa.int64())])
    compute.put("a", Rows(pa.table({"k": [1]}, schema)))
    sql = f"SELECT k FROM `{compute.view_name('a')}`"
    later = compute.defer(sql, schema)
    compute.put("a", Rows(pa.table({"k": [2]}, schema)))
    assert compute.collect(sql, schema).to_pylist() == [{"k": 2}]
    assert later.table.to_pylist() == [{"k": 1}]
    compute.sweep()
    compute.put("a", Rows(pa.table({"k": [3]}, schema)))
    assert compute.collect(sql, schema).to_pylist() == [{"k": 3}]


def test_a_view_may_be_few_rows_then_many_then_of_other_columns(compute: SparkCompute) -> None:
    whole = pa.schema([pa.field("k", pa.int64())])
    sql = f"SELECT count(*) AS n, max(k) AS k FROM `{compute.view_name('a')}`"
    for count in (2, compute.small + 1, 3):
        compute.put("a", Rows(pa.table({"k": range(count)}, whole)))
        found = compute.collect(sql, pa.schema([pa.field("n", pa.int64()), *whole]))
        assert found.to_pylist() == [{"n": count, "k": count - 1}]
        compute.sweep()
    text = pa.schema([pa.field("k", pa.string())])
    for value in ("x", "y" * (MAX_BYTES + 1), "z"):
        compute.put("a", Rows(pa.table({"k": [value]}, text)))
        found = compute.collect(sql, pa.schema([pa.field("n", pa.int64()), *text]))
        assert found.to_pylist() == [{"n": 1, "k": value}]
        compute.sweep()


def plans_of(compute: SparkCompute) -> int:
    assert compute._standing is not None
    return sum(frame is not None for frame in compute._standing._plans.values())


def test_a_query_with_a_common_table_expression_is_planned_once(compute: SparkCompute) -> None:
    number = pa.schema([pa.field("k", pa.int64())])
    new, source = compute.view_name("new"), compute.view_name("a")
    sql = f"WITH `{new}` AS (SELECT k + 1 AS k FROM `{source}`) SELECT k FROM `{new}`"
    for value in (1, 2, 3):
        compute.put("a", Rows(pa.table({"k": [value]}, number)))
        assert compute.collect(sql, number).to_pylist() == [{"k": value + 1}]
        compute.sweep()
    assert plans_of(compute) == 1


def test_a_view_of_a_query_may_stand_too(compute: SparkCompute) -> None:
    """Whatever its text, its inputs, and what was there under its name before."""
    number, text = pa.schema([pa.field("k", pa.int64())]), pa.schema([pa.field("k", pa.string())])
    a, pairs = compute.view_name("a"), compute.view_name("pairs")
    twice, once = (
        f"SELECT x.k FROM `{a}` AS x JOIN {other} AS y ON x.k = y.k" for other in (f"`{a}`", "(SELECT 1 AS k)")
    )
    sql = f"SELECT count(*) AS n, max(k) AS k FROM `{pairs}`"

    def epoch(rows: pa.Table, query: str | pa.Table) -> dict[str, Any]:
        compute.put("a", Rows(rows))
        compute.put("pairs", compute.defer(query, rows.schema) if isinstance(query, str) else Rows(query))
        (found,) = compute.collect(sql, pa.schema([pa.field("n", pa.int64()), *rows.schema])).to_pylist()
        compute.sweep()
        return dict(found)

    for values in ([1], [1, 2, 2], [3]):
        assert epoch(pa.table({"k": values}, number), twice) == {
            "n": sum(values.count(v) for v in values),
            "k": max(values),
        }
    assert plans_of(compute) == 1
    assert epoch(pa.table({"k": [1, 2]}, number), once) == {"n": 1, "k": 1}
    assert epoch(pa.table({"k": ["x", "x"]}, text), twice) == {"n": 4, "k": "x"}
    many = pa.table({"k": range(compute.small + 1)}, number)
    assert epoch(many, twice) == {"n": compute.small + 1, "k": compute.small}
    assert epoch(pa.table({"k": [7]}, number), twice) == {"n": 1, "k": 7}
    assert epoch(pa.table({"k": [7]}, number), pa.table({"k": [8, 9]}, number)) == {"n": 2, "k": 9}
    assert epoch(pa.table({"k": [5]}, number), twice) == {"n": 1, "k": 5}


def test_queries_are_compiled_one_an_epoch(compute: SparkCompute) -> None:
    number = pa.schema([pa.field("k", pa.int64())])
    queries = [f"SELECT k + {n} AS k FROM `{compute.view_name('a')}`" for n in range(3)]
    compiled = []
    for _ in range(SOME + len(queries) + 1):
        compute.put("a", Rows(pa.table({"k": [1]}, number)))
        for n, sql in enumerate(queries):
            assert compute.collect(sql, number).to_pylist() == [{"k": 1 + n}]
        compute.sweep()
        compiled.append(sum(not interpreted for _, interpreted in compute._standing._plans))  # type: ignore[union-attr]
    assert compiled[SOME - 1 :] == [0, 1, 2, 3, 3]


def test_a_failed_query_runs_again(compute: SparkCompute) -> None:
    schema = pa.schema([pa.field("k", pa.int64())])
    sql = f"SELECT 1 div k AS k FROM `{compute.view_name('a')}`"
    for value in (1, 0, 1, 0, 1):
        compute.put("a", Rows(pa.table({"k": [value]}, schema)))
        if value:
            assert compute.collect(sql, schema).to_pylist() == [{"k": 1}]
        else:
            with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
                compute.collect(sql, schema)
        compute.sweep()
