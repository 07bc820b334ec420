"""Columns that hold objects: in GraphQL types with fields, filters over members; everywhere else JSON, as before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.api import execute_graphql, execute_rest
from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api
from belvedere.compiler import compile_script
from belvedere.schema import MONTHS, TIMESTAMP
from belvedere.store import EpochRow, StoredTable, open_reader, open_store
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.nested_json import to_json
from belvedere.store.read.query import BoundValue, Role
from belvedere.store.read.stored_values import converter

SCRIPT = """
CREATE TABLE T (id INT NOT NULL, place STRUCT<
  label: STRING, x: DOUBLE, n: BIGINT, price: DECIMAL(10, 2), at: TIMESTAMP, day: DATE, good: BOOLEAN,
      tags: ARRAY<STRING>,
  `größe`: INT, isNull: STRING, home: STRUCT<city: STRING, `zip code`: STRING>>, odd STRUCT<`a"b`: INT>,
      PRIMARY KEY (id));
T.near := JOIN T o ON o.id = _.id;
"""
CATALOG = compile_script(SCRIPT).catalog
AT = datetime(2024, 1, 1, 6, 0, 0, 5, tzinfo=UTC)
FULL: dict[str, Any] = {
    "label": 'Zü"rich\n\x00\x01\u2028 \\u0000 \\', "x": 0.1, "n": 2**62 + 1, "price": Decimal("12.30"), "at": AT,
    "day": date(2024, 2, 29), "good": False, "tags": ["a", None], "größe": 7, "isNull": "yes",
    "home": {"city": "null", "zip code": None},
}  # fmt: skip
NAN = {**dict.fromkeys(FULL), "x": float("nan"), "label": "", "home": {"city": None, "zip code": "1"}}
ROWS = [
    {"id": 1, "place": FULL, "odd": {'a"b': 1}},
    {"id": 2, "place": NAN, "odd": None},
    {"id": 3, "place": None, "odd": None},
    {"id": 4, "place": dict.fromkeys(FULL), "odd": None},
    {
        "id": 5,
        "place": {**dict.fromkeys(FULL), "x": 5e-324, "n": -1, "price": Decimal("0.00"), "good": True},
        "odd": None,
    },
]
ALL = "label x n price at day good tags groe isNull home { city zip_code }"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("structs") / "store.db"
    made = f"sqlite:///{path}" if request.param == "sqlite" else request.getfixturevalue("postgres_server")
    table = StoredTable("T", CATALOG.schema_of("T"), fingerprint="t")
    store = open_store(made)
    store.create([table])
    store.acquire("test", 600)
    transaction = store.begin()
    keyed = [{**row, "_key": str(row["id"])} for row in ROWS]
    arrow = pa.Table.from_pylist([{n: r.get(n) for n in table.arrow.names} for r in keyed], table.arrow)
    transaction.append("T", arrow.to_reader())
    transaction.commit(EpochRow(1, datetime(2024, 1, 1, tzinfo=UTC)))
    yield made
    store.drop(["T"])
    store.close()


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    reader = open_reader(url)
    yield Api(CATALOG, reader)
    reader.close()


def ask(api: Api, text: str, **variables: Any) -> Any:
    return json.loads(api.answer(text, variables))["data"]


def ids(api: Api, condition: str, **variables: Any) -> list[int]:
    declared = "".join(f"${n}: {t}" for n, (t, _) in variables.items())
    head = f"query({declared}) " if declared else ""
    text = f"{head}{{ t(filter: {{place: {condition}}}, order: {{id: ASC}}) {{ id }} }}"
    return [r["id"] for r in ask(api, text, **{n: v for n, (_, v) in variables.items()})["t"]]


def test_members_are_fields(api: Api) -> None:
    rows = ask(api, f"{{ t(order: {{id: ASC}}) {{ place {{ __typename {ALL} }} odd }} }}")["t"]
    assert rows[0]["place"] == {
        "__typename": "T_place", "label": FULL["label"], "x": 0.1, "n": 2**62 + 1, "price": "12.30",
        "at": "2024-01-01T06:00:00.000005Z",
        "day": "2024-02-29", "good": False, "tags": ["a", None], "groe": 7, "isNull": "yes",
        "home": {"city": "null", "zip_code": None},
    }  # fmt: skip
    assert rows[0]["odd"] == {'a"b': 1}, "its member has no path: it stays JSON"
    assert rows[1]["place"]["x"] is None, "NaN, as in columns"
    assert rows[1]["place"]["home"] == {"city": None, "zip_code": "1"}
    assert rows[2]["place"] is None
    assert rows[3]["place"] == {
        "__typename": "T_place",
        **dict.fromkeys(ALL.split(" home", maxsplit=1)[0].split()),
        "home": None,
    }
    assert rows[4]["place"]["x"] == 5e-324


def test_aliases_pages_relationships_and_fragments(api: Api) -> None:
    text = """
    query { tPage(first: 1, order: {id: ASC}) { nodes { where: place { ...P a: x b: x } near { place { label } } } } }
    fragment P on T_place { home { city } }
    """
    (node,) = ask(api, text)["tPage"]["nodes"]
    assert node == {
        "where": {"home": {"city": "null"}, "a": 0.1, "b": 0.1},
        "near": {"place": {"label": FULL["label"]}},
    }


CONDITIONS = {
    "{label: {eq: \"\"}}": [2],
    "{x: {eq: 0.1}}": [1],
    "{x: {in: [0.1, 5e-324]}}": [1, 5],
    "{n: {eq: 4611686018427387905}}": [1],
    "{n: {neq: -1}}": [1],
    "{n: {notIn: [-1]}}": [1],
    '{price: {eq: "12.3"}}': [1],
    '{price: {eq: "12.301"}}': [],
    '{price: {eq: "0"}}': [5],
    '{at: {eq: "2024-01-01T07:00:00.000005+01:00"}}': [1],
    '{day: {eq: "2024-02-29"}}': [1],
    "{good: {eq: true}}": [5],
    "{groe: {eq: 7}}": [1],
    '{isNull: {eq: "yes"}}': [1],
    "{home: {city: {eq: \"null\"}}}": [1],
    "{home: {isNull: true}}": [3, 4, 5],
    "{home: {isNull: false, city: {isNull: true}}}": [2],
    "{tags: {isNull: false}}": [1],
    "{label: {isNull: true}}": [3, 4, 5],
    "{}": [1, 2, 3, 4, 5],
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_over_members(api: Api, condition: str) -> None:
    assert ids(api, condition) == CONDITIONS[condition]


def test_filters_with_variables(api: Api) -> None:
    assert ids(api, "{label: {eq: $v}}", v=("String", FULL["label"])) == [1]
    assert ids(api, "{x: {in: $v}}", v=("[Float!]", [0.1, 1])) == [1]
    assert ids(api, "$v", v=("T_placeFilter", {"home": {"zip_code": {"eq": "1"}}})) == [2]
    for wrong in ("{x: {gt: 1}}", '{x: {eq: "a"}}', "{nope: {eq: 1}}", "{x: {eq: null}}"):
        with pytest.raises(RequestError):
            ids(api, wrong)


def test_a_value_is_the_text_that_is_stored() -> None:
    """Of every type that a member may have: a filter compares texts."""
    types: list[tuple[pa.DataType, Any, Any]] = [
        (pa.string(), "é\n", "é\n"), (pa.int64(), 2**62 + 1, 2**62 + 1), (pa.float32(), 0.1, 0.1),
        (pa.float64(), 1, 1.0), (pa.bool_(), True, True),
        (pa.decimal128(10, 2), "1.5", Decimal("1.50")), (pa.date32(), "2024-02-29", date(2024, 2, 29)),
        (TIMESTAMP, "2024-01-01T07:00:00.000005+01:00", AT), (pa.binary(), "00ff", b"\x00\xff"),
        (pa.duration("us"), "PT90S", timedelta(seconds=90)), (MONTHS, "P14M", timedelta(seconds=14)),
    ]  # fmt: skip
    for type_, asked, value in types:
        (text,) = to_json(pa.array([{"m": value}], pa.struct([("m", type_)]))).to_pylist()
        for name in ("sqlite", "postgres"):
            convert = converter(BoundValue(0, type_, Role.MEMBER), DIALECTS[name])
            assert text == f'{{"m":{convert(asked)}}}', type_


def test_other_ways_to_ask_have_json(url: str) -> None:
    reader = open_reader(url)
    tables = {"T": StoredTable("T", CATALOG.schema_of("T"))}
    (row,) = execute_rest(CATALOG, tables, reader, "t?select=place&id=eq.5")
    assert row["place"]["n"] == -1
    answer = execute_graphql(CATALOG, tables, reader, "{ t(filter: {id: {eq: 3}}) { place { x } } }")
    assert answer["data"] == {"t": [{"place": None}]}
    reader.close()
