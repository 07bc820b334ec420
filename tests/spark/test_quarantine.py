"""Quarantine: a failing view keeps its last good epoch with all views above it; others continue; a fix heals it.

The oracle: after every epoch a view that is well is its batch answer, and one in quarantine is what it was after its
last good epoch.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.engine.errors.failed_stages import Failed, quarantined
from belvedere.engine.errors.quarantine import Isolation
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.project.settings import ProjectSettings
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

SCRIPT = """
CREATE TABLE T (k INT NOT NULL, g STRING, a INT, s STRING, at TIMESTAMP, PRIMARY KEY (k));
CREATE STREAM S (g STRING, a INT);
Ratio := SELECT k, g, 100 / a AS r FROM T WITH HISTORY;
Sums := SELECT g, sum(a) AS total, count(*) AS n FROM T GROUP BY g;
Best := SELECT g, max(r) AS most FROM Ratio GROUP BY g;
Both := SELECT s.g, s.a, b.most FROM S AS s LEFT JOIN Best AS b ON s.g = b.g;
_Read := SELECT g, sum(CAST(s AS INT)) AS n FROM T GROUP BY g;
Pairs := SELECT b.g, b.most, r.n FROM Best AS b JOIN _Read AS r ON b.g = r.g;
Top := SELECT g, n FROM _Read ORDER BY n DESC, g LIMIT 2;
Ranks := SELECT k, g, row_number() OVER (PARTITION BY g ORDER BY 10 / (a - 1), k) AS place FROM T;
Recent := SELECT g, count(*) AS n, sum(10 / (a - 2)) AS m FROM T WHERE at > now() - INTERVAL 10 MINUTES GROUP BY g;
Streamed := SELECT g, 10 / (a - 3) AS q FROM S;
Windows := SELECT a, sum(q) AS q FROM (SELECT a % 2 AS a, 10 / (a - 3) AS q FROM S) GROUP BY a;
Added := SUBSCRIBE ON ADD SELECT g, most FROM Best;
Changed := SUBSCRIBE ON CHANGE SELECT g, most FROM Best;
Gone := SUBSCRIBE ON DELETE SELECT g, most FROM Best;
"""
VIEWS = ("Ratio", "Sums", "Best", "Both", "Pairs", "Top", "Ranks", "Recent", "Streamed", "Windows")
EVERYWHERE = {"on_error": "quarantine"}


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """The bag of rows; the last digits of a sum of doubles depend on its order."""
    return sorted(str({n: float(f"{v:.9g}") if isinstance(v, float) else v for n, v in row.items()}) for row in rows)


def held(wb: Workbench) -> dict[str, int | None]:
    return {n: e for n, e in quarantined(wb.engine.quarantine.failed).items() if n in wb.catalog.public}


class Watched:
    """A Workbench whose answers are compared after each epoch with batch, or with those of the last good epoch."""

    def __init__(self, wb: Workbench, views: tuple[str, ...]):
        self.wb, self.views = wb, views
        self.right: dict[int, dict[str, list[str]]] = {}
        self.shown: dict[int, list[str]] = {}
        """What `Ratio` showed after each epoch."""
        self.was_held: set[str] = set()

    def step(self) -> dict[str, int | None]:
        epoch = self.wb.step()
        return self.compare(epoch)

    def compare(self, epoch: int) -> dict[str, int | None]:
        found = held(self.wb)
        well = [v for v in self.views if v not in found]
        self.right[epoch] = {v: shown(rows) for v, rows in self.wb.batches(well).items()}
        for view in self.views:
            good = found.get(view, epoch)
            expected = [] if good is None else self.right[good][view]
            assert shown(self.wb.rows(view)) == expected, (epoch, view, found)
        self.was_held |= found.keys()
        return found


def random_row(r: random.Random, k: int, bad: float) -> dict[str, Any]:
    a = r.choice([0, 1, 2, 3]) if r.random() < bad else r.randint(4, 20)
    s = "x" if r.random() < bad / 4 else str(r.randint(0, 9))
    at = f"2024-01-01 00:{r.randint(0, 40):02}:00"
    return {"k": k, "g": r.choice(["é", "y", None]), "a": r.choice([a, a, a, None]), "s": s, "at": at}


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(
    ("each_store", "seed"),
    [("sqlite", 1), *at_night([("postgres", 2), ("sqlite", 3), ("postgres", 4), ("sqlite", 5)])],
    indirect=["each_store"],
)
def test_random_rows_fail_and_heal(spark: Any, seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    wb = Workbench(SCRIPT, spark=spark, project=ProjectSettings(tmp_path, **EVERYWHERE))
    watched, keys = Watched(wb, VIEWS), set[int]()
    for minute in range(8):
        wb.clock(f"2024-01-01 00:{4 * minute:02}:00")
        bad = 0.45 if minute % 3 else 0.0
        changed = {r.randint(1, 12) for _ in range(3)} if minute else set(range(1, 7))
        wb.insert("T", [random_row(r, k, bad) for k in changed])
        keys |= changed
        rows = [{"g": r.choice(["é", "y", None]), "a": r.randint(4, 9)} for _ in range(2)]
        if minute == 5:  # nobody takes a row of a stream back: only another script heals what reads it
            rows.append({"g": "y", "a": 3})
        wb.insert("S", rows)
        watched.step()
        if r.random() < 0.3:
            wb.restart()
    assert {"Streamed", "Windows"} <= held(wb).keys()
    wb.insert("T", [random_row(r, k, 0.0) for k in keys])
    assert watched.step().keys() == {"Streamed", "Windows"}, (
        "whatever rows can heal is healed in the epoch that brings them"
    )
    assert len(watched.was_held) > 3
    wb.close()


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_history_and_events_tell_what_was_shown(spark: Any, tmp_path: Path) -> None:
    wb = Workbench(SCRIPT, spark=spark, project=ProjectSettings(tmp_path, **EVERYWHERE))
    kept: dict[int, list[str]] = {}
    reported: dict[Any, Any] = {}
    for n, a in enumerate([5, 0, 4, None, 0, 10], 1):
        wb.insert("T", [{"k": 1, "g": "é", "a": a, "s": "1"}, {"k": n + 1, "g": "y", "a": n + 4, "s": "1"}])
        wb.step()
        kept[n] = shown(wb.rows("Ratio"))
        assert ("Ratio" in held(wb)) == (a == 0)
        said = [{"view": "Best", "epoch": n - 1}] if a == 0 else None
        assert wb.graphql("{ best { g } }")["extensions"].get("quarantined") == said
    assert kept[2] == kept[1]
    for n, rows in kept.items():
        assert shown(wb.rows("Ratio", as_of=n)) == rows, n
    events = [e for n in ("Added", "Changed", "Gone") for e in wb.rows(n)]
    for event in sorted(events, key=lambda e: e["_event_time"]):
        if event["_op"] == "DELETE":
            del reported[event["g"]]
        else:
            assert (event["_op"] == "ADD") == (event["g"] not in reported)
            reported[event["g"]] = event["most"]
    assert reported == {r["g"]: r["most"] for r in wb.rows("Best")}
    wb.close()


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_another_script_heals_what_was_stored(spark: Any, tmp_path: Path) -> None:
    wb = Workbench(SCRIPT, spark=spark, project=ProjectSettings(tmp_path, **EVERYWHERE))
    url = wb.store.url
    wb.insert("S", [{"g": "y", "a": 4}])
    wb.step()
    wb.insert("S", [{"g": "y", "a": 3}, {"g": "é", "a": 5}])
    wb.step()
    assert held(wb) == {"Streamed": 1, "Windows": 1}
    wb.restart()
    assert held(wb) == {"Streamed": 1, "Windows": 1}
    fixed = SCRIPT.replace("10 / (a - 3) AS q FROM S;", "10 / nullif(a - 3, 0) AS q FROM S;")
    log = wb._log
    wb.close()
    wb = Workbench(fixed, url, spark=spark, project=ProjectSettings(tmp_path, **EVERYWHERE))
    wb._log, wb._batch.log = log, log
    wb.step()
    assert held(wb) == {"Windows": 1}
    assert shown(wb.rows("Streamed")) == shown([{"g": "y", "q": 10.0}, {"g": "y", "q": None}, {"g": "é", "q": 5.0}])
    wb.close()


@pytest.mark.spark
def test_a_view_that_never_was_well_has_no_rows_and_others_go_on(spark: Any) -> None:
    script = """
    CREATE TABLE T (k INT NOT NULL, a INT, PRIMARY KEY (k));
    /*+ on_error(quarantine) */
    Ratio := SELECT k, 100 / a AS r FROM T;
    /*+ on_error(null) */
    Forgiving := SELECT k, 100 / a AS r FROM T;
    Count := SELECT count(*) AS n FROM T;
    Strict := SELECT k, 100 / (a - 1) AS r FROM T;
    """
    wb = Workbench(script, spark=spark)
    wb.insert("T", [{"k": 1, "a": 0}, {"k": 2, "a": 5}])
    wb.step()
    assert held(wb) == {"Ratio": None}
    assert wb.rows("Ratio") == []
    assert wb.rows("Count") == [{"n": 2}]
    assert wb.rows("Forgiving") == [{"k": 1, "r": None}, {"k": 2, "r": 20.0}]
    wb.restart()
    assert wb.rows("Ratio") == []
    wb.delete("T", [{"k": 1}])
    wb.step()
    assert held(wb) == {}
    assert wb.rows("Ratio") == wb.batch("Ratio") == [{"k": 2, "r": 20.0}]
    wb.insert("T", [{"k": 3, "a": 1}])
    with pytest.raises(BelvedereError, match="B7040"):  # the other view says stop, by default
        wb.step()
    assert wb.engine.last.number == 2
    wb.close()


def test_a_stage_is_known_again_in_another_script() -> None:
    """Its name changes with the operators around it; what it computes tells that what is behind it still stands
    still."""
    tables = "CREATE TABLE T (k INT NOT NULL, a INT, PRIMARY KEY (k));"
    said = "/*+ on_error(quarantine) */ V := SELECT x.k, n FROM (SELECT k, count(*) AS n FROM T GROUP BY k) AS x"
    twice = (
        "/*+ on_error(quarantine) */ A := SELECT k, 1 / a AS r FROM T; /*+ on_error(quarantine) */ B := SELECT k, "
        "1 / a AS r FROM T;"
    )

    def isolated(script: str) -> Isolation:
        catalog = compile_script(tables + script).catalog
        return Isolation(catalog, maintain(catalog))

    before = isolated(f"{said} JOIN T ON T.k = x.k;")
    (stage,) = [s.output for s in before.pipeline.stages if s.output == "V"]
    failed = Failed(stage, before.fingerprints[stage], "V", 2, 0, "B7040", "x", good={"V": 1})
    assert before.still([failed], ()) == (failed,)
    assert [f.good for f in before.still([failed], ("V",))] == [{"V": None}]
    assert isolated(f"{said} LEFT JOIN T ON T.k = x.k;").still([failed], ()) == ()
    same = isolated(twice)
    both = [Failed(n, same.fingerprints[n], n, 2, 0, "B7040", "x", good={n: 1}) for n in "AB"]
    assert [f.stage for f in same.still(both, ())] == ["A", "B"], "equal definitions are told apart"
    assert [f.stage for f in same.still([replace(both[0], stage="A$1")], ())] == ["A", "B"]


@pytest.mark.spark
def test_a_function_of_the_project_that_raises(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text('on_error = "quarantine"\n[functions]\nmodule = "own.py"\n')
    module = """
import belvedere
import pyarrow.compute as pc

@belvedere.function("a BIGINT", "BIGINT")
def halved(a):
    if pc.any(pc.equal(a, 13)).as_py():
        raise ValueError("thirteen")
    return pc.divide(a, 2)
"""
    (tmp_path / "own.py").write_text(module)
    views = "H := SELECT k, halved(a) AS h FROM T; N := SELECT count(*) AS n FROM T;"
    script = "CREATE TABLE T (k INT NOT NULL, a BIGINT, PRIMARY KEY (k));" + views
    wb = Workbench(script, spark=spark, project=load_project(tmp_path))
    wb.insert("T", [{"k": 1, "a": 4}])
    wb.step()
    wb.insert("T", [{"k": 2, "a": 13}])
    wb.step()
    (failed,) = wb.engine.quarantine.failed
    assert "ValueError: thirteen (own.py, line 8); at a = 13" in (failed.detail or "")
    assert (held(wb), wb.rows("N")) == ({"H": 1}, [{"n": 2}])
    wb.insert("T", [{"k": 2, "a": 8}])
    wb.step()
    assert (held(wb), wb.rows("H")) == ({}, [{"k": 1, "h": 2}, {"k": 2, "h": 4}])
    wb.close()


def test_a_word_that_says_nothing_is_refused() -> None:
    with pytest.raises(BelvedereError, match="B4035"):
        Workbench("CREATE TABLE T (k INT PRIMARY KEY); /*+ on_error(ignore) */ Q := SELECT k FROM T;")
