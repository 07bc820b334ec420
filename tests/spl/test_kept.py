"""Aggregates of firings by accumulators, of rows and of blocks of rows, against sums and extremes of Python."""

from __future__ import annotations

import statistics
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.compiler import compile_script
from belvedere.kernels.spl.window_rows import Firings
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.rules.spl.accumulated import accumulated, accumulators_of, firing_rows, folded, not_accumulated
from belvedere.schema import TIMESTAMP
from tests.depth import examples

COLUMNS = "k STRING, i INT, d DECIMAL(10, 2), x DOUBLE, s STRING, t TIMESTAMP"
KNOWN = (
    "count(*) AS a, count(i) AS b, sum(i) AS c, sum(d) AS e, sum(x) AS f, avg(i) AS g, min(i) AS h, max(d) AS j, "
    "min(s) AS l, max(t) AS m, first(s) AS n, last(i) AS o, count(*) FILTER (WHERE i > 0) AS p, sum(i) FILTER (WHERE "
    "i > 0) AS q, stddev(i) AS r, stddev_pop(x) AS u"
)


def node_of(aggregates: str, grouped: str = "") -> SplAggregate:
    window = "WINDOW (sliding, count(3), partitioned BY k)"
    compiled = compile_script(
        f"CREATE STREAM Given ({COLUMNS});\nV := SELECT k, {aggregates} FROM Given {window}{grouped};"
    )
    assert compiled.ok, compiled.diagnostics
    return next(n for n in compiled.catalog.views["V"].plan.walk() if isinstance(n, SplAggregate))


@pytest.mark.parametrize(
    "aggregates", ["collect_list(i) AS l", "count(DISTINCT i) AS n", "avg(d) AS m", "sum(DISTINCT i) AS s"]
)
def test_the_query_computes_what_is_not_kept(aggregates: str) -> None:
    node = node_of(aggregates)
    assert accumulators_of(node) is None
    assert len(not_accumulated(node)) == 1


def test_groups_of_the_contents_are_for_the_query() -> None:
    assert not_accumulated(node_of("count(*) AS n, s", " GROUP BY s")) == ["GROUP BY Given.s"]


numbers = st.one_of(st.none(), st.integers(-5, 5))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12), st.data())
def test_ranges(values: list[tuple[int | None, int | None]], data: st.DataObject) -> None:
    node = node_of(KNOWN)
    table = rows_of(node, values)
    first = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5))
    last = [data.draw(st.integers(n, len(values) - 1)) for n in first]
    count = len(first)
    nothing = np.zeros(count, np.int64)
    firings = Firings(nothing, nothing, np.array(first, np.int64), np.array(last, np.int64), nothing > 0, nothing)
    kept = accumulators_of(node)
    assert kept is not None
    rows = accumulated(kept, table)
    found = firing_rows(node, rows, firings, np.arange(count))
    assert found is not None
    assert found.num_rows == count
    cut = data.draw(st.integers(1, len(values)))  # the rows up to here as one block
    blocks = pa.concat_tables([folded(kept, rows, np.array([0]), np.array([cut - 1])), rows.slice(cut)])
    one = np.zeros(1, np.int64)
    whole = Firings(one, one, one, np.array([len(values) - cut]), one > 0, one)
    of_all = firing_rows(node, blocks, whole, np.arange(1))
    assert of_all is not None
    assert rounded([of_all.to_pylist()[0][i.name] for i in node.aggregates]) == aggregated(values)
    for row, (low, high) in zip(found.to_pylist(), zip(first, last, strict=True), strict=True):
        expected = aggregated(values[low : high + 1])
        assert rounded([row[i.name] for i in node.aggregates]) == expected


def rows_of(node: SplAggregate, values: list[tuple[int | None, int | None]]) -> pa.Table:
    """Each column from the first of two numbers, `x` and the condition of FILTER from these too."""
    size = len(values)
    whole = [a for a, _ in values]
    other = [b for _, b in values]
    columns: dict[str, Any] = {
        "i": pa.array(whole, pa.int32()),
        "d": pa.array([None if b is None else Decimal(b) / 4 for b in other], pa.decimal128(10, 2)),
        "x": pa.array([None if b is None else b / 4 for b in other], pa.float64()),
        "s": pa.array([None if b is None else str(b) for b in other], pa.string()),
        "t": pa.array(other, pa.int64()).cast(TIMESTAMP),
        "k": pa.array(["k"] * size),
        "_uid": pa.array(range(size), pa.int64()),
        "_ingest_time": pa.array([0] * size, pa.int64()).cast(TIMESTAMP),
    }
    positive = pa.array([None if a is None else a > 0 for a in whole], pa.bool_())
    return pa.table({c.name: columns.get(c.name.rpartition(".")[2], positive) for c in node.input.schema})


def aggregated(rows: list[tuple[int | None, int | None]]) -> list[Any]:
    whole = [a for a, _ in rows if a is not None]
    other = [b for _, b in rows if b is not None]
    decimals = [Decimal(b) / 4 for b in other]
    positive = [a for a in whole if a > 0]
    time = pa.scalar(max(other), pa.int64()).cast(TIMESTAMP).as_py() if other else None
    found = [
        len(rows),
        len(whole),
        sum(whole) if whole else None,
        sum(decimals) if decimals else None,
        sum(b / 4 for b in other) if other else None,
        sum(whole) / len(whole) if whole else None,
        min(whole, default=None),
        max(decimals, default=None),
        min(map(str, other), default=None),
        time,
        None if rows[0][1] is None else str(rows[0][1]),
        rows[-1][0],
        len(positive),
        sum(positive) if positive else None,
        statistics.stdev(whole) if len(whole) > 1 else None,
        statistics.pstdev([b / 4 for b in other]) if other else None,
    ]
    return rounded(found)


def rounded(values: list[Any]) -> list[Any]:
    return [round(v, 9) if isinstance(v, float) else v for v in values]
