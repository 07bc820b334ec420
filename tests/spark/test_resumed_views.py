"""Quarantined views with rows that are not all stored: they keep missed changes and resume. Batch is the oracle."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.engine.epoch import Engine
from belvedere.engine.errors import missed_changes
from belvedere.engine.errors.failed_stages import quarantined
from belvedere.engine.errors.quarantine import StageFailure
from belvedere.errors import Diagnostic
from belvedere.project.settings import ProjectSettings
from belvedere.workbench.workbench import Workbench
from tests import depth
from tests.depth import at_night
from tests.spark.test_quarantine import shown

SCRIPT = """
CREATE STREAM _S (id INT NOT NULL, g STRING, a INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 5 MINUTES);
CREATE STREAM R (id INT NOT NULL, g STRING, b INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 5 MINUTES) KEEP 10
    MINUTES;
CREATE TABLE T (g STRING NOT NULL, d INT, PRIMARY KEY (g));
Plain := SELECT id, a * 2 AS twice FROM _S WHERE a > 3;
_Both := SELECT g, a, NULL AS b FROM _S UNION ALL SELECT g, NULL AS a, b FROM R;
Sums := SELECT g, sum(a) AS total, avg(b) AS mean FROM _Both GROUP BY g;
Middles := SELECT g, median(b) AS middle FROM R GROUP BY g;
Latest := DISTINCT R ON g ORDER BY at DESC, id DESC;
Divided := SELECT s.id, s.a, t.d, s.a / t.d AS q FROM _S AS s JOIN T AS t ON s.g = t.g;
OverDivided := SELECT d, count(*) AS n, sum(q) AS q FROM Divided GROUP BY d;
Pairs := SELECT s.id AS s, r.id AS r, s.a + r.b AS both
  FROM _S AS s JOIN R AS r ON s.g = r.g AND r.at BETWEEN s.at AND s.at + INTERVAL 3 MINUTES;
Unmatched := SELECT r.id, r.g, t.d FROM R AS r LEFT JOIN T AS t ON r.g = t.g;
Top := SELECT g, total FROM Sums ORDER BY total DESC NULLS LAST, g LIMIT 2;
Hours := SELECT g, wend, count(*) AS n
  FROM Tumble(data => TABLE(_S), timecol => DESCRIPTOR(at), dur => INTERVAL '10' MINUTES) GROUP BY g, wend;
Places := SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY at, id) AS place FROM R;
Known := SELECT count(DISTINCT g) AS groups FROM _S;
"""
MORE = """
CREATE STREAM _S (id INT NOT NULL, g STRING, a INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 5 MINUTES);
CREATE STREAM R (id INT NOT NULL, g STRING, b INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 5 MINUTES) KEEP 10
    MINUTES;
CREATE TABLE T (g STRING NOT NULL, d INT, PRIMARY KEY (g));
Seen := SELECT s.id, s.g FROM _S AS s WHERE EXISTS (SELECT 1 FROM R AS r WHERE r.g = s.g);
Alone := SELECT r.id, r.g FROM R AS r WHERE NOT EXISTS (SELECT 1 FROM _S AS s WHERE s.g = r.g AND s.a > r.b);
Running := SELECT id, g, sum(b) OVER (PARTITION BY g ORDER BY at, id) AS total FROM R;
Before := SELECT id, g, lag(b) OVER (PARTITION BY g ORDER BY at, id) AS b FROM R;
Sessions := SELECT g, wstart, count(*) AS n FROM Session(data => TABLE(_S), timecol => DESCRIPTOR(at),
    key => DESCRIPTOR(g),
  gap => INTERVAL '3' MINUTES) GROUP BY g, wstart;
Recent := SELECT g, count(*) AS n FROM R WHERE at > now() - INTERVAL 10 MINUTES GROUP BY g;
Distincts := SELECT DISTINCT g, b FROM R;
Others := SELECT g FROM _S EXCEPT SELECT g FROM T;
Lowest := SELECT g, min(b) AS low, max(b) AS high, count(DISTINCT id % 3) AS n FROM R GROUP BY g;
Dearest := SELECT * FROM (SELECT id, g, a, row_number() OVER (PARTITION BY g ORDER BY a DESC, id) AS place FROM _S)
    WHERE place < 3;
All := SELECT count(*) AS n, sum(a) AS a FROM _S;
"""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The outputs of stages that fail, until they are taken out."""
    found: set[str] = set()
    run = Engine._run_stage

    def _run_stage(self: Engine, ready: Any, context: Any, healing: Any) -> None:
        if ready.stage.output in found:
            raise StageFailure(ready.stage.output, Diagnostic("B7040", f'view "{ready.stage.output}" failed: poison'))
        run(self, ready, context, healing)

    monkeypatch.setattr(Engine, "_run_stage", _run_stage)
    yield found
    found.clear()


def rows_of(r: random.Random, minute: int, number: int) -> list[dict[str, Any]]:
    made = []
    for n in range(r.randint(0, 4)):
        at = f"2024-01-01 0{minute // 60}:{max(0, minute - r.randint(0, 4)) % 60:02}:{r.randint(0, 59):02}"
        made.append({"id": number + n, "g": r.choice("xyz"), "at": at})
    return made


def fails_and_resumes(
    executor: Any, seed: int, each_store: str, tmp_path: Path, failing: set[str], script: str
) -> None:
    """At night with another store of the same name beside it, which has half of the rows, and the same failures and
    restarts."""
    r = random.Random(seed)
    views = tuple(re.findall(r"^([A-Z]\w+) :=", script, re.M))
    url = f"sqlite:///{tmp_path}/s.db" if each_store == "sqlite" else "sqlite://"
    project = ProjectSettings(tmp_path, on_error="quarantine")
    wb = Workbench(script, url, spark=executor, project=project)
    beside = [] if depth.quick else [Workbench(script, f"sqlite:///{tmp_path}/s.test", spark=executor, project=project)]
    outputs = [s.output for s in wb.pipeline.stages if not s.is_input]
    number, was_held = 1, set[str]()
    last = 5 if depth.quick else 8
    for epoch in range(last + 1):
        minute = 6 * epoch
        for one in (wb, *beside):
            one.clock(f"2024-01-01 00:{minute:02}:00")
        for stream, column in (("_S", "a"), ("R", "b")):
            rows = rows_of(r, minute, number)
            number += len(rows)
            made = [row | {column: r.choice([None, r.randint(0, 9)])} for row in rows]
            wb.insert(stream, made)
            for other in beside:
                other.insert(stream, made[::2])
        wb.insert("T", [{"g": r.choice("xyz"), "d": r.randint(1, 3)}])
        if r.random() < 0.4:
            failing.clear()
        failing |= set(r.sample(outputs, 2)) if epoch < last else set()
        for one in (wb, *beside):
            one.engine.quarantine.try_again()
            one.step()
        held = set(quarantined(wb.engine.quarantine.failed))
        was_held |= held & set(views)
        well = [v for v in views if v not in held]
        for view, right in wb.batches(well).items() if not depth.quick or epoch == 3 else ():
            assert shown(wb.rows(view)) == shown(right), (epoch, view, held)
        if r.random() < 0.3:
            for one in (wb, *beside):
                one.restart()
    failing.clear()
    assert len(was_held) > (2 if depth.quick else 4)
    for one in (wb, *beside):
        one.engine.quarantine.try_again()
        one.step()
        assert not one.engine.quarantine.failed
        for view, right in one.batches(list(views)).items():
            assert shown(one.rows(view)) == shown(right), view
        assert not [n for n in one.engine.state.arrangements if n.endswith(missed_changes.SUFFIX)], (
            "nobody misses anything any more"
        )
        one.close()


@pytest.mark.parametrize(
    ("each_store", "seed"),
    [("sqlite", 2), *at_night([("postgres", 2), ("sqlite", 1), *(("sqlite", s) for s in range(3, 9))])],
    indirect=["each_store"],
)
def test_random_stages_fail_and_resume(
    executor: Any, seed: int, each_store: str, tmp_path: Path, failing: set[str]
) -> None:
    fails_and_resumes(executor, seed, each_store, tmp_path, failing, SCRIPT)


@pytest.mark.nightly
@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_rules_fail_and_resume(
    executor: Any, seed: int, each_store: str, tmp_path: Path, failing: set[str]
) -> None:
    fails_and_resumes(executor, seed, each_store, tmp_path, failing, MORE)


def test_what_a_stage_missed_stays_when_another_below_it_fails_too(
    executor: Any, tmp_path: Path, failing: set[str]
) -> None:
    """It is tried while the other still fails, which heals nothing."""
    script = """
    CREATE STREAM R (g STRING, b INT) KEEP 10 MINUTES;
    _Named := SELECT g, b FROM R WHERE g <> '';
    _Doubled := SELECT g, b * 2 AS b FROM _Named UNION ALL SELECT g, b FROM R WHERE g = '';
    Sums := SELECT g, sum(b) AS total FROM _Doubled GROUP BY g;
    Others := SELECT g, count(*) AS n FROM _Doubled GROUP BY g;
    """
    wb = Workbench(script, spark=executor, project=ProjectSettings(tmp_path, on_error="quarantine"))
    stages = {s.owner: s.output for s in wb.pipeline.stages if not s.is_input}
    wb.clock("2024-01-01 00:00:00")
    for number, names in enumerate(((), ("Sums",), ("Sums", "_Doubled"), ("_Doubled",), ())):
        failing.clear()
        failing.update(stages[n] for n in names)
        wb.insert("R", [{"g": g, "b": number + 1} for g in "xy"])
        wb.engine.quarantine.try_again()
        wb.step()
        held = set(quarantined(wb.engine.quarantine.failed)) & {"Sums", "Others"}
        assert held == {n: {"Sums", "Others"} if n == "_Doubled" else {n} for n in names}.get(
            names[-1] if names else "", set()
        )
    for view, right in wb.batches(["Sums", "Others"]).items():
        assert shown(wb.rows(view)) == shown(right), view
    wb.close()
