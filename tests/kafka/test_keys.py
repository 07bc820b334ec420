"""Keys of messages as columns: of tables with their deletions, and of streams."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors.kafka.message_keys import KeyFormat, key_format
from belvedere.connectors.kafka.message_rows import HEADERS, MessageShape
from belvedere.connectors.reading.long_lines import SHOWN
from belvedere.errors import BelvedereError
from belvedere.schema import TIMESTAMP, WEIGHT, Column
from tests.kafka.conftest import Bus
from tests.kafka.registry import serving
from tests.kafka.test_avro import avro
from tests.run.loops import Loop

ID = Column("id", pa.int64(), nullable=False)
CITY = Column("city", pa.string())
KEY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "shop", "type": "string"}, {"name": "id", "type": "long"}],
}


class Message:
    """What `MessageShape` asks a message."""

    def __init__(self, key: bytes | None, value: bytes | None):
        self._key, self._value = key, value

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return 7


def chunk(
    shape: MessageShape, *messages: tuple[bytes | None, bytes | None]
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    found = shape.chunk("T[0]", [Message(*m) for m in messages])  # type: ignore[arg-type]
    return found.rows.to_pylist(), {r.place: r.reason for r in found.refused}


@pytest.mark.parametrize("name", ["json", "avro", "protobuf", "text"])
def test_all_formats_of_keys_delete(name: str) -> None:
    reported: dict[str, Any] = {"avro": {"schema": '"long"'}, "protobuf": {"schema": descriptor()}}.get(name, {})
    key = {"json": b"5", "avro": b"\x0a", "protobuf": b"\x08\x05", "text": b"5"}[name]
    bad = {"json": b"{", "avro": b"", "protobuf": b"\xff", "text": b"x"}[name]
    columns = (ID, CITY, Column("counts", pa.map_(pa.int32(), pa.int64())))
    shape = MessageShape("json", columns, {}, ("id",), keys=KeyFormat(name, reported))
    rows, refused = chunk(shape, (key, None), (bad, None), (None, None))
    assert rows[0] == {"id": 5, "city": None, "counts": None, WEIGHT: -1}
    assert refused[1].startswith("has a key that does not fit: ")
    assert refused[2] == "has no value, and no key of the row to delete"
    taken = MessageShape("json", (ID, CITY), {"id": "key"}, ("id",), keys=KeyFormat(name, reported))
    rows, refused = chunk(taken, (key, b'{"city": "a"}'), (bad, b"{}"), (key, None), (None, b'{"city": "b"}'))
    assert [rows[n] for n in (0, 2)] == [{"id": 5, "city": "a", WEIGHT: 1}, {"id": 5, "city": None, WEIGHT: -1}]
    assert sorted(refused) == [1, 3]
    assert refused[3] == "has no key"


def descriptor() -> bytes:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

    made = FileDescriptorProto(name="key.proto", syntax="proto3")
    number = FieldDescriptorProto(
        name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    made.message_type.add(name="Key").field.append(number)
    return FileDescriptorSet(file=[made]).SerializeToString()


def test_keys_of_json_are_typed() -> None:
    columns = (
        Column("at", TIMESTAMP),
        Column("day", pa.date32()),
        Column("price", pa.decimal128(8, 2)),
        Column("x", pa.float64()),
        Column("raw", pa.binary()),
        Column("name", pa.string()),
    )
    key = {"at": "2024-01-01T12:00:00+02:00", "day": "2024-02-29", "price": "1.50", "x": 0.1, "raw": "é", "name": "ü"}
    found = KeyFormat("json").decode(
        [json.dumps(key).encode(), b'{"price": 1.50}', b"7", b'{"x": "y"}', b"\xff"], columns
    )
    assert found.rows.to_pylist()[0] == {
        **{"at": datetime(2024, 1, 1, 10, tzinfo=UTC), "day": date(2024, 2, 29), "price": Decimal("1.50"), "x": 0.1},
        **{"raw": "é".encode(), "name": "ü"},
    }
    assert found.rows["price"].to_pylist()[1] == Decimal("1.50")
    assert found.refused == {
        2: "has a key that does not fit: is not an object with at, day, price, x, raw, name",
        3: 'has a key that does not fit: column "x": y is not of type DOUBLE',
        4: "has a key that does not fit: is not UTF-8",
    }


def test_types_of_keys() -> None:
    objects, numbers = [b"no", b'{"id": 1, "at": "2024-01-01"}'], [b"1", b"2.5"]
    assert KeyFormat("json").types("T", ["id"], lambda: objects) == {"id": pa.int64()}
    assert KeyFormat("json").types("T", ["k"], lambda: numbers) == {"k": pa.float64()}
    assert KeyFormat("text").types("T", ["k"], list) == {"k": pa.string()}
    assert KeyFormat().types("T", ["k"], list) == {"k": pa.string()}
    assert KeyFormat("avro", {"schema": '"long"'}).types("T", ["k"], list) == {"k": pa.int64()}
    assert KeyFormat("avro", {"schema": json.dumps(KEY_SCHEMA)}).types("T", ["id"], list) == {"id": pa.int64()}
    with pytest.raises(BelvedereError, match="B6103"):
        KeyFormat("json").types("T", ["k"], list)
    with pytest.raises(BelvedereError, match='B6205: the keys of table "T" have no field "no"'):
        KeyFormat("avro", {"schema": json.dumps(KEY_SCHEMA)}).types("T", ["no"], list)
    with pytest.raises(BelvedereError, match='B6206: keys of table "T" of source "s" cannot be "xml"'):
        key_format("s", "T", "xml", {})
    with pytest.raises(BelvedereError, match="B6206"):
        MessageShape("json", (Column("k", pa.int64()),), {"k": "key"})
    assert MessageShape("json", (Column("h", HEADERS),), {"h": "headers"}).schema.field("h").type == HEADERS


@pytest.mark.spark
@pytest.mark.kafka
def test_a_table_whose_key_is_in_keys_alone(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    with serving({"/base/schemas/ids/4": {"schema": json.dumps(KEY_SCHEMA)}}) as address:
        keys = [avro({"shop": "ü", "id": n}, KEY_SCHEMA, 4) for n in range(3)]
        for n, key in enumerate(keys):
            bus.send(topic, {"city": f"c{n}"}, key=key)
        bus.send(topic, None, key=keys[1])
        bus.send(topic, {"city": "lost"}, key=b"\0\0")
        bus.send(topic, {"city": "late"}, key=keys[2])
        source = f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\nregistry = "{address}"\n'
        table = f'[sources.bus.tables.Orders]\ntopic = "{topic}"\nprimary_key = ["shop", "id"]\nkey_format = "avro"\n'
        table += 'metadata = { shop = "key", id = "key" }\n'
        loop = Loop(spark, tmp_path, "IMPORT bus.Orders;\nSeen := SELECT shop, id, city FROM Orders;", source + table)
        loop.once()
        rows = sorted((r["shop"], r["id"], r["city"]) for r in loop.rows("Seen"))
        assert rows == [("ü", 0, "c0"), ("ü", 2, "late")]
        bus.send(topic, None, key=keys[0])
        loop.once()
        assert [(r["id"], r["city"]) for r in loop.rows("Seen")] == [(2, "late")]
    (rejected,) = loop.rows("_belvedere_rejected")
    assert (rejected["line"], rejected["reason"]) == (
        4,
        "has a key that does not fit: does not begin with a schema id",
    )


@pytest.mark.spark
@pytest.mark.kafka
def test_a_stream_with_columns_of_its_keys(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    bus.send(topic, {"city": "a"}, key=b'{"customer": {"n": 1}}')
    bus.send(topic, {"city": 1.50}, key=b'{"customer": {"n": 2}}')  # the value is left to Spark
    bus.send(topic, {"city": "c"})
    source = f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\n'
    table = f'[sources.bus.tables.Orders]\ntopic = "{topic}"\nkey_format = "json"\nmetadata = {{ customer = "key" }}\n'
    loop = Loop(spark, tmp_path, "IMPORT bus.Orders;\nSeen := SELECT city, customer.n FROM Orders;", source + table)
    loop.once()
    assert sorted(((r["city"], r["n"]) for r in loop.rows("Seen")), key=str) == [("1.5", 2), ("a", 1), ("c", None)]


def test_a_message_that_is_too_long_is_refused_with_its_beginning() -> None:
    """It is not read: what it says does not matter, and it deletes nothing."""
    shape = MessageShape("json", (ID, CITY), {}, ("id",), options={"max_line_mb": 0.001})
    long = b'{"id": 2, "city": "' + b"x" * 2000 + b'"}'
    found = shape.chunk(
        "T[0]", [Message(b"1", b'{"id": 1, "city": "a"}'), Message(b"2", long), Message(b"3", b"\xff" * 2000)]
    )
    assert [r["id"] for r in found.rows.to_pylist()] == [1, None, None]
    assert {r.place: "max_line_mb" in r.reason for r in found.refused} == {1: True, 2: True}
    assert [len(r.text or "") for r in found.refused] == [SHOWN, SHOWN]
    assert (found.refused[0].text or "").startswith('{"id": 2, "city": "xxx')
    assert not found.undecided
    whole = MessageShape("json", (ID, CITY), {}, ("id",)).chunk("T[0]", [Message(b"2", long)])
    assert [r["id"] for r in whole.rows.to_pylist()] == [2]
