"""The lineage of a script, how its views are maintained, and the changing status: data of the console besides
GraphQL."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.lineage import definition_of, explanations_of, lineage_of
from belvedere.api.http.status import status_of
from belvedere.api.live.status_events import status_events
from belvedere.api.reads.entities import model_of
from belvedere.api.serving.served_store import CHOICE
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.engine.epoch_row.last_changes import last_change, with_changes
from belvedere.errors import fail
from belvedere.pipeline.placement import DOCUMENT, PlacedView, PlacedViews, fingerprint_of
from belvedere.store import EpochRow, StoredTable, open_reader, open_store
from belvedere.time.event_time import Clocks, send_bound
from belvedere.workbench.workbench import Workbench

SCRIPT = """
/** What is offered. */
CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE TABLE Items (item STRING, name STRING, PRIMARY KEY (item));
_Dear := SELECT * FROM Bid WHERE price > 10;
/** The best of each hour. */
Hourly := SELECT hour(bidtime) AS h, max(price) AS p FROM _Dear GROUP BY h;
/*+ at_read */
Total := SELECT item, count(*) AS n FROM Bid GROUP BY item;
Items.bids := JOIN Bid b ON b.item = _.item ORDER BY b.bidtime DESC;
Items.total := JOIN Total t ON t.item = _.item;
Of(item STRING) := SELECT * FROM Total WHERE item = :item;
CREATE SUBSCRIPTION Records ON ADD AS SELECT h, p FROM Hourly;
"""
CATALOG = compile_script(SCRIPT).catalog
NOON = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp() * 1_000_000)


def nodes_of(catalog: Catalog) -> dict[str, Any]:
    return {n["id"]: n for n in lineage_of(catalog, model_of(catalog))["nodes"]}


def client_of(**settings: Any) -> TestClient:
    def none() -> Any:
        raise fail("B7001", "there is no store")

    return TestClient(Application(CATALOG, none, ServerSettings(**settings)))


def test_the_graph_has_what_the_script_defines() -> None:
    nodes = nodes_of(CATALOG)
    assert {
        n: (node["kind"], node["endpoint"], node["reads"])
        for n, node in nodes.items()
        if node["kind"] != "subscription"
    } == {
        "Bid": ("input", "bid", []),
        "Items": ("input", "items", []),
        "_Dear": ("view", None, ["Bid"]),
        "Hourly": ("view", "hourly", ["_Dear"]),
        "Total": ("view", "total", ["Bid"]),
        "Of()": ("template", "of", ["Total"]),
    }
    assert nodes["Records"]["reads"] == ["Hourly"], "the query behind a subscription is nobody's view"
    assert (nodes["Bid"]["doc"], nodes["Bid"]["mutation"], nodes["Items"]["key"]) == (
        "What is offered.",
        "bid",
        ["item"],
    )
    assert (nodes["Total"]["at_read"], nodes["Hourly"]["at_read"]) == (True, False)


def test_relationships_and_late_rows_are_in_the_graph() -> None:
    links = lineage_of(CATALOG, model_of(CATALOG))["relationships"]
    assert [(r["owner"], r["name"], r["target"], r["one"]) for r in links] == [
        ("Items", "bids", "Bid", False),
        ("Items", "total", "Total", True),
    ]
    assert "LATE(Bid)" not in nodes_of(CATALOG)
    late = nodes_of(compile_script(SCRIPT + "Lost := SELECT item, reason FROM LATE(Bid);").catalog)
    assert (late["LATE(Bid)"]["reads"], late["Lost"]["reads"]) == (["Bid"], ["LATE(Bid)"])


def test_sinks_and_former_definitions_are_in_the_graph() -> None:
    script = """
        CREATE STREAM A (k INT, v INT) KEEP 1 HOUR;
        A := SELECT k, v FROM A WHERE v > 0;
        B := SELECT k FROM A;
        EXPORT B TO console.told;
    """
    compiled = compile_script(script)
    assert not [d for d in compiled.diagnostics if d.severity == "error"], compiled.diagnostics
    nodes = nodes_of(compiled.catalog)
    assert {n: (node["name"], node["kind"], node["reads"]) for n, node in nodes.items()} == {
        "A~1": ("A", "input", []),
        "A": ("A", "view", ["A~1"]),
        "B": ("B", "view", ["A"]),
        "console.told!": ("console.told", "sink", ["B"]),
    }


def test_an_empty_script_has_an_empty_graph() -> None:
    assert lineage_of(Catalog(), model_of(Catalog())) == {"nodes": [], "relationships": []}


def test_a_definition_is_told_as_it_was_written_and_in_standard_sql() -> None:
    found = definition_of(CATALOG, "Hourly")
    assert found is not None
    assert found["sql"] == "Hourly := SELECT hour(bidtime) AS h, max(price) AS p FROM _Dear GROUP BY h"
    assert found["standard_sql"].startswith("CREATE VIEW Hourly AS\nSELECT\n  DATE_TRUNC('HOUR', bidtime) AS h")
    template = definition_of(CATALOG, "Of()")
    assert template is not None
    assert ":item" in template["sql"]
    subscription = definition_of(CATALOG, "Records")
    assert subscription is not None
    assert "SELECT h, p FROM Hourly" in subscription["sql"]
    assert definition_of(CATALOG, "Bid") == {"id": "Bid", "sql": None, "standard_sql": None}
    assert definition_of(CATALOG, "Nothing") is None


def test_it_says_how_views_are_kept_with_what_the_store_has_chosen() -> None:
    assert CHOICE == DOCUMENT
    kept = explanations_of(CATALOG, None)
    assert kept["Hourly"]["stages"][-1]["rule"] == "merge"
    assert kept["Total"]["reads"].startswith("computed by the database")
    plain = compile_script("CREATE STREAM T (a INT); V := SELECT a, count(*) AS n FROM T GROUP BY a;").catalog
    assert explanations_of(plain, None)["V"]["reads"].startswith("table")
    choice = PlacedViews({"V": PlacedView(fingerprint_of(plain, "V"))}).as_text()
    assert explanations_of(plain, choice)["V"]["reads"].startswith("computed by the database")


def test_the_routes_answer_before_there_is_a_store() -> None:
    with client_of() as client:
        assert client.get("/lineage").json()["nodes"][0]["id"] == "Bid"
        found = client.get("/lineage/Hourly").json()
        assert (found["id"], found["kept"]["key"]) == ("Hourly", ["h"])
        assert client.get("/lineage/Of()").json()["kept"] is None
        missing = client.get("/lineage/Nothing")
        assert (missing.status_code, missing.json()["code"]) == (404, "B2001")
        page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert client.get("/console/../pyproject.toml").status_code == 404


def test_they_need_the_token_and_files_do_not() -> None:
    with client_of(token="a secret of some length") as client:
        assert [client.get(p).status_code for p in ("/lineage", "/lineage/Hourly", "/status/events")] == [401] * 3
        assert client.get("/").status_code == 200
        allowed = {"authorization": "Bearer a secret of some length"}
        assert client.get("/lineage", headers=allowed).status_code == 200


def test_the_status_has_the_freshness_of_each_view() -> None:
    clocks = send_bound(Clocks(), CATALOG.inputs["Bid"], "bidtime", NOON, 0, None, False)
    changed = {"Hourly": [2, NOON], "Bid": [3, NOON + 1_000_000]}
    row = EpochRow(3, datetime(2024, 1, 1, tzinfo=UTC), bounds=clocks.as_document(), extra={"changed": changed})
    views = {v["name"]: v for v in status_of(CATALOG, row, True)["views"]}
    assert views["Hourly"]["changed"] == {"epoch": 2, "at": "2024-01-01T12:00:00Z"}
    assert views["Hourly"]["final"] == [{"column": "h", "below": "2024-01-01T12:00:00Z"}]
    assert views["Total"]["changed"] == {"epoch": 3, "at": "2024-01-01T12:00:01Z"}, "what the database reads for it"
    assert views["Total"]["final"] == []
    assert "_Dear" not in views
    older = EpochRow(0, datetime(2024, 1, 1, tzinfo=UTC))
    assert [v["changed"] for v in status_of(CATALOG, older, True)["views"]] == [None, None]


def test_only_what_is_served_stays_among_the_last_changes() -> None:
    known = with_changes({}, ["a", "b"], ["a", "b"], 1, 10)
    assert with_changes(known, ["b"], ["b", "c"], 2, 20) == {"b": [2, 20]}
    assert last_change(known, ["a", "c"]) == (1, 10)
    assert last_change({}, ["a"]) is None


@pytest.mark.usefixtures("each_store")
def test_epochs_note_what_they_change_over_restarts(executor: Any) -> None:
    bench = Workbench(SCRIPT, spark=executor)
    try:
        bench.insert("Bid", [{"bidtime": "2024-01-01 08:00:00", "price": 20, "item": "A"}])
        bench.step()
        bench.insert("Bid", [{"bidtime": "2024-01-01 08:01:00", "price": 12, "item": None}])
        bench.step()
        bench.restart()
        bench.step()
        bench.insert("Items", [{"item": "Ä", "name": None}])
        bench.step()
        row = bench.store.last_epoch()
        assert row is not None
        epochs = {n: epoch for n, (epoch, _) in row.extra["changed"].items()}
        assert (epochs["Bid"], epochs["Hourly"], epochs["Items"]) == (2, 1, 4), "a lower price changes no maximum"
        assert "_Dear" not in epochs
    finally:
        bench.close()


def test_the_status_is_told_again_after_an_epoch_and_while_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("belvedere.api.live.status_events.MAX_SECONDS", 0.6)
    rows: list[EpochRow | None] = [None]

    class Reader:
        dialect = "sqlite"

        def last_epoch(self) -> EpochRow | None:
            return rows[0]

        def close(self) -> None: ...

    async def check() -> None:
        application = Application(CATALOG, Reader)  # type: ignore[arg-type]

        async def status(row: EpochRow | None) -> Any:
            return status_of(CATALOG, row, False)

        reported = aiter(
            status_events(application.served.streams, application.served.store.last_epoch, status, {}).body_iterator
        )

        async def next_epoch() -> Any:
            while not (text := bytes(await anext(reported))).startswith(b"data: "):  # type: ignore[arg-type]
                pass
            return json.loads(text.removeprefix(b"data: "))["epoch"]

        assert await next_epoch() is None
        assert await next_epoch() is None, "though nothing happened"
        rows[0] = EpochRow(1, datetime(2024, 1, 1, tzinfo=UTC))
        found = [await next_epoch() for _ in range(3)]
        assert found[-1] == 1
        application.served.streams.end()
        async with asyncio.timeout(5):
            rest = [bytes(t) async for t in reported]  # type: ignore[arg-type]
        assert not any(t.startswith(b"data") for t in rest), "a server that ends tells no more"

    asyncio.run(check())


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_it_reads_what_each_store_has_chosen(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else f"sqlite:///{tmp_path}/store.db"
    catalog = compile_script("CREATE STREAM T (a INT); V := SELECT a, count(*) AS n FROM T GROUP BY a;").catalog
    made = open_store(url)
    made.create([StoredTable("T", catalog.schema_of("T"), fingerprint="test")])
    made.set_document(DOCUMENT, PlacedViews({"V": PlacedView(fingerprint_of(catalog, "V"))}).as_text())
    made.acquire("test", 600)
    made.begin().commit(EpochRow(0, datetime(2024, 1, 1, tzinfo=UTC), extra={"changed": {"T": [0, NOON]}}))
    made.close()
    with TestClient(Application(catalog, lambda: open_reader(url))) as client:
        assert client.get("/lineage/V").json()["kept"]["reads"].startswith("computed by the database")
        assert [v["name"] for v in client.get("/status").json()["views"]] == ["V"]
