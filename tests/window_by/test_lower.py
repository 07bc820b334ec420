"""A WINDOW BY query as a plan node: its columns, its key, and what it refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.lang.window_by_lower import lower_window_query
from belvedere.plan.nodes import Scan
from belvedere.schema import Column, Schema

SOURCE = Scan("Ghcn", Schema((Column("station", pa.string(), False), Column("date", pa.date32()), Column("val", pa.int64()))))
FRAME = (
    "ORDER BY g.date TYPE SLIDING START AS s END AS e WHEN e.val > s.val "
    "SELECT s.station AS st, ARRAY_AVG(w[*].val) AS a, w[*].val AS vs"
)


def test_columns_and_key() -> None:
    block = lower_window_query("FROM Ghcn AS g WINDOW BY w PARTITION BY g.station " + FRAME, "Ghcn", SOURCE)
    assert [(c.name, c.type, c.hidden) for c in block.schema] == [
        ("st", pa.string(), False),
        ("a", pa.float64(), False),
        ("vs", pa.list_(pa.int64()), False),
        ("_partition_station", pa.string(), True),
        ("_window", pa.int64(), True),
    ]
    assert block.schema.key == ("_partition_station", "_window")


@pytest.mark.parametrize("partition", ["PARTITION BY g.station, LOWER(g.station) ", ""])
def test_windows_that_depend_on_all_rows(partition: str) -> None:
    block = lower_window_query(f"FROM Ghcn AS g WINDOW BY w {partition}" + FRAME, "Ghcn", SOURCE)
    assert block.partition == ()
    assert block.schema.key == ("_window",)


def test_one_block_only() -> None:
    with pytest.raises(BelvedereError) as raised:
        lower_window_query("FROM Ghcn AS g WINDOW BY w " + FRAME + " LIMIT 3", "Ghcn", SOURCE)
    assert [d.code for d in raised.value.diagnostics] == ["B3624"]
