"""Faults of messages, registries and clusters, without a broker: each is one message's, or told, or waited for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from belvedere.compiler import compile_script
from belvedere.connectors.connector import Outgoing
from belvedere.connectors.feeds import feed_request_of
from belvedere.connectors.kafka import feed, sink
from belvedere.connectors.kafka.formats import avro as avro_format
from belvedere.connectors.kafka.formats import registry
from belvedere.connectors.kafka.message_rows import BAD_KEY, NO_KEY, MessageShape
from belvedere.connectors.kafka.topics import Place, Topic
from belvedere.connectors.outage_backoff import AwayError
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.project.settings import Sink
from belvedere.schema import TIMESTAMP, WEIGHT, Column
from tests.kafka.registry import serving
from tests.kafka.test_avro import avro


@dataclass(frozen=True)
class Message:
    """What `MessageShape` asks a message."""

    its_key: bytes | None
    its_value: bytes | None
    at: int = 0

    def key(self) -> bytes | None:
        return self.its_key

    def value(self) -> bytes | None:
        return self.its_value

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at


def taken(shape: MessageShape, *messages: Message) -> tuple[list[dict[str, Any]], dict[int, str]]:
    found = shape.chunk("T[0]", messages)  # type: ignore[arg-type]
    return found.rows.to_pylist(), {r.place: r.reason for r in found.refused}


# -- times ------------------------------------------------------------------------------------------------------------


def test_times_that_no_column_holds() -> None:
    columns = (Column("id", pa.int64()), Column("at", TIMESTAMP), Column("sent", TIMESTAMP))
    shape = MessageShape("json", columns, {"sent": "timestamp"})
    rows, refused = taken(
        shape,
        Message(None, b'{"id": 1, "at": "2026-01-01T00:00:00Z"}', 1_700_000_000_000),
        Message(None, b'{"id": 2, "at": "9999-12-31T23:59:59Z"}', 1_700_000_000_000_000_000),
        Message(None, b'{"id": 3}', 2**63 - 1),
    )
    assert refused == {}
    assert [r["sent"] for r in rows] == [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None, None]


def test_times_of_decoders() -> None:
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
        ],
    }
    plain = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "at", "type": "long"}, {"name": "days", "type": {"type": "array", "items": "int"}}],
    }
    columns = (Column("at", TIMESTAMP), Column("days", pa.list_(pa.date32())))
    shape = MessageShape("avro", columns, options={"schema": json.dumps(schema)})
    values = [{"at": 0, "days": [0]}, {"at": 253_402_300_800_000_000, "days": []}, {"at": 1, "days": [0, 3_000_000]}]
    rows, refused = taken(shape, *(Message(None, avro(v, plain)) for v in values))
    assert rows[0] == {"at": datetime(1970, 1, 1, tzinfo=UTC), "days": [date(1970, 1, 1)]}
    assert refused.keys() == {1, 2}


# -- keys -------------------------------------------------------------------------------------------------------------

KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (
        pa.string(),
        [
            "null",
            None,
            "",
            "1",
            "true",
            "NaN",
            '"x"',
            '{"id":"x"}',
            ' {"id":null}',
            "{",
            "[1]",
            "ö",
            "\\xff",
            "1.0",
            "x\ny",
        ],
    ),
    (pa.float64(), [None, 0.1, 1e300, float("nan"), float("inf"), float("-inf"), 5.0, 123456789012345680.0]),
    (pa.decimal128(38, 2), [None, Decimal("123456789012345678901234567890.91"), Decimal("0.10"), Decimal("-5.00")]),
    (pa.int64(), [None, 2**63 - 1, -(2**63), 0]),
    (pa.bool_(), [None, True, False]),
    (pa.date32(), [None, date(2024, 2, 29), date(1, 1, 1)]),
    (TIMESTAMP, [None, datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]),
    (pa.binary(), [None, b"", b"\x00", b"\xd7\x6d\xf8", b"\xd3\x5d\xb7\xe3\x9e\xbb"]),
]


@pytest.mark.parametrize(("type_", "values"), KEYS, ids=lambda v: str(v)[:12])
@pytest.mark.parametrize("more", [False, True], ids=["one", "two"])
def test_keys_are_one_to_one(type_: pa.DataType, values: list[Any], more: bool) -> None:
    columns = {"id": pa.array(values, type_)} | ({"n": pa.array([1] * len(values), pa.int64())} if more else {})
    table = pa.table(columns)
    keys = sink._keys(table)
    assert len(set(keys)) == len(values)
    key = tuple(columns)
    shape = MessageShape("json", tuple(Column(n, table.schema.field(n).type) for n in key), primary_key=key)
    for value, line in zip(values, keys, strict=True):
        deletion = shape._deletion(line)
        assert deletion is not None
        found = json.loads(deletion, parse_float=Decimal)["id"]
        expected = sink._in_key(value)
        assert (Decimal(found) if isinstance(value, Decimal) else found) == (
            value
            if isinstance(value, Decimal)
            else expected
            if not isinstance(expected, float)
            else Decimal(repr(expected))
        )


def test_keys_that_are_no_text() -> None:
    columns = (Column("id", pa.string(), nullable=False), Column("n", pa.int64()))
    rows, refused = taken(
        MessageShape("json", columns, primary_key=("id",)),
        Message(b"\xff", None),
        Message(b"\\xff", None),
        Message(b"\xff", b'{"id": "a", "n": 1}'),
    )
    assert refused == {0: NO_KEY}
    assert [(r["id"], r[WEIGHT]) for r in rows[1:]] == [("\\xff", -1), ("a", 1)]
    shape = MessageShape("json", columns, {"id": "key"}, ("id",))
    _, refused = taken(shape, Message(b"\xff", b'{"n": 1}'), Message(b"\\xff", b'{"n": 1}'))
    assert refused == {0: BAD_KEY}


# -- registries -------------------------------------------------------------------------------------------------------

FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "long"}]


def framed(number: int, value: dict[str, Any], schema: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + avro(value, schema)


def test_a_schema_that_the_registry_has_not_is_the_message_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "record", "name": "O", "fields": FIELDS}
    answers: dict[str, Any] = {
        "/base/schemas/ids/1": {"schema": json.dumps(schema)},
        "/base/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
        "/base/schemas/ids/3": {"schema": "no schema"},
    }
    good = framed(1, {"id": 1}, schema)
    columns = (Column("id", pa.int64()),)
    with serving(answers) as address:
        shape = MessageShape("avro", columns, options={"registry": address})
        numbered = [b"\0\0\0\0" + bytes([n]) + b"x" for n in (2, 3, 9)]
        rows, refused = taken(shape, *(Message(None, v) for v in (good, *numbered, good)))
        assert [r["id"] for r in rows] == [1, None, None, None, 1]
        assert [r.partition(":")[0] for r in refused.values()] == [f"names schema {n}" for n in (2, 3, 9)]
        answers["/base/schemas/ids/9"] = {"schema": json.dumps(schema)}
        monkeypatch.setattr(registry, "ASK_AGAIN", 0.0)
        assert taken(shape, Message(None, framed(9, {"id": 2}, schema))) == ([{"id": 2}], {}), (
            "somebody has registered it"
        )
    with pytest.raises(AwayError, match="B6205"):
        taken(shape, Message(None, framed(4, {"id": 1}, schema)))


def test_the_reader_s_schema_counts() -> None:
    written = {"type": "record", "name": "O", "fields": FIELDS}
    own = {
        "type": "record",
        "name": "O",
        "fields": [
            {"name": "number", "type": "long", "aliases": ["id"]},
            {"name": "city", "type": "string", "default": "Ulm"},
        ],
    }
    with serving({"/base/schemas/ids/1": {"schema": json.dumps(written)}}) as address:
        options = {"registry": address, "schema": json.dumps(own)}
        assert avro_format.columns("T", list, options).names == ["number", "city"]
        shape = MessageShape("avro", (Column("number", pa.int64()), Column("city", pa.string())), options=options)
        assert taken(shape, Message(None, framed(1, {"id": 5}, written))) == ([{"number": 5, "city": "Ulm"}], {})


# -- topics that are not listed ---------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A cluster of topics of one partition: what its pattern finds, and how many messages each has."""

    topics_: dict[str, Topic] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def topics(self, requested: str) -> list[Topic]:
        return list(self.topics_.values())

    def ends(self, places: Any) -> dict[Place, int]:
        return {p: self.sizes[p[0]] for p in places}

    def starts(self, places: Any) -> dict[Place, int]:
        return dict.fromkeys(places, 0)


def test_a_topic_that_is_not_listed_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "belvedere.toml").write_text(
        '[sources.bus]\nconnector = "kafka"\nservers = "x:1"\n[sources.bus.tables.T]\ntopic = "/p./"\ncolumns = { id '
        '= "BIGINT" }\n'
    )
    project = load_project(tmp_path)
    catalog = compile_script("IMPORT bus.T;", path=tmp_path / "s.sqrl", project=project).catalog
    a, b = Topic("pa", "A", (0,)), Topic("pb", "B", (0,))
    cluster = Cluster({"pa": a, "pb": b}, {"pa": 1, "pb": 1})
    monkeypatch.setattr(feed, "Cluster", lambda *_: cluster)
    monkeypatch.setattr(feed, "TOPICS_SECONDS", 0.0)
    offset: dict[str, Any] = {}

    def read() -> list[tuple[str, int, int]]:
        nonlocal offset
        opened = feed.KafkaFeed(feed_request_of(catalog.inputs["T"], project, offset))
        span = opened.look(datetime.now(UTC), once=True)
        offset = offset if span is None else json.loads(json.dumps(span.end))
        return [] if span is None else [(r.topic, r.start, r.end) for r in span.content]

    assert read() == [("pa", 0, 1), ("pb", 0, 1)]
    del cluster.topics_["pb"]
    cluster.sizes["pa"] = 2
    assert read() == [("pa", 1, 2)]
    assert read() == []
    cluster.topics_["pb"], cluster.sizes["pb"] = b, 3
    assert read() == [("pb", 1, 3)]
    del cluster.topics_["pb"]
    cluster.sizes["pa"] = 3
    assert read() == [("pa", 2, 3)]
    cluster.topics_["pb"] = Topic("pb", "made anew", (0,))
    with pytest.raises(BelvedereError, match="B6203"):
        read()


# -- exports ----------------------------------------------------------------------------------------------------------


def outgoings(count: int) -> list[Outgoing]:
    names = {f"V{n}": "All" for n in range(count)}
    return [
        Outgoing(Sink("out", "kafka", options={"servers": "x:1", "names": names}), n, "store", (), n) for n in names
    ]


def test_many_exports_of_one_topic() -> None:
    outlet = sink.KafkaOutlet(outgoings(sink.MAX_MARKS))
    marks = {e.mark: 2**40 for e in outlet.exports}
    assert len(marks) == sink.MAX_MARKS
    assert len(json.dumps(marks, separators=(",", ":"))) < 4096
    assert outlet._with_room("All", {"gone": 1} | marks) == marks, (
        "marks of exports that are gone leave where there is no room"
    )
    few = sink.KafkaOutlet(outgoings(2))
    assert few._with_room("All", {"gone": 1} | marks) == marks
    assert few._with_room("All", {"gone": 1}) == {"gone": 1}, "it may come back"
    with pytest.raises(BelvedereError, match="B6209"):
        sink.KafkaOutlet(outgoings(sink.MAX_MARKS + 1))


class FullProducer:
    """A producer whose queue is full at first."""

    def __init__(self, *failures: Exception):
        self.failures, self.sent = list(failures), 0

    def produce(self, *_: Any, **__: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.sent += 1

    def poll(self, seconds: float) -> None:
        pass


def test_a_full_queue_is_waited_for_and_a_large_message_named() -> None:
    outlet = sink.KafkaOutlet(outgoings(1))
    full: Any = FullProducer(BufferError(), BufferError())
    outlet._produce(full, 0, b"k", b"v", [], 1)
    assert full.sent == 1
    large: Any = FullProducer(KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)))
    with pytest.raises(BelvedereError) as caught:
        outlet._produce(large, 0, b"the key", b"v" * 2_000_000, [], 1)
    (reported,) = caught.value.diagnostics
    assert reported.code == "B6209"
    assert 'the row with the key the key is too large for the topic "All"' in reported.message
    assert '"message.max.bytes" = 2010000' in str(reported.hint)


def test_transactions_are_cut_by_messages_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "MAX_MESSAGES", 3)
    monkeypatch.setattr(sink, "MAX_BYTES", 100)
    sizes = [1, 1, 1, 1, 200, 1]
    found = list(sink._cut((0, b"", b"x" * n, [], 0) for n in sizes))
    assert [[len(m[2] or b"") for m in some] for some in found] == [[1, 1, 1], [1, 200], [1]]
