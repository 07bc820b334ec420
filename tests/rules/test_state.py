"""What is kept for a script: no more than its views need, and `explain` says what bounds it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from belvedere.cli import app
from belvedere.compiler import compile_script
from belvedere.engine.pipeline import Pipeline
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain
from belvedere.rules.clock import WAITING
from belvedere.schema import HISTORY
from belvedere.store import open_store
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE STREAM _Clicks (id BIGINT, who INT, page STRING, wide STRING, at TIMESTAMP);
CREATE STREAM Orders (id BIGINT, who INT, amount INT);
CREATE TABLE People (who INT PRIMARY KEY, name STRING, wide STRING);
ByWho := SELECT who, count(*) AS n FROM _Clicks GROUP BY who;
All := SELECT count(*) AS n FROM _Clicks;
Pages := SELECT DISTINCT page FROM _Clicks;
Halves := SELECT who, median(amount) AS half FROM Orders GROUP BY who;
Rare := SELECT page, sum(DISTINCT who) AS n FROM _Clicks WHERE who > 0 GROUP BY page;
Names := SELECT name, count(*) AS n FROM People GROUP BY name;
Latest := SELECT who, at FROM (SELECT who, at, row_number() OVER (PARTITION BY who ORDER BY at DESC) AS r
    FROM _Clicks) AS c WHERE r = 1;
Named := SELECT o.id, p.name FROM Orders o LEFT JOIN People p ON p.who = o.who;
Buyers := SELECT name FROM People WHERE who IN (SELECT who FROM Orders) WITH HISTORY;
Newest := SELECT id FROM Orders ORDER BY id DESC LIMIT 2 OFFSET 1;
Common := SELECT name, n FROM Names ORDER BY n DESC LIMIT 2 WITH HISTORY KEEP INTERVAL '1' HOUR;
Due := SELECT id, page FROM _Clicks WHERE at <= now();
Recent := SELECT id, who FROM Orders WHERE _ingest_time > now() - INTERVAL 5 MINUTES;
"""


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return maintain(compile_script(SCRIPT).catalog)


def test_a_private_stream_that_only_feeds_accumulators_is_not_stored(pipeline: Pipeline) -> None:
    assert not pipeline.relations["_Clicks"].stored
    assert pipeline.relations["ByWho$state"].schema.names == ("_Clicks.who", "_n", "_a0_c")


def test_state_of_an_operator_has_the_columns_that_it_reads(pipeline: Pipeline) -> None:
    (slot,) = next(s for s in pipeline.stages if s.output == "Rare").slots
    kept = pipeline.relations[slot.relation]
    assert kept.stored
    assert kept.view is None
    assert {n.rpartition(".")[2] for n in kept.schema.names} == {"page", "who", "_uid"}


def test_every_stored_relation_is_read_or_served(pipeline: Pipeline) -> None:
    looked_up = {s.relation for stage in pipeline.stages for s in stage.slots}
    own = {state for stage in pipeline.stages for state in stage.states}
    for relation in pipeline.relations.values():
        served = relation.view is not None and not relation.view.startswith("_")
        served |= relation.name.endswith((WAITING, HISTORY))  # read by time
        assert not relation.stored or served or relation.name in looked_up | own, relation.name


def test_explain_says_what_bounds_each_state() -> None:
    catalog = compile_script(SCRIPT).catalog
    bounds = {e.relation: e.bound for x in explain(catalog, maintain(catalog)) for e in x.state}
    grows = "unbounded: from append-only {}"
    clicks = grows.format("_Clicks")
    assert bounds["Orders"] == "unbounded: it is append-only"
    assert bounds["People"] == "the view's own rows"
    assert bounds["ByWho$state"] == f"a row for each group by _Clicks.who, {clicks}"
    assert bounds["ByWho"] == bounds["Pages"] == bounds["Latest"] == bounds["Rare"] == f"the view's own rows, {clicks}"
    assert bounds["Halves"] == f"the view's own rows, {grows.format('Orders')}"
    assert bounds["Named"] == f"the view's own rows, {grows.format('Orders')}"
    assert bounds["Buyers"] == bounds["Newest"] == bounds["Common"] == "the view's own rows"
    assert bounds["Newest$1"] == "at most 3 rows"
    assert bounds["Common$1"] == "at most 1,002 rows"
    assert bounds["Due"] == f"the view's own rows, {clicks}"
    assert bounds["Due$waiting"] == "rows leave once their time is reached"
    assert bounds["Buyers$history"] == "unbounded: every version is retained"
    assert bounds["Common$history"] == "versions leave some time after they end"
    assert bounds["All$state"] == "one row"
    assert bounds["All"] == "the view's own rows"
    assert bounds["Names$state"] == "a row for each group by People.name"
    assert bounds["Rare$1"] == "unbounded: it is append-only; never freed: Rare needs all rows, however old"
    assert bounds["Recent"] == "rows leave as now() advances"


def test_explain_measures_no_state_before_the_first_epoch(tmp_path: Path) -> None:
    script, url = tmp_path / "s.sqrl", f"sqlite:///{tmp_path}/s.db"
    script.write_text(SCRIPT)
    open_store(url).close()
    result = CliRunner().invoke(app, ["explain", str(script), "ByWho", "--state", url])
    assert str(result.exception) == "B7063: the store has no state yet"


WINDOWS = """
CREATE STREAM _Clicks (id BIGINT, who INT, at TIMESTAMP, WATERMARK FOR at);
CREATE TABLE People (who INT PRIMARY KEY, name STRING);
Hours := SELECT wend, sum(DISTINCT who) AS n
         FROM Tumble(data => TABLE(_Clicks), timecol => DESCRIPTOR(at), dur => INTERVAL '1' HOUR) GROUP BY wend;
ByWho := SELECT who, count(*) AS n FROM _Clicks GROUP BY ROLLUP(who);
Best := SELECT name FROM People ORDER BY name LIMIT 2 OFFSET 1;
Pairs := SELECT c.id, p.name FROM _Clicks c LEFT JOIN People p ON p.who < c.who;
"""


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_explain_counts_the_rows_of_each_operator(
    spark: Any, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/s.db"
    script = tmp_path / "s.sqrl"
    script.write_text(WINDOWS)
    wb = Workbench(WINDOWS, url, spark=spark)
    start = datetime(2024, 1, 1, 8, tzinfo=UTC)
    for hour in range(2):
        at = start + timedelta(hours=hour)
        wb.insert("_Clicks", [{"id": n, "who": n % 3, "at": at + timedelta(minutes=n)} for n in range(20)])
        wb.insert("People", [{"who": n, "name": f"n{n}"} for n in range(5)])
        wb.bound("_Clicks", at + timedelta(minutes=30))
        wb.step()
    wb.close()
    reported = CliRunner().invoke(app, ["explain", str(script), "ByWho", "--state", url])
    (state,) = [line for line in reported.output.splitlines() if line.startswith("  state  ByWho$state:")]
    assert "unbounded" in state
    assert "; 4 rows, " in state
    assert re.search(r" bytes in 1 run now; since the start keys looked up: [1-9]\d*, rows found: [1-9]\d*$", state), (
        state
    )
    result = CliRunner().invoke(app, ["explain", str(script), "--json", "--state", url])
    assert result.exit_code == 0, result.output
    found = {s["relation"]: s for e in json.loads(result.output) for s in e["state"]}
    rows = {name: state["rows"] for name, state in found.items()}
    assert all(s["bytes"] > 0 for s in found.values())
    assert (rows["Hours"], rows["Hours$1"]) == (2, 20)  # the first hour is final
    assert found["Hours$1"]["bound"].startswith("rows leave once tumble.wend is below its watermark")
    assert (rows["ByWho"], rows["ByWho$state"]) == (4, 4)
    assert (rows["Best"], rows["Best$1"], rows["People"]) == (2, 5, 5)
    assert found["Best$1"]["bound"] == "at most 1,003 rows"
    assert "unbounded" in found["Pairs"]["bound"]
    assert "unbounded" in found["ByWho$state"]["bound"]
