"""What is told of executors that cannot do their part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.engine.rows import scratch_rows
from belvedere.errors import BelvedereError
from belvedere.spark import cluster


@pytest.mark.parametrize(
    ("found", "code", "expected"),
    [
        (("east", "No module named 'numpy'", True), "B7034", "east: No module named 'numpy'"),
        (("east", None, False), "B7036", "executors on east do not see"),
    ],
)
def test_an_executor_that_lacks_something(found: cluster.Found, code: str, expected: str) -> None:
    with pytest.raises(BelvedereError) as reported:
        cluster._judge([("west", None, True), found], Path("/scratch"), "python3")
    diagnostic = reported.value.diagnostics[0]
    assert (diagnostic.code, expected in (diagnostic.detail or ""), "west" in (diagnostic.detail or "")) == (
        code,
        True,
        False,
    )


@pytest.mark.spark
def test_rows_that_an_executor_wrote_elsewhere_are_missed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_rows, "observe", cluster._observed)
    frame, schema = spark.range(5).toDF("c0"), pa.schema([("id", pa.int64())])
    assert scratch_rows.write_frame(frame, tmp_path / "whole", schema).num_rows == 5
    monkeypatch.setattr(scratch_rows, "uri", lambda path: f"file://{path}.elsewhere")
    with pytest.raises(BelvedereError) as reported:
        scratch_rows.write_frame(frame, tmp_path / "lost", schema)
    assert reported.value.diagnostics[0].code == "B7036"
    assert "wrote 5 rows" in (reported.value.diagnostics[0].detail or "")
