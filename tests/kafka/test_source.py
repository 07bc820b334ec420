"""Topics of Kafka as streams and tables of a script, by epochs over a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.kafka.client import client_settings
from belvedere.connectors.kafka.ranges import MessageRange, RangeReader
from belvedere.connectors.kafka.topics import Cluster
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.store import open_reader
from tests.kafka.conftest import Bus
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def project(bus: Bus, topic: str, table: str = "", source: str = "") -> str:
    named = f'topic = "{topic}"\n{table}'
    return (
        '[sources.bus]\nconnector = "kafka"\nservers = '
        f'"{bus.address}"\n{source}\n[sources.bus.tables.Orders]\n{named}\n'
    )


COLUMNS = 'columns = { id = "BIGINT", city = "STRING", amount = "INT" }'
TOTALS = "IMPORT bus.Orders;\nTotals := SELECT city, sum(amount) AS amount, count(*) AS n FROM Orders GROUP BY city;"


def order(id_: int, city: str = "Bonn", amount: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": id_, "city": city, "amount": amount, **more}


def totals(loop: Loop) -> dict[str, tuple[int, int]]:
    return {r["city"]: (r["amount"], r["n"]) for r in loop.rows("Totals")}


def offsets(loop: Loop) -> dict[str, int]:
    reader = open_reader(loop.url)
    last = reader.last_epoch()
    reader.close()
    assert last is not None
    return {p: o for t in last.offsets["Orders"]["topics"].values() for p, o in t["partitions"].items()}


@pytest.mark.smoke("connector kafka")
def test_a_topic_is_a_stream_whose_columns_its_messages_tell(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic(3)
    bus.send(topic, order(1), order(2, "Köln", 5), partition=0)
    bus.send(topic, order(3, amount=2), b"not json", order(4, amount=None), None, partition=2)  # type: ignore[arg-type]
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic))
    loop.once()
    assert totals(loop) == {"Bonn": (3, 3), "Köln": (5, 1)}
    rejected = [
        (r["table"], r["file"], r["line"], r["text"], r["reason"].split(":")[0])
        for r in loop.rows("_belvedere_rejected")
    ]
    assert sorted(rejected, key=str) == [
        ("Orders", f"{topic}[2]", 1, "not json", "is not JSON"),
        ("Orders", f"{topic}[2]", 3, None, "has no value"),
    ]
    assert loop.counts("Orders") == (6, 4, 0, 2)
    assert offsets(loop) == {"0": 2, "1": 0, "2": 4}

    loop.once()
    assert len(loop.progress) == 1, "nothing is new"
    bus.send(topic, order(5, "Ulm"), partition=1)
    loop.once()
    assert totals(loop)["Ulm"] == (1, 1)
    assert [p.rows_in for p in loop.progress] == [{"Orders": 4}, {"Orders": 1}]


def test_a_topic_with_a_key_is_a_table(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic(2)
    bus.send(topic, order(1), order(2), key="1")
    bus.send(topic, order(3, "Ulm", 7), key="3", partition=1)
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, f'{COLUMNS}\nprimary_key = ["id"]'))
    loop.once()
    assert totals(loop) == {"Bonn": (2, 2), "Ulm": (7, 1)}
    bus.send(topic, None, key=b"1")
    bus.send(topic, order(2, "Ulm", 10), None, order(9), key=b'{"id": 2}')
    bus.send(topic, None, key=b"77", partition=1)
    bus.send(topic, None, key=b"what", partition=1)
    bus.send(topic, None, partition=1)
    loop.once()
    assert totals(loop) == {"Ulm": (7, 1), "Bonn": (1, 1)}
    reasons = [r["reason"] for r in loop.rows("_belvedere_rejected")]
    assert sorted(reasons) == [
        'column "id": "what" is not of type BIGINT',
        "has no value, and no key of the row to delete",
    ]


def test_what_a_message_has_beside_its_value(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    bus.send(topic, order(1), key="k1", headers=[("trace", b"a"), ("none", None)], timestamp=1_600_000_000_123)
    bus.send(topic, order(2))
    named = 'metadata = { t = "topic", p = "partition", o = "offset", at = "timestamp", k = "key", h = "headers" }'
    script = (
        "IMPORT bus.Orders;\nSeen := SELECT id, t, p, o, unix_millis(at) AS at, k, h['trace'] AS trace FROM Orders;"
    )
    loop = Loop(spark, tmp_path, script, project(bus, topic, named))
    loop.once()
    first, second = sorted(
        ({k: r[k] for k in ("id", "t", "p", "o", "at", "k", "trace")} for r in loop.rows("Seen")), key=lambda r: r["id"]
    )
    assert first == {"id": 1, "t": topic, "p": 0, "o": 0, "at": 1_600_000_000_123, "k": "k1", "trace": "a"}
    assert (second["o"], second["k"], second["trace"]) == (1, None, None)


def test_plain_text(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    bus.send(topic, b"one", "zwei ü".encode(), b"\xff", b"")
    loop = Loop(
        spark,
        tmp_path,
        "IMPORT bus.Orders;\nTexts := SELECT value AS text FROM Orders;",
        project(bus, topic, "", 'format = "text"'),
    )
    loop.once()
    assert sorted(r["text"] for r in loop.rows("Texts")) == ["", "one", "zwei ü"]
    assert [(r["line"], r["reason"]) for r in loop.rows("_belvedere_rejected")] == [(2, "is not UTF-8")]


@pytest.mark.parametrize("few", [10, 1_000_000])
def test_epochs_are_cut_fairly_and_the_tasks_read_the_same(
    bus: Bus, spark: Any, tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.connectors.kafka import feed

    monkeypatch.setattr(feed, "FEW_MESSAGES", few)
    topic = bus.topic(3)
    for partition, count in enumerate((5, 200, 300)):
        values: list[Any] = [order(n, f"c{n % 7}", n) for n in range(count)]
        values[3] = b"{"
        values[4] = {"id": "x" if partition else 4, "city": 4}
        bus.send(topic, *values, partition=partition)
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS, "max_rows = 100"))
    loop.once()
    spans = [sum(p.rows_in.values()) + sum(p.rejected.values()) for p in loop.progress]
    assert sum(spans) == 505
    assert max(spans) <= 100
    assert loop.counts("Orders") == (505, 500, 0, 5)
    assert offsets(loop) == {"0": 5, "1": 200, "2": 300}
    assert sum(n for _, n in totals(loop).values()) == 500
    assert totals(loop)["4"][1] == 1
    lines = sorted((r["file"][-3:], r["line"]) for r in loop.rows("_belvedere_rejected"))
    assert lines == [("[0]", 3), ("[1]", 3), ("[1]", 4), ("[2]", 3), ("[2]", 4)]


def test_where_to_start(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic(2)
    for n in range(4):
        bus.send(topic, order(n), timestamp=1_700_000_000_000 + 1000 * n)
    found = {}
    for name, starting in (("a", "earliest"), ("b", "latest"), ("c", "2023-11-14T22:13:22Z")):
        (tmp_path / name).mkdir()
        found[name] = Loop(spark, tmp_path / name, TOTALS, project(bus, topic, COLUMNS, f'starting = "{starting}"'))
        found[name].once()
    assert [totals(f) for f in found.values()] == [{"Bonn": (4, 4)}, {}, {"Bonn": (2, 2)}]
    bus.send(topic, order(5), partition=1)
    found["b"].once()
    assert totals(found["b"]) == {"Bonn": (1, 1)}, "nothing is skipped from the first start on"


def test_topics_of_a_pattern_and_partitions_that_come_later(bus: Bus, spark: Any, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewPartitions

    first = bus.topic(1, "shop.orders-a")
    bus.send(first, order(1))
    loop = Loop(spark, tmp_path, TOTALS, project(bus, "/shop[.]orders-.*/", COLUMNS, 'starting = "latest"'))
    loop.once()
    bus.topic(1, "shop.orders-b")
    bus.send("shop.orders-b", order(2, "Ulm"))
    for future in bus.admin.create_partitions([NewPartitions(first, 2)]).values():
        future.result()
    Bus(bus.broker).send(first, order(3, "Köln"), partition=1)
    loop.once()
    assert totals(loop) == {"Ulm": (1, 1), "Köln": (1, 1)}, "what came later is read from its beginning"


def test_offsets_that_are_gone_are_told_and_not_skipped(bus: Bus, spark: Any, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition

    topic = bus.topic()
    bus.send(topic, order(1), order(2))
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS))
    loop.once()
    bus.send(topic, order(3), order(4))
    for future in bus.admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result()
    with pytest.raises(BelvedereError) as caught:
        loop.once()
    (reported,) = caught.value.diagnostics
    assert (reported.code, reported.detail) == ("B6203", "the next offset is 2, available are 3 to 4")
    (tmp_path / "belvedere.toml").write_text(project(bus, topic, COLUMNS, 'on_lost = "skip"'))
    skipping = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS, 'on_lost = "skip"'))
    skipping.once()
    assert totals(skipping) == {"Bonn": (3, 3)}
    assert skipping.progress[0].notices == (
        f'{topic}[0] continues at offset 3: offset 2 is not available, and `on_lost` is "skip"',
    )


def test_a_topic_that_was_made_anew_is_told(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic()
    bus.send(topic, order(1))
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS))
    loop.once()
    bus.drop(topic)
    bus.topic(1, topic)
    bus.send(topic, order(7, "Ulm"), order(8, "Ulm"))
    with pytest.raises(BelvedereError) as caught:
        loop.once()
    assert caught.value.diagnostics[0].code == "B6203"
    assert "recreated" in caught.value.diagnostics[0].message
    skipping = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS, 'on_lost = "skip"'))
    skipping.once()
    assert totals(skipping) == {"Bonn": (1, 1), "Ulm": (2, 2)}


def test_the_bound_is_the_least_over_partitions(bus: Bus, spark: Any, tmp_path: Path) -> None:
    topic = bus.topic(2)
    script = """
    IMPORT bus.Orders WATERMARK FOR at AS at LATE DROP;
    Hours := SELECT window_end, count(*) AS n FROM Tumble(Orders, at, INTERVAL 1 HOUR) GROUP BY window_end
        EMIT STREAM AFTER WATERMARK;
    """
    columns = 'columns = { id = "BIGINT", at = "TIMESTAMP" }'
    loop = Loop(spark, tmp_path, script, project(bus, topic, columns))

    def send(partition: int, *times: str) -> None:
        bus.send(topic, *({"id": 1, "at": f"2020-01-01T{t}:00Z"} for t in times), partition=partition)

    send(0, "08:10", "10:05")
    loop.once()
    assert loop.rows("Hours") == [], "the other partition may still send"
    send(1, "08:20", "08:30")
    loop.once()
    assert loop.rows("Hours") == []
    send(1, "09:30")
    send(0, "07:00", "10:10")
    loop.once()
    assert [(r["window_end"].hour, r["n"]) for r in loop.rows("Hours")] == [(9, 3)]
    assert loop.counts("Orders") == (7, 6, 1, 0), "07:00 is below the bound of its own partition"


def test_a_compacted_topic(bus: Bus, spark: Any, tmp_path: Path) -> None:
    given = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.01",
        "delete_retention_ms": "0",
    }
    topic = bus.topic(1, None, **given)
    for n in range(6):
        bus.send(topic, order(1, amount=n), key="1")
    bus.send(topic, None, key="2")
    time.sleep(0.2)
    bus.send(topic, order(3), key="3")  # the segments before it may be compacted
    deadline = time.monotonic() + 60
    reader = RangeReader(client_settings("source", "bus", {"servers": bus.address}))
    while (left := sum(len(m) for _, m in reader.read([MessageRange(topic, 0, 0, 8)]))) > 6:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    reader.close()
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, f'{COLUMNS}\nprimary_key = ["id"]'))
    loop.once()
    assert totals(loop) == {"Bonn": (6, 2)}
    assert offsets(loop) == {"0": 8}


def test_messages_of_transactions(bus: Bus, spark: Any, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    topic = bus.topic()
    producer = Producer({"bootstrap.servers": bus.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    loop = Loop(spark, tmp_path, TOTALS, project(bus, topic, COLUMNS))
    for number, ends in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, json.dumps(order(number, amount=10**number)).encode())
        producer.flush()
        if number == 2:
            loop.once()
            assert totals(loop) == {"Bonn": (1, 1)}, "what is not committed is not there"
        ends()
    loop.once()
    assert totals(loop) == {"Bonn": (101, 2)}


@pytest.mark.parametrize(
    ("topic", "table", "source", "code"),
    [
        ("nothing", COLUMNS, "", "B6202"),
        ("nothing", COLUMNS, 'servers = "127.0.0.1:1"', "B6201"),
        ("nothing", COLUMNS, 'starting = "noon"', "B6204"),
        ("nothing", 'metadata = { x = "weather" }', "", "B6206"),
        ("nothing", 'columns = { x = "INT" }\nmetadata = { x = "offset" }', "", "B6206"),
        ("nothing", COLUMNS, 'options = { "security.protocol" = "SASL_SSL" }', "B6200"),
        ("nothing", COLUMNS, 'options = { "no.such.setting" = 1 }', "B6200"),
    ],
)
def test_what_is_wrong_is_told(
    bus: Bus,
    spark: Any,
    tmp_path: Path,
    topic: str,
    table: str,
    source: str,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from belvedere.connectors.kafka import topics

    monkeypatch.setattr(topics, "TIMEOUT_SECONDS", 1.0)
    text = project(bus, topic, table, source)
    if "servers" in source:
        text = text.replace(f'servers = "{bus.address}"\n', "", 1)
    (tmp_path / "belvedere.toml").write_text(text)
    compiled = compile_script("IMPORT bus.Orders;", path=tmp_path / "s.sqrl", project=load_project(tmp_path))
    if compiled.ok:
        with pytest.raises(BelvedereError) as caught:
            Loop(spark, tmp_path, "IMPORT bus.Orders;", text).once()
        assert [d.code for d in caught.value.diagnostics] == [code]
    else:
        assert [d.code for d in compiled.diagnostics] == [code]


@pytest.mark.parametrize("few", [10, 1_000_000])
def test_a_view_that_comes_later_reads_the_topic_again(
    bus: Bus, spark: Any, tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import TopicPartition

    from belvedere.connectors.kafka import feed

    monkeypatch.setattr(feed, "FEW_MESSAGES", few)
    topic, inputs = bus.topic(2), "IMPORT bus.Orders AS _Orders;\nNumbers := SELECT id, _uid AS number FROM _Orders;\n"
    loop = Loop(spark, tmp_path, inputs, project(bus, topic, COLUMNS, "max_rows = 50"))
    for start in (0, 200):
        for partition in range(2):
            values: list[Any] = [order(2 * n + partition) for n in range(start, start + 60)]
            bus.send(topic, *values, b"no", partition=partition)
        loop.once()
    loop.script = inputs + "Again := SELECT id, _uid AS number FROM _Orders;\n"
    asked, topics = [0], Cluster.topics

    def counted(self: Cluster, requested: str) -> Any:
        asked[0] += 1
        return topics(self, requested)

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "topics", counted)
        patch.setattr(feed, "TOPICS_SECONDS", 3600)  # however slow the machine is
        loop.once()
    assert asked[0] <= 2, "the cluster is asked once for all epochs, not for each"
    numbers = {r["id"]: r["number"] for r in loop.rows("Numbers")}
    assert len(numbers) == 240
    assert {r["id"]: r["number"] for r in loop.rows("Again")} == numbers

    for future in bus.admin.delete_records([TopicPartition(topic, 1, 3)]).values():
        future.result()
    loop.script += "Third := SELECT id FROM _Orders;\n"
    with pytest.raises(BelvedereError) as caught:
        loop.once()
    assert caught.value.diagnostics[0].code == "B7070"
    assert f"{topic}[1] starts at offset 3, but epoch 1 read from 0" in caught.value.diagnostics[0].message
