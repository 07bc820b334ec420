"""Answers of the generated GraphQL API over the example catalog."""

from __future__ import annotations

from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader

from belvedere.api.graphql.api import execute_graphql
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.sqlite.python_sqlite import library

CATALOG = example.catalog()


def ask(reader: Any, text: str, **variables: Any) -> dict[str, Any]:
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert "errors" not in answer, answer
    data: dict[str, Any] = answer["data"]
    return data


def refusal(reader: Any, text: str, **variables: Any) -> dict[str, Any]:
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert "data" not in answer, answer
    error: dict[str, Any] = answer["errors"][0]
    return error


def ids(reader: Any, condition: str, **variables: Any) -> list[int]:
    declared = "query($v: {}) ".format(variables.pop("type")) if variables else ""
    return [
        t["id"] for t in ask(reader, f"{declared}{{ things(filter: {condition}) {{ id }} }}", **variables)["things"]
    ]


@pytest.mark.smoke("way GraphQL")
def test_the_papers_query(reader: MemoryReader) -> None:
    data = ask(
        reader,
        """{ monitoringGroup(filter: {groupid: {eq: 501}}) { groupName machines { machineId machineName }
             hourReading(limit: 24, order: [{time_hour: DESC}]) { time_hour avg_temp max_temp } } }""",
    )
    (group,) = data["monitoringGroup"]
    assert group["groupName"] == "Wenatchee Factory"
    assert group["machines"] == [
        {"machineId": 1075, "machineName": "Mill Saw"},
        {"machineId": 1098, "machineName": "Wood Grinder"},
    ]
    assert len(group["hourReading"]) == 24
    assert group["hourReading"][0] == {"time_hour": "2020-01-01T12:00:00Z", "avg_temp": 15.0, "max_temp": 30.5}
    assert group["hourReading"][23]["time_hour"] == "2019-12-31T13:00:00Z"
    assert len(reader.statements) == 1


def test_every_type_is_exact(reader: MemoryReader) -> None:
    fields = "id flag small big ratio price wide name at day raw tags info { a b } address_city"
    first, nothing, odd, last, low = ask(reader, f"{{ things {{ {fields} }} }}")["things"]
    assert first == {
        "id": 1, "flag": True, "small": -5, "big": 2**62, "ratio": 0.30000000000000004, "price": "12.30",
        "wide": "-12345678901234567890123456789.125", "name": "Ärger", "at": "2020-01-01T12:00:00.000005Z",
        "day": "2020-02-29", "raw": "00ff", "tags": ["a", None, 'q"'], "info": {"a": 1, "b": 2.5},
        "address_city": "Łódź",
    }  # fmt: skip
    assert set(nothing.values()) == {2, None}
    assert (odd["ratio"], odd["price"], odd["wide"]) == (None, "-0.05", "0.001")
    assert (odd["at"], odd["day"], odd["flag"]) == ("1969-12-31T23:59:59.999999Z", "1969-12-31", False)
    assert (last["ratio"], low["ratio"], last["wide"]) == (None, None, "5.000")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{}", [1, 2, 3, 4, 5]),
        ("{id: {gt: 3}}", [4, 5]),
        ("{id: {gte: 3, lt: 5}}", [3, 4]),
        ("{id: {in: [1, 5, 9]}}", [1, 5]),
        ("{id: {in: []}}", []),
        ("{id: {notIn: []}}", [1, 2, 3, 4, 5]),
        ("{id: {notIn: 3}}", [1, 2, 4, 5]),
        ("{flag: {eq: false}}", [3]),
        ("{flag: {isNull: true}}", [2, 4, 5]),
        ("{small: {neq: 7}}", [1]),
        ("{not: {small: {eq: 7}}}", [1]),
        ("{ratio: {gt: 1e300}}", [3, 4]),
        ("{ratio: {lte: 0.30000000000000004}}", [1, 5]),
        ('{price: {eq: "12.3"}}', [1]),
        ("{price: {eq: 12.300}}", [1]),
        ('{price: {eq: "12.305"}}', []),
        ('{price: {neq: "12.305"}}', [1, 3, 4, 5]),
        ('{price: {gt: "12.305"}}', [5]),
        ('{price: {gte: "12.305"}}', [5]),
        ('{price: {lt: "12.305"}}', [1, 3, 4]),
        ('{price: {lte: "12.305"}}', [1, 3, 4]),
        ('{price: {gte: "12.30"}}', [1, 5]),
        ('{price: {lt: "1e30"}}', [1, 3, 4, 5]),
        ('{wide: {lt: "0.001"}}', [1]),
        ('{wide: {gte: "0.001"}}', [3, 4]),
        ('{wide: {eq: "-12345678901234567890123456789.125"}}', [1]),
        ('{wide: {gt: "0.0005"}}', [3, 4]),
        ('{name: {eq: "Ärger"}}', [1]),
        ('{name: {ilike: "ÄRG%"}}', [1, 4]),
        ('{name: {like: "ärg%"}}', [4]),
        (r'{name: {like: "a\\_b%"}}', [3]),
        ('{name: {like: "a_%"}}', [3, 5]),
        ('{name: {like: "a_"}}', [5]),
        ('{name: {startsWith: "a_"}}', [3]),
        ('{name: {contains: "%"}}', [3]),
        ('{name: {contains: ""}}', [1, 3, 4, 5]),
        ('{at: {eq: "2020-01-01T13:00:00.000005+01:00"}}', [1]),
        ('{at: {lt: "1970-01-01T00:00:00Z"}}', [3]),
        ('{day: {lte: "1970-01-01"}}', [3]),
        ('{raw: {eq: "00FF"}}', [1]),
        ("{tags: {isNull: false}}", [1]),
        ('{or: [{id: {eq: 1}}, {name: {eq: "ab"}}]}', [1, 5]),
        ("{or: []}", []),
        ("{and: []}", [1, 2, 3, 4, 5]),
        ("{and: [{id: {gt: 1}}, {or: [{id: {lt: 3}}, {flag: {eq: false}}]}]}", [2, 3]),
        ("{not: {or: [{id: {eq: 1}}, {id: {eq: 2}}]}, id: {lt: 5}}", [3, 4]),
        ('{address_city: {eq: "Łódź"}}', [1]),
    ],
)
def test_filters(reader: MemoryReader, condition: str, expected: list[int]) -> None:
    assert ids(reader, condition) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("[{ratio: ASC}]", [2, 5, 1, 4, 3]),
        ("[{ratio: DESC}]", [3, 4, 1, 5, 2]),
        ("[{ratio: ASC_NULLS_LAST}]", [5, 1, 4, 3, 2]),
        ("[{ratio: DESC_NULLS_FIRST}]", [2, 3, 4, 1, 5]),
        ("{small: DESC}", [4, 5, 1, 2, 3]),
        ("[{small: ASC}, {id: DESC}]", [3, 2, 1, 5, 4]),
        ("[{wide: ASC_NULLS_LAST}]", [1, 3, 4, 2, 5]),
        ("[{name: ASC_NULLS_LAST}]", [3, 5, 1, 4, 2]),
        ("[{price: DESC}]", [5, 1, 4, 3, 2]),
    ],
)
def test_orders(reader: MemoryReader, order: str, expected: list[int]) -> None:
    assert [t["id"] for t in ask(reader, f"{{ things(order: {order}) {{ id }} }}")["things"]] == expected


def test_limit_offset_and_their_bounds(reader: MemoryReader) -> None:
    data = ask(reader, "{ things(limit: 2, offset: 1) { id } none: things(limit: 0) { id } }")
    assert data == {"things": [{"id": 2}, {"id": 3}], "none": []}
    assert (
        len(
            ask(reader, "{ monitoringGroup(limit: 1) { hourReading { avg_temp } } }")["monitoringGroup"][0][
                "hourReading"
            ]
        )
        == 40
    )
    error = refusal(reader, "{ things(limit: 1001) { id } }")
    assert error["extensions"]["code"] == "B8004"
    assert error["message"] == "`limit`: must be between 0 and 1000, not 1001"
    assert "between 0" in refusal(reader, "query($n: Int) { things(limit: $n) { id } }", n=-1)["message"]


def test_relationships(reader: MemoryReader) -> None:
    data = ask(
        reader,
        """{ monitoringGroup(limit: 3) { lastHour { time_hour parent { groupid } } lastHours { max_temp }
             oldest: lastHours(order: [{time_hour: ASC}], limit: 2) { max_temp }
             skipped: lastHours(offset: 1) { max_temp } some: lastHours(filter: {max_temp: {gt: 31}}) { max_temp }
             warmHours(order: {avg_temp: ASC}, limit: 1) { avg_temp } } }""",
    )
    first, _, without = data["monitoringGroup"]
    assert first["lastHour"] == {"time_hour": "2020-01-01T12:00:00Z", "parent": {"groupid": 501}}
    assert [h["max_temp"] for h in first["lastHours"]] == [30.5, 31.5, 32.5]
    assert [h["max_temp"] for h in first["oldest"]] == [32.5, 31.5]
    assert [h["max_temp"] for h in first["skipped"]] == [31.5, 32.5]
    assert [h["max_temp"] for h in first["some"]] == [31.5, 32.5]
    assert first["warmHours"] == [{"avg_temp": 20.333333333333336}] or first["warmHours"][0]["avg_temp"] > 20
    assert without == {"lastHour": None, "lastHours": [], "oldest": [], "skipped": [], "some": [], "warmHours": []}


def test_null_never_joins(reader: MemoryReader) -> None:
    rows = ask(reader, "{ things { id same { id } } }")["things"]
    assert [len(r["same"]) for r in rows] == [1, 0, 1, 1, 1]


def test_by_key_and_page(reader: MemoryReader) -> None:
    data = ask(
        reader,
        "{ monitoringGroupByKey(groupid: 503) { groupName } gone: monitoringGroupByKey(groupid: 1) { groupid } }",
    )
    assert data == {"monitoringGroupByKey": {"groupName": 'Käserei "Ö"\n'}, "gone": None}


@pytest.mark.parametrize("order", ["", "order: [{ratio: DESC}]", "order: [{small: ASC_NULLS_LAST}, {name: DESC}]"])
def test_pages_partition_the_rows(reader: MemoryReader, order: str) -> None:
    whole = [t["id"] for t in ask(reader, f"{{ things({order}) {{ id }} }}".replace("()", ""))["things"]]
    seen: list[int] = []
    after = None
    text = (
        f"query($after: Cursor) {{ thingsPage(first: 2, after: $after, {order}) {{ nodes {{ id }} endCursor "
        "hasNextPage } }"
    )
    for _ in range(3):
        page = ask(reader, text, after=after)["thingsPage"]
        seen += [n["id"] for n in page["nodes"]]
        after = page["endCursor"]
        assert page["hasNextPage"] is (len(seen) < 5)
    assert seen == whole


def test_an_empty_page(reader: MemoryReader) -> None:
    data = ask(reader, "{ thingsPage(filter: {id: {lt: 0}}) { nodes { id } endCursor hasNextPage __typename } }")
    assert data["thingsPage"] == {"nodes": [], "endCursor": None, "hasNextPage": False, "__typename": "ThingsPage"}
    assert "not a cursor" in refusal(reader, '{ thingsPage(after: "zz") { hasNextPage } }')["message"]


def test_fragments_directives_and_aliases(reader: MemoryReader) -> None:
    text = """query All($no: Boolean!, $f: ThingsFilter, $o: [ThingsOrder!]) {
      t: things(filter: $f, order: $o) { ...A
        ... on Things { small @include(if: $no) } ... @skip(if: $no) { kind: __typename } }
    } fragment A on Things { id twice: id }"""
    data = ask(reader, text, no=False, f={"id": {"in": [1, 2]}}, o=[{"id": "DESC"}])
    assert data["t"] == [{"id": 2, "twice": 2, "kind": "Things"}, {"id": 1, "twice": 1, "kind": "Things"}]
    data = ask(reader, text, no=True, f={"id": {"eq": 4}}, o={"id": "ASC"})
    assert data["t"] == [{"id": 4, "twice": 4, "small": 7}]


def test_private_things_never_show(reader: MemoryReader) -> None:
    data = ask(reader, "{ __schema { types { name fields { name } } } }")
    shown = str(data)
    for name in ("_Private", "_secret", "_hidden", "_uid", "_ingest_time", "_index", "_key"):
        assert f"'{name}'" not in shown
    assert refusal(reader, "{ things { _secret } }")["extensions"]["code"] == "B8002"


def test_introspection_beside_data(reader: MemoryReader) -> None:
    data = ask(reader, '{ a: things(limit: 1) { id } __type(name: "Things") { name } __typename }')
    assert data == {"a": [{"id": 1}], "__type": {"name": "Things"}, "__typename": "Query"}
    assert list(data) == ["a", "__type", "__typename"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{ monitoringGroup(filter = {groupid: {eq: 501}}) { groupName } }", "write `:`"),
        ("monitoringGroup { groupName }", "braces"),
        ("{ monitoringGrup { groupName } }", "did you mean 'monitoringGroup'"),
        ("{ monitoringGroup { groupname } }", "did you mean 'groupName'"),
        ("{ monitoringGroup { machines } }", "select its fields"),
        ("{ things(filter: {id: {eq: null}}) { id } }", "isNull"),
    ],
)
def test_mistakes_are_answered_with_what_to_write(reader: MemoryReader, text: str, hint: str) -> None:
    assert hint in refusal(reader, text)["extensions"]["hint"]


def test_a_value_that_does_not_fit(reader: MemoryReader) -> None:
    assert refusal(reader, "{ things(filter: {id: {eq: null}}) { id } }")["extensions"]["code"] == "B8003"


@pytest.mark.parametrize(
    ("reported", "store", "answered"),
    [
        ("interrupted", "B7086", "B8006"),
        ("parser stack overflow", "B7087", "B8004"),
        ("no such table: Things", "B7014", "B8005"),
        ("no such column: t.new", "B7014", "B8005"),
        ("something new", "B7099", "B8009"),
    ],
)
def test_what_a_client_learns_of_a_failed_read(reader: MemoryReader, reported: str, store: str, answered: str) -> None:
    found = DIALECTS["sqlite"].fault(Exception(reported), "sqlite:///x.db")
    assert found.diagnostics[0].code == store

    def fails(*_: Any) -> Any:
        raise found

    reader.execute = fails  # type: ignore[method-assign]
    assert refusal(reader, "{ things { id } }")["extensions"]["code"] == answered


def test_before_the_first_epoch() -> None:
    reader = MemoryReader(committed=False)
    assert refusal(reader, "{ things { id } }")["extensions"]["code"] == "B8005"


def test_extensions(reader: MemoryReader) -> None:
    answer = execute_graphql(CATALOG, None, reader, "{ things { id } }")
    assert answer["extensions"]["epoch"] == 7
    assert answer["extensions"]["asOf"] == "2020-01-01T12:00:00Z"
    assert answer["extensions"]["freshnessMs"] > 0


def test_literals_are_not_part_of_a_plan(reader: MemoryReader) -> None:
    from belvedere.api.graphql.api import Api

    api = Api(CATALOG, reader)
    for number in range(20):
        api.answer(
            f'{{ things(filter: {{id: {{eq: {number}}}, name: {{like: "a{number}"}}}}, limit: {number}) {{ id }} }}'
        )
        api.answer("query($n: Long) { things(filter: {id: {eq: $n}}) { id } }", {"n": number})
    assert api.operations.misses == 2
    assert len(set(reader.statements)) == 2


def test_deep_requests_answer_or_say_that_they_are_too_deep(reader: Any) -> None:
    for levels in range(1, 7):
        text = (
            "{ monitoringGroup(limit: 1) "
            + "{ hourReading(limit: 1) { parent " * levels
            + "{ groupid }"
            + " } }" * levels
            + " }"
        )
        answer = execute_graphql(CATALOG, None, _diagnosing(reader), text)
        if "errors" in answer:
            assert levels > 2
            assert answer["errors"][0]["extensions"]["code"] == "B8004"
            return
        found = answer["data"]["monitoringGroup"][0]
        for _ in range(levels):
            found = found["hourReading"][0]["parent"]
        assert found == {"groupid": 501}


class _diagnosing:
    """The reader in memory with the diagnostics of a real one."""

    def __init__(self, reader: Any):
        self.reader, self.dialect = reader, reader.dialect

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        with DIALECTS["sqlite"].guarded("sqlite:///memory", (library.Error,)):
            return self.reader.execute(sql, parameters)
