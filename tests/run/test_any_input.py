"""Whatever is pushed or lies in a file: the next epoch commits, and every row is used, late or malformed."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.run.loops import Loop

pytestmark = [pytest.mark.spark, pytest.mark.deep]

TYPES = """i INT, l BIGINT, d DOUBLE, x DECIMAL(6, 2), b BOOLEAN, s STRING, t TIMESTAMP, day DATE, raw BINARY,
    list ARRAY<INT>,
    o STRUCT<a: INT, s: STRING>, m MAP<STRING, INT>"""
NAMES = "i l d x b s t day raw list o m _bound _delete a other".split()
PUSHED = f"""
CREATE STREAM Any ({TYPES}, WATERMARK FOR t AS t - INTERVAL 1 DAY) LATE DROP KEEP 30 DAYS;
CREATE TABLE Keyed (s STRING, l BIGINT, m MAP<STRING, INT>, PRIMARY KEY (s, l));
Counts := SELECT s, i, count(*) AS n FROM Any GROUP BY s, i;
"""
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    ANY_TEXT,
    st.sampled_from(
        [
            "\ud800",
            "\x00",
            "2020-01-01T00:00:00Z",
            "0001-01-01",
            "9999-12-31T23:59:59-18:00",
            "NaN",
            "1e400",
            "AA==",
            "",
        ]
    ),
    st.sampled_from([10**400, 10**19, -0.0, 1e308]),
)
VALUES = st.recursive(
    LEAVES,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | ANY_TEXT, v, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
DEEP = b'{"o": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
# to make a failing example smaller takes many epochs
SLOW = settings(
    max_examples=examples(12), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@SLOW
@given(st.lists(OBJECTS | VALUES, min_size=1, max_size=30), st.lists(st.binary(max_size=50), max_size=3))
def test_any_push(spark: Any, rows: list[Any], bodies: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        loop = Loop(spark, Path(folder), PUSHED)
        known = [
            '{"item": "\\ud800"}',
            '{"s": "\\ud800"}',
            '{"raw": 10000000000}',
            DEEP.decode(),
            DEEP.decode().replace("o", "list"),
        ]
        lines = "\n".join([json.dumps(r) for r in rows] + known).encode()
        loop.once(*[(name, body) for name in ("Any", "Keyed") for body in (lines, json.dumps(rows).encode(), *bodies)])
        (progress,) = loop.progress
        given_, used, late, malformed = loop.counts("Any")
        assert (len(loop.rows("Any")), len(loop.rows("LATE(Any)"))) == (used, late)
        assert given_ == used + late + malformed
        assert malformed == progress.rejected["Any"] >= len(known)


FILES = """
IMPORT files.Json WATERMARK FOR t AS t - INTERVAL 1 DAY;
IMPORT files.Table;
IMPORT files.Columns;
"""
PROJECT = "[sources.files]\npath = 'data'\n" + "".join(
    f'[sources.files.tables.{t}]\ncolumns = {{ i = "INT", d = "DOUBLE", x = "DECIMAL(6, 2)", s = "STRING", t = '
    '"TIMESTAMP", raw = "BINARY", list = "ARRAY<INT>", o = "STRUCT<a: INT, s: STRING>", m = "MAP<STRING, INT>" }\n'
    for t in ("Json", "Table", "Columns")
)


def parquet(rows: list[Any]) -> bytes:
    columns = {n: [r.get(n) if isinstance(r, dict) else None for r in rows] for n in NAMES[:8]}
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
            pq.write_table(pa.table({name: arrays[name]}), pa.BufferOutputStream())
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            arrays[name] = pa.array([repr(v).encode("utf-8", "replace") for v in values])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("large", [False, True])
@SLOW
@given(
    st.lists(OBJECTS | VALUES, min_size=1, max_size=20),
    st.binary(max_size=200),
    st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=9), max_size=9),
    st.integers(0, 400),
)
def test_any_file(spark: Any, large: bool, rows: list[Any], noise: bytes, fields: list[list[str]], place: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if large:
            from belvedere.connectors.reading import reader as source_files

            patch.setattr(source_files, "SMALL_BYTES", -1)
        data = Path(folder) / "data"
        lines = [json.dumps(r).encode() for r in rows]
        text = b"\n".join([*lines, noise, b'{"s": "\\ud800"}', DEEP, DEEP.replace(b"o", b"_bound"), b'{"i": 1}'])
        csv_ = b"i,d,s,t,list,o,m,raw\n" + "\n".join(",".join(f) for f in fields).encode() + noise + b"\n1,,,,,,,\n"
        columns = parquet(rows)
        broken = columns[:place] + noise + columns[place:]
        files = {
            "Json/1.json": text, "Json/2.json.gz": gzip.compress(text), "Json/3.json": noise, "Json/4.json.gz": noise,
            "Json/5.json": b"[" + b",".join([*lines, b'"\\ud800"']) + b"]",
            "Json/6.json.bz2": bz2.compress(text)[:place],
            "Table/1.csv": csv_, "Table/2.csv.gz": gzip.compress(csv_), "Table/3.csv": noise,
            "Table/4.csv": noise * 1000,
            "Columns/1.parquet": columns, "Columns/2.parquet": broken, "Columns/3.parquet": noise,
            "Columns/4.parquet": columns[place:],
        }  # fmt: skip
        for name, content in files.items():
            path = data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        loop = Loop(spark, Path(folder), FILES, PROJECT)
        loop.once()
        (progress,) = loop.progress
        for name in ("Json", "Table", "Columns"):
            given_, used, late, malformed = loop.counts(name)
            assert (len(loop.rows(name)), late, progress.rejected.get(name, 0)) == (used, 0, malformed)
            assert given_ == used + malformed
        assert sum(r["i"] == 1 for r in loop.rows("Json")) >= 2
