"""The feeds of a run share what an epoch's rows may take in the driver: what has no room goes through a file."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.spark.run.epoch_sources import open_sources

PROJECT = '[sources.in]\nconnector = "files"\npath = "in"\nmax_files = 1\n[run]\ndriver_memory_mb = 8\n'
"""A quarter of it, two megabytes, may be rows of an epoch."""
ROWS = 150_000


class NoSpark:
    """A session of which nothing is asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


def test_they_share_the_room_until_the_epoch_is_done(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text(PROJECT)
    for table in "ab":
        (tmp_path / "in" / table).mkdir(parents=True)
        for part in range(2):
            pc.write_csv(
                pa.table({"n": range(part * ROWS, (part + 1) * ROWS)}), tmp_path / "in" / table / f"{part}.csv"
            )
    project, spark = load_project(tmp_path), NoSpark()
    compiled = compile_script("IMPORT in.a;\nIMPORT in.b;", path=tmp_path / "s.sqrl", project=project)
    assert compiled.ok, compiled.diagnostics
    sources = open_sources(compiled.catalog, project, None, {})
    now = datetime(2100, 1, 1, tzinfo=UTC)
    for epoch in range(2):
        new = sources.look(now, once=True)
        taken: Any = sources.take(spark, new, now)  # type: ignore[arg-type]
        first, second = (taken.arrived[i].rows for i in ("a", "b"))
        assert isinstance(first, pa.Table)
        assert isinstance(second, Rows)
        assert sources.memory.held == first.nbytes
        for rows in taken.arrivals.values():
            numbers = [n for t in ([rows] if isinstance(rows, pa.Table) else rows.tables()) for n in t["n"].to_pylist()]
            assert numbers == list(range(epoch * ROWS, (epoch + 1) * ROWS))
        sources.committed(new, taken.clocks)
        del taken, first, second, rows
        gc.collect()
        assert sources.memory.held == 0
    sources.close()
