"""How a run says what went wrong outside of a script: Spark gone, sources and sinks that cannot be read or written."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.project.settings import ProjectSettings, Sink, Source

EVENTS = pa.table({"id": [1]})


def test_a_stream_of_rows_that_change() -> None:
    text = """CREATE TABLE T (id INT, at TIMESTAMP, PRIMARY KEY (id), WATERMARK FOR at);
    V := SELECT STREAM id, at FROM T;"""
    with pytest.raises(BelvedereError, match="B5014"):
        maintain(compile_script(text).catalog)


@pytest.mark.parametrize(
    ("sink", "code"),
    [
        (Sink("s", "pigeons"), "B6130"),
        (Sink("s", "files", Path("x"), "avro"), "B6130"),
        (Sink("s", "files"), "B6131"),
        (Sink("s", "files", Path("/dev/null/x")), "B6132"),
    ],
)
def test_sinks(sink: Sink, code: str) -> None:
    from belvedere.connectors.registry import writing_connector

    with pytest.raises(BelvedereError, match=code):
        writing_connector(sink.connector).write(sink, "Target", 1, [EVENTS])


def test_sources(tmp_path: Path) -> None:
    from belvedere.spark.run.epoch_sources import open_sources

    (tmp_path / "T.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "belvedere.toml").write_text(f'[sources.s]\nconnector = "files"\npath = "{tmp_path}"\n')
    from belvedere.connectors.project_file import load_project

    catalog = compile_script("IMPORT s.T", project=load_project(tmp_path)).catalog
    for project in (
        ProjectSettings(tmp_path),
        ProjectSettings(tmp_path, sources={"s": Source("s", "telegraph", tmp_path)}),
    ):
        with pytest.raises(BelvedereError, match="B6020"):
            open_sources(catalog, project, None, {}, {"T"})


@pytest.mark.spark
def test_files_that_spark_cannot_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.connectors.reading import reader as source_files
    from belvedere.connectors.reading.file_rows import REASON
    from belvedere.connectors.reading.text_records import FILE, LINE, TEXT
    from belvedere.connectors.run_records import SourceFile
    from belvedere.schema import Column

    (tmp_path / "a.json").write_text('{"id": 1}\n')
    place = ", ".join(
        f"CAST(NULL AS {type_}) AS {name}"
        for name, type_ in ((FILE, "STRING"), (LINE, "BIGINT"), (TEXT, "STRING"), (REASON, "STRING"))
    )
    failing = spark.sql(f"SELECT CAST(raise_error('damaged') AS BIGINT) AS id, {place}")
    monkeypatch.setattr(source_files, "frames_of", lambda reading, files: iter([failing]))
    file = SourceFile(str(tmp_path / "a.json"), 10, datetime.now(UTC))
    taken = source_files.read_files(spark, "T", [file], [Column("id", pa.int64())], {})
    assert (taken.rows.num_rows, taken.refused) == (0, 1)
    assert "cannot be read by Spark" in taken.rejected[0].reason
    failing = spark.sql(f"SELECT CAST(raise_error('out of memory') AS BIGINT) AS id, {place}")
    with pytest.raises(BelvedereError, match="B6022"):  # no fault of the file
        source_files.read_files(spark, "T", [file], [Column("id", pa.int64())], {})


@pytest.mark.parametrize(("gone", "code"), [(False, "B7021"), (True, "B7022")])
def test_a_run_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool, code: str) -> None:
    from belvedere.spark.run import runner

    with subprocess.Popen([sys.executable, "-c", "" if gone else "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runner, "jvm_of", lambda spark: process)
        monkeypatch.setattr(runner, "has_ended", lambda spark: False)
        if gone:
            process.wait()
        with runner.Runner(
            tmp_path / "s.sqrl", Catalog(), ProjectSettings(tmp_path), f"sqlite:///{tmp_path}/s.db"
        ) as run:
            run.spark = SimpleNamespace(stop=lambda: None)  # type: ignore[assignment]

            def fail(*_: Any) -> None:
                raise ValueError("nobody expected this")

            monkeypatch.setattr(run, "_run", fail)
            monkeypatch.setattr(run, "close", run.store.close)
            with pytest.raises(BelvedereError, match=code):
                run.run(lambda progress: None, threading.Event())  # type: ignore[arg-type]
        process.kill()
