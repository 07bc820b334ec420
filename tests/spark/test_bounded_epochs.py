"""Epochs beyond the driver's memory limit: the same rows, and memory stays within the setting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors.exporting import exports
from belvedere.engine import bag_ingest
from belvedere.engine.rows import epoch_rows as held
from belvedere.engine.rows.epoch_rows import Memory, Rows
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.rules import events
from belvedere.rules.emit import emit_rows
from belvedere.rules.emit import group_parts as emit_parts
from belvedere.rules.events import SEQUENCE
from belvedere.schema import KEY, WEIGHT
from belvedere.workbench.workbench import Workbench
from tests.rules.test_recomputation import same_rows

BOUND = 8_192
"""Bytes that the driver may hold; an epoch has several times as many."""
PIECE = 50
START = datetime(2024, 1, 1, 8, tzinfo=UTC)
TABLES = """
CREATE TABLE Keyed (id INT PRIMARY KEY, name STRING, x DOUBLE, at TIMESTAMP, WATERMARK FOR at);
CREATE TABLE Bag (word STRING, n INT);
CREATE STREAM Log (id INT, name STRING, x DOUBLE, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 20 MINUTES);
"""
WINDOWS = "FROM Tumble(data => TABLE({0}), timecol => DESCRIPTOR(at), dur => INTERVAL '1' MINUTE)"
SUMS = f"SELECT wend, name, count(*) AS n, sum(x) AS total {WINDOWS.format('Log')} GROUP BY wend, name"
PATHS = {
    "subscriptions": """
        Added := SUBSCRIBE ON ADD SELECT id, name FROM Keyed WHERE x > 1;
        Moved := SUBSCRIBE ON CHANGE SELECT id, name, x FROM Keyed;
        Gone := SUBSCRIBE ON DELETE SELECT id FROM Keyed WHERE x > 1;
        Read := SELECT id, x FROM Keyed;
        EXPORT Added TO files.Added;
        EXPORT Read TO files.Read;
    """,
    "emitted tables": f"""
        Late := {SUMS} EMIT AFTER WATERMARK;
        Slow := {SUMS} EMIT AFTER DELAY INTERVAL 3 MINUTES;
        Rows := SELECT wend, id, x {WINDOWS.format("Keyed")} EMIT AFTER DELAY INTERVAL 2 MINUTES;
    """,
    "changelogs": f"""
        Each := SELECT id, name, x FROM Keyed EMIT STREAM;
        Late := {SUMS} EMIT STREAM AFTER WATERMARK;
    """,
    "delayed changelogs": f"""
        Slow := {SUMS} EMIT STREAM AFTER DELAY INTERVAL 3 MINUTES;
        Rows := SELECT wend, id, x {WINDOWS.format("Keyed")} EMIT STREAM AFTER DELAY INTERVAL 2 MINUTES;
    """,
    "streams": """
        Merged := SELECT STREAM at, id, name FROM Log;
        Sorted := SELECT STREAM at AS rowtime, id FROM Log ORDER BY at WITHIN INTERVAL '1' MINUTE;
        Then := SELECT STREAM at, name, x FROM Log ORDER BY at, x DESC NULLS LAST, name;
        Before := SELECT STREAM at, id, count(*) OVER (PARTITION BY name
            ORDER BY at RANGE INTERVAL 1 MINUTE PRECEDING) AS n FROM Log;
    """,
    "bags": "Copy := SELECT word, n FROM Bag; Counts := SELECT word, count(*) AS rows, sum(n) AS total FROM Bag GROUP "
    "BY word;",
}
NUMBERS = [None, 0.5, 1.5, float("nan"), 3.0]


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How much was held, and how many rows of files came to the driver at once. All pieces are small."""
    found = {"held": 0, "rows": 0, "epoch": 0}
    hold, table = Memory.hold, Rows.table

    def counted(memory: Memory, rows: Rows, size: int) -> Rows:
        kept = hold(memory, rows, size)
        if memory.bound == BOUND:
            found["held"] = max(found["held"], memory.held)
        return kept

    def whole(rows: Rows) -> pa.Table:
        made = table.fget(rows)  # type: ignore[attr-defined]
        if rows.files is not None:
            found["rows"] = max(found["rows"], made.num_rows)
        return made

    monkeypatch.setattr(Memory, "hold", counted)
    monkeypatch.setattr(Rows, "table", property(whole))
    monkeypatch.setattr(held, "BATCH_ROWS", PIECE)
    monkeypatch.setattr(emit_parts, "MIN_GROUPS", 100)
    monkeypatch.setattr(exports, "PIECE", PIECE)
    monkeypatch.setattr(emit_rows, "COMPARED", 7)
    monkeypatch.setattr(events, "TEXT_ROWS", 7)
    monkeypatch.setattr(bag_ingest, "LOOKED_AT", 7)
    monkeypatch.setattr(bag_ingest, "MIN_BYTES", 1_000)
    return found


def fill(wb: Workbench, random: Random, epoch: int, live: list[dict[str, Any]]) -> None:
    clock = START + timedelta(minutes=3 * epoch)
    wb.clock(clock)

    def row(key: int) -> dict[str, Any]:
        at = clock + timedelta(seconds=random.randint(-600, 600))
        return {"id": key, "name": random.choice([None, "a", "b", "ü"]), "x": random.choice(NUMBERS), "at": at}

    text = "".join(str(v.plan) for v in wb.catalog.views.values())
    if "Keyed" in text:
        wb.insert("Keyed", [row(n) for n in random.sample(range(400), 250)])
        if epoch:
            wb.delete("Keyed", [{"id": n} for n in random.sample(range(400), 100)])
    if "Log" in text:
        wb.insert("Log", [row(n) for n in range(250)])
    if "Bag" in text:
        new = [
            {"word": random.choice([None, "a"]) if n % 2 else f"word {n}", "n": random.randint(0, 2)}
            for n in range(300)
        ]
        wb.insert("Bag", new)
        random.shuffle(live)
        wb.delete("Bag", [live.pop() for _ in range(150 if epoch else 0)] + new[:40])
        live += new[40:]


def lines(folder: Path) -> dict[str, str]:
    return {str(f.relative_to(folder)): f.read_text() for f in sorted(folder.rglob("*.jsonl"))}


@pytest.mark.spark
@pytest.mark.parametrize("path", PATHS)
def test_an_epoch_beyond_the_limit_gives_the_same_rows(
    spark: Any, tmp_path: Path, spied: dict[str, int], path: str
) -> None:
    found: list[list[list[str]]] = []
    files: list[dict[str, str]] = []
    for memory in (1 << 30, BOUND):
        folder = tmp_path / str(memory)
        project = ProjectSettings(folder, sinks={"files": Sink("files", path=folder)}, driver_memory=memory)
        wb = Workbench(TABLES + PATHS[path], spark=spark, project=project)
        _watch(wb, spied)
        random, live, answers = Random(5), [], []  # type: ignore[var-annotated]
        try:
            for epoch in range(2):
                fill(wb, random, epoch, live)
                wb.step()
                answers += [_answer(wb, name) for name in (*wb.catalog.views, *wb.catalog.subscriptions)]
                if not epoch:
                    wb.restart()
                    _watch(wb, spied)
            if memory == BOUND:
                for name, batch in wb.batches(wb.catalog.views).items():
                    assert same_rows(wb.rows(name), batch), name
        finally:
            wb.close()
        found.append(answers)
        files.append(lines(folder))
        assert spied["epoch"] <= 2 * PIECE
    assert found[0] == found[1]
    assert files[0] == files[1]
    assert spied["held"] <= BOUND // 4


def test_the_net_change_of_a_key_is_its_first_row_that_went_and_its_last_that_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emit_rows, "COMPARED", 2)
    random, kinds = Random(1), set()
    for _ in range(200):
        changes, there = [], dict.fromkeys("abcd", 0.5)
        before = dict(there)
        for _ in range(random.randint(0, 12)):
            key = random.choice("abcdef")
            if key in there:
                changes.append((key, there.pop(key), -1))
            else:
                there[key] = random.choice([0.5, 1.5, float("nan"), None])  # type: ignore[assignment]
                changes.append((key, there[key], 1))
        table = pa.table(
            {KEY: [k for k, _, _ in changes], "x": [x for _, x, _ in changes], WEIGHT: [w for _, _, w in changes]}
        )
        table = table.cast(pa.schema([(KEY, pa.string()), ("x", pa.float64()), (WEIGHT, pa.int64())]))
        moved = {k for k in "abcdef" if repr(before.get(k, "-")) != repr(there.get(k, "-"))}
        expected = [(k, repr(r[k]), w) for r, w in ((before, -1), (there, 1)) for k in moved if k in r]
        found = [(r[KEY], repr(r["x"]), r[WEIGHT]) for r in emit_rows._net(table).to_pylist()]
        assert sorted(found) == sorted(expected)
        kinds.add(len(found))
    assert len(kinds) > 3


def _answer(wb: Workbench, name: str) -> list[str]:
    """The rows as texts, in their order where that counts."""
    rows = list(map(repr, wb.rows(name)))
    return rows if wb.engine.tables.by_name[name].schema.key == (SEQUENCE,) else sorted(rows)


def _watch(wb: Workbench, spied: dict[str, int]) -> None:
    """Count up to the end of the epoch: the Workbench then asks for its changes, whole."""
    report = wb.engine._report

    def reported(*given: Any) -> Any:
        spied["epoch"] = max(spied["epoch"], spied["rows"])
        found = report(*given)
        spied["rows"] = 0
        return found

    wb.engine._report = reported  # type: ignore[method-assign]
