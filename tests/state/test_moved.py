"""Rows that Arrow makes are those that Spark makes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.engine.arrow_copy import identified, is_identified, moved_columns
from belvedere.engine.relation import Path, Relation
from belvedere.engine.sql.row_identity import identity_columns
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Project, Scan
from belvedere.schema import TIMESTAMP, Column, Schema

SCHEMA = Schema(
    (Column("a b", pa.int64()), Column("small", pa.int16()), Column("at", TIMESTAMP), Column("t", pa.string())),
    ("a b", "small"),
)
LONG, TIME = pa.int64(), TIMESTAMP
PATHS = (
    Path("_h0", (column("a b"),), (LONG,)),
    Path("_h1", (column("small"), column("at")), (LONG, TIME)),
    Path("_h2", (), ()),
)
RELATION = Relation("R", SCHEMA, True, PATHS)
LEAST, MOST = -(2**63), 2**63 - 1
rows = st.lists(
    st.tuples(
        st.none() | st.integers(LEAST, MOST) | st.sampled_from([LEAST, MOST, 0, -1]),
        st.none() | st.integers(-(2**15), 2**15 - 1),
        st.none() | st.integers(-(10**15), 10**15),
        st.sampled_from(["x", None]),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.spark
@settings(max_examples=15, deadline=None)
@given(rows=rows)
def test_keys_and_hashes_are_those_of_spark(spark: Any, rows: list[tuple[Any, ...]]) -> None:
    columns = [
        pa.array(list(c), pa.int64() if f.type == TIMESTAMP else f.type)
        for c, f in zip(zip(*rows, strict=True), SCHEMA.arrow, strict=True)
    ]
    table = pa.table([c.cast(f.type) for c, f in zip(columns, SCHEMA.arrow, strict=True)], schema=SCHEMA.arrow)
    spark.createDataFrame(table).createOrReplaceTempView("moved_rows")
    expected = spark.sql(f"SELECT {identity_columns(RELATION)} FROM moved_rows").toArrow().to_pydict()
    assert identified(table, RELATION).select(list(expected)).to_pydict() == expected


def test_only_whole_numbers_and_times_need_no_spark() -> None:
    assert is_identified(RELATION)
    text, double = Path("_h0", (column("t"),), (pa.string(),)), Path("_h0", (column("a b"),), (pa.float64(),))
    assert not is_identified(Relation("R", SCHEMA, True, (text,)))
    assert not is_identified(Relation("R", SCHEMA, True, (double,))), "the other side of a join is a double"
    assert not is_identified(Relation("R", Schema(SCHEMA.columns, ("t",)), True))


def test_only_columns_that_stay_as_they_are_are_moved() -> None:
    scan = Scan("s0", SCHEMA)
    chosen = Project(scan, (Item("x", column("at"), TIMESTAMP), Item("y", column("a b"), pa.int64())))
    assert moved_columns(chosen) == {"x": "at", "y": "a b"}
    assert moved_columns(Project(chosen, (Item("z", column("x"), TIMESTAMP),))) == {"z": "at"}
    assert moved_columns(Project(scan, (Item("wide", column("small"), pa.int64()),))) is None
    assert moved_columns(Project(scan, (Item("x", column("at") + 1, TIMESTAMP),))) is None
