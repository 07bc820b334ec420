"""REST: PostgREST's dialect over views, tables and query templates, on every kind of reader."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api import execute_rest
from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.limits import Limits
from belvedere.store.protocol import EpochRow
from belvedere.values.instants import instant

CATALOG = example.catalog()


def client_of(reader: Any, **settings: Any) -> TestClient:
    return TestClient(Application(CATALOG, lambda: reader, ServerSettings(**settings)))


@pytest.fixture
def client(reader: Any) -> Iterator[TestClient]:
    with client_of(reader) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[TestClient]:
    with client_of(MemoryReader()) as made:
        yield made


def rows(client: TestClient, address: str, **parameters: str) -> Any:
    answer = client.get(f"/rest/{address}", params=parameters or None)
    assert answer.status_code in (200, 206), answer.text
    return answer.json()


def problem(client: TestClient, address: str, status: int, code: str, **parameters: str) -> dict[str, Any]:
    answer = client.get(f"/rest/{address}", params=parameters or None)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (found["status"], found["code"], found["message"]) == (status, code, found["title"])
    return found


@pytest.mark.parametrize(
    ("name", "said", "ids"),
    [
        ("id", "eq.1", [1]),
        ("id", "neq.1", [2, 3, 4, 5]),
        ("id", "not.eq.1", [2, 3, 4, 5]),
        ("small", "neq.7", [1]),  # NULL is neither equal nor unequal
        ("small", "not.eq.7", [1]),
        ("small", "isdistinct.7", [1, 2, 3]),
        ("small", "gte.-5", [1, 4, 5]),
        ("small", "lt.7", [1]),
        ("big", "eq.4611686018427387904", [1]),
        ("ratio", "gt.0.3", [1, 3, 4]),  # NaN is greater than every number
        ("price", "lte.0.00", [3, 4]),
        ("price", "eq.12.3", [1]),
        ("wide", "lt.0", [1]),
        ("name", "eq.Ärger", [1]),
        ("name", "in.(ab,Ärger)", [1, 5]),
        ("name", 'in.("a_b%c","a,b")', [3]),
        ("name", "not.in.(ab,Ärger)", [3, 4]),
        ("name", "in.()", []),
        ("name", "like.a*", [3, 5]),
        ("name", "like.a\\_b%", [3]),
        ("name", "ilike.ä*", [1, 4]),
        ("name", "is.null", [2]),
        ("name", "not.is.null", [1, 3, 4, 5]),
        ("name", "is.not_null", [1, 3, 4, 5]),
        ("flag", "is.true", [1]),
        ("flag", "not.is.true", [2, 3, 4, 5]),
        ("flag", "eq.false", [3]),
        ("at", "gt.2020-01-01T12:00:00Z", [1]),
        ("day", "lte.1969-12-31", [3]),
        ("raw", "eq.00ff", [1]),
        ("tags", "is.null", [2, 3, 4, 5]),
        ("address_city", "eq.Łódź", [1]),
        ("or", "(id.eq.1,id.eq.2)", [1, 2]),
        ("not.or", "(id.eq.1,id.eq.2)", [3, 4, 5]),
        ("and", "(id.gt.1,not.and(id.gte.2,id.lte.4))", [5]),
        ("or", '(name.eq."a_b%c",and(small.eq.7,name.like.ä*),id.in.(2))', [2, 3, 4]),
        ("or", "(name.not.is.null,id.not.in.(1,3))", [1, 2, 3, 4, 5]),
    ],
)
def test_filters(client: TestClient, name: str, said: str, ids: list[int]) -> None:
    assert [r["id"] for r in rows(client, "things", select="id", **{name: said})] == ids


@pytest.mark.smoke("way REST")
def test_several_filters_must_all_hold(client: TestClient) -> None:
    for query in ("id=gte.2&id=lt.5&small=is.null", "id=gte.2&id=gte.1&id=lt.5&or=(small.is.null,small.eq.8)"):
        assert rows(client, f"things?select=id&{query}") == [{"id": 2}, {"id": 3}]


def test_what_is_selected_in_which_order(client: TestClient) -> None:
    assert rows(client, "things?select=number:id,name&order=small.desc.nullslast,name&limit=2") == [
        {"number": 5, "name": "ab"},
        {"number": 4, "name": "ärger"},
    ]
    assert [r["id"] for r in rows(client, "things?order=price&select=id")] == [
        2,
        3,
        4,
        1,
        5,
    ]  # NULL first, as Spark has it
    assert [r["id"] for r in rows(client, "things?order=price.asc.nullslast&select=id")] == [3, 4, 1, 5, 2]
    assert list(rows(client, "things?id=eq.1")[0]) == list(rows(client, "things/1?select=*")) == [
        "id", "flag", "small", "big", "ratio", "price", "wide", "name", "at", "day", "raw", "tags", "info",
        "address_city",
    ]  # fmt: skip
    assert rows(client, "things?limit=0") == []
    assert rows(client, "things?id=eq.99") == []


def test_relationships_with_filters_of_their_own(client: TestClient, reader: Any) -> None:
    before = len(reader.statements)
    found = rows(
        client,
        "monitoringGroup?groupid=in.(501,504)&select=groupName,machines(machineId),recent:hourReading(max_temp),"
        "lastHour(max_temp)&recent.order=time_hour.desc&recent.limit=2&recent.offset=1"
        "&recent.max_temp=gte.31.5&machines.machineName=like.Mill*",
    )
    assert len(reader.statements) - before == 1
    assert found == [
        {
            "groupName": "Wenatchee Factory",
            "machines": [{"machineId": 1075}],
            "recent": [{"max_temp": 32.5}, {"max_temp": 33.5}],
            "lastHour": {"max_temp": 30.5},
        },
        {"groupName": "", "machines": [], "recent": [], "lastHour": None},
    ]
    nested = rows(
        client,
        "monitoringGroup/501?select=machines(parent(machines(machineId)))"
        "&machines.parent.machines.or=(machineId.eq.1098)&machines.limit=1",
    )
    assert nested == {"machines": [{"parent": {"machines": [{"machineId": 1098}]}}]}


def test_one_row_by_its_key(client: TestClient) -> None:
    assert rows(client, "things/3?select=name") == {"name": "a_b%c"}
    assert rows(client, "Things/3?select=name") == {"name": "a_b%c"}
    assert problem(client, "things/99", 404, "B8017")["message"] == "Things has no row with this key"
    assert problem(client, "things/3", 400, "B8016", id="eq.1")["hint"] == "filter the list instead"
    problem(client, "things/x", 400, "B8003")
    problem(client, "monitoringGroup_machines/1", 404, "B8017")  # its key is hidden
    problem(client, "thingsNamed/1", 404, "B8017")


def test_templates(client: TestClient) -> None:
    assert rows(client, "thingsNamed?least=-10&name=ab&select=id,low:small") == [{"id": 5, "low": 7}]
    assert rows(client, "thingsNamed?least=-10&name=ab&offset=1") == []
    assert "the column" in problem(client, "thingsNamed?least=99999999999&name=ab", 400, "B8003")["message"]
    assert problem(client, "thingsNamed?name=ab", 400, "B8003")["message"] == "ThingsNamed needs `least`"
    assert "least" in problem(client, "thingsNamed?leas=1&name=ab", 400, "B8016")["hint"]
    problem(client, "thingsNamed?least=1&name=ab&select=big", 400, "B8016")
    problem(client, "thingsNamed?least=1&least=2&name=ab", 400, "B8016")


def pages(client: TestClient, address: str) -> list[Any]:
    found = []
    while address:
        answer = client.get(address)
        assert answer.status_code in (200, 206), answer.text
        found.append(answer.json())
        link = answer.headers.get("link", "")
        assert not link or link.endswith('>; rel="next"')
        address = link[1:].partition(">")[0]
    return found


@pytest.mark.parametrize("offset", ["", "&offset=0"])
def test_pages_lead_on(client: TestClient, offset: str) -> None:
    found = pages(client, f"/rest/things?select=id&order=small.desc,name&limit=2{offset}")
    assert [[r["id"] for r in page] for page in found] == [[5, 4], [1, 2], [3]]
    assert [len(p) for p in pages(client, f"/rest/monitoringGroup_hourReading?select=max_temp&limit=27{offset}")] == [
        27,
        27,
        26,
    ]
    assert [len(p) for p in pages(client, f"/rest/things?name=like.a*&limit=2{offset}")] == [2]
    assert [len(p) for p in pages(client, "/rest/thingsNamed?least=-9&name=ab&limit=1")] == [1]


def test_how_many_rows_there_are(client: TestClient) -> None:
    def asked(query: str, method: str = "GET") -> tuple[int, str]:
        answer = client.request(method, f"/rest/{query}", headers={"prefer": "return=minimal, count=exact"})
        assert answer.headers["preference-applied"] == "count=exact"
        return answer.status_code, answer.headers["content-range"]

    assert asked("things?select=id") == (200, "0-4/5")
    assert asked("things?limit=2") == (206, "0-1/5")
    assert asked("things?limit=2&offset=3") == (206, "3-4/5")
    assert asked("things?offset=9") == (206, "*/5")
    assert asked("things?limit=0") == (206, "*/5")
    assert asked("things?id=eq.3", "HEAD") == (200, "0-0/1")
    assert asked("things?id=eq.9") == (200, "*/0")
    assert asked("things?name=like.a*&limit=1") == (206, "0-0/2")
    assert asked("monitoringGroup?select=hourReading(max_temp)&hourReading.limit=1") == (200, "0-3/4")
    assert asked("thingsNamed?least=-10&name=ab") == (200, "0-0/1")
    following = client.get("/rest/things?limit=2").headers["link"][1:].partition(">")[0]
    assert asked(following.removeprefix("/rest/")) == (206, "*/5")
    assert "content-range" not in client.get("/rest/things", headers={"prefer": "count=none"}).headers
    assert "content-range" not in client.get("/rest/things/1", headers={"prefer": "count=exact"}).headers


def test_ranges_of_rows(client: TestClient) -> None:
    def asked(range_: str, query: str = "things?select=id&order=id", **headers: str) -> tuple[list[int], str | None]:
        answer = client.get(f"/rest/{query}", headers={"range": range_, **headers})
        assert answer.status_code in (200, 206), answer.text
        return [row["id"] for row in answer.json()], answer.headers.get("content-range")

    assert asked("0-1") == ([1, 2], "0-1/*")
    assert asked("items=3-9", **{"range-unit": "Items"}) == ([4, 5], "3-4/*")
    assert asked("2-") == ([3, 4, 5], "2-4/*")
    assert asked("7-9") == ([], "*/*")
    assert asked("1-2", prefer="count=exact") == ([2, 3], "1-2/5")
    assert asked("bytes=0-1") == asked("0-1", **{"range-unit": "bytes"}) == ([1, 2, 3, 4, 5], None)
    link = client.get("/rest/things?select=id&order=id", headers={"range": "0-1"}).headers["link"]
    assert [row["id"] for row in client.get(link[1:].partition(">")[0]).json()] == [3, 4]
    for query, wrong in (("things", "3-1"), ("things?limit=2", "0-1"), ("things?after=5B5D", "0-1")):
        answer = client.get(f"/rest/{query}", headers={"range": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "B8016")


def test_a_cursor_belongs_to_its_order(client: TestClient) -> None:
    link = client.get("/rest/things?limit=2&order=name").headers["link"][1:].partition(">")[0]
    assert problem(client, link.removeprefix("/rest/").replace("order=name", "order=id"), 400, "B8003")["hint"]
    for cursor in ("", "5B5D", "zz", "%00", "5B22366165343338316662333731222C225C7530303030225D"):
        problem(client, f"things?after={cursor}", 400, "B8003")
    problem(client, "things?after=5B5D&offset=1", 400, "B8016")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("id=1", "B8016"),
        ("id=equals.1", "B8016"),
        ("id=like.1", "B8016"),
        ("flag=gt.true", "B8016"),
        ("tags=eq.1", "B8016"),
        ("id=eq.one", "B8003"),
        ("id=eq.99999999999999999999", "B8003"),
        ("small=eq.2147483648", "B8003"),
        ("ratio=eq.1e999", "B8003"),
        ("flag=eq.1", "B8003"),
        ("at=eq.yesterday", "B8003"),
        ("name=like.a\\", "B8003"),
        ("name=is.true", "B8016"),
        ("name=in.(a", "B8016"),
        ("name=in.(a)b", "B8016"),
        ("or=(id.eq.1", "B8016"),
        ("or=id.eq.1", "B8016"),
        ("or=(id)", "B8016"),
        ("or=()", "B8016"),
        ('or=(name.eq."a)', "B8016"),
        ("colour=eq.1", "B8016"),
        ("_secret=eq.s", "B8016"),
        ("select=_secret", "B8016"),
        ("select=id,,name", "B8016"),
        ("select=id::text", "B8016"),
        ("select=same", "B8016"),
        ("select=same()", "B8016"),
        ("select=same!inner(id)", "B8016"),
        ("select=_hidden(id)", "B8016"),
        ("select=x:id,x:name", "B8016"),
        ("same.id=eq.1", "B8016"),
        ("order=colour", "B8016"),
        ("order=tags", "B8016"),
        ("order=id.up", "B8016"),
        ("limit=1&limit=2", "B8016"),
        ("limit=many", "B8003"),
        ("limit=-1", "B8003"),
        ("limit=1001", "B8004"),
        ("offset=-1", "B8003"),
        ("as_of=1", "B8003"),
        ("id=eq.%FF", "B8016"),
        (".id=eq.1", "B8016"),
        ("select=" + "same(" * 20 + "id" + ")" * 20, "B8004"),
        ("select=" + "same(" * 2000 + "id" + ")" * 2000, "B8004"),
        ("or=" + "(or" * 2000 + "(id.eq.1" + ")" * 2001, "B8004"),
        ("id=in.(" + ",".join("1" * 1_001) + ")", "B8004"),
        ("&".join(["id=gt.0"] * 2_001), "B8004"),
        ("select=same(same(same(id)))&limit=1000&same.limit=1000&same.same.limit=1000", "B8004"),
    ],
)
def test_what_is_refused(memory: TestClient, query: str, code: str) -> None:
    found = problem(memory, f"things?{query}", 400, code)
    assert found["message"][0] in "`abcdefghijklmnopqrstuvwxyzT"
    assert not found["message"].endswith(".")


def test_unknown_addresses(memory: TestClient) -> None:
    assert "things" in problem(memory, "thing", 404, "B8017")["hint"]
    for name in ("", "_Private", "Private", "%00", "sqlite_master", "things%3Bdrop"):
        problem(memory, name, 404, "B8017")


def test_media_types(client: TestClient) -> None:
    def asked(accept: str, address: str = "things?select=id,name,price,ratio,tags,at") -> Any:
        return client.get(f"/rest/{address}", headers={"accept": accept})

    table = asked("text/csv, application/json;q=0.5")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    found = list(csv.reader(io.StringIO(table.text)))
    assert found[:3] == [
        ["id", "name", "price", "ratio", "tags", "at"],
        ["1", "Ärger", "12.30", "0.30000000000000004", '["a", null, "q\\""]', "2020-01-01T12:00:00.000005Z"],
        ["2", "", "", "", "", ""],
    ]
    assert len(found) == 6
    assert asked("text/csv", "things?id=eq.9&select=id").text == "id\r\n"
    assert asked("text/csv", "things/1?select=id").text == "id\r\n1\r\n"
    single = asked("application/vnd.pgrst.object+json", "things?id=eq.1&select=id")
    assert (single.status_code, single.json()) == (200, {"id": 1})
    assert asked("application/vnd.pgrst.object+json").status_code == 406
    assert asked("application/vnd.pgrst.object+json", "things?id=eq.9").status_code == 406
    for accept in ("*/*", "", "application/*;q=0.2", "text/html, */*;q=0.1"):
        assert asked(accept).headers["content-type"] == "application/json"
    for accept in ("text/html", "application/json;q=0", "text/csv;q=x"):
        assert asked(accept).status_code == 406


def test_methods(memory: TestClient) -> None:
    answer = memory.head("/rest/things?limit=1&select=id")
    assert answer.status_code == 200
    assert answer.headers["link"]
    assert answer.headers["belvedere-epoch"] == "7"
    options = memory.options("/rest/things")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        refused = memory.request(method, "/rest/things")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert refused.json()["code"] == "B8007"


def test_answers_are_tagged_by_epoch(reader: Any) -> None:
    epochs = [EpochRow(7, instant(0), committed_at=instant(1577880001000000))]
    with client_of(reader) as client:
        reader.last_epoch = lambda: epochs[0]
        tag = client.get("/rest/things").headers["etag"]
        if isinstance(reader, MemoryReader):
            before = len(reader.statements)
            again = client.get("/rest/things", headers={"if-none-match": tag})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            assert len(reader.statements) == before
            other = client.get("/rest/things", headers={"if-none-match": tag, "accept": "text/csv"})
            assert other.status_code == 200
            assert other.headers["etag"] != tag
        epochs[0] = EpochRow(8, instant(0), committed_at=instant(1577880002000000))
        assert client.get("/rest/things", headers={"if-none-match": tag}).status_code == 200


def test_nothing_before_the_first_epoch() -> None:
    with client_of(MemoryReader(committed=False)) as client:
        answer = client.get("/rest/things")
        assert (answer.status_code, answer.json()["code"]) == (503, "B8005")
        assert answer.headers["retry-after"] == "1"


def test_tokens_and_foreign_pages() -> None:
    with client_of(MemoryReader(), token="secret") as client:
        assert client.get("/rest/things").status_code == 401
        assert client.get("/rest/things", headers={"authorization": "Bearer secret"}).status_code == 200
        foreign = {"authorization": "Bearer secret", "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert client.get("/rest/things", headers=foreign).status_code == 403


def test_limits_are_those_of_the_settings() -> None:
    with client_of(MemoryReader(), limits=Limits(rows=2, most_rows=3, depth=2, answer=200)) as client:
        assert len(rows(client, "things?select=id")) == 2
        problem(client, "things?limit=4", 400, "B8004")
        problem(client, "things?select=same(same(id))", 400, "B8004")
        problem(client, "things?id=eq.1", 400, "B8004")  # more bytes than an answer may have


def test_requests_of_one_shape_share_a_plan() -> None:
    reader = MemoryReader()
    application = Application(CATALOG, lambda: reader, ServerSettings())
    with TestClient(application) as client:
        for number in range(1, 4):
            assert rows(client, f"things?select=id&id=eq.{number}&name=not.in.(x{number})&limit=1") in (
                [{"id": number}],
                [],
            )
            assert rows(client, f"things/{number}?select=id") == {"id": number}
    assert len(set(reader.statements)) == 2
    assert len(application.served.roles.all.reads.plans) == 2


def test_values_never_reach_the_statement(reader: Any, client: TestClient) -> None:
    for text in ("x' OR 1=1 --", 'x"); DROP TABLE Things; --', "\0", "\x01"):
        assert rows(client, "things", select="id", name=f"eq.{text}") == []
        assert rows(client, "things", select="id", **{"or": f"(name.eq.{json.dumps(text, ensure_ascii=False)})"}) == []
    assert not any("DROP" in s or "OR 1=1" in s for s in reader.statements)


def test_in_process(reader: Any) -> None:
    assert execute_rest(CATALOG, None, reader, "things?select=id&name=eq.%C3%84rger") == [{"id": 1}]
    assert execute_rest(CATALOG, None, reader, "monitoringGroup/501?select=groupName") == {
        "groupName": "Wenatchee Factory"
    }
    assert execute_rest(CATALOG, None, reader, "things/77")["status"] == 404
