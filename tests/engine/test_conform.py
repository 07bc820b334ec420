"""Rows get the types of a schema; NULL passes where a column may not be NULL only in rows that go."""

from __future__ import annotations

import pyarrow as pa
import pytest

from belvedere.engine.rows.epoch_rows import conform
from belvedere.schema import WEIGHT

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("n", pa.int32(), nullable=False)])),
        pa.field(WEIGHT, pa.int64(), nullable=False),
    ]
)


def rows(*found: tuple[int | None, int | None, int]) -> pa.Table:
    given = pa.schema([("k", pa.int32()), ("s", pa.struct([("n", pa.int32())])), (WEIGHT, pa.int64())])
    return pa.Table.from_pylist([{"k": k, "s": {"n": n}, WEIGHT: w} for k, n, w in found], schema=given)


def test_rows_that_go_may_have_null() -> None:
    given = rows((1, 1, 1), (None, 2, -1), (3, None, -2))
    assert conform(given, SCHEMA).cast(given.schema).to_pylist() == given.to_pylist()
    assert conform(given.slice(0, 1), SCHEMA).schema == SCHEMA


@pytest.mark.parametrize("bad", [(None, 2, 1), (3, None, 1)])
def test_rows_that_come_may_not(bad: tuple[int | None, int | None, int]) -> None:
    with pytest.raises(ValueError, match=r"(?i)null"):
        conform(rows((1, 1, 1), (None, 2, -1), bad), SCHEMA)


def test_without_weights_former_rows_pass() -> None:
    given = rows((None, 1, 1)).select(["k", "s"])
    assert conform(given, pa.schema([SCHEMA.field("k"), SCHEMA.field("s")]))["k"].to_pylist() == [None]


def test_a_value_beyond_its_type_never_passes() -> None:
    with pytest.raises(ValueError, match="not in range"):
        conform(
            pa.table({"k": pa.array([2**40, None], pa.int64())}), pa.schema([pa.field("k", pa.int32(), nullable=False)])
        )
