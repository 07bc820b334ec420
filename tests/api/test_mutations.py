"""GraphQL mutations: rows reach the desk as those of `POST /streams` do, and the answer says what became of each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from graphql import build_client_schema, get_introspection_query, print_schema
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.push_bodies import rows_of
from belvedere.compiler import compile_script
from belvedere.intake.ingest_service import OFFSET, IngestService
from belvedere.intake.journal import JournalPosition
from belvedere.intake.wire import IngestClient, IngestServer
from belvedere.store import EpochRow, open_reader, open_store
from belvedere.time.event_time import Clocks

SCRIPT = """
/** What people offer. */
CREATE STREAM Bid (/** When. */ bidtime TIMESTAMP NOT NULL, price DECIMAL(12, 2), item STRING, share DOUBLE,
    small FLOAT, n BIGINT,
                   parts ARRAY<STRUCT<a: INT, b: STRING>>, WATERMARK FOR bidtime) KEEP 30 DAYS;
CREATE STREAM Loose (t TIMESTAMP, WATERMARK FOR t) LATE DROP KEEP 1 DAY;
CREATE TABLE stock-items (`the item` STRING, name STRING NOT NULL, PRIMARY KEY (`the item`));
CREATE TABLE _Hidden (a INT);
CREATE TABLE Exact (id INT, d DECIMAL(38, 18), all ARRAY<DECIMAL(38, 18)>, PRIMARY KEY (id));
CREATE TABLE Typed (id BIGINT, small INT, all ARRAY<BIGINT>, map MAP<STRING, BIGINT>, PRIMARY KEY (id));
V := SELECT item, count(*) AS n FROM Bid GROUP BY item;
"""
CATALOG = compile_script(SCRIPT).catalog
BID = (
    "taken dropped refused epoch results { index status code reason bound row { bidtime price item share small n "
    "parts } }"
)
PUSH = f"mutation($rows: [BidInput!]!, $key: String) {{ bid(rows: $rows, key: $key) {{ {BID} }} }}"


class Service:
    """A server and the desk behind it."""

    def __init__(self, folder: Path, **settings: Any):
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.ingest_service = IngestService(CATALOG, folder / "journal", Clocks(), JournalPosition())
        self.server = IngestServer(self.ingest_service)
        made = ServerSettings(**settings)
        self.application = Application(
            CATALOG, lambda: open_reader(self.url), made, ingest_service=IngestClient(self.server.connect())
        )
        self.client = TestClient(self.application)

    def ask(self, text: str, **variables: Any) -> Any:
        return self.client.post("/graphql", json={"query": text, "variables": variables}).json()

    @property
    def waiting(self) -> dict[str, list[dict[str, Any]]]:
        return {n: rows.to_pylist() for n, rows in self.ingest_service.waiting().arrivals(CATALOG).items()}


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Service]:
    made = Service(folder, **settings)
    with made.client:
        yield made
    made.server.close()
    made.ingest_service.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as made:
        yield made


GOOD = {
    "bidtime": "2020-01-01T09:07:00+01:00", "price": "12.3", "item": "Größe 🎈", "share": 0.1, "small": 0.1,
    "n": 2**53 + 1,
    "parts": [{"a": 1, "b": "x"}],
}  # fmt: skip
SHOWN = {**GOOD, "bidtime": "2020-01-01T08:07:00Z", "price": "12.30"}


def test_a_list_with_a_bad_row_takes_the_others(service: Service) -> None:
    rows = [
        GOOD,
        {**GOOD, "price": "much"},
        {"bidtime": None},
        {**GOOD, "colour": 1},
        {"bidtime": "2020-01-01T10:00:00Z"},
    ]
    (pushed,) = service.ask(PUSH, rows=rows)["data"].values()
    assert (pushed["taken"], pushed["dropped"], pushed["refused"], pushed["epoch"]) == (2, 0, 3, None)
    results = pushed["results"]
    assert [(r["index"], r["status"], r["code"]) for r in results] == [
        (0, "TAKEN", None), (1, "REFUSED", "B6001"), (2, "REFUSED", "B6003"), (3, "REFUSED", "B6002"),
        (4, "TAKEN", None),
    ]  # fmt: skip
    assert results[0]["row"] == SHOWN
    assert "much" in results[1]["reason"]
    assert results[1]["row"] is None
    assert results[4]["row"]["price"] is None
    found = service.waiting["Bid"]
    assert [r["price"] for r in found] == [Decimal("12.30"), None]
    assert (found[0]["item"], found[0]["n"], found[0]["parts"]) == ("Größe 🎈", 2**53 + 1, [{"a": 1, "b": "x"}])
    counts = service.ingest_service.waiting().clocks.counts["Bid"]
    posted = service.client.post("/streams/Bid", json=rows).json()
    assert (posted["taken"], posted["refused"]) == (2, 3)
    again = service.ingest_service.waiting().clocks.counts["Bid"]
    assert (again.given, again.malformed) == (2 * counts.given, 2 * counts.malformed)


def test_whole_numbers_may_be_told_as_texts(service: Service) -> None:
    text = "mutation($rows: [TypedInput!]!) { typed(rows: $rows) { taken results { index row { id small all map } } } }"
    row = {"id": 2**53 + 1, "small": 3, "all": [2**62, None], "map": {"a": 2**60}}
    asked = {"query": text, "variables": {"rows": [row]}}
    for headers, expected in (
        ({}, row),
        (
            {"prefer": "longs=text"},
            {"id": str(2**53 + 1), "small": 3, "all": [str(2**62), None], "map": {"a": str(2**60)}},
        ),
    ):
        (pushed,) = service.client.post("/graphql", json=asked, headers=headers).json()["data"].values()
        assert pushed == {"taken": 1, "results": [{"index": 0, "row": expected}]}


LONG = "12345678901234567890.123456789012345678"


def test_a_decimal_keeps_all_digits_of_a_number(service: Service) -> None:
    """In the text, in variables, as a filter's value, in a body, and in the text of a row that is refused."""
    shown = {"taken": 1, "results": [{"row": {"d": LONG, "all": [LONG]}}]}
    answer = "{ taken results { row { d all } } }"
    row = f'{{"id": 1, "d": {LONG}, "all": [{LONG}]}}'
    literal = service.ask(f"mutation {{ exact(rows: {{id: 1, d: {LONG}, all: [{LONG}]}}) {answer} }}")
    body = json.dumps(
        {"query": f"mutation($rows: [ExactInput!]!) {{ exact(rows: $rows) {answer} }}", "variables": {"rows": ["?"]}}
    )
    variable = service.client.post(
        "/graphql", content=body.replace('"?"', row), headers={"content-type": "application/json"}
    )
    for pushed in (literal, variable.json()):
        assert pushed == {"data": {"exact": shown}}
    refused = row.replace("1,", '"x",', 1)
    for media, text in (("application/json", f"[{row},{refused}]"), ("application/x-ndjson", f"{row}\n{refused}")):
        reported = service.client.post("/streams/Exact", content=text, headers={"content-type": media}).json()
        assert (reported["taken"], reported["refused"]) == (1, 1)
    assert [r["d"] for r in service.waiting["Exact"]] == [Decimal(LONG)] * 4
    table = CATALOG.inputs["Exact"]
    assert [m.text for m in rows_of(table, refused.encode(), "application/json", 1, {}).malformed] == [refused]


def test_rows_may_stand_in_the_text(service: Service) -> None:
    """Texts that differ in their literals only are different pushes; one row is a list of one."""
    for price in ("1.50", "2.25"):
        row = f'{{bidtime: "2020-01-01T08:00:00Z", price: {price}, item: "a"}}'
        text = f"mutation {{ bid(rows: {row}) {{ taken results {{ row {{ price }} }} }} }}"
        assert service.ask(text)["data"] == {"bid": {"taken": 1, "results": [{"row": {"price": price}}]}}
    text = "mutation($p: Decimal, $t: DateTime) { b: bid(rows: [{bidtime: $t, price: $p}]) { ...f __typename } }"
    text += " fragment f on BidPush { taken }"
    assert service.ask(text, p="3", t="2020-01-01T09:00:00Z")["data"] == {"b": {"taken": 1, "__typename": "BidPush"}}
    assert [str(r["price"]) for r in service.waiting["Bid"]] == ["1.50", "2.25", "3.00"]


def test_rows_of_a_table_are_replaced_and_deleted(service: Service) -> None:
    text = (
        'mutation { stock_items(rows: [{the_item: "A", name: "Anvil"}, {the_item: "A", _delete: true}, {the_item: '
        '"B"}]) '
    )
    answer = service.ask(
        text + "{ taken refused results { status row { the_item name } } } hidden(rows: {a: 1}) { taken } }"
    )
    assert answer["data"]["stock_items"] == {
        "taken": 2,
        "refused": 1,
        "results": [
            {"status": "TAKEN", "row": {"the_item": "A", "name": "Anvil"}},
            {"status": "TAKEN", "row": {"the_item": "A", "name": None}},
            {"status": "REFUSED", "row": None},
        ],
    }
    assert answer["data"]["hidden"] == {"taken": 1}
    assert [r["_weight"] for r in service.waiting["stock-items"]] == [1, -1]


def test_late_rows_say_so(service: Service) -> None:
    assert service.client.post("/streams/Bid/bound", json={"at": "2020-01-01T09:00:00Z"}).status_code == 200
    (late,) = service.ask(PUSH, rows=[GOOD])["data"]["bid"]["results"]
    assert (late["status"], late["bound"], late["row"]) == ("REFUSED", "2020-01-01T09:00:00Z", None)
    assert service.client.post("/streams/Loose/bound", json={"at": "2020-01-01T09:00:00Z"}).status_code == 200
    text = (
        'mutation { loose(rows: [{t: "2020-01-01T10:00:00Z"}, {t: "2020-01-01T08:00:00Z"}]) { dropped results { '
        "status } } }"
    )
    assert service.ask(text)["data"] == {
        "loose": {"dropped": 1, "results": [{"status": "TAKEN"}, {"status": "DROPPED"}]}
    }


def test_a_key_counts_once(service: Service) -> None:
    first = service.ask(PUSH, rows=[GOOD, {"bidtime": None}], key="k")
    assert service.ask(PUSH, rows=[GOOD, {"bidtime": None}], key="k") == first
    assert service.ask(PUSH, rows=[GOOD], key="k")["errors"][0]["extensions"]["code"] == "B8033"
    assert len(service.waiting["Bid"]) == first["data"]["bid"]["taken"]


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("mutation { bod(rows: []) { taken } }", "B8002", "did you mean 'bid'?"),
        ("mutation { bid(row: {}) { taken } }", "B8002", ""),
        ("mutation { bid { taken } }", "B8002", ""),
        ("mutation { bid(rows: null) { taken } }", "B8002", ""),
        ("mutation { bid(rows: [null]) { taken } }", "B8002", ""),
        ("mutation { bid(rows: []) { taken row } }", "B8002", ""),
        ("mutation { bid(rows: [], producer: 5) { taken } }", "B8002", ""),
        ('mutation { bid(rows: [], key: "a\\nb") { taken } }', "B8007", ""),
        ("mutation($r: [BidInput!]!) { bid(rows: $r) { taken } }", "B8003", ""),
        ("mutation($r: [JSON!]!) { bid(rows: $r) { taken } }", "B8002", ""),
        ("mutation { __schema { types { name } } }", "B8002", ""),
        ("subscription { bid { taken } }", "B8002", ""),
    ],
)
def test_what_is_no_mutation(service: Service, text: str, code: str, hint: str) -> None:
    error = service.ask(text)["errors"][0]
    assert error["extensions"]["code"] == code, error
    assert hint in error["extensions"].get("hint", "")
    assert not service.ingest_service.has_waiting


def test_a_field_that_fails_leaves_the_others(service: Service) -> None:
    many = [{"bidtime": "2020-01-01T08:00:00Z"}] * 1001
    text = "mutation($many: [BidInput!]!) { hidden(rows: {a: 1}) { taken } bid(rows: $many) { taken } }"
    answer = service.ask(text, many=many)
    assert answer["data"] == {"hidden": {"taken": 1}, "bid": None}
    (error,) = answer["errors"]
    assert (error["path"], error["extensions"]["code"]) == (["bid"], "B8004")
    assert "/streams/Bid" in error["extensions"]["hint"]


def test_who_may_push(tmp_path: Path) -> None:
    """The token, and the origins of pages: as under `/streams`."""
    asked = {"query": "mutation { hidden(rows: {a: 1}) { taken } }"}
    page, stranger = {"origin": "https://app.example"}, {"origin": "https://evil.example"}
    with serving(tmp_path, token="secret", origins=("*", "https://app.example")) as service:
        post, token = service.client.post, {"authorization": "Bearer secret"}
        assert post("/graphql", json=asked).status_code == 401
        assert post("/graphql", json=asked, headers=token | stranger).status_code == 403
        assert post("/graphql", json={"query": "{ __typename }"}, headers=token | stranger).status_code != 403
        assert service.client.get("/graphql", params=asked, headers=token).status_code == 405
        assert not service.ingest_service.has_waiting
        assert post("/graphql", json=asked, headers=token | page).json() == {"data": {"hidden": {"taken": 1}}}
        assert post("/graphql", json=asked, headers=token).status_code == 200
        assert len(service.waiting["_Hidden"]) == 2


def test_a_script_without_inputs_has_no_mutations() -> None:
    client = TestClient(
        Application(compile_script("V := SELECT 1 AS x;").catalog, lambda: open_reader("sqlite:////nowhere/x.db"))
    )
    (error,) = client.post("/graphql", json={"query": "mutation { a }"}).json()["errors"]
    assert (error["extensions"]["code"], "CREATE STREAM" in error["extensions"]["hint"]) == ("B8007", True)


def test_nobody_takes_rows_of_a_server_alone() -> None:
    client = TestClient(Application(CATALOG, lambda: open_reader("sqlite:////nowhere/x.db")))
    asked = {"query": "mutation { hidden(rows: {a: 1}) { taken } }"}
    answer = client.post("/graphql", json=asked, headers={"accept": "application/graphql-response+json"})
    assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (503, "B8030")


def test_a_request_may_wait_for_its_epoch(service: Service) -> None:
    store = open_store(service.url)
    store.acquire("test", 600)
    store.begin().commit(EpochRow(0, datetime(2020, 1, 1, tzinfo=UTC)))

    def run() -> None:
        while not service.ingest_service.has_waiting:
            time.sleep(0.01)
        waiting = service.ingest_service.waiting()
        store.begin().commit(
            EpochRow(1, datetime(2020, 1, 1, 1, tzinfo=UTC), {OFFSET: service.ingest_service.offset(waiting)})
        )

    run_loop = threading.Thread(target=run)
    run_loop.start()
    try:
        assert service.ask("mutation { hidden(rows: {a: 1}, wait: true) { epoch } }")["data"] == {
            "hidden": {"epoch": 1}
        }
    finally:
        run_loop.join()
        store.close()


def test_the_schema_says_what_rows_are(service: Service) -> None:
    schema = build_client_schema(service.ask(get_introspection_query())["data"])
    text = print_schema(schema)
    assert "input BidInput {" in text
    for line in (
        "price: Decimal",
        "bidtime: DateTime!",
        '"""When."""',
        '"""What people offer."""',
        "_delete: Boolean",
        "the_item: String",
    ):
        assert line in text, line
    assert "type Mutation" in service.client.get("/schema.graphql").text
