"""Protobuf messages, with a descriptor set and with a schema registry: decoded values and rejected messages."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format

from belvedere.compiler import compile_script
from belvedere.connectors.kafka.formats.descriptors import library, of_file
from belvedere.connectors.kafka.formats.protobuf import columns, decode
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import type_text
from belvedere.schema import Column
from tests.kafka.conftest import Bus
from tests.kafka.registry import serving
from tests.run.loops import Loop

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/empty.proto";
import "place.proto";
message Other { string text = 1; message Inner { int64 n = 1; } }
enum Kind { NEW = 0; OLD = 1; }
message Order {
  int32 a = 1; sint32 b = 2; sfixed32 c = 3; uint32 d = 4; fixed32 e = 5;
  int64 id = 6; sint64 g = 7; sfixed64 h = 8; uint64 i = 9; fixed64 j = 10;
  float f = 11; double x = 12; bool ok = 13; string city = 14; bytes raw = 15;
  Kind kind = 16;
  place.Place place = 17;
  repeated int32 parts = 18;
  repeated place.Place places = 19;
  map<string, int64> counts = 20;
  map<int32, place.Place> by_number = 21;
  oneof way { string by_mail = 22; int32 by_hand = 23; }
  optional int32 maybe = 24;
  google.protobuf.Timestamp at = 25;
  google.protobuf.Duration took = 26;
  google.protobuf.Int64Value wrapped = 27;
  google.protobuf.StringValue words = 28;
  google.protobuf.Struct free = 29;
  google.protobuf.Empty nothing = 30;
  Order before = 31;
  repeated Kind kinds = 32;
}
"""
PLACE = 'syntax = "proto3";\npackage place;\nmessage Place { double lat = 1; string label = 2; }\n'
OLD = """
syntax = "proto2";
package old;
enum Size { SMALL = 1; LARGE = 2; }
message Thing {
  required int64 id = 1;
  optional int32 plain = 2;
  optional int32 given = 3 [default = 7];
  optional Size size = 4 [default = LARGE];
  repeated string tags = 5;
  optional group Part = 6 { optional int32 n = 1; }
}
"""


@pytest.fixture(scope="session")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Descriptor sets as `protoc` makes them."""
    folder = tmp_path_factory.mktemp("protobuf")
    for name, text in (("order", ORDER), ("place", PLACE), ("old", OLD)):
        (folder / f"{name}.proto").write_text(text)
    for name, more in (("order", ["--include_imports"]), ("old", ["--include_imports"]), ("order", ["-oalone.desc"])):
        made = [f"-o{name}.desc", *more] if more[0].startswith("--") else more
        subprocess.run([sys.executable, "-m", "protoc", "-I.", *made, f"{name}.proto"], cwd=folder, check=True)
    return folder


@pytest.fixture
def reported(descriptors: Path) -> dict[str, Any]:
    return {"schema": (descriptors / "order.desc").read_bytes(), "message": "shop.Order"}


def message(reported: dict[str, Any], value: dict[str, Any]) -> bytes:
    """A message by its form in JSON."""
    kind = of_file(reported["schema"]).named(reported.get("message"))
    return json_format.ParseDict(value, library().GetMessageClass(kind)()).SerializeToString()


def fields(schema: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(f.name, f.type) for f in schema)


FULL: dict[str, Any] = {
    **{"a": -1, "b": -2, "c": -3, "d": 4294967295, "e": 5, "id": -(2**63), "g": -7, "h": 8, "i": 2**64 - 1, "j": 10},
    **{"f": 0.5, "x": "Infinity", "ok": True, "city": "Köln 🌍", "raw": "AP8=", "kind": "OLD", "kinds": ["OLD", "NEW"]},
    **{"place": {"lat": 1.5, "label": "a"}, "parts": [1, 2], "places": [{}, {"label": "b"}]},
    **{"counts": {"x": 1}, "byNumber": {"-5": {"lat": 2}}, "byHand": 0, "maybe": 0},
    **{
        "at": "2024-02-29T12:00:00.123456789Z",
        "took": "-1.500s",
        "wrapped": "0",
        "words": "w",
        "free": {"a": [1, None, "ü"]},
    },
    **{"nothing": {}, "before": {"id": 1, "before": {"id": 2}}},
}


def test_columns(reported: dict[str, Any]) -> None:
    found = {f.name: type_text(f.type) for f in columns("T", list, reported)}
    place = "STRUCT<`lat`: DOUBLE, `label`: STRING>"
    assert found | {"before": ""} == {
        **dict.fromkeys("abc", "INT"),
        **dict.fromkeys(["d", "e", "id", "g", "h"], "BIGINT"),
        **dict.fromkeys("ij", "DECIMAL(20, 0)"),
        **{"f": "FLOAT", "x": "DOUBLE", "ok": "BOOLEAN", "city": "STRING", "raw": "BINARY", "kind": "STRING"},
        **{"place": place, "parts": "ARRAY<INT>", "places": f"ARRAY<{place}>", "counts": "MAP<STRING, BIGINT>"},
        **{"by_number": f"MAP<INT, {place}>", "by_mail": "STRING", "by_hand": "INT", "maybe": "INT"},
        **{"at": "TIMESTAMP", "took": "INTERVAL DAY TO SECOND", "wrapped": "BIGINT", "words": "STRING"},
        **{"free": "STRING", "nothing": "STRING", "before": "", "kinds": "ARRAY<STRING>"},
    }
    assert found["before"] == "STRING"


def test_values(reported: dict[str, Any]) -> None:
    rows = decode([message(reported, FULL), b""], fields(columns("T", list, reported)), reported)
    assert rows.refused == {}
    full, empty = rows.rows.to_pylist()
    assert full["before"].startswith('{"a": 0')
    assert '"before": {"a": 0' in full["before"]
    assert full | {"before": None} == {
        **{"a": -1, "b": -2, "c": -3, "d": 4294967295, "e": 5, "id": -(2**63), "g": -7, "h": 8},
        **{"i": Decimal(2**64 - 1), "j": Decimal(10), "f": 0.5, "x": float("inf"), "ok": True, "city": "Köln 🌍"},
        **{"raw": b"\x00\xff", "kind": "OLD", "kinds": ["OLD", "NEW"], "place": {"lat": 1.5, "label": "a"}},
        **{"parts": [1, 2], "places": [{"lat": 0.0, "label": ""}, {"lat": 0.0, "label": "b"}], "counts": [("x", 1)]},
        **{"by_number": [(-5, {"lat": 2.0, "label": ""})], "by_mail": None, "by_hand": 0, "maybe": 0},
        **{"at": datetime(2024, 2, 29, 12, 0, 0, 123456, UTC), "took": timedelta(seconds=-1.5)},
        **{"wrapped": 0, "words": "w", "free": '{"a": [1.0, null, "ü"]}', "nothing": "{}", "before": None},
    }
    absent = {n for n, v in empty.items() if v is None}
    assert absent == {
        *("place", "by_mail", "by_hand", "maybe", "at", "took", "wrapped", "words", "free", "nothing", "before")
    }
    assert (empty["id"], empty["city"], empty["kind"], empty["parts"], empty["counts"]) == (0, "", "NEW", [], [])


def test_presence_of_proto2(descriptors: Path) -> None:
    reported = {"schema": (descriptors / "old.desc").read_bytes()}
    values = [
        message(reported, {"id": 1}),
        message(reported, {"id": 2, "plain": 0, "given": 0, "part": {}}),
        b"",
        b"\x08\x01\x20\x63",
    ]
    rows = decode(values, fields(columns("T", list, reported)), reported)
    absent = {"plain": None, "given": 7, "size": "LARGE", "tags": [], "part": None}
    assert rows.rows.to_pylist()[:2] == [
        {"id": 1} | absent,
        {"id": 2} | absent | {"plain": 0, "given": 0, "part": {"n": None}},
    ]
    assert rows.rows.to_pylist()[3] == {"id": 1} | absent  # a number that the closed enum does not have
    assert rows.refused == {2: "lacks id"}


def test_refusals(reported: dict[str, Any]) -> None:
    kind = library().GetMessageClass(of_file(reported["schema"]).named("shop.Order"))
    late = kind()
    late.at.seconds = 253402300800
    odd = kind()
    odd.at.nanos = -1
    unknown = kind()
    unknown.kind = 9
    asked = (Column("id", pa.int8(), nullable=False), Column("city", pa.string()), Column("kind", pa.string()))
    asked += (Column("at", columns("T", list, reported).field("at").type), Column("more", pa.int64()))
    values = [b"\xff", message(reported, {"id": 300}), late.SerializeToString(), odd.SerializeToString()]
    values += [unknown.SerializeToString(), b"\x72\x01\xff"]
    found = decode(values, asked, reported)
    assert found.refused[0].startswith("is not Protobuf of its schema: DecodeError")
    assert found.refused[1] == 'column "id": 300 is not of type TINYINT'
    assert found.refused[2] == "has a time outside the years 1 to 9999: 253,402,300,800 seconds"
    assert found.refused[3] == "has a time with -1 nanoseconds"
    assert sorted(found.refused) == [0, 1, 2, 3, 5]
    assert found.rows.to_pylist()[4] == {"id": 0, "city": "", "kind": "9", "at": None, "more": None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "need a schema"),
        ({"schema": b"\xff"}, "not a descriptor set"),
        ({"schema": b""}, "not a descriptor set"),
        ({"schema": "alone.desc"}, "not a descriptor set"),
        ({"schema": "order.desc"}, "several kinds of messages: shop.Other, "),
        ({"schema": "order.desc", "message": "shop.Ordre"}, 'no message "shop.Ordre"'),
        ({"registry": "http://127.0.0.1:1"}, "does not return schema 7"),
    ],
)
def test_schemas_that_do_not_do(descriptors: Path, options: dict[str, Any], words: str) -> None:
    if isinstance(options.get("schema"), str):
        options = options | {"schema": (descriptors / options["schema"]).read_bytes()}
    value = b"\0\0\0\0\x07\0"
    for ask in (lambda: columns("T", lambda: [value], options), lambda: decode([value], (), options)):
        with pytest.raises(BelvedereError) as caught:
            ask()
        assert caught.value.diagnostics[0].code == "B6205"
        assert words in caught.value.diagnostics[0].message


def framed(value: bytes, *path: int, number: int = 1) -> bytes:
    """With the number of its schema and the path to its kind (no number above 63)."""
    written = b"\0" if path == (0,) else bytes([2 * len(path), *(2 * n for n in path)])
    return b"\0" + number.to_bytes(4, "big") + written + value


def registered(descriptors: Path) -> dict[str, Any]:
    """What a registry answers: schema 1 is `order.proto`, which refers to `place.proto`."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = {f.name: f for f in FileDescriptorSet.FromString((descriptors / "order.desc").read_bytes()).file}
    order, place = (base64.b64encode(files[n].SerializeToString()).decode() for n in ("order.proto", "place.proto"))
    refers = [{"name": "place.proto", "subject": "place", "version": 3}]
    return {
        "/base/schemas/ids/1?format=serialized": {"schemaType": "PROTOBUF", "schema": order, "references": refers},
        "/base/subjects/place/versions/3?format=serialized": {"schema": place},
        "/base/schemas/ids/2?format=serialized": {"schema": "no"},
        "/base/schemas/ids/3?format=serialized": {"schema": base64.b64encode(b"\xff\xff").decode()},
        "/base/schemas/ids/4?format=serialized": {"schema": order},
    }


@pytest.mark.parametrize("is_own", [False, True])
def test_messages_of_a_registry(descriptors: Path, reported: dict[str, Any], is_own: bool) -> None:
    with serving(registered(descriptors)) as address:
        options = {"registry": address} | (reported if is_own else {})
        good, other = framed(message(reported, FULL), 2 - 1), framed(b"\n\x01x", 0)
        found = columns("T", lambda: [b"no", good], options)
        assert found == columns("T", list, reported)
        inner = framed(b"\x08\x05", 0, 0)
        decoded = decode(
            [good, other, inner, framed(b"", 9), b"\1", b"\0\0\0\0\1", good[:6] + b"\xff" * 6], fields(found), options
        )
        rows = decoded.rows.to_pylist()
        assert rows[0]["city"] == "Köln 🌍"
        if is_own:
            assert decoded.refused[1] == "is a shop.Other, not a shop.Order"
            assert decoded.refused[2] == "is a shop.Other.Inner, not a shop.Order"
        else:
            assert set(rows[1].values()) == {None}
            assert decode([other], (Column("text", pa.string()),), options).rows.to_pylist() == [{"text": "x"}]
            assert decode([inner], (Column("n", pa.int64()),), options).rows.to_pylist() == [{"n": 5}]
        assert decoded.refused[3] == "names a message type that schema 1 does not have"
        assert decoded.refused[4] == "does not begin with a schema id"
        assert decoded.refused[5].endswith("its message index leads to no message type")
        assert decoded.refused[6].endswith("its message index leads to no message type")


@pytest.mark.parametrize(
    ("number", "words"), [(2, "as Protobuf"), (3, "is not Protobuf"), (4, "as Protobuf"), (5, "does not return")]
)
def test_schemas_of_a_registry_that_do_not_do(descriptors: Path, number: int, words: str) -> None:
    with serving(registered(descriptors)) as address:
        found = decode([framed(b"", 0, number=number)], (), {"registry": address})
    assert found.refused[0].startswith(f"names schema {number}: ")
    assert words in found.refused[0]


PROJECT = '[sources.bus]\nconnector = "kafka"\nservers = "{address}"\nformat = "protobuf"\n'
TABLE = '[sources.bus.tables.Orders]\ntopic = "{topic}"\nschema = "order.desc"\nmessage = "shop.Order"\n'


def test_check_needs_no_cluster(descriptors: Path, tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_bytes((descriptors / "order.desc").read_bytes())
    (tmp_path / "belvedere.toml").write_text(PROJECT.format(address="127.0.0.1:1") + TABLE.format(topic="none"))
    script = "IMPORT bus.Orders;\nSeen := SELECT id, place.lat, took, explode(parts) AS part FROM Orders;"
    assert compile_script(script, path=tmp_path / "s.sqrl", project=load_project(tmp_path)).ok


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_as_a_stream(bus: Bus, spark: Any, tmp_path: Path, descriptors: Path, reported: dict[str, Any]) -> None:
    topic = bus.topic()
    bus.send(
        topic,
        message(reported, FULL),
        b"\xff",
        message(reported, {}),
        message(reported, {"id": 7, "places": [{"label": "é"}]}),
    )
    (tmp_path / "order.desc").write_bytes((descriptors / "order.desc").read_bytes())
    script = (
        "IMPORT bus.Orders;\nSeen := SELECT id, i, kind, counts['x'] AS x, by_number[-5].lat AS lat, get(places, "
        "0).label AS label, by_hand, wrapped, at, took > INTERVAL '-2' SECOND AS soon FROM Orders;"
    )
    loop = Loop(spark, tmp_path, script, PROJECT.format(address=bus.address) + TABLE.format(topic=topic))
    loop.once()
    rows = sorted(
        (tuple(r[n] for n in ("id", "kind", "x", "lat", "label", "by_hand", "wrapped")) for r in loop.rows("Seen")),
        key=str,
    )
    assert rows == [
        (-(2**63), "OLD", 1, 2.0, "", 0, 0),
        (0, "NEW", None, None, None, None, None),
        (7, "NEW", None, None, "é", None, None),
    ]
    assert [r["line"] for r in loop.rows("_belvedere_rejected")] == [1]
    bus.send(topic, *[message(reported, {"id": n}) for n in range(40_000)])  # by tasks
    loop.once()
    assert len(loop.rows("Seen")) == 40_003


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_as_a_table(bus: Bus, spark: Any, tmp_path: Path, descriptors: Path, reported: dict[str, Any]) -> None:
    topic = bus.topic()
    with serving(registered(descriptors)) as address:
        for number, city in ((1, "a"), (2, "b"), (1, "c")):
            bus.send(topic, framed(message(reported, {"id": number, "city": city}), 1), key=str(number))
        bus.send(topic, None, key="2")
        source = PROJECT.format(address=bus.address) + f'registry = "{address}"\n'
        table = f'[sources.bus.tables.Orders]\ntopic = "{topic}"\nprimary_key = ["id"]\n'
        loop = Loop(spark, tmp_path, "IMPORT bus.Orders;\nSeen := SELECT id, city FROM Orders;", source + table)
        loop.once()
        assert [(r["id"], r["city"]) for r in loop.rows("Seen")] == [(1, "c")]
