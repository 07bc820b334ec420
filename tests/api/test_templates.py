"""Query templates: a script's own queries as endpoints, computed in the store."""

from __future__ import annotations

from typing import Any

import api_example as example
import pyarrow as pa
import pytest
from api_reader import MemoryReader
from sqlglot import exp, parse_one

from belvedere.api.graphql.api import execute_graphql
from belvedere.api.reads.entities import model_of
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.templates import Parameter, QueryTemplate
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
)
from belvedere.schema import TIMESTAMP
from belvedere.store.dialects.sqlite.python_sqlite import library as sqlite

THINGS = Scan("Things", example.THINGS)
HOURS = Scan("MonitoringGroup.hourReading", example.HOURS)
GROUPS = Scan("MonitoringGroup", example.GROUP)


def expression(text: str) -> exp.Expression:
    """A Spark expression with quoted columns and `:name` as placeholders."""
    tree = parse_one(text, dialect="spark")
    for found in tree.find_all(exp.Column):
        found.this.set("quoted", True)
    return tree


def items(node: Node, *texts: str) -> tuple[Item, ...]:
    result = []
    for text in texts:
        name, _, source = text.partition("=")
        type_ = {"n": pa.int64(), "total": pa.int64(), "mean": pa.float64()}.get(name)
        result.append(Item(name, expression(source or name), type_ or node.schema[source or name].type))
    return tuple(result)


def ask(reader: Any, plan: Node, selection: str, parameters: tuple[Parameter, ...] = (), **variables: Any) -> Any:
    template = QueryTemplate("Asked", parameters, plan, plan.schema)
    base = example.catalog()
    catalog = Catalog(base.inputs, base.views, base.relationships, {"Asked": template}, public=base.public)
    assert model_of(catalog).omitted == ()
    names = {
        p.name: {"int32": "Int", "int64": "Long", "double": "Float", "string": "String"}.get(str(p.type))
        for p in parameters
    }
    declared = ", ".join(f"${n}: {t or ('DateTime' if n == 'at' else 'Decimal')}!" for n, t in names.items())
    passed = ", ".join(f"{n}: ${n}" for n in names)
    text = f"query({declared}) {{ asked({passed}) {selection} }}" if names else f"{{ asked {selection} }}"
    answer = execute_graphql(catalog, None, reader, text, variables)
    assert "errors" not in answer, answer
    return answer["data"]["asked"]


def test_filters_with_parameters(reader: Any) -> None:
    plan = Filter(THINGS, expression("small >= :least AND name = :name"))
    parameters = (Parameter("least", pa.int32()), Parameter("name", pa.string()))
    assert ask(reader, plan, "{ id small }", parameters, least=0, name="ab") == [{"id": 5, "small": 7}]


def test_time_and_decimals(reader: Any) -> None:
    plan = Filter(THINGS, expression("at + INTERVAL '1' HOUR > :at OR price = :price"))
    parameters = (Parameter("at", TIMESTAMP), Parameter("price", pa.decimal128(10, 2)))
    found = ask(reader, plan, "{ id }", parameters, at="2020-01-01T12:30:00Z", price="12.31")
    assert found == [{"id": 1}, {"id": 5}]
    assert ask(reader, Filter(THINGS, expression("at >= current_timestamp() - INTERVAL '1' DAY")), "{ id }") == [
        {"id": 1}
    ]
    assert ask(reader, Filter(THINGS, expression("price > 12.305")), "{ id }") == [{"id": 5}]


def test_expressions(reader: Any) -> None:
    for condition, expected in {
        "small IN (7, 8) AND name IS NOT NULL": [4, 5],
        "small BETWEEN -5 AND 0": [1],
        "small <=> NULL": [2, 3],
        "NOT (small = 7)": [1],
        "coalesce(small, 100) > 50": [2, 3],
        "CASE WHEN flag THEN 1 ELSE 2 END = 1": [1],
        "small + 1 = 8 AND small * 2 > 13": [4, 5],
        "ratio > CAST(0 AS DOUBLE)": [1, 3, 4],
        "flag": [1],
        "name LIKE 'a_%'": [3, 5],
        "NOT name LIKE 'a%'": [1, 4],
        "name NOT LIKE 'a%'": [1, 4],
        "name NOT ILIKE 'ä%'": [3, 5],
        "flag IS FALSE": [3],
        "name < 'b'": [3, 5],
        "at < TIMESTAMP '1970-01-01 00:00:00'": [3],
    }.items():
        assert [r["id"] for r in ask(reader, Filter(THINGS, expression(condition)), "{ id }")] == expected, condition


def test_groups(reader: Any) -> None:
    known = Filter(THINGS, expression("small IS NOT NULL"))
    plan = Aggregate(known, items(THINGS, "small"), items(THINGS, "n=count(*)", "total=sum(id)", "mean=avg(id)"))
    assert ask(reader, plan, "{ small n total mean }") == [
        {"small": -5, "n": 1, "total": 1, "mean": 1.0},
        {"small": 7, "n": 2, "total": 9, "mean": 4.5},
    ]
    nothing = Aggregate(Filter(THINGS, expression("id > 99")), (), items(THINGS, "n=count(id)", "total=sum(id)"))
    assert ask(reader, nothing, "{ n total }") == [{"n": 0, "total": None}]
    nan = Aggregate(
        THINGS, (), (Item("mean", expression("sum(ratio)"), pa.float64()), Item("n", expression("max(id)"), pa.int64()))
    )
    assert ask(reader, nan, "{ mean n }") == [{"mean": None, "n": 5}]


def test_sums_of_decimals(reader: Any) -> None:
    for condition, expected in {
        "TRUE": "24.56",
        "price < 0": "-0.05",
        "price IN (-0.05, 12.30)": "12.25",
        "id > 99": None,
    }.items():
        plan = Aggregate(
            Filter(THINGS, expression(condition)), (), (Item("sum", expression("sum(price)"), pa.decimal128(20, 2)),)
        )
        assert ask(reader, plan, "{ sum }") == [{"sum": expected}], condition


def test_joins(reader: Any) -> None:
    left = Project(GROUPS, items(GROUPS, "g.id=groupid", "g.name=groupName"))
    right = Project(HOURS, items(HOURS, "h.group=groupid", "h.time=time_hour"))
    equal = exp.EQ(this=column("g.id"), expression=column("h.group"))
    counted = {}
    for kind in JoinKind:
        joined = Join(left, right, kind, equal)
        counted[kind] = ask(reader, Aggregate(joined, (), items(joined, "n=count(*)")), "{ n }")[0]["n"]
    assert counted == {"inner": 80, "left": 82, "right": 80, "full": 82, "semi": 2, "anti": 2}


def test_order_and_limit(reader: Any) -> None:
    plan = TopK(THINGS, (Order(column("small"), descending=True), Order(column("id"), descending=True)), 3)
    assert [r["id"] for r in ask(reader, plan, "{ id }")] == [5, 4, 1]
    first = TopK(HOURS, (Order(column("max_temp"), descending=True),), 2, partition=("groupid",))
    assert [r["max_temp"] for r in ask(reader, first, "{ max_temp }")] == [69.5, 68.5, 69.5, 68.5]


def test_sets(reader: Any) -> None:
    small = Project(Filter(THINGS, expression("id <= 4")), items(THINGS, "id"))
    large = Project(Filter(THINGS, expression("id >= 3")), items(THINGS, "id"))
    assert [r["id"] for r in ask(reader, SetOperation(small, large, SetKind.INTERSECT), "{ id }")] == [3, 4]
    assert [r["id"] for r in ask(reader, SetOperation(small, large, SetKind.EXCEPT), "{ id }")] == [1, 2]
    both = Union((small, large), "_branch")
    assert [r["id"] for r in ask(reader, both, "{ id }")] == [1, 2, 3, 3, 4, 4, 5]
    assert len(ask(reader, Distinct(Project(THINGS, items(THINGS, "small"))), "{ small }")) == 3


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (Filter(THINGS, expression("upper(name) = 'A'")), "B8020"),
        (Filter(THINGS, expression("name LIKE upper(name)")), "B8020"),
        (Filter(THINGS, expression("small / 2 > 1")), "B8020"),
        (Filter(THINGS, expression("ratio > big")), "B8020"),
        (Filter(THINGS, expression("at + INTERVAL '1' MONTH > now()")), "B8020"),
        (Filter(Scan("_Private", example.THINGS), expression("id = 1")), "B8021"),
        (Aggregate(THINGS, (), (Item("m", expression("median(small)"), pa.float64()),)), "B8020"),
    ],
)
def test_what_the_store_cannot_say_is_refused_with_a_hint(plan: Node, code: str) -> None:
    base = example.catalog()
    template = QueryTemplate("Asked", (), plan, plan.schema)
    model = model_of(Catalog(base.inputs, base.views, (), {"Asked": template}, public=base.public))
    (omitted,) = model.omitted
    assert omitted.code == code
    assert 'query template "Asked"' in omitted.message
    assert omitted.hint
    assert "asked" not in model.templates


def test_an_overflow_is_an_error_not_a_wrong_number(reader: Any) -> None:
    plan = Filter(THINGS, expression("big + big > 0"))
    template = QueryTemplate("Asked", (), plan, plan.schema)
    base = example.catalog()
    catalog = Catalog(base.inputs, base.views, (), {"Asked": template}, public=base.public)
    if isinstance(reader, MemoryReader):
        with pytest.raises(sqlite.OperationalError, match="overflow"):
            execute_graphql(catalog, None, reader, "{ asked { id } }")
        return
    answer = execute_graphql(catalog, None, reader, "{ asked { id } }")
    assert answer["errors"][0]["extensions"]["code"] == "B8003"


def test_a_parameter_with_a_default_may_be_left_out(reader: Any) -> None:
    plan = Project(Filter(THINGS, expression("small >= :least AND name = :name")), items(THINGS, "id"))
    parameters = (Parameter("least", pa.int32(), default=1), Parameter("name", pa.string(), default="ab"))
    template = QueryTemplate("Asked", parameters, plan, plan.schema)
    base = example.catalog()
    catalog = Catalog(base.inputs, base.views, base.relationships, {"Asked": template}, public=base.public)

    def answer(text: str) -> Any:
        return execute_graphql(catalog, None, reader, text, {})

    whole = answer('{ asked(least: 1, name: "ab") { id } }')
    assert whole["data"]["asked"]
    assert answer("{ asked { id } }")["data"] == whole["data"]
    assert answer("query($n: String) { asked(name: $n) { id } }")["data"] == whole["data"]
    assert answer('{ asked(name: "nobody") { id } }')["data"]["asked"] == []
    assert "errors" in answer("{ asked(least: null) { id } }")
    arguments = answer('{ __type(name: "Query") { fields { name args { name defaultValue } } } }')["data"]["__type"][
        "fields"
    ]
    (shown,) = (f["args"] for f in arguments if f["name"] == "asked")
    assert {a["name"]: a["defaultValue"] for a in shown} == {"least": "1", "name": '"ab"'} | {
        a["name"]: a["defaultValue"] for a in shown[2:]
    }
