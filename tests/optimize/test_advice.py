"""The optimizer's advice, from hints and measured epochs to the stored choice that the next start uses."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Placement, Promise
from belvedere.cli import app
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.measurements import EPOCHS, Measured, Meter
from belvedere.optimize.choice import cheapest, cost_of, epoch_seconds, next_choice, weighed
from belvedere.optimize.costs import Coefficients, Sizes, Workload
from belvedere.optimize.greedy import greedy
from belvedere.optimize.indexes import read_indexes
from belvedere.optimize.operators import Operators
from belvedere.optimize.scans import scanning_templates
from belvedere.pipeline.advice import ENOUGH, made_operators, placed_views, workload_of
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.placement import PlacedViews, whole_plan, with_choice
from belvedere.project.settings import ProjectSettings
from belvedere.spark.run import runner
from belvedere.spark.run.stop_flag import StopFlag
from belvedere.store import open_reader
from belvedere.store.read.history import stored_tables
from belvedere.workbench.workbench import Workbench

TABLE = "CREATE TABLE T (k INT, a INT, d DOUBLE, t TIMESTAMP, PRIMARY KEY (k));\n"
FINE = "Fine := SELECT a, median(d) AS m, count(*) AS n FROM T GROUP BY a;\n"
COARSE = "Coarse := SELECT sum(n) AS n, max(m) AS m FROM Fine;\n"
LOW = "Low := SELECT k, d FROM T WHERE d < 3 ORDER BY d LIMIT 5;\n"


def operators(
    text: str, rows: float = 10_000, changed: float = 100, pause: float = 1.0, **expected: Any
) -> tuple[Catalog, Operators]:
    catalog = compile_script(text).catalog
    measured = Measured(10, pause, {"T": changed}, {})
    return catalog, made_operators(catalog, workload_of(catalog, measured, {"T": rows}, expected))


def at_read(text: str, **known: Any) -> dict[str, int]:
    """The views that requests compute by the cheapest choice, with the number of their stored parts."""
    catalog, made = operators(text, **known)
    choice = placed_views(catalog, made, cheapest(made.found))
    found = with_choice(catalog, PlacedViews.of_text(choice.as_text()))
    maintain(found)
    assert found.placement.at_read.keys() - catalog.placement.at_read.keys() == choice.views.keys()
    return {i: len(found.placement.part_paths.get(i, ())) for i in found.placement.at_read}


def test_many_changes_and_few_reads_are_computed_at_read() -> None:
    assert at_read(TABLE + LOW, changed=10_000, rate=0.1) == {"Low": 0}
    assert at_read(TABLE + LOW, rows=1e6, changed=1, pause=60, rate=1000) == {}


def test_what_the_database_cannot_say_is_maintained_and_finished_at_read() -> None:
    found = at_read(TABLE + FINE + COARSE, changed=10_000, rate=0.1)
    assert "Fine" not in found or found["Fine"] == 1
    assert found["Coarse"] == 0


def test_a_promised_latency_and_hints_bind() -> None:
    busy = {"rows": 1e6, "changed": 10_000, "rate": 0.1}
    assert at_read(TABLE + LOW, **busy) == {"Low": 0}
    assert at_read(TABLE + "/*+ latency(1 ms) */\n" + LOW, **busy) == {
        "Low": 1
    }  # its five rows are stored, and shown as they are
    assert at_read(TABLE + LOW, latency="1 ms", **busy) == {"Low": 1}
    assert at_read(TABLE + "/*+ maintain */\n" + LOW, **busy) == {}
    assert at_read(TABLE + "/*+ at_read */\n" + LOW, rows=1e6, changed=1, pause=60, rate=1000) == {"Low": 0}
    followed = "Low := SELECT k, d FROM T WHERE d < 3 WITH HISTORY;"
    assert at_read(TABLE + followed, **busy) == {}


def test_rates_and_latencies_are_read() -> None:
    text = TABLE + LOW + "/*+ rate(2.5), latency(2 s) */\nBy(a INT) := SELECT * FROM T WHERE a = :a;\n"
    assert compile_script(text).catalog.hints.promises == {"By": Promise(2.5, 2.0)}
    reported = compile_script(
        TABLE + "/*+ rate(often) */\n" + LOW + "/*+ latency(7) */\nV := SELECT k FROM T;"
    ).diagnostics
    assert [d.code for d in reported if d.code.startswith("B40")] == ["B4035", "B4035"]
    assert [d.code for d in compile_script("/*+ rate(2) */\n" + TABLE).diagnostics if d.code == "B4033"] == ["B4033"]


def test_the_greedy_rule_moves_big_joins_alone_to_the_database() -> None:
    streams = "CREATE STREAM S (k INT, v INT);\nCREATE STREAM R (k INT, w INT);\n"
    text = (
        TABLE
        + LOW
        + streams
        + "Pairs := SELECT s.v, r.w FROM S s JOIN R r ON s.k = r.k;\nGroups := SELECT v, count(*) AS n FROM Pairs "
        "GROUP BY v;"
    )
    catalog, made = operators(text)
    kept = greedy(catalog, made.found, made.nodes)
    assert cost_of(made.found, kept) < float("inf")
    assert placed_views(catalog, made, type(cheapest(made.found))(kept, 0)).views.keys() == {"Pairs", "Groups"}


def test_a_choice_is_known_again() -> None:
    catalog, made = operators(TABLE + FINE + COARSE + LOW, changed=10_000, rate=0.1)
    best = next_choice(made.found, made.maintained_now({}))
    today = with_choice(catalog, placed_views(catalog, made, best))
    assert made.maintained_now({i: today.placement.part_paths[i] for i in today.placement.at_read}) == best.maintained
    changed = compile_script(TABLE + FINE + COARSE + LOW.replace("< 3", "< 4")).catalog
    assert "Low" not in with_choice(changed, placed_views(catalog, made, best)).placement.at_read


def test_epochs_are_measured() -> None:
    known = (
        Measured().after({"V": 10}, {"V": 0.5}, 7.0).after({"V": 20, "W": 1}, {"V": 1.5}, 3.0).after({"V": 0}, {}, 9.0)
    )
    assert (known.epochs, known.pause, known.changed, known.seconds) == (2, 3.0, {"V": 15, "W": 0.5}, {"V": 1.0})
    assert Measured.of_document(json.loads(json.dumps(known.as_document()))).changed == known.changed
    for _ in range(1000):
        known = known.after({"V": 100}, {}, 1.0)
    assert known.epochs == EPOCHS
    assert known.changed["V"] == pytest.approx(100, rel=1e-3)


def test_requests_are_measured_by_the_epoch() -> None:
    meter, asked = Meter(Measured()), {"V": (10, 1.0), "W": (0, 0.0)}
    meter.requests = lambda: dict(asked)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert meter.measure({"V": 1}, {}, start).requests == {}  # of a time that is not known
    meter.committed()
    asked["V"] = (30, 2.0)
    assert meter.measure({"V": 0}, {}, start + timedelta(seconds=1)) is meter.known
    meter.committed()
    for _ in range(2):  # an epoch that was not committed counts for nothing, its requests come with the next
        found = meter.measure({"V": 1}, {}, start + timedelta(seconds=4))
        assert (found.pause, found.requests) == (4.0, {"V": (10.0, 0.5)})  # the mean of two epochs
    meter.committed()
    known = Measured.of_document(json.loads(json.dumps(meter.known.as_document())))
    assert (known.rate("V"), known.latency("V"), known.rate("W"), known.latency("W")) == (2.5, 0.05, 0.0, None)
    assert known.only((), ("W",)).requests == {}


def test_counted_requests_come_before_what_is_expected() -> None:
    text = TABLE + LOW + "/*+ rate(7) */\nV := SELECT k FROM T;\nBy(a INT) := SELECT * FROM Low WHERE k = :a;\n"
    catalog = compile_script(text).catalog
    measured = Measured(10, 2.0, {"T": 5}, {}, {"T": (8.0, 1.0), "By": (1.0, 1.0)})
    assert workload_of(catalog, measured, {}, {"rate": 50}).requests == {"Low": 0.01 + 0.5, "V": 7.0}
    assert workload_of(catalog, Measured(10, 2.0), {}, {"rate": 50}).requests == {"Low": 50, "V": 7.0}


def test_groups_are_as_many_as_their_keys_have_values() -> None:
    text = TABLE + "_N := SELECT a AS b, d FROM T WHERE d > 1;\nV := SELECT b, count(*) AS n FROM _N GROUP BY b;\n"
    plan = whole_plan(compile_script(text).catalog, "V")
    assert round(Sizes(Workload({"T": 30_000.0})).rows(plan)) == 1000  # a guess
    assert Sizes(Workload({"T": 30_000.0}, distinct={("T", "a"): 7.0})).rows(plan) == 7
    assert Sizes(Workload({"T": 30.0}, distinct={("T", "a"): 70.0})).rows(plan) == 10  # no more than there are rows


def test_a_promised_freshness_leaves_less_to_epochs() -> None:
    _, made = operators(TABLE + FINE + COARSE + LOW, rows=1e6, changed=100_000, rate=5)
    best = cheapest(made.found).maintained
    busy = epoch_seconds(made.found, best)
    fixed = {n for n, o in made.found.items() if o.fixed is Placement.MAINTAIN}
    least = epoch_seconds(made.found, fixed)
    assert least < busy
    assert cheapest(weighed(made.found, busy)).maintained == best
    for most in (busy * 0.99, least, least / 2):  # the last is more than can be had
        chosen = cheapest(weighed(made.found, most)).maintained
        assert epoch_seconds(made.found, chosen) <= max(most, least * 1.001)
        assert cost_of(made.found, chosen) > cost_of(made.found, best)


TEMPLATES = (
    "/*+ rate({}), latency({}) */\nBy(x INT) := SELECT k FROM T WHERE a = :x;\nKey(x INT) := SELECT a FROM T "
    "WHERE k = :x;\n"
)


@pytest.mark.parametrize(
    ("rate", "latency", "changed", "scans"),
    [
        (0.1, "1 s", 50_000.0, ["By"]),
        (1000, "1 s", 50_000.0, []),  # scans would cost more
        (0.1, "100 us", 50_000.0, []),  # or take too long
        (0.1, "1 s", 0.0, []),  # nothing is written
    ],
)
def test_a_template_that_is_asked_rarely_scans(rate: float, latency: str, changed: float, scans: list[str]) -> None:
    catalog = compile_script(TABLE + TEMPLATES.format(rate, latency)).catalog
    workload = workload_of(catalog, Measured(10, 1.0, {"T": changed}), {"T": 10_000.0}, {"rate": 0.0001})
    found = scanning_templates(catalog, workload, Coefficients())
    assert [t.name for t in found] == scans  # the key has its index anyway
    choice = PlacedViews.of_text(PlacedViews(scanning=frozenset(scans)).as_text())
    assert read_indexes(with_choice(catalog, choice), "T") == ((("k",),) if scans else (("a",), ("k",)))


def test_an_index_goes_with_the_choice(executor: Any, tmp_path: Path) -> None:
    url, catalog = f"sqlite:///{tmp_path}/s.db", compile_script(TABLE + TEMPLATES.format(1, "1 s")).catalog
    scanning = PlacedViews(scanning=frozenset({"By", "Gone"}))
    for epoch, (now, requested) in enumerate(
        ((catalog, True), (with_choice(catalog, scanning), False), (catalog, True))
    ):
        bench = Workbench.of_catalog(now, url, spark=executor)
        bench.clock(f"2024-01-01 00:00:0{epoch}")
        bench.insert("T", [{"k": epoch, "a": 1}])
        bench.step()
        assert ("a",) in {i for t in bench.store.tables() if t.name == "T" for i in t.indexes} or not requested
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            made = connection.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%(\"a\"%'"
            ).fetchall()
        assert bool(made) == requested, made
        assert sorted(r["k"] for r in bench.graphql("{ by(x: 1) { k } }")["data"]["by"]) == list(range(epoch + 1))
        bench.close()


def _started(
    catalog: Catalog, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **optimize: Any
) -> tuple[Catalog, str]:
    """The catalog of a run as its first epoch would have it, and what the run told before."""
    reported: list[str] = []

    def maintain_nothing(_: Catalog) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "quiet_session", lambda *_: None)
    monkeypatch.setattr(runner, "maintain", maintain_nothing)
    monkeypatch.setattr(runner.Runner, "_join", lambda *_: True)
    with runner.Runner(
        folder / "s.sqrl", catalog, ProjectSettings(folder, optimize=optimize), url, accept_clock=True
    ) as run:
        with pytest.raises(KeyboardInterrupt):
            run.run(lambda progress: None, StopFlag(), reported.append)
        return run.catalog, "\n".join(reported)


def test_a_start_chooses_where_the_project_says_so(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, catalog = f"sqlite:///{tmp_path}/s.db", compile_script(TABLE + LOW).catalog
    rates = {"rate": 0.001, "at_start": True}
    bench = Workbench.of_catalog(catalog, url, spark=executor)
    for epoch in range(ENOUGH + 1):
        bench.clock(f"2024-01-01 00:00:{epoch:02}")
        bench.insert("T", [{"k": k, "a": k % 7, "d": k / 2 + epoch, "t": None} for k in range(200)])
        bench.step()
        if epoch == 1:
            bench.close()
            assert _started(catalog, url, tmp_path, monkeypatch, **rates) == (catalog, "")  # too little is known
            bench = Workbench.of_catalog(catalog, url, spark=executor)
    bench.close()
    assert _started(catalog, url, tmp_path, monkeypatch, rate=0.001) == (catalog, "")
    chosen, reported = _started(catalog, url, tmp_path, monkeypatch, **rates)
    assert set(chosen.placement.at_read) == {"Low"}
    assert "stored views and indexes change" in reported
    assert "Low at read" in reported
    again, reported = _started(catalog, url, tmp_path, monkeypatch, **rates)
    assert (set(again.placement.at_read), reported) == ({"Low"}, "")


def test_the_next_start_takes_the_choice(executor: Any, tmp_path: Path) -> None:
    script, url = tmp_path / "s.sqrl", f"sqlite:///{tmp_path}/s.db"
    script.write_text(TABLE + FINE + COARSE + LOW)
    (tmp_path / "belvedere.toml").write_text("[optimize]\nrate = 0.01\n")
    catalog = compile_script(script.read_text()).catalog
    bench = Workbench.of_catalog(catalog, url, spark=executor)
    for epoch in range(3):
        bench.clock(f"2024-01-01 00:00:0{epoch}")
        bench.insert("T", [{"k": k, "a": k % 7, "d": k / 2 + epoch, "t": None} for k in range(200)])
        bench.step()
    before = {v: bench.rows(v) for v in ("Fine", "Coarse", "Low")}
    bench.close()
    asked = ["advise", str(script), "--store", url, "--json"]
    for options in ([], ["--cost-model", "datasqrl"], ["--apply"]):
        answer = CliRunner().invoke(app, [*asked, *options])
        assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert found["epoch_seconds"] > 0
    assert {v["rate"] for v in found["views"]} == {0.01}
    places = {v["name"]: v["best"] for v in found["views"]}
    assert places["Low"] == places["Coarse"] == "at read"
    assert found["cost"] < found["cost_today"]
    shown = CliRunner().invoke(app, ["explain", str(script), "Low", "--state", url])
    assert "computed by the database at read time" in shown.output
    reader = open_reader(url)
    choice = PlacedViews.of_text(reader.document("_choice"))
    reader.close()
    bench = Workbench.of_catalog(with_choice(catalog, choice), url, spark=executor)
    bench.clock("2024-01-01 00:00:09")
    bench.step()
    assert {v: bench.rows(v) for v in before} == before
    bench.close()
    reader = open_reader(url)  # as other processes read it
    tables = stored_tables(reader)
    shown_rows = {v: reader.rows(tables[v]).num_rows for v in before}
    reader.close()
    assert shown_rows == {v: len(rows) for v, rows in before.items()}
    again = CliRunner().invoke(app, ["optimize", str(script), "--store", url])  # the former name
    assert "at read -> at read: cheaper in requests than in epochs" in again.output
    assert "run this again after" in again.output
    assert "asked/s" in again.output
