"""Filters on related rows: `some` and `none`, nested and combined; Python is the oracle."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import api_example as example
import pyarrow as pa
import pytest
from api_reader import MemoryReader
from sqlglot import exp

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api, execute_graphql
from belvedere.api.limits import Limits
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.templates import Parameter
from belvedere.plan.operators.nodes import Order
from belvedere.store.read.query import Exists, queries_in

CATALOG = example.catalog()
ROWS = example.rows()


def groups(reader: Any, condition: str, catalog: Any = CATALOG) -> list[int]:
    answer = execute_graphql(catalog, None, reader, f"{{ monitoringGroup(filter: {condition}) {{ groupid }} }}")
    assert "errors" not in answer, answer
    return [g["groupid"] for g in answer["data"]["monitoringGroup"]]


def machines(group: int) -> list[dict[str, Any]]:
    return [m for m in ROWS["MonitoringGroup.machines"] if m["groupid"] == group]


GROUPS = [501, 502, 503, 504]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{machines: {some: {}}}", [g for g in GROUPS if machines(g)]),
        ("{machines: {none: {}}}", [g for g in GROUPS if not machines(g)]),
        ("{machines: {}}", GROUPS),
        ("{machines: null}", GROUPS),
        ("{machines: {some: null}}", GROUPS),
        ('{machines: {some: {machineName: {startsWith: "Mill"}}}}', [501]),
        ("{machines: {some: {machineName: {isNull: true}}}}", [502]),
        # a row whose machineName is NULL is unknown for `neq`: it is not one of some, and none is not in its way
        ('{machines: {some: {machineName: {neq: "x"}}}}', [501]),
        ('{machines: {none: {machineName: {neq: "x"}}}}', [502, 503, 504]),
        ("{machines: {some: {machineId: {eq: 1075}}, none: {machineId: {eq: 1098}}}}", []),
        ("{not: {machines: {some: {}}}}", [503, 504]),
        ("{not: {machines: {none: {}}}}", [501, 502]),
        ("{or: [{machines: {none: {}}}, {hourReading: {some: {max_temp: {lt: 31}}}}]}", GROUPS),
        ("{and: [{machines: {none: {}}}, {groupid: {gt: 503}}]}", [504]),
        ("{machines: {some: {parent: {some: {groupName: {isNull: true}}}}}}", [502]),
        ("{machines: {none: {parent: {some: {machines: {some: {machineId: {eq: 1075}}}}}}}}", [502, 503, 504]),
        ('{machines: {some: {machineName: {eq: "\\u0000ä"}}}}', []),
        # LIMIT 3 comes first: among the latest three hours none is colder than 15
        ("{lastHours: {some: {avg_temp: {gt: 15.5}}}}", [501, 502]),
        ("{lastHours: {some: {avg_temp: {gt: 16}}}}", []),
        ("{hourReading: {some: {avg_temp: {gt: 16}}}}", [501, 502]),
        ("{lastHour: {some: {max_temp: {eq: 30.5}}}}", [501, 502]),
        ("{warmHours: {some: {avg_temp: {lt: 20.5}}}}", [501, 502]),
        ("{warmHours: {some: {avg_temp: {lt: 19}}}}", []),
    ],
)
def test_related_rows_choose(reader: Any, condition: str, expected: list[int]) -> None:
    assert groups(reader, condition) == expected
    assert len(reader.statements) == 1


def test_related_filters_in_every_place(reader: Any) -> None:
    """Lists, pages, aggregates and nested lists take the same filter."""
    text = """query($f: MonitoringGroupFilter, $m: MonitoringGroup_machinesFilter) {
      monitoringGroupPage(filter: $f, last: 1) { nodes { groupid } totalCount }
      monitoringGroupAggregate(filter: $f) { count }
      monitoringGroup(filter: $f, order: [{groupid: DESC}]) { groupid machines(filter: $m) { machineId } }
    }"""
    variables = {
        "f": {"machines": {"some": {"machineId": {"gt": 0}}}},
        "m": {"parent": {"none": {"groupName": {"isNull": True}}}},
    }
    answer = execute_graphql(CATALOG, None, reader, text, variables)["data"]
    assert answer == {
        "monitoringGroupPage": {"nodes": [{"groupid": 502}], "totalCount": 2},
        "monitoringGroupAggregate": [{"count": 2}],
        "monitoringGroup": [
            {"groupid": 502, "machines": []},
            {"groupid": 501, "machines": [{"machineId": 1075}, {"machineId": 1098}]},
        ],
    }
    assert len(reader.statements) == 1


def above() -> Any:
    """The example with a relationship that has parameters, one of them the limit."""
    above_least = exp.GT(this=exp.column("avg_temp", table="h", quoted=True), expression=exp.Placeholder(this="some"))
    latest = (Order(exp.column("time_hour", table="h", quoted=True), descending=True),)
    relationship = Relationship(
        "MonitoringGroup",
        "above",
        "MonitoringGroup.hourReading",
        (("groupid", "groupid"),),
        above_least,
        latest,
        parameters=(Parameter("some", pa.float64()), Parameter("most", pa.int32())),
        most="most",
    )
    return replace(CATALOG, relationships=(*CATALOG.relationships, relationship))


def test_parameters_of_relationships_in_filters(reader: Any) -> None:
    catalog = above()
    warm = '{above: {some_2: 20, most: %d, some: {time_hour: {lt: "2019-12-31T00:00:00Z"}}}}'
    assert groups(reader, warm % 100, catalog) == [501, 502]
    assert groups(reader, warm % 2, catalog) == []
    assert groups(reader, "{above: {some_2: 20, most: 0, none: {}}}", catalog) == GROUPS
    assert groups(reader, "{above: {some_2: 20, most: 1, some: {}, none: {avg_temp: {gt: 99}}}}", catalog) == [501, 502]
    errors = execute_graphql(catalog, None, reader, "{ monitoringGroup(filter: {above: {some: {}}}) { groupid } }")[
        "errors"
    ]
    assert "some_2" in errors[0]["message"]


def test_a_walk_over_a_read_meets_what_filters_read(reader: Any) -> None:
    api = Api(CATALOG, reader)
    text = """{ monitoringGroup(filter: {or: [{not: {machines: {some: {}}}},
    {hourReading: {none: {parent: {some: {}}}}}]}) {
      groupid } }"""
    operation, literals = api.operations.find(text, None)
    read = api.operations.prepare(operation, literals, {}).plan.draft.read
    met = [q.relation for q in queries_in(read.fields)]
    assert met == ["MonitoringGroup", "MonitoringGroup.machines", "MonitoringGroup.hourReading", "MonitoringGroup"]
    assert isinstance(read.fields[0].query.where.parts[1].parts[0].part, Exists)  # type: ignore[union-attr]


def refused(limits: Limits, condition: str, more: str = "") -> str:
    api = Api(CATALOG, MemoryReader(), limits=limits)
    with pytest.raises(RequestError) as found:
        api.answer(f"{{ monitoringGroup(filter: {condition}{more}) {{ groupid }} }}")
    return found.value.message


def test_limits_count_related_filters() -> None:
    deep = "{machines: {some: {parent: {some: {machines: {some: {}}}}}}}"
    assert "nested 4 levels deep" in refused(Limits(depth=3), deep)
    assert json.loads(
        Api(CATALOG, MemoryReader(), limits=Limits(depth=4)).answer(
            f"{{ monitoringGroup(filter: {deep}) {{ groupid }} }}"
        )
    )
    # 1000 rows with a field of their own, each with 10 related rows with a field, each of which has one row with a
    # field
    assert "the request costs 42000," in refused(
        Limits(cost=41_999), "{machines: {some: {parent: {none: {}}}}}", ", limit: 1000"
    )


def test_filters_as_deep_as_allowed(reader: Any) -> None:
    condition = "{}"
    for level in range(Limits().depth - 1):
        condition = f"{{{'parent' if level % 2 else 'machines'}: {{some: {condition}}}}}"
    text = f"{{ monitoringGroup_machines(filter: {condition}) {{ machineId }} }}"
    answer = json.loads(Api(CATALOG, reader, limits=Limits(cost=10**12)).answer(text))
    assert len(answer["data"]["monitoringGroup_machines"]) == 3, answer
