"""Processor seconds of reading feeds, next to plain clients: `python -m bench.decoding`.

In: a number of rows. Out: seconds of user and system time of this process per 1,000,000 rows of five columns, the
minimum of some rounds. For Kafka it measures from the bytes of messages to Arrow rows, by format, next to the library
alone. For Postgres it measures from the server's bytes to the epoch's rows, for the first read and for the log.
psycopg, which returns tuples, is measured for comparison. Broker and server are not included.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import psycopg
from google.protobuf import descriptor_pb2

from belvedere.compiler import compile_script
from belvedere.connectors.feeds import open_feed
from belvedere.connectors.kafka.formats import format_named
from belvedere.connectors.kafka.formats.descriptors import library, of_file
from belvedere.connectors.project_file import load_project
from tools.servers.postgres import running_postgres

SCRIPT = "CREATE STREAM Orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP, note STRING);"
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}
START = datetime(2024, 1, 1, tzinfo=UTC)
ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount float8, at timestamptz, note text)"
INSERT = """INSERT INTO orders SELECT n, 'customer' || n % 5000, n / 7.0,
    '2024-01-01'::timestamptz + n * interval '1 s', repeat('x', 20)
            FROM generate_series({}, {}) n"""
PEEK = """SELECT data FROM pg_logical_slot_peek_binary_changes(
          'plain', NULL, NULL, 'proto_version', '1', 'publication_names', 'belvedere')"""


def records(count: int) -> list[dict[str, Any]]:
    """Return orders."""
    return [
        {
            "id": n,
            "customer": f"customer{n % 5000}",
            "amount": n / 7,
            "at": START + timedelta(seconds=n),
            "note": "x" * 20,
        }
        for n in range(count)
    ]


def descriptor_set() -> bytes:
    """Return the descriptor set of a message with these fields."""
    from google.protobuf import timestamp_pb2

    found = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(
        name="order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {
        "id": kinds.TYPE_INT64,
        "customer": kinds.TYPE_STRING,
        "amount": kinds.TYPE_DOUBLE,
        "note": kinds.TYPE_STRING,
    }
    for number, name in enumerate(("id", "customer", "amount", "at", "note"), 1):
        field = message.field.add(name=name, number=number, label=kinds.LABEL_OPTIONAL)
        if name in types:
            field.type = types[name]
        else:
            field.type, field.type_name = kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    return bytes(found.SerializeToString())


def least(do: Callable[[], object], rows: int, rounds: int) -> float:
    """Return the minimum processor seconds per 1,000,000 rows."""
    found = []
    for _ in range(rounds):
        before = time.process_time()
        do()
        found.append(time.process_time() - before)
    return min(found) * 1e6 / rows


def messages(count: int, rounds: int) -> list[tuple[str, float, float]]:
    """Return, per format, the seconds of its decoder, and of the library alone."""
    made = records(count)
    table = next(iter(compile_script(SCRIPT).catalog.inputs.values()))
    columns = [c for c in table.schema if not c.hidden]
    text = [json.dumps(r | {"at": r["at"].isoformat()}).encode() for r in made]
    parsed = fastavro.parse_schema(AVRO)
    avro = [_avro(parsed, r) for r in made]
    schema = descriptor_set()
    class_ = library().GetMessageClass(of_file(schema).named("shop.Order"))
    protobuf = [class_(**r).SerializeToString() for r in made]
    cases: Sequence[tuple[str, list[bytes], dict[str, Any], Callable[[bytes], Any]]] = (
        ("json", text, {}, json.loads),
        ("avro", avro, {"schema": json.dumps(AVRO)}, lambda v: fastavro.schemaless_reader(io.BytesIO(v), parsed, None)),
        ("protobuf", protobuf, {"schema": schema, "message": "shop.Order"}, _fields(class_)),
    )
    found = []
    for name, values, options, alone in cases:
        ours = least(lambda f=name, v=values, o=options: format_named(f).decode(v, columns, o), count, rounds)  # type: ignore[misc]
        found.append((name, ours, least(lambda v=values, a=alone: [a(m) for m in v], count, rounds)))  # type: ignore[misc]
    return found


def _fields(class_: Any) -> Callable[[bytes], Any]:
    """Return the function of a program that reads a message's fields."""

    def read(value: bytes) -> Any:
        message = class_.FromString(value)
        return message.id, message.customer, message.amount, message.at.ToDatetime(UTC), message.note

    return read


def _avro(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def postgres(count: int) -> list[tuple[str, float, float]]:
    """Return the seconds of a first read, and of the same number of inserts in the log."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running_postgres(Path(folder, "data")) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute(ORDERS)
        connection.execute("CREATE PUBLICATION belvedere FOR TABLE orders")
        connection.execute(INSERT.format(1, count))
        project = Path(folder, "belvedere.toml")
        project.write_text(f'[sources.crm]\nconnector = "postgres"\nurl = "{url}"\nslot = "feed"\n')
        loaded = load_project(project.parent)
        table = compile_script("IMPORT crm.orders AS Orders;", path=project.with_name("s.sqrl"), project=loaded)
        feed = open_feed(table.catalog.inputs["Orders"], loaded, {})
        try:
            rows = []
            for what, plain in (("first read", _copied), ("log", _peeked)):
                if what == "log":
                    connection.execute("SELECT pg_create_logical_replication_slot('plain', 'pgoutput')")
                    connection.execute(INSERT.format(count + 1, 2 * count))
                rows.append((what, _read(feed) * 1e6 / count, least(lambda p=plain: p(connection), count, 1)))  # type: ignore[misc]
            return rows
        finally:
            feed.close()


def _copied(connection: psycopg.Connection[Any]) -> list[Any]:
    return connection.execute("SELECT * FROM orders", binary=True).fetchall()


def _peeked(connection: psycopg.Connection[Any]) -> list[Any]:
    from belvedere.connectors.postgres.wal import transactions

    found = transactions(bytes(d) for (d,) in connection.execute(PEEK, binary=True).fetchall())
    return [tuple(v.decode() if isinstance(v, bytes) else v for v in c.new or ()) for t in found for c in t.changes]


def _read(feed: Any) -> float:
    """Read all new rows and return the seconds."""
    now, taken = datetime.now(UTC), 0.0
    while True:
        before, now = time.process_time(), now + timedelta(seconds=1)
        span = feed.look(now, False)
        if span is not None:
            feed.read(None, span)
            feed.committed(span)
        taken += time.process_time() - before
        if span is None:
            return taken


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.decoding")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{'processor s a million rows':<30}{'belvedere':>10}{'alone':>10}")
    for name, ours, alone in (*messages(given.rows, given.rounds), *postgres(given.rows)):
        print(f"{name:<30}{ours:>10.1f}{alone:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
