"""Pages: from the front and from the end, between cursors, of relationships, with the number of all rows."""

from __future__ import annotations

import json
from typing import Any

import api_example as example
import pytest

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api, execute_graphql
from belvedere.api.limits import Limits

CATALOG = example.catalog()
PARTS = "nodes { id } startCursor endCursor hasNextPage hasPreviousPage totalCount"
ORDERS = ("", "order: [{small: DESC}]", "order: [{ratio: ASC}, {name: DESC}]", "order: [{price: ASC_NULLS_LAST}]")


def ask(reader: Any, text: str, **variables: Any) -> Any:
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert "errors" not in answer, answer
    return answer["data"]


def page(reader: Any, arguments: str, parts: str = PARTS) -> Any:
    given = f"({arguments.strip(', ')})" if arguments.strip(", ") else ""
    return ask(reader, f"{{ thingsPage{given} {{ {parts} }} }}")["thingsPage"]


def at(argument: str, cursor: str | None) -> str:
    """The argument with a cursor; nothing without one."""
    return "" if cursor is None else f'{argument}: "{cursor}"'


def ids(found: Any) -> list[int]:
    return [n["id"] for n in found["nodes"]]


@pytest.mark.parametrize("order", ORDERS)
def test_every_page_between_cursors(reader: Any, order: str) -> None:
    """All pages of all sizes from each end, and what they say of the rows around them."""
    everything = ids(page(reader, order))
    first = {i: page(reader, f"{order}, first: 1, {at('after', c)}") for i, c in _cursors(reader, order, everything)}
    cursor = {number: found["endCursor"] for number, found in first.items()}
    for number, found in first.items():
        assert (ids(found), found["startCursor"]) == ([everything[number]], found["endCursor"])
    size = len(everything)
    for start in range(-1, size):
        for end in range(start + 1, size + 1):
            between = everything[start + 1 : end]
            places = f"{at('after', cursor.get(start))} {at('before', cursor.get(end))}"
            front = page(reader, f"{order}, first: 2, {places}")
            assert ids(front) == between[:2]
            assert front["hasNextPage"] is (len(between) > 2 or end < size)
            assert front["hasPreviousPage"] is (start >= 0)
            back = page(reader, f"{order}, last: 2, {places}")
            assert ids(back) == between[-2:]
            assert back["hasPreviousPage"] is (len(between) > 2 or start >= 0)
            assert back["hasNextPage"] is (end < size)
            assert {front["totalCount"], back["totalCount"]} == {size}
            if between:
                assert back["startCursor"] == cursor[everything.index(between[-2:][0])]
                assert back["endCursor"] == cursor[everything.index(between[-1])]
            else:
                assert (front["startCursor"], front["endCursor"], back["endCursor"]) == (None, None, None)


def _cursors(reader: Any, order: str, everything: list[int]) -> list[tuple[int, str | None]]:
    """The place in front of each row."""
    found: list[tuple[int, str | None]] = []
    after = None
    for number in range(len(everything)):
        found.append((number, after))
        after = page(reader, f"{order}, first: 1, {at('after', after)}")["endCursor"]
    return found


def test_backward_through_a_list(reader: Any) -> None:
    seen: list[int] = []
    before = None
    while True:
        found = page(reader, f"last: 2{at(', before', before)}")
        seen = ids(found) + seen
        if not found["hasPreviousPage"]:
            break
        before = found["startCursor"]
    assert seen == [1, 2, 3, 4, 5]


def test_before_without_a_size_gives_the_rows_in_front(reader: Any) -> None:
    last = page(reader, "last: 1")["endCursor"]
    text = f'{{ thingsPage(before: "{last}") {{ nodes {{ id }} hasPreviousPage }} }}'
    answer = json.loads(Api(CATALOG, reader, limits=Limits(rows=2)).answer(text))["data"]["thingsPage"]
    assert answer == {"nodes": [{"id": 3}, {"id": 4}], "hasPreviousPage": True}
    text = f'query($n: Int) {{ thingsPage(before: "{last}", first: $n, last: null, after: null) {{ nodes {{ id }} }} }}'
    assert ids(ask(reader, text, n=2)["thingsPage"]) == [1, 2]
    assert ids(ask(reader, text, n=None)["thingsPage"]) == [1, 2, 3, 4]


def test_the_row_of_a_cursor_may_be_gone(reader: Any) -> None:
    """A cursor is a place: rows at it count as in front of what is after it."""
    end = page(reader, "first: 3")["endCursor"]
    found = page(reader, f'filter: {{id: {{neq: 3}}}}, first: 1, after: "{end}"')
    assert (ids(found), found["hasPreviousPage"], found["totalCount"]) == ([4], True, 4)
    found = page(reader, f'filter: {{id: {{gt: 3}}}}, first: 1, after: "{end}"')
    assert (ids(found), found["hasPreviousPage"], found["totalCount"]) == ([4], False, 2)


def test_empty_pages(reader: Any) -> None:
    nothing = {
        "nodes": [],
        "startCursor": None,
        "endCursor": None,
        "hasNextPage": False,
        "hasPreviousPage": False,
        "totalCount": 0,
    }
    assert page(reader, "filter: {id: {gt: 99}}") == nothing
    assert page(reader, "filter: {id: {gt: 99}}, last: 3") == nothing
    some = page(reader, "last: 0")
    assert some == nothing | {"hasPreviousPage": True, "totalCount": 5}


@pytest.mark.parametrize(
    "arguments", ["", "first: 1", "last: 1", "first: 0", "filter: {id: {eq: -1}}", "last: 2, filter: {id: {eq: -1}}"]
)
def test_a_part_alone_is_as_it_is_beside_others(reader: Any, arguments: str) -> None:
    whole = page(reader, arguments)
    places = f"{arguments}, {at('before', whole['startCursor'])}"
    for given, parts in ((arguments, whole), (places, page(reader, places))):
        for name in PARTS.rpartition("}")[2].split():
            assert page(reader, given, name) == {name: parts[name]}


def test_aliases_of_parts(reader: Any) -> None:
    found = page(
        reader,
        "last: 1",
        "n: totalCount m: totalCount a: nodes { id } b: nodes { name } c: startCursor d: startCursor __typename",
    )
    assert (found["n"], found["m"], found["a"], found["b"]) == (5, 5, [{"id": 5}], [{"name": "ab"}])
    assert found["c"] == found["d"]
    assert (found["__typename"], list(found)) == ("ThingsPage", ["n", "m", "a", "b", "c", "d", "__typename"])


def test_pages_of_relationships(reader: Any) -> None:
    """Each row has its own page; a relationship with LIMIT 3 has three rows, whatever the page."""
    text = """query($after: Cursor, $before: Cursor) { monitoringGroup(limit: 3) { groupid
      hourReadingPage(first: 2, order: [{time_hour: DESC}], after: $after) { nodes { time_hour } endCursor totalCount
          hasPreviousPage }
      lastHoursPage(last: 2, before: $before) { nodes { time_hour } startCursor totalCount hasNextPage hasPreviousPage }
    } }"""
    hours = {g: sorted((h["time_hour"] for h in example.rows()["MonitoringGroup.hourReading"] if h["groupid"] == g),
                       reverse=True)
             for g in (501, 502, 503)}  # fmt: skip
    shown = {g: [h.strftime("%Y-%m-%dT%H:%M:%SZ") for h in values] for g, values in hours.items()}
    after = before = None
    for start in (0, 2):
        found = ask(reader, text, after=after, before=before)["monitoringGroup"]
        for group in found:
            own = shown[group["groupid"]]
            there = group["hourReadingPage"]
            # the place after 501's second row is one in front of 502's second: the key breaks ties of time
            skipped = min(start, 1) if group["groupid"] == 502 else start
            assert [n["time_hour"] for n in there["nodes"]] == own[skipped : skipped + 2]
            assert (there["totalCount"], there["hasPreviousPage"]) == (len(own), start > 0 and bool(own))
            latest = own[:3] if before is None else own[:1]
            bounded = group["lastHoursPage"]
            assert [n["time_hour"] for n in bounded["nodes"]] == latest[-2:]
            assert bounded["totalCount"] == len(own[:3])
            assert bounded["hasPreviousPage"] is (len(latest) > 2)
            assert bounded["hasNextPage"] is (before is not None and bool(own))
        after, before = found[0]["hourReadingPage"]["endCursor"], found[0]["lastHoursPage"]["startCursor"]
    assert len(reader.statements) == 2


def test_pages_within_pages(reader: Any) -> None:
    text = """{ monitoringGroupPage(last: 3, order: [{groupid: DESC}]) { totalCount nodes { groupid machinesPage(first:
    1) {
      hasNextPage nodes { machineName parent { groupid machinesPage(last: 1) { nodes { machineName } } } } } } } }"""
    found = ask(reader, text)["monitoringGroupPage"]
    assert found["totalCount"] == 4
    assert [n["groupid"] for n in found["nodes"]] == [503, 502, 501]
    assert found["nodes"][2]["machinesPage"] == {
        "hasNextPage": True,
        "nodes": [
            {
                "machineName": "Mill Saw",
                "parent": {"groupid": 501, "machinesPage": {"nodes": [{"machineName": "Wood Grinder"}]}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("first: 1, last: 1", "`first` and `last` cannot be used together"),
        ('before: "5B5D"', "`before` is not a cursor of this list"),
        ('after: "5B5D"', "`after` is not a cursor of this list"),
        ("last: 1001", "`last`: must be between 0 and 1000, not 1001"),
        ("last: -1", "`last`: must be between 0 and 2147483647, not -1"),
    ],
)
def test_mistakes_are_refused(reader: Any, arguments: str, message: str) -> None:
    answer = execute_graphql(CATALOG, None, reader, f"{{ thingsPage({arguments}) {{ nodes {{ id }} }} }}")
    assert [e["message"] for e in answer["errors"]] == [message]
    nested = f"{{ monitoringGroup {{ machinesPage({arguments}) {{ nodes {{ machineId }} }} }} }}"
    assert [e["message"] for e in execute_graphql(CATALOG, None, reader, nested)["errors"]] == [message]


def test_a_cursor_of_another_order_is_refused_from_both_ends(reader: Any) -> None:
    cursor = page(reader, "order: [{small: ASC}], first: 1")["endCursor"]
    for end in ("after", "before"):
        text = f'{{ thingsPage({end}: "{cursor}", order: [{{small: DESC}}]) {{ nodes {{ id }} }} }}'
        (error,) = execute_graphql(CATALOG, None, reader, text)["errors"]
        assert error["message"] == f"`{end}` is not a cursor of this list"
        assert ("startCursor" in error["extensions"]["hint"]) is (end == "before")


def test_limits_count_pages(reader: Any) -> None:
    nested = "{ monitoringGroup(limit: 1000) { hourReadingPage(first: 1000) { nodes { max_temp } totalCount } } }"
    with pytest.raises(RequestError, match="the request costs"):
        Api(CATALOG, reader, limits=Limits(cost=4_000_000)).answer(nested)
    with pytest.raises(RequestError, match="nested 2 levels deep"):
        Api(CATALOG, reader, limits=Limits(depth=1)).answer("{ monitoringGroup { machinesPage { totalCount } } }")
