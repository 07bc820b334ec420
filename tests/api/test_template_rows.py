"""Query templates that select rows of a view return the view's type, with relationships, a filter and an order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import api_example as example
import pyarrow as pa
import pytest
from api_reader import MemoryReader
from graphql import print_type
from sqlglot import exp, parse_one

from belvedere.api import execute_rest
from belvedere.api.graphql.api import Api, execute_graphql
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.templates import Parameter, QueryTemplate
from belvedere.compiler import compile_script
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Filter, Item, Node, Order, Project, Scan, TopK
from belvedere.store.read.query import Nested, queries_in

THINGS = Scan("Things", example.THINGS)
SHOWN = tuple(c.name for c in example.THINGS.visible)


def expression(text: str) -> exp.Expression:
    tree = parse_one(text, dialect="spark")
    for found in tree.find_all(exp.Column):
        found.this.set("quoted", True)
    return tree


def named(node: Node, names: tuple[str, ...], prefix: str = "", was: str = "") -> Project:
    """The columns under other names, as the plan of `SELECT t.* FROM Things t` has them."""
    return Project(node, tuple(Item(prefix + n, column(was + n), node.schema[was + n].type) for n in names))


def chosen(condition: str, order: tuple[Order, ...] = (), names: tuple[str, ...] = SHOWN, **bound: Any) -> Node:
    node: Node = Filter(named(THINGS, SHOWN, "t."), expression(condition))
    if order or bound:
        node = TopK(node, order, **({"limit": None} | bound))
    return named(node, names, was="t.")


def catalog(plan: Node, *parameters: Parameter) -> Catalog:
    base = example.catalog()
    return replace(base, templates={"Asked": QueryTemplate("Asked", parameters, plan, plan.schema)})


def ask(reader: Any, plan: Node, arguments: str, fields: str = "id", *parameters: Parameter) -> Any:
    answer = execute_graphql(catalog(plan, *parameters), None, reader, f"{{ asked{arguments} {{ {fields} }} }}")
    assert "errors" not in answer, answer
    return answer["data"]["asked"]


def ids(found: Any) -> list[int]:
    return [r["id"] for r in found]


LEAST = Parameter("least", pa.int64())
BY_NAME = (Order(column("t.name"), True),)


def test_rows_have_the_views_type_and_relationships(reader: Any) -> None:
    plan = chosen("`t.id` >= :least")
    found = ask(reader, plan, '(least: 2, filter: {name: {startsWith: "a"}})', "__typename id same { id name }", LEAST)
    assert found == [
        {"__typename": "Things", "id": 3, "same": [{"id": 3, "name": "a_b%c"}]},
        {"__typename": "Things", "id": 5, "same": [{"id": 5, "name": "ab"}]},
    ]
    assert len(reader.statements) == 1


def test_filter_and_order_apply_to_what_it_chose(reader: Any) -> None:
    top = chosen("`t.name` IS NOT NULL", BY_NAME, limit=3)
    assert ids(ask(reader, top, "")) == [4, 1, 5]
    assert ids(ask(reader, top, "(limit: 2)")) == [4, 1]
    assert ids(ask(reader, top, "(order: [{id: ASC}])")) == [1, 4, 5]
    assert ids(ask(reader, top, "(filter: {id: {lt: 4}})")) == [1]
    assert ids(ask(reader, top, "(filter: {id: {lt: 4}}, offset: 1)")) == []
    assert ids(ask(reader, top, "(filter: {same: {none: {id: {gt: 4}}}})")) == [4, 1]
    most = chosen("`t.name` IS NOT NULL", BY_NAME, most="least")
    assert ids(ask(reader, most, "(least: 2)", "id", LEAST)) == [4, 1]
    assert ids(ask(reader, most, "(least: 0)", "id", LEAST)) == []
    assert ids(ask(reader, most, "(least: 9, limit: 1)", "id", LEAST)) == [4]


def test_an_order_without_a_bound(reader: Any) -> None:
    plan = chosen("true", (Order(column("t.small"), True), Order(column("t.price"))))
    assert ids(ask(reader, plan, "")) == [4, 5, 1, 2, 3]
    assert ids(ask(reader, plan, "(order: [{price: DESC}])")) == [5, 1, 4, 3, 2]


@pytest.mark.parametrize(
    "plan",
    [
        chosen("true", names=("id", "name")),
        chosen("true", BY_NAME, limit=3, offset=1),
        named(Filter(TopK(named(THINGS, SHOWN, "t."), BY_NAME, limit=3), expression("`t.id` > 1")), SHOWN, was="t."),
        Project(
            THINGS,
            (Item("id", column("big"), pa.int64()), *(Item(n, column(n), THINGS.schema[n].type) for n in SHOWN[1:])),
        ),
    ],
    ids=["fewer columns", "an offset", "a condition on a bounded list", "a column under another's name"],
)
def test_what_does_more_keeps_a_type_of_its_own(plan: Node) -> None:
    template = model_of(catalog(plan)).templates["asked"]
    assert (template.rows, template.type_name) == (None, "Asked")
    answer = execute_graphql(catalog(plan), None, MemoryReader(), "{ asked { __typename id } }")
    assert {r["__typename"] for r in answer["data"]["asked"]} == {"Asked"}


def test_parameters_with_the_names_of_arguments(reader: Any) -> None:
    plan = chosen("`t.id` = :filter OR `t.id` = :order")
    parameters = (Parameter("filter", pa.int64()), Parameter("order", pa.int64()))
    assert ids(ask(reader, plan, "(filter_2: 3, order_2: 5)", "id", *parameters)) == [3, 5]


def test_the_read_tells_its_relation_and_its_template() -> None:
    api = Api(catalog(chosen("`t.id` > :least"), LEAST), MemoryReader())
    operation, literals = api.operations.find("{ asked(least: 1) { same { id } } }", None)
    plan = api.operations.prepare(operation, literals, {}).plan
    assert plan.endpoints == ("Asked", "Things")
    assert [q.relation for q in queries_in(plan.draft.read.fields)] == ["Things", "Things"]
    assert isinstance(plan.draft.read.fields[0], Nested)


SCRIPT = """
CREATE TABLE Machines (machineid INT, name STRING, PRIMARY KEY (machineid));
CREATE STREAM Readings (machineid INT, time TIMESTAMP, temp DOUBLE);
MachineHour := SELECT machineid, hour(time) AS time_hour, max(temp) AS max_temp FROM Readings
    GROUP BY machineid, time_hour;
Counted := SELECT m.machineid, count(*) AS n FROM Machines m JOIN Readings r ON r.machineid = m.machineid
    GROUP BY m.machineid;
Machines.counted := JOIN Counted c ON c.machineid = _.machineid;
Machines.hours := JOIN MachineHour h ON h.machineid = _.machineid;
Warm(least DOUBLE, most INT) := SELECT * FROM MachineHour WHERE max_temp > :least ORDER BY time_hour DESC LIMIT :most;
Pairs(least DOUBLE) := SELECT h.machineid, m.name FROM MachineHour h JOIN Machines m ON m.machineid = h.machineid
    WHERE h.max_temp > :least;
"""


def test_types_of_a_script() -> None:
    """Key columns that cannot be NULL are not null, a relationship on the target's key is one object, a template has
    the view's type."""
    schema = schema_of(model_of(compile_script(SCRIPT).catalog), Limits())
    machines = print_type(schema.type_map["Machines"])
    assert "machineid: Int!" in machines
    assert "  counted: Counted\n" in machines
    assert "): [MachineHour!]!" in machines
    assert "machineid: Int!\n  n: Long!" in print_type(schema.type_map["Counted"])
    assert "machineid: Int\n" in print_type(
        schema.type_map["MachineHour"]
    )  # a reading may have none, and so has its group
    query = schema.type_map["Query"].fields  # type: ignore[attr-defined]
    reported = {
        n: (str(query[n].type), {a: str(found.type) for a, found in query[n].args.items()})
        for n in ("warm", "pairs", "machinesByKey")
    }
    limits = {"limit": "Int", "offset": "Int"}
    lists = {"filter": "MachineHourFilter", "order": "[MachineHourOrder!]"}
    assert reported == {
        "warm": ("[MachineHour!]!", {"least": "Float!", "most": "Int!"} | lists | limits),
        "pairs": ("[Pairs!]!", {"least": "Float!"} | limits),
        "machinesByKey": ("Machines", {"machineid": "Int!"}),
    }


def test_every_new_part_of_the_schema_is_described() -> None:
    schema = schema_of(model_of(compile_script(SCRIPT).catalog), Limits())
    for name in ("MachineHourPage", "MachineHourAggregate", "MachineHourRelated", "MachineHourAggregateOrder"):
        assert schema.type_map[name].description, name
    for name in ("MachineHourPage", "MachineHourAggregate", "MachineHourRelated"):
        for field, found in schema.type_map[name].fields.items():  # type: ignore[attr-defined]
            assert found.description, (name, field)
    query = schema.type_map["Query"].fields  # type: ignore[attr-defined]
    for field in ("machineHourPage", "machineHourAggregate"):
        assert query[field].description
    for argument in ("first", "after", "last", "before"):
        assert query["machineHourPage"].args[argument].description


def read_rest(reader: Any, plan: Node, query: str, *parameters: Parameter) -> Any:
    return execute_rest(catalog(plan, *parameters), None, reader, f"asked?{query}")


def test_rest_filters_orders_and_follows_them_too(reader: Any) -> None:
    found = read_rest(
        reader, chosen("`t.id` >= :least"), "least=2&name=like.a*&select=id,same(id)&order=id.desc&same.id=eq.5", LEAST
    )
    assert found == [{"id": 5, "same": [{"id": 5}]}, {"id": 3, "same": []}]
    top = chosen("`t.name` IS NOT NULL", BY_NAME, limit=3)
    assert ids(read_rest(reader, top, "")) == [4, 1, 5]
    assert ids(read_rest(reader, top, "limit=2&offset=1")) == [1, 5]
    assert ids(read_rest(reader, top, "id=lt.4")) == [1]
    most = chosen("`t.name` IS NOT NULL", BY_NAME, most="least")
    assert ids(read_rest(reader, most, "least=2", LEAST)) == [4, 1]
    assert ids(read_rest(reader, most, "least=9&limit=1", LEAST)) == [4]
    assert ids(read_rest(reader, chosen("true", (Order(column("t.small"), True), Order(column("t.price")))), "")) == [
        4,
        5,
        1,
        2,
        3,
    ]
    both = (Parameter("filter", pa.int64()), Parameter("order", pa.int64()))
    assert ids(read_rest(reader, chosen("`t.id` = :filter OR `t.id` = :order"), "filter_2=3&order_2=5", *both)) == [
        3,
        5,
    ]
    assert read_rest(reader, top, "colour=eq.1")["code"] == "B8016"
    assert read_rest(reader, most, "", LEAST)["code"] == "B8003"
