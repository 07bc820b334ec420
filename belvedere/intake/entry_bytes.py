"""Entries of an intake as bytes, and back.

In: entries (`belvedere.time.intake_entries`) with the key and answer of their request. Out: records for the journal: a
JSON header and the rows as Arrow streams, which preserve each value exactly.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.time.intake_entries import AcceptedRows, Act, Entry, Malformed, ProducerAct

LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Record:
    """An entry, and the answer to a request of the same `key`. `digest` distinguishes requests of one key."""

    entry: Entry
    key: str | None = None
    digest: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)


def encode_record(record: Record) -> bytes:
    """Return the record as bytes."""
    entry = record.entry
    header: dict[str, Any] = {"table": entry.table, "now": entry.now, "producer": entry.producer}
    parts: list[bytes] = []
    if record.key is not None:
        header |= {"key": record.key, "digest": record.digest, "answer": record.answer}
    if isinstance(entry, AcceptedRows):
        header |= {
            "kind": "rows",
            "malformed": [[m.index, m.text, m.reason] for m in entry.malformed],
            "ahead": entry.ahead,
        }
        parts = [encode_rows(entry.rows)] + ([encode_rows(entry.late)] if entry.late is not None else [])
    else:
        header |= {"kind": entry.act.value, "time": entry.time, "column": entry.column, "strict": entry.strict}
    return pack(header, *parts)


def decode_record(payload: bytes) -> Record:
    """Read a record from the result of `encode_record`."""
    header, parts = unpack(payload)
    common = (header["table"], header["now"], header["producer"])
    entry: Entry
    if header["kind"] == "rows":
        malformed = tuple(Malformed(*m) for m in header["malformed"])
        late = decode_rows(parts[1]) if len(parts) > 1 else None
        entry = AcceptedRows(*common, decode_rows(parts[0]), late, malformed, header.get("ahead"))
    else:
        entry = ProducerAct(Act(header["kind"]), *common, header["time"], header["column"], header["strict"])
    return Record(entry, header.get("key"), header.get("digest", ""), header.get("answer", {}))


def pack(header: Mapping[str, Any], *parts: bytes) -> bytes:
    """Return a JSON header and parts of bytes as one value, each with its length before it."""
    found = (json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass"), *parts)
    return b"".join(LENGTH.pack(len(p)) + p for p in found)


def unpack(data: bytes) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Return the arguments of `pack`."""
    parts, place = [], 0
    while place < len(data):
        (length,) = LENGTH.unpack_from(data, place)
        place += LENGTH.size
        parts.append(data[place : place + length])
        place += length
    header: dict[str, Any] = json.loads(parts[0].decode("utf-8", "surrogatepass"))
    return header, parts[1:]


def encode_rows(rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_rows(data: bytes) -> pa.Table:
    """Read the rows of an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
