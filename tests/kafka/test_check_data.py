"""`belvedere check --data` over topics: what an epoch refuses, and nothing is committed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.kafka.formats import registry as schema_registry
from belvedere.connectors.kafka.ranges import RangeReader
from tests.commands.checked_data import looked_at, project, reported
from tests.kafka.conftest import Bus
from tests.kafka.registry import serving
from tests.kafka.test_avro import avro
from tests.kafka.test_protobuf import descriptors, framed, message, registered

__all__ = ["descriptors"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def source(bus: Bus, tables: str, more: str = "") -> str:
    return f'[sources.bus]\nconnector = "kafka"\nservers = "{bus.address}"\n{more}{tables}'


def test_json_of_several_partitions(bus: Bus, tmp_path: Path, spark: Any) -> None:
    name = bus.topic(3)
    bus.send(name, *({"id": n, "city": "Köln", "extra": n} for n in range(100)), key=b"k")
    bus.send(name, {"id": 7, "city": "Ulm"}, {"id": "x"}, b"\xff", b"{}", partition=1, key=b"7")
    bus.send(name, None, partition=1)
    columns = 'columns = { id = "BIGINT", city = "STRING", nr = "INT" }\nprimary_key = ["id"]\n'
    toml = source(bus, f'[sources.bus.tables.Orders]\ntopic = "{name}"\n{columns}')
    project(tmp_path, toml, "IMPORT bus.Orders;\nV := SELECT city, count(*) AS n FROM Orders GROUP BY city;")
    orders = looked_at(tmp_path)["Orders"]
    assert (orders["rows"], orders["fit"]) == (105, 101)
    refused = [f for f in orders["findings"] if f["kind"] == "refused"]
    assert [(f["what"], f["rows"], f["where"]) for f in refused] == [
        ('column "id" is not of type BIGINT', 1, f"{name}[1]:1"),
        ("is not UTF-8", 1, f"{name}[1]:2"),
        ('column "id" is NULL', 1, f"{name}[1]:3"),
        ("has no value, and no key of the row to delete", 1, f"{name}[1]:4"),
    ]
    assert reported(orders, "missing") == [('no row has the column "nr"', None)]
    assert reported(orders, "unnamed") == [("the data has 1 column that the table does not declare: extra", None)]
    assert reported(orders, "keys") == [("keys occur in several partitions, so their changes have no order", 1)]
    few = looked_at(tmp_path, "--rows", "30")["Orders"]
    assert (few["rows"], few["fit"]) == (15, 11), "the first five and the last five of the long partition"
    groups = {g.group_id for g in bus.admin.list_consumer_groups().result().valid}
    assert "belvedere" not in groups
    assert sorted(p.name for p in tmp_path.iterdir()) == ["belvedere.toml", "s.sqrl"]


def test_messages_without_a_key_and_from_where_it_starts(bus: Bus, tmp_path: Path, spark: Any) -> None:
    name = bus.topic()
    bus.send(name, b"broken", *({"id": n} for n in range(20)), None)
    table = f'[sources.bus.tables.Clicks]\ntopic = "{name}"\ncolumns = {{ id = "BIGINT" }}\n'
    project(tmp_path, source(bus, table), "IMPORT bus.Clicks;")
    clicks = looked_at(tmp_path)["Clicks"]
    assert [w for w, _ in reported(clicks, "refused")] == ["is not JSON", "has no value"]
    project(tmp_path, source(bus, table, 'starting = "latest"\n'), "IMPORT bus.Clicks;")
    newest = looked_at(tmp_path, "--rows", "4")["Clicks"]
    assert (newest["rows"], newest["fit"]) == (4, 3)
    empty = bus.topic()
    project(tmp_path, source(bus, table.replace(name, empty)), "IMPORT bus.Clicks;")
    assert looked_at(tmp_path)["Clicks"]["note"] == "has no rows yet"
    project(tmp_path, source(bus, table.replace(name, "never-made")), "IMPORT bus.Clicks;")
    assert looked_at(tmp_path, code=1)["Clicks"]["failures"][0]["code"] == "B6202"


def test_avro_of_a_file_and_texts(bus: Bus, tmp_path: Path, spark: Any) -> None:
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": "id", "type": "long"}, {"name": "qty", "type": "int"}, {"name": "note", "type": "string"}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), {"id": 1, "qty": 2, "note": "a"})
    name = bus.topic()
    bus.send(name, body.getvalue(), b"\x01")
    table = f'topic = "{name}"\nschema = "order.avsc"\ncolumns = {{ id = "INT", qty = "INT" }}\n'
    toml = source(bus, f"[sources.bus.tables.Orders]\n{table}", 'format = "avro"\n')
    project(tmp_path, toml, "IMPORT bus.Orders;")
    orders = looked_at(tmp_path)["Orders"]
    assert (orders["rows"], orders["fit"]) == (2, 1)
    assert reported(orders, "refused") == [("is not Avro of its schema", 1)]
    assert reported(orders, "type") == [('column "id" is INT, and BIGINT in the source', None)]
    assert reported(orders, "unnamed") == [("the data has 1 column that the table does not declare: note", None)]
    text = bus.topic()
    bus.send(text, b"caf\xc3\xa9", b"\xff")
    project(
        tmp_path,
        source(bus, f'[sources.bus.tables.Lines]\ntopic = "{text}"\n', 'format = "text"\n'),
        "IMPORT bus.Lines;",
    )
    lines = looked_at(tmp_path)["Lines"]
    assert (lines["rows"], lines["fit"]) == (2, 1)


def test_avro_with_a_registry(bus: Bus, tmp_path: Path, spark: Any) -> None:
    id_, note = {"name": "id", "type": "long"}, {"name": "note", "type": "string"}
    old, new = ({"type": "record", "name": "Order", "fields": f} for f in ([id_], [id_, note]))
    name = bus.topic()
    bus.send(name, avro({"id": 1}, old, 1), avro({"id": 2**40, "note": "a"}, new, 2), b"{}", b"\0\0\0\0\x01", key="1")
    bus.send(name, None, key="1")
    bus.send(name, avro({"id": 3, "note": "b"}, new, 2), key="3")
    table = f'[sources.bus.tables.Orders]\ntopic = "{name}"\ncolumns = {{ id = "INT" }}\nprimary_key = ["id"]\n'
    schemas = {f"/base/schemas/ids/{n}": {"schema": json.dumps(s)} for n, s in ((1, old), (2, new))}
    with serving(schemas) as registry:
        project(tmp_path, source(bus, table, f'format = "avro"\nregistry = "{registry}"\n'), "IMPORT bus.Orders;")
        orders = looked_at(tmp_path)["Orders"]
        assert (orders["rows"], orders["fit"]) == (6, 3)
        assert reported(orders, "refused") == [
            ('column "id" is not of type INT', 1),
            ("does not begin with a schema id", 1),
            ("is not Avro of its schema", 1),
        ]
        assert all("registry" in f["hint"] for f in orders["findings"] if "does not begin" in f["what"])
        assert reported(orders, "type") == [('column "id" is INT, and BIGINT in the source', None)]
        assert reported(orders, "unnamed") == [("the data has 1 column that the table does not declare: note", None)]
        bus.send(name, b"\0\0\0\0\x07a")
        orders = looked_at(tmp_path)["Orders"]
        assert (orders["rows"], orders["fit"]) == (7, 3)
        assert sum("names schema 7" in what for what, _ in reported(orders, "refused")) == 1
    schema_registry._unknown.clear()  # it is asked again, and is away
    (failure,) = looked_at(tmp_path, code=1)["Orders"]["failures"]
    assert failure["code"] == "B6205"
    assert "u:p@" not in json.dumps(failure)


def test_protobuf(bus: Bus, tmp_path: Path, spark: Any, descriptors: Path) -> None:
    kinds = {"schema": (descriptors / "order.desc").read_bytes(), "message": "shop.Order"}
    name = bus.topic()
    first, second = (message(kinds, {"id": n, "city": "Köln"}) for n in (1, 2**40))
    bus.send(name, first, second, b"\xff")
    columns = 'columns = { id = "INT", city = "STRING", nr = "INT" }\n'
    table = (
        f'[sources.bus.tables.Orders]\ntopic = "{name}"\n{columns}schema = "{descriptors}/order.desc"\nmessage = '
        '"shop.Order"\n'
    )
    project(tmp_path, source(bus, table, 'format = "protobuf"\n'), "IMPORT bus.Orders;")
    orders = looked_at(tmp_path)["Orders"]
    assert (orders["rows"], orders["fit"]) == (3, 1)
    assert reported(orders, "refused") == [('column "id" is not of type INT', 1), ("is not Protobuf of its schema", 1)]
    assert reported(orders, "missing") == [('no row has the column "nr"', None)]
    assert reported(orders, "type") == [('column "id" is INT, and BIGINT in the source', None)]
    framed_topic = bus.topic()
    bus.send(framed_topic, framed(first, 1), b"\1")
    table = f'[sources.bus.tables.Orders]\ntopic = "{framed_topic}"\ncolumns = {{ id = "BIGINT" }}\n'
    with serving(registered(descriptors)) as registry:
        project(tmp_path, source(bus, table, f'format = "protobuf"\nregistry = "{registry}"\n'), "IMPORT bus.Orders;")
        orders = looked_at(tmp_path)["Orders"]
    assert (orders["rows"], orders["fit"]) == (2, 1)
    assert reported(orders, "refused") == [("does not begin with a schema id", 1)]


def test_messages_are_read_once(bus: Bus, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the table has not is told of all that are looked at."""
    name = bus.topic(2)
    bus.send(name, {"id": 0, "only here": 1}, *({"id": n} for n in range(1_500)))
    bus.send(name, *({"id": n} for n in range(10)), partition=1)
    read, taken = RangeReader.read, list[int]()

    def counted(self: RangeReader, *given: Any) -> Iterator[Any]:
        for range_, messages in read(self, *given):
            taken.append(len(messages))
            yield range_, messages

    monkeypatch.setattr(RangeReader, "read", counted)
    table = f'[sources.bus.tables.Clicks]\ntopic = "{name}"\ncolumns = {{ id = "BIGINT" }}\n'
    project(tmp_path, source(bus, table), "IMPORT bus.Clicks;")
    clicks = looked_at(tmp_path, "--rows", "10000")["Clicks"]
    assert (clicks["rows"], sum(taken)) == (1_511, 1_511)
    assert reported(clicks, "unnamed") == [("the data has 1 column that the table does not declare: only here", None)]
