"""Find, read exactly once and write with the connector of docs/how-to/write-a-connector.md, as another package brings
it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors import registry
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.project.settings import Sink, Source
from tests.docs.test_pages import ROOT, blocks_of
from tests.run.loops import Loop

PROJECT = (
    '[sources.logs]\nconnector = "tail"\npath = "logs"\nrotated = true\n[sinks.out]\nconnector = "tail"\npath = "out"\n'
)
SCRIPT = """
IMPORT logs.access;
Long := SELECT * FROM access WHERE length(line) > 3;
CREATE SUBSCRIPTION Seen ON ADD AS SELECT line FROM access;
EXPORT Seen TO out.Seen;
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module of the page and the metadata of a package."""
    site = tmp_path / "site"
    info = site / "tail-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tail\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[belvedere.connectors]\ntail = tail\nbroken = nowhere_to_be_found\n")
    (code,) = (b for b in blocks_of(ROOT / "docs" / "how-to" / "write-a-connector.md") if b.option("file") == "tail.py")
    (site / "tail.py").write_text(code.text)
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    registry._found.cache_clear()
    yield site
    registry._found.cache_clear()
    __import__("sys").modules.pop("tail", None)


def test_the_project_file_knows_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text(PROJECT + '[sources.other]\nconnector = "tale"\npath = "x"\n')
    project = load_project(tmp_path)
    assert project.sources["logs"].options == {"rotated": True}
    assert [(d.code, d.hint) for d in project.diagnostics] == [("B9104", "did you mean `tail`?")]


def test_connectors_that_are_not_there(installed: Path) -> None:
    for name, hint in (
        ("broken", None),
        (
            "telegraph",
            "there is `files`, `console`, `sensors`, `kafka`, `postgres`, `spark`, `http`, `delta` and 2 more",
        ),
    ):
        with pytest.raises(BelvedereError, match="B6020") as raised:
            registry.reading_connector(name)
        assert raised.value.diagnostics[0].hint == hint
    with pytest.raises(BelvedereError, match="B6020"):
        registry.reading_connector("console")
    with pytest.raises(BelvedereError, match="B6130"):
        registry.writing_connector("sensors").write(Sink("s"), "T", 1, [])


def test_a_source_of_no_path_has_no_tables() -> None:
    assert registry.SourceTables().tables(Source("s")) == ()


@pytest.mark.spark
def test_it_is_read_and_written(spark: Any, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "logs" / "access.log"
    log.parent.mkdir()
    log.write_text("one\nthree\nfo")
    loop = Loop(spark, tmp_path, SCRIPT, PROJECT)
    loop.once()
    with log.open("a") as file:
        file.write("ur\n\nfive\n")
    for _ in range(2):  # the second has nothing to read
        loop.once()
    assert [(r["position"], r["line"]) for r in loop.rows("access")] == [
        (0, "one"),
        (4, "three"),
        (10, "four"),
        (15, ""),
        (16, "five"),
    ]
    assert sorted(r["line"] for r in loop.rows("Long")) == ["five", "four", "three"]
    assert loop.counts("access") == (5, 5, 0, 0)
    assert [p.rows_in for p in loop.progress] == [{"access": 2}, {"access": 3}]
    written = [f.read_text().count("line") for f in sorted((tmp_path / "out").iterdir())]
    assert written == [2, 3]
    from belvedere.store import open_reader

    reader = open_reader(loop.url)
    last = reader.last_epoch()
    reader.close()
    assert last is not None
    assert json.loads(json.dumps(last.offsets["access"])) == {"bytes": log.stat().st_size}

    # rows of other types are the connector's mistake, and no epoch takes them
    log.write_text(log.read_text() + "six\n")
    tail = importlib.import_module("tail")
    monkeypatch.setattr(tail, "COLUMNS", pa.schema([("position", pa.int64()), ("line", pa.binary())]))
    monkeypatch.setattr(
        tail.Tail, "read", lambda self, spark, span: tail.Arrived(pa.table({"position": ["x"], "line": ["six"]}))
    )
    with pytest.raises(BelvedereError, match="B6024"):
        loop.once()


@pytest.mark.spark
@pytest.mark.parametrize("watermark", ["", " WATERMARK FOR at AS at - INTERVAL 1 MINUTE LATE DROP"])
@pytest.mark.parametrize("as_frame", [False, True])
def test_a_table_with_a_key_whose_rows_bring_no_weight(
    spark: Any, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_frame: bool, watermark: str
) -> None:
    log = tmp_path / "logs" / "access.log"
    log.parent.mkdir()
    log.write_text("any\n")
    tail = importlib.import_module("tail")
    rows = pa.table(
        {"line": ["one", "three", "one"], "position": [0, 4, 10], "at": [datetime(2024, 1, 1, tzinfo=UTC)] * 3}
    )

    def read(self: Any, spark: Any, span: Any) -> Any:
        return tail.Arrived(spark.createDataFrame(rows) if as_frame else rows)

    monkeypatch.setattr(tail.Tail, "read", read)
    columns = 'columns = { line = "STRING", position = "BIGINT", at = "TIMESTAMP" }\nprimary_key = ["line"]\n'
    script = f"IMPORT logs.access{watermark};\nLong := SELECT line, position FROM access WHERE length(line) > 2;"
    loop = Loop(spark, tmp_path, script, f"{PROJECT}[sources.logs.tables.access]\n{columns}")
    loop.once()
    assert sorted((r["line"], r["position"]) for r in loop.rows("Long")) == [("one", 10), ("three", 4)]
