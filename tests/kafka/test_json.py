"""Messages of JSON: what Arrow takes is what Spark's reader would give, and all else is left to that."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.connectors.kafka.formats.json import columns, decode
from belvedere.schema import TIMESTAMP, Column

COLUMNS = (
    Column("id", pa.int64(), nullable=False),
    Column("small", pa.int8()),
    Column("name", pa.string()),
    Column("ratio", pa.float64()),
    Column("ok", pa.bool_()),
    Column("at", TIMESTAMP),
    Column("day", pa.date32()),
    Column("parts", pa.list_(pa.int64())),
    Column("place", pa.struct([("x", pa.int64()), ("label", pa.string())])),
)
TEXTS = [
    b'{"id": 1, "name": "\\u00e9\\u2028", "ratio": 1e3, "ok": true, "at": "2020-01-01T00:00:00+02:00", "day": '
    b'"2020-02-29"}',
    b'{"id": 2, "small": 127, "parts": [1, null], "place": {"label": "a", "more": 1}, "extra": {"a": [1]}}',
    b'{"id": 3, "small": 128}',
    b'{"id": "4"}',
    b'{"name": "no id"}',
    b"{}",
    b"",
    b"null",
    b"[1]",
    b'{"id": 5}{"id": 6}',
    b'{"id": 7} trailing',
    b'{"id": 8, "id": 9}',
    b' {"id": 10}',
    b'{"id":\n11}',
    b'{"id": 12, "name": "\xff"}',
    b'{"id": 13, "at": "yesterday"}',
    b'{"id": 14, "at": "2020-01-01 08:07"}',
    b'{"id": 15, "at": "2020-01-01T00:00:00.123456789Z"}',
    b'{"id": 16, "ratio": NaN}',
    b'{"id": 17, "ratio": "1.5"}',
    b'{"id": 18, "name": 1.50}',
    b'{"id": 19, "parts": 1}',
    b'{"id": 20, "place": []}',
    b'{"id": 21, "day": "2020-2-1"}',
    b'{"id": 22, "at": null, "ratio": null, "parts": null, "place": null}',
    b'{"id": 23.0}',
    b'{"id": 9223372036854775808}',
    b'{"ID": 24}',
    b'{"id": 25, "name": "a\\u0000b"}',
    b'{"id": 26, "ratio": -0.0, "at": "0001-01-01T00:00:00Z"}',
    b'{"id": 27, "at": "9999-12-31T23:59:59Z", "day": "9999-12-31"}',
    b'{"id": 28, "at": "2020-01-01"}',
    b'{"id": 29, "name": "{}\\n"}',
    b'{"id": 30, "at": "2020-01-01T24:00:00Z"}',
    b'{"id": 31, "at": "1969-12-31T23:59:59.999999Z"}',
    b'{"id": 32, "ratio": 1e400}',
    b'{"id": 033}',
    b'{"id": 34, "ok": "true"}',
    b'{"id": 35, "day": "2020-02-30"}',
    b'{"id": 36, "ratio": 0.1234567890123456789}',
]


@pytest.fixture
def in_spark(spark: Any) -> Any:
    """Rows of texts by Spark's reader; None for those that it refuses."""
    from belvedere.connectors.kafka.message_chunks import Gathering
    from belvedere.connectors.kafka.message_rows import Chunk, MessageShape, Undecided

    def read(texts: list[bytes]) -> list[Any]:
        shape = MessageShape("json", (*COLUMNS, Column("n", pa.int32())), {"n": "partition"})
        empty = pa.table([pa.nulls(len(texts), f.type) for f in shape.schema], schema=shape.schema)
        empty = empty.set_column(len(COLUMNS), "n", pa.array(range(len(texts)), pa.int32()))
        chunk = Chunk("T[0]", empty, tuple(Undecided(n, n, t) for n, t in enumerate(texts)))
        found: list[Any] = [None] * len(texts)
        for row in Gathering(spark, "T", shape).settle(chunk).to_pylist():
            found[row.pop("n")] = row
        return found

    return read


def same(taken: dict[str, Any], asked: dict[str, Any] | None) -> bool:
    return repr(taken) == repr(asked)


@pytest.mark.spark
def test_what_arrow_takes_is_what_spark_gives(in_spark: Any) -> None:
    found = decode(TEXTS, COLUMNS, {})
    asked = in_spark(TEXTS)
    taken = [n for n in range(len(TEXTS)) if n not in found.undecided]
    rows = found.rows.to_pylist()
    assert [TEXTS[n] for n in taken if not same(rows[n], asked[n])] == []
    assert len(taken) == 10
    assert sum(a is None for a in asked) >= 12
    for n in found.undecided:
        assert set(rows[n].values()) == {None}


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=4)
    | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda d: d.isoformat() + "Z")
    | st.dates(date(1, 1, 1)).map(str),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "label", "é"]), inner, max_size=2)
    ),
    max_leaves=3,
)
MESSAGES = st.dictionaries(st.sampled_from([*(c.name for c in COLUMNS), "more"]), JSON_VALUES, max_size=4) | JSON_VALUES


@pytest.mark.spark
def test_random_messages_are_read_alike(in_spark: Any) -> None:
    texts: list[bytes] = []

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(MESSAGES, st.integers(0, 9))
    def gather(value: Any, number: int) -> None:
        if isinstance(value, dict):
            value = {"id": number, **value}
        texts.append(json.dumps(value, ensure_ascii=number % 2 == 0).encode("utf-8", "surrogatepass"))

    gather()
    found, asked = decode(texts, COLUMNS, {}), in_spark(texts)
    rows = found.rows.to_pylist()
    taken = [n for n in range(len(texts)) if n not in found.undecided]
    assert len(taken) > 40
    assert [(texts[n], rows[n], asked[n]) for n in taken if not same(rows[n], asked[n])] == []


def test_one_bad_message_costs_the_others_nothing() -> None:
    good = [json.dumps({"id": n, "name": "x" * n}).encode() for n in range(300)]
    found = decode([*good[:100], b'{"id": 1.5}', *good[100:]], COLUMNS, {})
    assert list(found.undecided) == [100]
    ids = found.rows["id"].to_pylist()
    assert ids == [*range(100), None, *range(100, 300)]


def test_types_that_arrow_does_not_read_are_left_to_spark() -> None:
    found = decode([b'{"n": {"a": 1}}'], (Column("n", pa.map_(pa.string(), pa.int64())),), {})
    assert found.undecided == {0: b'{"n": {"a": 1}}'}
    assert found.rows.num_rows == 1
    assert decode([], COLUMNS, {}).rows.num_rows == 0
    assert list(decode([b'{"id": 1}'], COLUMNS, {"timestamp_format": "y"}).undecided) == [0]


def test_a_sample_tells_the_columns() -> None:
    values = [b'{"id": 1, "at": "2020-01-01T00:00:00Z"}', b"no", b'{"id": 1.5, "tags": ["a"]}']
    assert columns("T", lambda: values, {}) == pa.schema(
        [("id", pa.float64()), ("at", TIMESTAMP), ("tags", pa.list_(pa.string()))]
    )
