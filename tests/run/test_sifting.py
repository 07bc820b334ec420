"""A row at which the run ends is found by halves, one process after the other; here a process is a call that raises."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.run_records import REJECTED
from belvedere.engine.epoch import Engine
from belvedere.engine.errors.quarantine import StageFailure
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.project.settings import ProjectSettings
from belvedere.spark.run.row_rejection import (
    OFTEN,
    RUNNING,
    AttemptEnds,
    ends_of,
    note_end,
    rejected_at,
    says_why,
    sift,
    without,
)
from belvedere.spark.run.runner import Runner
from belvedere.store import open_reader, open_store
from tests.run.loops import Loop
from tests.run.processes import linux, run_once, start_run


class Notes:
    """What of a store is used: a document, and the last epoch."""

    def __init__(self) -> None:
        self.text: str | None = None

    def document(self, name: str) -> str | None:
        return self.text

    def set_document(self, name: str, text: str) -> None:
        self.text = text

    def last_epoch(self) -> Any:
        return SimpleNamespace(epoch=7)


class ProcessEnded(Exception):
    """What a call to a process raises that has ended."""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ends_process", [True, False])
def test_rows_are_found(seed: int, ends_process: bool) -> None:
    r = random.Random(seed)
    store: Any = Notes()
    sizes = {n: r.randint(0, 40) for n in ("A", "B", "C")}
    arrivals = {n: pa.table({"id": range(size), "_uid": range(size)}) for n, size in sizes.items()}
    rows = [(n, k) for n, size in sizes.items() for k in range(size)]
    bad = set(r.sample(rows, min(len(rows), r.randint(0, 3))))
    starts = tries = 0

    def take(some: Mapping[str, pa.Table]) -> None:
        nonlocal tries
        tries += 1
        if any((n, k) in bad for n, t in some.items() for k in t["id"].to_pylist()):
            raise ProcessEnded

    while True:
        starts += 1
        assert starts < 100
        try:
            places = sift(store, 7, arrivals, take, lambda: ends_process)
            take({n: without(t, places.get(n, [])) for n, t in arrivals.items()})
            break
        except ProcessEnded:
            assert note_end(store).times < 100
    assert {(n, k) for n, found in places.items() for k in found} == bad
    assert tries <= 2 + len(bad) * 12
    shown = [row for n, found in places.items() for row in rejected_at(n, arrivals[n], found)]
    assert {(s.table, s.text) for s in shown} == {(n, f'{{"id": {k}}}') for n, k in bad}
    assert all(s.reason.startswith("B7023") for s in shown)


def test_rows_that_end_it_only_together_are_not_rejected() -> None:
    store: Any = Notes()
    arrivals = {"A": pa.table({"id": range(10)})}

    def take(some: Mapping[str, pa.Table]) -> None:
        if sum(t.num_rows for t in some.values()) > 7:
            raise ProcessEnded

    ends = AttemptEnds(7)
    for _ in range(OFTEN + 1):
        try:
            places = sift(store, 7, arrivals, take, lambda: True)
            take({n: without(t, places.get(n, [])) for n, t in arrivals.items()})
        except ProcessEnded:
            ends = note_end(store)
    assert ends.in_vain
    assert (ends.excluded, ends.is_searching) == ((), False)


def test_what_says_why_is_not_looked_for() -> None:
    reported = Diagnostic("B7040", 'view "V" failed: OUT_OF_MEMORY')
    assert [says_why(e) for e in (ProcessEnded(), BelvedereError(reported), StageFailure("V", reported))] == [
        False,
        False,
        True,
    ]
    assert says_why(BelvedereError(Diagnostic("B7006", "the store is in use")))


def test_a_run_that_was_killed_counts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    for was_killed, times in ((False, 0), (True, 1), (False, 1), (True, 2)):
        with closing(open_store(url)) as store:
            store.set_document(RUNNING, "yes" if was_killed else store.document(RUNNING) or "")
        with Runner(tmp_path / "s.sqrl", Catalog(), ProjectSettings(tmp_path), url) as run:
            assert ends_of(run.store, 0).times == times


def test_another_epoch_knows_nothing_of_it() -> None:
    store: Any = Notes()
    assert note_end(store).times == 1
    assert note_end(store).times == 2
    assert ends_of(store, 7).times == 2
    assert ends_of(store, 8) == AttemptEnds(8)


@pytest.mark.spark
def test_an_epoch_goes_on_without_the_row(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is among the rejected rows, is counted as such, and is left out again where the source is read again."""
    script = """
    IMPORT shop.Orders AS _Orders;
    CREATE STREAM S (id INT) KEEP 1 DAY;
    Totals := SELECT count(*) AS n, sum(id) AS ids FROM _Orders;
    Pushed := SELECT count(*) AS n FROM S;
    """
    loop = Loop(spark, tmp_path, script, '[sources.shop]\npath = "data"\n')
    (tmp_path / "data").mkdir()
    for name, first in (("1", 0), ("2", 10)):
        lines = (json.dumps({"id": first + n}) + "\n" for n in range(10))
        (tmp_path / "data" / f"Orders.{name}.jsonl").write_text("".join(lines))
    run = Engine._compute

    def _compute(self: Engine, attempt: Any, storage: Any, arrivals: Any, *more: Any) -> Any:
        if any(13 in t["id"].to_pylist() for t in arrivals.values()):
            raise ProcessEnded
        return run(self, attempt, storage, arrivals, *more)

    monkeypatch.setattr(Engine, "_compute", _compute)
    for start in range(OFTEN):
        with pytest.raises(ProcessEnded):
            loop.once(*([("S", b'{"id": 13}'), ("S", b'{"id": 14}')] if not start else []))
        with closing(open_store(loop.url)) as store:
            store.acquire("test", 60)
            note_end(store)
    loop.once()
    assert any("ended in this epoch before" in t for t in loop.reported)
    assert loop.rows("Totals") == [
        {"n": 19, "ids": 190 - 13, **{k: v for k, v in loop.rows("Totals")[0].items() if k.startswith("_")}}
    ]
    assert [r["n"] for r in loop.rows("Pushed")] == [1]
    with closing(open_reader(loop.url)) as reader:
        found = [(r["table"], json.loads(r["text"])["id"], r["reason"][:5]) for r in reader.rows(REJECTED).to_pylist()]
    assert sorted(found) == [("S", 13, "B7023"), ("_Orders", 13, "B7023")]
    assert (loop.counts("_Orders"), loop.counts("S")) == ((20, 19, 0, 1), (2, 1, 0, 1))
    loop.script += "\nIds := SELECT id FROM _Orders;\nLarge := SELECT id FROM S WHERE id > 0;"
    loop.once()
    assert sorted(r["id"] for r in loop.rows("Ids")) == [n for n in range(20) if n != 13]
    assert [r["id"] for r in loop.rows("Large")] == [14]


@pytest.mark.spark
@pytest.mark.nightly
@linux
def test_a_row_that_takes_all_memory_is_rejected(tmp_path: Path) -> None:
    """The run ends once; the next one finds the row, though it ends Spark's process with each try."""
    (tmp_path / "belvedere.toml").write_text('[spark]\nmemory = "600m"\n[sources.shop]\npath = "data"\n')
    (tmp_path / "s.sqrl").write_text(
        "IMPORT shop.Orders;\nLong := SELECT id, length(repeat('x', size)) AS n FROM Orders;\n"
    )
    (tmp_path / "data").mkdir()
    lines = (json.dumps({"id": n, "size": 2_000_000_000 if n == 3 else n}) + "\n" for n in range(6))
    (tmp_path / "data" / "Orders.jsonl").write_text("".join(lines))
    with start_run(tmp_path / "s.sqrl", "--once") as process:
        assert "B7022" in process.communicate(timeout=180)[1]
    run_once(tmp_path / "s.sqrl")
    with closing(open_reader(f"sqlite:///{tmp_path}/s.db")) as reader:
        assert sorted(reader.execute('SELECT id, n FROM "Long"')) == [(n, n) for n in range(6) if n != 3]
        assert [json.loads(r["text"])["id"] for r in reader.rows(REJECTED).to_pylist()] == [3]
