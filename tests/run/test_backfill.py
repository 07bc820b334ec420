"""New views over inputs whose rows are not stored: filled by reading the sources again, as if always present."""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from belvedere.api.filling_views import filling_text
from belvedere.catalog.inputs import Input, InputKind
from belvedere.commands.plan import deployment_of
from belvedere.connectors import files as connectors_files
from belvedere.connectors.connector import FeedRequest
from belvedere.connectors.reading import row_frames
from belvedere.connectors.run_records import RejectedRow
from belvedere.engine.epoch import Engine
from belvedere.engine.epoch_row.source_spans import PastSpan, SourceSpan
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.deployment import Deployment
from belvedere.project.settings import Source
from belvedere.schema import Column, Schema
from belvedere.spark.run import backfill, runner
from belvedere.spark.run.run_loop import EpochProgress
from belvedere.spark.run.stop_flag import StopFlag
from belvedere.store import open_reader
from belvedere.time.arrival_columns import NO_TIMES
from belvedere.time.event_time import Clocks
from tests.depth import at_night
from tests.run.loops import Loop

pytestmark = pytest.mark.spark

PROJECT = """
[sources.s]
path = "data"
[sources.s.tables.Rides]
columns = { k = "STRING", fare = "INT", at = "TIMESTAMP" }
[sources.s.tables.Stops]
columns = { k = "STRING", place = "STRING" }
"""
INPUTS = """
IMPORT s.Rides AS _Rides WATERMARK FOR at AS at - INTERVAL '2' MINUTES LATE DROP;
IMPORT s.Stops AS _Stops;
"""
FIRST = """
Fares := SELECT k, sum(fare) AS fare, count(*) AS n FROM _Rides GROUP BY k;
All := SELECT k, fare, at, _uid AS number, _ingest_time AS came FROM _Rides;
"""
LATER = """
Again := SELECT k, fare, at, _uid AS number, _ingest_time AS came FROM _Rides;
Best := SELECT k, max(fare) AS most, avg(fare) AS mean, median(fare) AS middle FROM _Rides WHERE fare > 2 GROUP BY k;
_Places := SELECT DISTINCT k, place FROM _Stops;
Places := SELECT r.k, p.place, count(*) AS n FROM _Rides AS r LEFT JOIN _Places AS p ON r.k = p.k GROUP BY r.k, p.place;
Minutes := SELECT window_end, count(*) AS n, sum(fare) AS fare
           FROM TABLE(TUMBLE(TABLE _Rides, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY window_end;
Ranks := SELECT k, fare, row_number() OVER (PARTITION BY k ORDER BY fare, at, _uid) AS place FROM _Rides;
Pairs := SELECT a.fare, b.place FROM _Rides AS a JOIN _Stops AS b ON a.k = b.k;
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own, on each database."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else f"sqlite:///{tmp_path}/s.db"


class Files:
    """Random files of the two tables, with ascending times of change."""

    def __init__(self, seed: int, folder: Path):
        self.random, self.folder, self.count = random.Random(seed), folder, 0
        self.began = 1_700_000_000
        self.stops: list[dict[str, str]] = []

    def put(self, table: str, name: str, text: str) -> None:
        self.count += 1
        path = self.folder / "data" / table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (self.began + self.count, self.began + self.count))

    def more(self, minute: int) -> None:
        """What comes before an epoch: none to three files of each table; rows that are late, and such that do not
        fit."""
        r = self.random
        for _ in range(r.randint(0, 3)):
            rows = [
                {"k": r.choice(["a", "é b", None, "c"]), "fare": r.choice([None, *range(9)]), "at": self._time(minute)}
                for _ in range(r.randint(0, 5))
            ]
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            lines.insert(r.randint(0, len(lines)), r.choice(["", '{"fare": "x"}', "no"]))
            self.put("Rides", f"{self.count} ü.json", "\n".join(lines) + "\n")
        for _ in range(r.randint(0, 1)):
            stops = [{"k": r.choice("ac"), "place": f"p{r.randint(1, 2)}"} for _ in "12"]
            self.stops += stops
            self.put("Stops", f"{self.count}.csv", "k,place\n" + "".join(f"{s['k']},{s['place']}\n" for s in stops))

    def _time(self, minute: int) -> str:
        return f"2024-01-01 00:{max(0, minute + self.random.randint(-4, 2)):02}:00"


def shown(loop: Loop, view: str) -> list[str]:
    """The bag of rows of a view."""
    return bag(loop.rows(view))


def bag(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts, without hidden columns."""
    values = [{n: v.isoformat() if isinstance(v, datetime) else v for n, v in r.items() if n[0] != "_"} for r in rows]
    return sorted(json.dumps(v) for v in values)


def planned(loop: Loop) -> Deployment:
    found = loop.compiled()
    return deployment_of(found.catalog, loop.url, found.project)


def first_file(loop: Loop) -> Path:
    return loop.folder / "data" / "Rides" / "1.json"


ORACLE = {
    "Fares": "SELECT k, sum(fare)::BIGINT AS fare, count(*) AS n FROM rides GROUP BY k",
    "Best": "SELECT k, max(fare) AS most, avg(fare) AS mean, median(fare) AS middle FROM rides WHERE fare > 2 GROUP "
    "BY k",
    "Places": "SELECT r.k, p.place, count(*) AS n FROM rides AS r LEFT JOIN (SELECT DISTINCT * FROM stops) AS p ON "
    "r.k = p.k GROUP BY r.k, p.place",
    "Minutes": "SELECT time_bucket(INTERVAL '5 minutes', \"at\") + INTERVAL '5 minutes' AS window_end, "
    "count(*) AS n, sum(fare)::BIGINT AS fare "
    "FROM rides GROUP BY window_end",
    "Ranks": 'SELECT k, fare, row_number() OVER (PARTITION BY k ORDER BY fare NULLS FIRST, "at" NULLS FIRST, number) '
    "AS place FROM rides",
    "Pairs": "SELECT a.fare, b.place FROM rides AS a JOIN stops AS b ON a.k = b.k",
}


def expected(view: str, loop: Loop, files: Files) -> list[str]:
    """What DuckDB says of the rows that were used (`All` has them) and of all stops."""
    asking = duckdb.connect()
    asking.execute("SET TimeZone = 'UTC'")
    schema = pa.schema(
        [("k", pa.string()), ("fare", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("number", pa.int64())]
    )
    asking.register("rides", pa.Table.from_pylist(loop.rows("All"), schema))
    asking.register("stops", pa.Table.from_pylist(files.stops, pa.schema([("k", pa.string()), ("place", pa.string())])))
    return bag(asking.sql(ORACLE[view]).to_arrow_table().to_pylist())


@pytest.mark.parametrize(
    ("url", "seed"),
    [("sqlite", 1), *at_night([("postgres", 2), ("sqlite", 3), ("postgres", 4), ("sqlite", 5)])],
    indirect=["url"],
)
def test_random_files(spark: Any, tmp_path: Path, url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(seed, tmp_path)
    files.began = int(time.time()) - 300  # files have times of arrival of their own
    epochs, added = (3, 1) if seed == 1 else (6, files.random.randint(1, 5))
    loop = Loop(spark, tmp_path, INPUTS + FIRST, PROJECT, url)
    for epoch in range(epochs):
        files.more(3 * epoch)
        if epoch == added:
            loop.script += LATER
            kept = {c.name for c in planned(loop).changes if c.change.value == "kept"}
            assert kept == {"All", "Fares"}
            with monkeypatch.context() as failing:  # what had been read again is forgotten, and is read once more
                failing.setattr(Engine, "_row", lambda *args: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    loop.once()
        loop.once()
    assert shown(loop, "Again") == shown(loop, "All"), "the same numbers and times of arrival"
    assert {v: shown(loop, v) for v in ORACLE} == {v: expected(v, loop, files) for v in ORACLE}
    assert loop.counts("_Rides")[2], "some rows were late"
    assert loop.counts("_Rides")[3], "some rows were rejected"


def filled(spark: Any, folder: Path, url: str, script: str = INPUTS + FIRST) -> Loop:
    """A store with two epochs of `_Rides`, the second with a row by which another view fails."""
    files = Files(0, folder)
    loop = Loop(spark, folder, script, PROJECT, url)
    for number in (1, 0):
        files.put("Rides", f"{1 if number else 2}.json", f'{{"k": "a", "fare": {number}}}\n{{"k": "b", "fare": 5}}\n')
        loop.once()
    return loop


def test_plan_and_what_is_not_there_any_more(
    spark: Any, tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = filled(spark, tmp_path, url)
    before, text = shown(loop, "Fares"), first_file(loop).read_text()
    loop.script += "Best := SELECT k, max(fare) AS most FROM _Rides GROUP BY k;\n"
    found = planned(loop)
    best = next(c for c in found.changes if c.name == "Best")
    assert (best.change.value, best.reason) == ("added", "filled by re-reading the sources of _Rides (4 rows)")
    assert best.seconds > 0
    assert found.again == {"_Rides": 4}
    other = Loop(spark, tmp_path, loop.script.replace("sum(fare)", "min(fare)"), PROJECT, url)
    assert next(c for c in planned(other).changes if c.name == "Fares").reason == (
        "its definition has changed; filled by re-reading the sources of _Rides (4 rows); not served until then"
    )

    def refused(what: str) -> None:
        best = next(c for c in planned(loop).changes if c.name == "Best")
        assert best.change.value == "refused"
        assert what in best.reason
        with pytest.raises(BelvedereError, match="B7070") as failure:
            loop.once()
        assert what in failure.value.diagnostics[0].message
        assert "Rides/1.json, which epoch 1 read" in failure.value.diagnostics[0].message
        assert shown(loop, "Fares") == before

    first_file(loop).write_text(text.replace('"fare": 1', '"fare": 7'))
    refused("has changed")
    first_file(loop).unlink()
    refused("is gone")
    first_file(loop).write_text(text.replace('"a"', "---"))  # as long as before, and as old
    os.utime(first_file(loop), (1_700_000_001, 1_700_000_001))
    with pytest.raises(BelvedereError, match="now has 1 row used and 1 rejected, and had 2 rows used and 0 rejected"):
        loop.once()
    first_file(loop).write_text(text)
    os.utime(first_file(loop), (1_700_000_001, 1_700_000_001))
    loop.once()
    assert shown(loop, "Best") == bag([{"k": "a", "most": 1}, {"k": "b", "most": 5}])


def test_a_file_that_changes_just_before_it_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "T.json"
    path.write_text('{"k": 1}\n')
    table = Input("T", "T", InputKind.IMPORT, Schema((Column("k", pa.int32()),)))
    feed = connectors_files.open_feed(FeedRequest(table, Source("s", path=tmp_path), "T", tuple(table.schema)))
    past = PastSpan(SourceSpan("T", {}, {"files": 1}, 1, 0, Clocks()), 7, datetime.now(UTC), 1)
    (part,) = feed.past(past, feed.listing.new_files())
    path.write_text('{"k": 2}\n')
    os.utime(path, (1, 1))
    with pytest.raises(BelvedereError, match="epoch 7 read, has changed"):
        feed.read(None, part)  # type: ignore[arg-type]


def test_a_view_that_fails_on_rows_of_before_is_filled_of_all_rows_once_it_is_corrected(
    spark: Any, tmp_path: Path, url: str
) -> None:
    loop = filled(spark, tmp_path, url)
    loop.script = (
        loop.script.replace("_Rides", "Rides")
        + "/*+ on_error(quarantine) */ Ratio := SELECT k, 10 / fare AS r FROM Rides;\n"
    )
    loop.script = loop.script.replace("AS Rides WATERMARK", "AS _Rides WATERMARK").replace("FROM Rides", "FROM _Rides")
    assert next(c for c in planned(loop).changes if c.name == "Fares").change.value == "kept"
    loop.once()
    assert shown(loop, "Ratio") == [], "it fails on a row of the second file: no part of the rows is shown"
    assert loop.progress[-1].quarantined == {"Ratio": None}
    ratio = next(c for c in planned(loop).changes if c.name == "Ratio")
    assert (ratio.change.value, ratio.reason.partition(";")[0]) == (
        "added",
        "in quarantine since epoch 3, has no rows yet: recomputed at the start, unless Ratio fails again",
    )
    loop.once()
    assert (shown(loop, "Ratio"), loop.progress[-1].quarantined) == ([], {"Ratio": None}), (
        "all rows are read again, and fail again"
    )
    loop.script = loop.script.replace("10 / fare", "try_divide(10, fare)")
    loop.once()
    assert shown(loop, "Ratio") == bag(
        [{"k": k, "r": r} for k, r in (("a", 10.0), ("b", 2.0), ("a", None), ("b", 2.0))]
    )


def test_an_input_that_is_new_with_its_view(spark: Any, tmp_path: Path, url: str) -> None:
    loop = filled(spark, tmp_path, url)
    loop.script += "CREATE STREAM _Pushed (a INT);\nPushed := SELECT count(*) AS n FROM _Pushed;\n"
    loop.script += "IMPORT s.Stops AS _More;\nMore := SELECT place FROM _More;\n"
    Files(0, tmp_path).put("Stops", "1.csv", "k,place\na,x\n")
    loop.once()
    assert (shown(loop, "Pushed"), shown(loop, "More")) == (['{"n": 0}'], ['{"place": "x"}'])


def test_a_column_that_has_become_wider_makes_no_other_rows_of_past_epochs(spark: Any, tmp_path: Path) -> None:
    loop = filled(spark, tmp_path, f"sqlite:///{tmp_path}/s.db")
    Files(0, tmp_path).put("Rides", "3.json", '{"k": "a", "fare": 1.5}\n')
    loop.once()
    (tmp_path / "belvedere.toml").write_text(PROJECT.replace('fare = "INT"', 'fare = "DOUBLE"'))
    loop.once()
    assert {r["fare"] for r in loop.rows("All")} == {1.0, 5.0, 0.0}


NEW_SENSE = """id,at
1,2024-01-01 00:00:00
2,soon
3,2024-01-02 00:00:00
4,later
"""
DAYS = """
IMPORT s.Days AS _Days;
IMPORT s.Whole AS _Whole;
Count := SELECT count(*) AS n FROM _Days;
Wholes := SELECT count(*) AS n FROM _Whole;
"""
OF_DAYS = """
[sources.s]
path = "data"
[sources.s.tables]
Days = { columns = { id = "INT", at = "TIMESTAMP" } }
Whole = { columns = { id = "INT" } }
"""


@pytest.mark.parametrize("small", [True, False], ids=["typed", "by Spark"])
def test_a_reader_that_takes_more_than_the_one_before(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """Rows that were rejected then stay rejected, until they are tried again: these come once."""
    folder = tmp_path / "data"
    for table, name, text in (
        ("Days", "1.csv", NEW_SENSE),
        ("Whole", "1.json", '{"id": 1}\n'),
        ("Whole", "2.json", '{"id": 2}\n'),
    ):
        (folder / table).mkdir(parents=True, exist_ok=True)
        (folder / table / name).write_text(text)
    loop = Loop(spark, tmp_path, DAYS, OF_DAYS)
    reading = connectors_files.FileFeed.read

    def read_as_before(feed: Any, spark: Any, span: Any) -> Any:
        """Two lines and a file are rejected that are read today."""
        found = reading(feed, spark, span)
        ids = [1] if feed.table == "Days" else [2]
        kept = found.rows.filter(pc.is_in(found.rows["id"], pa.array(ids, pa.int32())))
        path = str(folder / feed.table / ("1.csv" if feed.table == "Days" else "1.json"))
        rejected = (RejectedRow(feed.id, path, 4, "3,2024-01-02 00:00:00", "in another sense"),) * (
            feed.table == "Days"
        )
        rejected += (RejectedRow(feed.id, path, None, None, "in another form"),) * (feed.table == "Whole")
        gone = found.rows.num_rows - kept.num_rows
        return replace(
            found, rows=kept, rejected=(*found.rejected, *rejected), refused=found.refused + gone, times=NO_TIMES
        )

    with monkeypatch.context() as before:
        before.setattr(connectors_files.FileFeed, "read", read_as_before)
        loop.once()
    assert [loop.rows(n)[0]["n"] for n in ("Count", "Wholes")] == [1, 1]
    if not small:
        monkeypatch.setattr(row_frames, "is_typed", lambda *_: False)
    loop.script += "Ids := SELECT id FROM _Days;\nOthers := SELECT id FROM _Whole;\n"
    loop.once()
    assert [[r["id"] for r in loop.rows(n)] for n in ("Ids", "Others")] == [[1], [2]]
    loop.once(retry=True)
    assert sorted(r["id"] for r in loop.rows("Ids")) == [1, 3]
    loop.script += "Again := SELECT id FROM _Days;\n"
    loop.once()
    assert sorted(r["id"] for r in loop.rows("Again")) == [1, 3], "once, by the epoch that tried it again"


class Crash(Exception):
    """As if the process had ended."""


def test_other_views_go_on_while_one_is_filled(
    spark: Any, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files come while others are read again; what was read is lost once, by a failure, and is read anew."""
    files = Files(3, tmp_path)
    loop = Loop(spark, tmp_path, INPUTS + FIRST, PROJECT + '[spark]\ntrigger = "1 ms"\n[run]\nstate = "state"\n', url)
    for epoch in range(2):
        files.more(3 * epoch)
        files.put("Rides", f"more {epoch}.json", '{"k": "a", "fare": 3, "at": "2024-01-01 00:09:00"}\n' * 3)
        loop.once()
    loop.script += LATER
    monkeypatch.setattr(backfill, "FEW", 0)
    monkeypatch.setattr(runner, "FEW", 0)
    monkeypatch.setattr(connectors_files, "PART_BYTES", 1)  # each file is a part
    steps: list[str | None] = []
    beside = backfill.ConcurrentBackfill.__call__

    def step(self: backfill.ConcurrentBackfill) -> bool:
        if len(steps) in (1, 4):
            files.more(9)
            files.put("Rides", f"new {len(steps)}.json", '{"k": "a", "fare": 7, "at": "2024-01-01 00:10:00"}\n')
        if len(steps) == 2:
            steps.append(None)
            raise Crash
        with closing(open_reader(url)) as reader:
            steps.append(filling_text(loop.compiled().catalog, reader))
        return beside(self)

    monkeypatch.setattr(backfill.ConcurrentBackfill, "__call__", step)
    reported: list[str] = []
    with pytest.raises(Crash):
        run_until(loop, "Best", reported)
    before = loop.rows("All")
    seen = run_until(loop, "Best", reported)
    assert any("Again, Best, Minutes, Pairs, Places, Ranks will be available after" in t for t in reported)
    assert "being filled: " in str(steps[0])
    assert steps[0] != steps[-1]
    assert len(seen) > 1, "epochs of the other views came before"
    assert all(p.changes.keys() <= {"All", "Fares"} or "All" in p.changes for p in seen[:-1])
    assert len(loop.rows("All")) > len(before), "they went on"
    assert shown(loop, "Again") == shown(loop, "All")
    assert {v: shown(loop, v) for v in ORACLE} == {v: expected(v, loop, files) for v in ORACLE}
    with closing(open_reader(url)) as reader:
        assert filling_text(loop.compiled().catalog, reader) is None


def run_until(loop: Loop, view: str, reported: list[str]) -> list[EpochProgress]:
    """Run the script until an epoch has changed a view; all epochs up to it."""
    stopped, seen = StopFlag(), list[EpochProgress]()

    def watch(progress: EpochProgress) -> None:
        seen.append(progress)
        if view in progress.changes:
            stopped.set()

    found = loop.compiled()
    with runner.Runner(loop.folder / "s.sqrl", found.catalog, found.project, loop.url) as running:
        running.phase, running.watch, running.stopped = reported.append, watch, stopped
        running._run_epochs(loop.spark, maintain(found.catalog))
    return seen
