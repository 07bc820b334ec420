"""Messages of Avro, with a schema of the project and with a schema registry: what comes out, what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from belvedere.connectors.kafka.formats.avro import columns, decode
from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP, Column
from tests.kafka.conftest import Bus
from tests.kafka.registry import serving
from tests.run.loops import Loop

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}},
    ],
}
ORDER: dict[str, Any] = {
    "id": 1,
    "city": "Köln",
    "price": Decimal("12.50"),
    "at": datetime(2024, 1, 1, 12, tzinfo=UTC),
    "day": date(2024, 2, 29),
    "kind": "NEW",
    "tags": ["a", "ü"],
    "counts": {"x": 1},
    "place": {"x": 0.5},
}
REPORTED = {"schema": json.dumps(SCHEMA)}


def avro(record: dict[str, Any], schema: Any = SCHEMA, number: int | None = None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return (b"" if number is None else b"\0" + number.to_bytes(4, "big")) + out.getvalue()


def fields(schema: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(f.name, f.type) for f in schema)


def test_values_and_refusals() -> None:
    found = columns("T", list, REPORTED)
    assert found.field("at").type == TIMESTAMP
    assert found.field("price").type == pa.decimal128(8, 2)
    good, null = avro(ORDER), avro(ORDER | {"city": None})
    decoded = decode([good, b"", null, b"\x02"], fields(found), REPORTED)
    assert decoded.rows.to_pylist()[0] == ORDER | {"counts": [("x", 1)]}
    assert decoded.rows["city"].to_pylist() == ["Köln", None, None, None]
    assert sorted(decoded.refused) == [1, 3]
    assert decoded.refused[1].startswith("is not Avro of its schema: EOFError")


def test_columns_of_other_types() -> None:
    asked = (
        Column("id", pa.int8(), nullable=False),
        Column("place", pa.string()),
        Column("more", pa.int64()),
        Column("city", pa.int32()),
    )
    decoded = decode([avro(ORDER), avro(ORDER | {"id": 300, "city": None})], asked, REPORTED)
    assert decoded.rows["place"].to_pylist()[0] == '{"x": 0.5}'
    assert decoded.refused == {
        0: 'column "city": Köln is not of type INT',
        1: 'column "id": 300 is not of type TINYINT',
    }


def test_named_types_that_are_used_again() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    some = [{"name": "a", "type": place}, {"name": "b", "type": ["null", "Place"]}, {"name": "k", "type": kind}]
    more = [{"name": "l", "type": "Kind"}, {"name": "m", "type": {"type": "array", "items": "shop.Place"}}]
    schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": [*some, *more]}
    found = columns("T", list, {"schema": json.dumps(schema)})
    struct = pa.struct([("x", pa.float64())])
    assert list(found.types) == [struct, struct, pa.string(), pa.string(), pa.list_(struct)]
    record = {"a": {"x": 1.0}, "b": {"x": 2.0}, "k": "A", "l": "A", "m": [{"x": 3.0}]}
    decoded = decode([avro(record, schema)], fields(found), {"schema": json.dumps(schema)})
    assert decoded.rows.to_pylist() == [record]
    nested = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(BelvedereError, match="B6205") as caught:
        columns("T", list, {"schema": json.dumps(nested)})
    assert 'field "next" of the Avro schema contains itself' in caught.value.diagnostics[0].message


def test_values_that_are_no_records() -> None:
    reported = {"schema": '{"type": "array", "items": "int"}'}
    found = columns("T", list, reported)
    assert found == pa.schema([("value", pa.list_(pa.int32()))])
    value = avro([1, 2], json.loads(reported["schema"]))  # type: ignore[arg-type]
    assert decode([value, b"\x02"], fields(found), reported).rows.to_pylist() == [{"value": [1, 2]}, {"value": None}]
    assert decode([value], fields(pa.schema([("a", pa.int32()), ("b", pa.int32())])), reported).refused == {
        0: "is not a record"
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "need a schema"),
        ({"schema": "{"}, "cannot be understood"),
        (
            {"schema": '{"type": "record", "name": "R", "fields": [{"name": "f", "type": ["int", "string"]}]}'},
            "several types",
        ),
        ({"registry": "http://127.0.0.1:1"}, "does not return schema 7"),
    ],
)
def test_schemas_that_do_not_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BelvedereError) as caught:
        columns("T", lambda: [b"\0\0\0\0\x07"], options)
    assert caught.value.diagnostics[0].code == "B6205"
    assert words in caught.value.diagnostics[0].message
    if "registry" in options:
        with pytest.raises(BelvedereError, match="B6205"):
            decode([b"\0\0\0\0\x07"], (), options)


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry with two versions of the schema, as numbers 1 and 2."""
    wider = SCHEMA | {"fields": [*SCHEMA["fields"], {"name": "note", "type": "string"}]}
    schemas = {"/base/schemas/ids/1": SCHEMA, "/base/schemas/ids/2": wider}
    with serving({path: {"schema": json.dumps(schema)} for path, schema in schemas.items()}) as address:
        yield address


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_with_a_registry(bus: Bus, spark: Any, tmp_path: Path, registry: str) -> None:
    topic = bus.topic()
    wider = SCHEMA | {"fields": [*SCHEMA["fields"], {"name": "note", "type": "string"}]}
    bus.send(topic, avro(ORDER, number=1), avro(ORDER | {"id": 2, "note": "n"}, wider, 2), b"\1", key="1")
    bus.send(topic, avro(ORDER | {"id": 3, "note": "x"}, wider, 2), key="3")
    bus.send(topic, None, key="3")
    source = (
        f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\nformat = "avro"\nregistry = "{registry}"\n'
    )
    table = f'[sources.bus.tables.Orders]\ntopic = "{topic}"\nprimary_key = ["id"]\n'
    script = "IMPORT bus.Orders;\nSeen := SELECT id, city, price, note, place.x AS x FROM Orders;"
    loop = Loop(spark, tmp_path, script, source + table)
    loop.once()
    rows = sorted((r["id"], r["city"], str(r["price"]), r["note"], r["x"]) for r in loop.rows("Seen"))
    assert rows == [(1, "Köln", "12.50", None, 0.5), (2, "Köln", "12.50", "n", 0.5)]
    assert [(r["line"], r["reason"]) for r in loop.rows("_belvedere_rejected")] == [
        (2, "does not begin with a schema id")
    ]


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_with_a_schema_of_the_project(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    bus.send(topic, avro(ORDER))
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    source = f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\nformat = "avro"\n'
    table = f'[sources.bus.tables.Orders]\ntopic = "{topic}"\nschema = "order.avsc"\n'
    loop = Loop(spark, tmp_path, "IMPORT bus.Orders;\nSeen := SELECT id, counts['x'] AS x FROM Orders;", source + table)
    loop.once()
    assert [(r["id"], r["x"]) for r in loop.rows("Seen")] == [(1, 1)]
