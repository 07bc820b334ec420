"""What commands tell of what is under way, and the archive with which Spark starts sooner."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pyspark
import pytest

from belvedere.engine.query_batching import QueryBatching, Task
from belvedere.process.activity import NOW, Activity
from belvedere.spark.jvm.class_archive import QUIET, ClassArchive, archive_in
from belvedere.spark.jvm.java import find_java
from belvedere.terminal.progress_line import UnderWay, reported_at, stamped


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELVEDERE_PROGRESS", raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def hasty(activity: Activity, text: str, patience: float = 0.0, usual: float = 0.0) -> None:
    """Tells at once."""
    activity.text, activity.since, activity.patience, activity.usual = text, time.monotonic(), 0.0, usual


def reported(stream: io.StringIO, text: str) -> list[str]:
    """The lines, once there is one with this text."""
    deadline = time.monotonic() + 20
    while text not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    return [line[20:] for line in stream.getvalue().splitlines()]


def test_lines_come_for_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Activity, "begin", hasty)
    out = io.StringIO()
    with UnderWay(out) as way:
        way.say("reading", 0, 4)
        assert reported(out, "reading")[-1] == "INFO    reading, 0 s"
        with NOW.meanwhile("starting Spark"):
            reported(out, "starting Spark")
        assert way.line().startswith("reading")
        way.say("writing", 1, 4)
        assert re.fullmatch(r"INFO    writing, 0 s, about \d+ s left", reported(out, "writing")[-1])
    assert NOW.text == ""


def test_an_epoch_that_hangs_is_told_with_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    with UnderWay(out, draws=False):
        NOW.begin("epoch 7", patience=0.0, usual=3.0)
        NOW.rows = 1200
        NOW.at("Totals", 2, 5)
        found = reported(out, "epoch 7")[-1]
    assert found == "INFO    epoch 7, stage 2 of 5 (Totals), 1,200 rows, 1,200 rows/s, 0 s, usually 3 s"
    assert [reported_at(n, 1.0) for n in range(5)] == [1.0, 10.0, 30.0, 60.0, 120.0]
    assert [reported_at(n, 10.0) for n in range(4)] == [10.0, 30.0, 60.0, 120.0], "a short epoch is not told"


def test_stages_are_told_by_the_views_they_are_part_of() -> None:
    seen: list[tuple[str, int, int]] = []
    turns: QueryBatching[str, str] = QueryBatching(
        lambda questions: [seen.append((NOW.stage, NOW.number, NOW.stages)) or "" for _ in questions]
    )
    tasks = [Task(name, (), lambda: turns.ask("?")) for name in ("Sums$1", "Sums", "Other~1", "A", "B")]
    turns.run(tasks)
    assert seen[0] == ("Sums, Other, A and 1 more", 5, 5)


def test_nothing_is_said_where_it_is_quick_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, quiet, off = io.StringIO(), io.StringIO(), io.StringIO()
    with UnderWay(quick) as way:
        way.say("a moment")
    monkeypatch.setattr(Activity, "begin", hasty)
    with UnderWay(quiet, quiet=True) as way:
        way.say("quiet")
        time.sleep(0.3)
    monkeypatch.setenv("BELVEDERE_PROGRESS", "off")
    with UnderWay(off) as way:
        way.say("off")
        time.sleep(0.3)
    assert [s.getvalue() for s in (quick, quiet, off)] == ["", "", ""]


def test_a_terminal_shows_it_at_once_and_keeps_nothing_of_it() -> None:
    out = Terminal()
    with UnderWay(out) as way:
        way.say("starting Spark")
        with way.aside():
            out.write("a result\n")
    assert "starting Spark, 0 s" in out.getvalue()
    assert out.getvalue().index("\x1b[2K") < out.getvalue().index("a result"), (
        "the line is taken away before a result is printed"
    )


def test_a_line_has_time_and_level() -> None:
    assert stamped("x", "WARNING", datetime(2024, 3, 1, 9, 5)) == "2024-03-01 09:05:00 WARNING x"


def test_the_archive_counts_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    archive = ClassArchive(tmp_path / "new")
    if archive.path is None:
        pytest.skip("Java's options cannot say this path")
    assert archive.options() == ""
    assert archive.writing() == f"-XX:ArchiveClassesAtExit={archive.path.with_suffix(f'.{os.getpid()}')} -Xlog:cds*=off"
    archive.written(is_whole=True)  # a JVM that was killed has written nothing
    assert not archive.is_there
    unfinished, others = (
        archive.path.with_suffix(f".{os.getpid()}"),
        [archive.path.with_name(f"spark-{n}.jsa") for n in range(5)],
    )
    for is_whole in (False, True):
        unfinished.write_text("classes")
        for n, other in enumerate(others):
            other.write_text("of another Spark")
            os.utime(other, (n, n))
        archive.written(is_whole)
        assert (archive.is_there, unfinished.exists()) == (is_whole, False)
        assert [o.exists() for o in others] == ([False, False, True, True, True] if is_whole else [True] * 5)
    assert archive.writing() is None
    assert archive.options() == f"-XX:SharedArchiveFile={archive.path} -Xlog:cds*=off"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.driver.defaultJavaOptions=-Xms1g pyspark-shell")
    assert ClassArchive(tmp_path).options() == ""


def test_jars_that_were_installed_again_have_an_archive_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "pyspark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.write_text("classes")
    os.utime(jar, (1, 1))
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "pyspark" / "__init__.py"))
    first = archive_in(tmp_path)
    assert archive_in(tmp_path) == first
    os.utime(jar, (2, 2))
    assert archive_in(tmp_path) != first


def test_java_says_nothing_of_an_archive_that_does_not_fit(tmp_path: Path) -> None:
    jar, archive = tmp_path / "library.jar", tmp_path / "classes.jsa"
    (installed,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    shutil.copy(installed, jar)
    java = [find_java() / "bin" / "java", "-cp", jar]
    subprocess.run([*java, f"-XX:ArchiveClassesAtExit={archive}", "scala.util.Properties"], check=True, timeout=60)
    os.utime(jar, (1, 1))
    said = []
    for quiet in ([], [QUIET]):
        done = subprocess.run(
            [*java, *quiet, f"-XX:SharedArchiveFile={archive}", "scala.util.Properties"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        said.append(done.stdout + done.stderr)
    assert "archive" in said[0]
    assert "archive" not in said[1]
