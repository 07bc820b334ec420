"""Files become rows: every format, every compression, and every way in which a row or a file can be bad."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.connectors.run_records import SourceFile
from belvedere.schema import TIMESTAMP, Column
from tests.depth import at_night

pytestmark = pytest.mark.spark

COLUMNS = (
    Column("id", pa.int64(), nullable=False),
    Column("name", pa.string()),
    Column("price", pa.decimal128(6, 2)),
    Column("at", TIMESTAMP),
)
SMALL, LARGE, APART = 1 << 30, -1, -2
"""Read in the driver; by Spark; by Spark, and kept in scratch files."""


def file_of(path: Path) -> SourceFile:
    stat = os.stat(path)
    return SourceFile(str(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def read(spark: Any, paths: list[Path], small: int, columns: Any = COLUMNS, **options: Any) -> Any:
    from belvedere.connectors.reading.reader import read_files

    taken = read_files(
        spark, "T", [file_of(p) for p in paths], columns, options, small_bytes=small, apart=small == APART
    )
    return replace(taken, rows=taken.rows.table)


JSON = """\
{"id": 1, "name": "é\u2028x", "price": 1.25, "at": "2020-01-01T00:00:00+02:00"}

{"id": "two"}
{"name": "no id"}
{"id": 3}{"id": 4}
{"id": 5} trailing
not json
[1]
{"id": 6, "name": "}  {", "extra": {"a": [1]}}
{"id": 7, "price": 12345.6}
{"id": 8, "at": "yesterday"}
{"id": 9, "at": null}
"""


@pytest.mark.parametrize("small", [SMALL, APART, *at_night([LARGE])])
def test_json_rows_and_their_refusals(spark: Any, tmp_path: Path, small: int) -> None:
    path = tmp_path / "a [x] é %41.json"
    path.write_bytes(b"\xef\xbb\xbf" + JSON.encode() + b'{"id": 10, "name": "\xff"}\n')
    taken = read(spark, [path], small)
    assert taken.rows.to_pylist() == [
        {"id": 1, "name": "é\u2028x", "price": pytest.approx(1.25), "at": datetime(2019, 12, 31, 22, tzinfo=UTC)},
        {"id": 6, "name": "}  {", "price": None, "at": None},
        {"id": 9, "name": None, "price": None, "at": None},
    ]
    assert [(r.text[:12], r.reason.split(":")[0]) for r in taken.rejected] == [
        ('{"id": "two"', 'column "id"'),
        ('{"name": "no', 'column "id" is NULL'),
        ('{"id": 3}{"i', "is not JSON"),
        ('{"id": 5} tr', "is not JSON"),
        ("not json", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"id": 7, "p', 'column "price"'),
        ('{"id": 8, "a', 'column "at"'),
        ('{"id": 10, "', "is not UTF-8"),
    ]
    assert {r.file for r in taken.rejected} == {str(path)}
    if small == SMALL:
        assert [r.line for r in taken.rejected] == [3, 4, 5, 6, 7, 8, 10, 11, 13]


CSV = """\
name,id,at,ignored,price
"a ""quoted"", é",1,2020-01-01 08:07:00,x,1.5
,2,,,
short,3
bad,x,,,
bad,4,noon,,
bad,,,,
too,many,fields,in,this,row
"""


@pytest.mark.parametrize("small", [SMALL, APART, *at_night([LARGE])])
def test_csv_finds_columns_by_the_header(spark: Any, tmp_path: Path, small: int) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(CSV)
    two.write_text("ID;at\n7;2020-02-30\n8;2020-02-28\n".replace(";", ","))
    taken = read(spark, [one, two], small)
    assert taken.rows.to_pylist() == [
        {"id": 1, "name": 'a "quoted", é', "price": pytest.approx(1.5), "at": datetime(2020, 1, 1, 8, 7, tzinfo=UTC)},
        {"id": 2, "name": None, "price": None, "at": None},
        {"id": 8, "name": None, "price": None, "at": datetime(2020, 2, 28, tzinfo=UTC)},
    ]
    assert [r.reason for r in taken.rejected] == [
        "has 2 fields, expected 5",
        'column "id": x is not of type BIGINT',
        'column "at": noon is not of type TIMESTAMP',
        'column "id" is NULL',
        "has 6 fields, expected 5",
        'column "at": 2020-02-30 is not of type TIMESTAMP',
    ]


def test_csv_options(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_text('1;"line\nbreak";NA;01.02.2020 10:00\n')
    taken = read(
        spark, [path], SMALL, format="csv", header=False, delimiter=";", null="NA", timestamp_format="dd.MM.yyyy HH:mm"
    )
    assert taken.rows.to_pylist() == [
        {"id": 1, "name": "line\nbreak", "price": None, "at": datetime(2020, 2, 1, 10, tzinfo=UTC)}
    ]


@pytest.mark.parametrize("small", [SMALL, APART, *at_night([LARGE])])
def test_parquet_is_cast_by_name(spark: Any, tmp_path: Path, small: int) -> None:
    exact = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"], "price": pa.array([1], pa.decimal128(6, 2))})
    other = pa.table(
        {
            "NAME": pa.array(["b", "c"]).dictionary_encode(),
            "id": ["2", "x"],
            "at": pa.array([datetime(2020, 1, 1), None], pa.timestamp("ns")),
        }
    )
    pq.write_table(exact, tmp_path / "exact.parquet")
    pq.write_table(other, tmp_path / "other.parquet")
    whole = (tmp_path / "exact.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    taken = read(spark, [tmp_path / f"{n}.parquet" for n in ("exact", "other", "cut")], small)
    assert [(r["id"], r["name"], r["at"]) for r in taken.rows.to_pylist()] == [
        (1, "a", None),
        (2, "b", datetime(2020, 1, 1, tzinfo=UTC)),
    ]
    assert [(Path(r.file or "").name, r.line is None, r.reason.split(":")[0]) for r in taken.rejected] == [
        ("cut.parquet", True, "is not a complete Parquet file"),
        ("other.parquet", False, 'column "id"'),
    ]


@pytest.mark.parametrize("small", [SMALL, APART, *at_night([LARGE])])
def test_compressed_empty_truncated_and_unknown_files(spark: Any, tmp_path: Path, small: int) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n' * 3))
    (tmp_path / "b.jsonl.bz2").write_bytes(bz2.compress(b'{"id": 2}'))
    (tmp_path / "c.json.zst").write_bytes(pa.Codec("zstd").compress(b'{"id": 3}\n', asbytes=True))
    (tmp_path / "d.json").write_bytes(b"")
    (tmp_path / "e.csv").write_bytes(b"\xef\xbb\xbfid,name\n")
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfid,name\n4,x\n"))
    (tmp_path / "g.json.gz").write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:2000])
    (tmp_path / "README.md").write_text("hello")
    taken = read(spark, sorted(tmp_path.iterdir()), small)
    assert sorted(r["id"] for r in taken.rows.to_pylist()) == [1, 1, 1, 2, 3, 4]
    assert sorted((Path(r.file or "").name, r.reason.split(":")[0]) for r in taken.rejected) == [
        ("README.md", "has an unknown format"),
        ("g.json.gz", "cannot be read"),
    ]


@pytest.mark.parametrize("small", [SMALL, APART, *at_night([LARGE])])
def test_nested_json_and_arrays(spark: Any, tmp_path: Path, small: int) -> None:
    item = pa.struct([("sku", pa.string()), ("n", pa.int32())])
    columns = (Column("id", pa.int64(), nullable=False), Column("items", pa.list_(item)))
    (tmp_path / "a.json").write_text(
        '{"id": 1, "items": [{"n": 2, "sku": "a"}, {"sku": "b"}]}\n{"id": 2, "items": [{"n": "x"}]}\n'
    )
    pq.write_table(
        pa.table(
            {
                "id": [3],
                "items": pa.array(
                    [[{"n": 5, "sku": "z"}]], pa.list_(pa.struct([("n", pa.int64()), ("sku", pa.string())]))
                ),
            }
        ),
        tmp_path / "b.parquet",
    )
    taken = read(spark, [tmp_path / "a.json", tmp_path / "b.parquet"], small, columns)
    assert taken.rows.to_pylist() == [
        {"id": 1, "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": None}]},
        {"id": 3, "items": [{"sku": "z", "n": 5}]},
    ]
    assert len(taken.rejected) == 1


def test_many_bad_rows_are_counted_and_some_are_kept(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belvedere.connectors.reading.row_intake.MAX_REJECTED", 5)
    (tmp_path / "a.json").write_text("bad\n" * 40 + '{"id": 1}\n')
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    taken = read(spark, [tmp_path / "a.json", tmp_path / "b.parquet"], SMALL)
    assert (taken.rows.num_rows, len(taken.rejected), taken.refused) == (1, 6, 41)


@pytest.mark.parametrize(
    ("small", "chunk"), [(APART, 500), (SMALL, 1), *at_night([(SMALL, 1 << 25), (LARGE, 1 << 25)])]
)
def test_control_rows_are_bounds_where_they_stand(spark: Any, tmp_path: Path, small: int, chunk: int) -> None:
    from belvedere.catalog.inputs import Input, InputKind, Watermark
    from belvedere.connectors.reading.reader import read_files
    from belvedere.schema import Schema
    from belvedere.values.instants import microseconds

    table = Input("T", "T", InputKind.IMPORT, Schema(COLUMNS), watermarks=(Watermark("at"),))
    first = ['{"_bound": "2020-01-01T00:00:00Z"}', '{"id": 1}', '{"id": "bad"}']
    first += ['{"_bound": {"at": "2020-01-02", "strict": true}}', '{"id": 2}']
    wrong = ["soon", {"at": "2020-01-03", "column": "name"}, {"at": "2020-01-03", "producer": "p"}]
    texts = {
        "1.json": "\n".join(first),
        "2.json": "".join(json.dumps({"_bound": bound}) + "\n" for bound in wrong),
        "3.json.gz": '{"id": 3, "name": "_bound"}\n{"_bound": "2020-01-04"}',
        "4.csv": "id\n4\n",
        "5.json": '{"_bound": "2020-01-05"}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    files = [file_of(tmp_path / name) for name in texts]
    how = {"small_bytes": small, "bounds_of": table, "apart": small == APART, "chunk": chunk}
    taken = read_files(spark, "T", files, COLUMNS, {}, **how)
    found = [(m.position, m.act.time, m.act.strict) for m in taken.marks]
    at = [microseconds(datetime(2020, 1, day, tzinfo=UTC)) for day in range(1, 6)]
    rows = taken.rows.table
    assert rows["id"].to_pylist() == [1, 2, 3, 4]
    assert found == [(0, at[0], False), (1, at[1], True), (3, at[3], False), (4, at[4], False)]
    assert sorted((Path(r.file or "").name, r.line) for r in taken.rejected) == [
        ("1.json", 3),
        ("2.json", 1),
        ("2.json", 2),
        ("2.json", 3),
    ]
    assert taken.refused == 4
    only_marks = read_files(spark, "T", files[-1:], COLUMNS, {}, **how)
    assert (only_marks.rows.num_rows, [m.position for m in only_marks.marks]) == (0, [0])


def test_files_with_bounds_are_read_in_chunks_as_at_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, bounds, refusals and files that are cut: a chunk ends anywhere."""
    from belvedere.catalog.inputs import Input, InputKind, Watermark
    from belvedere.connectors.reading import control_rows as source_marks
    from belvedere.connectors.reading import text_records as source_text
    from belvedere.connectors.reading.reader import read_files
    from belvedere.schema import Schema

    monkeypatch.setattr(source_text, "CHUNK", 50)
    monkeypatch.setattr(source_marks, "GATHERED", 3)
    random = Random(3)
    table = Input("T", "T", InputKind.IMPORT, Schema(COLUMNS), watermarks=(Watermark("at"),))

    def item(n: int) -> str:
        kind = random.randint(0, 9)
        if kind < 6:
            return json.dumps({"id": n, "name": random.choice(["a", "é" * 30, None])})
        return json.dumps(
            {"_bound": f"2020-01-{1 + n // 10:02d}"} if kind < 8 else {"_bound": "soon"} if kind < 9 else {"id": "x"}
        )

    items = [[item(20 * k + n) for n in range(20)] for k in range(5)]
    texts = {
        "1.json": "\ufeff" + "\n".join(items[0]),
        "2.json": "[" + ",\n".join(items[1]) + "]",
        "3.json": "\n\r\n".join(items[2]),
        "4.csv": "id,name\n" + "".join(f'{n},"{n}\r\n{n}"\n' for n in range(100, 120)) + "x,y\n",
        "5.json.gz": "\n".join(items[3]),
        "6.json.gz": "\n".join(items[4]),
    }
    files = []
    for name, text in texts.items():
        data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        (tmp_path / name).write_bytes(data[:-10] if name.startswith("6") else data)
        files.append(file_of(tmp_path / name))
    pq.write_table(pa.table({"id": list(range(200, 260))}), tmp_path / "7.parquet", row_group_size=7)
    files.append(file_of(tmp_path / "7.parquet"))
    found = []
    for chunk in (1 << 25, 3000, 400):
        taken = read_files(spark, "T", files, COLUMNS, {}, bounds_of=table, apart=True, chunk=chunk)
        assert (taken.rows.files is not None) == (chunk < 1 << 25)
        rows = taken.rows.table
        refused = [(r.file, r.line, r.text, r.reason) for r in taken.rejected]
        found.append((rows.to_pylist(), list(taken.marks), sorted(map(repr, refused)), taken.refused))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) > 5
    assert any("6.json.gz" in r for r in found[0][2])


def test_many_rows_come_in_the_order_of_their_files(spark: Any, tmp_path: Path) -> None:
    """Spark itself reads the largest file first: then an old row would replace a new one of its key."""
    paths = [tmp_path / f"{n}.json" for n in ("b", "a", "c")]
    for number, (path, rows) in enumerate(zip(paths, (30, 2000, 300), strict=True)):
        path.write_text("".join(json.dumps({"id": number, "name": f"{n}"}) + "\n" for n in range(rows)))
    found = read(spark, paths, APART).rows.to_pylist()
    assert [(r["id"], int(r["name"])) for r in found] == [
        (k, n) for k, rows in enumerate((30, 2000, 300)) for n in range(rows)
    ]


def test_the_newest_of_many_rows_of_a_key_stays_and_late_ones_are_judged(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from belvedere.catalog.inputs import SourceTable
    from belvedere.compiler import compile_script
    from belvedere.connectors.connector import FeedRequest
    from belvedere.connectors.files import open_feed
    from belvedere.connectors.reading import reader as file_reader
    from belvedere.engine.late_rows import judge
    from belvedere.engine.rows import epoch_rows as held
    from belvedere.pipeline.choose import maintain
    from belvedere.project.settings import Source
    from belvedere.spark.script_engine import open_engine
    from belvedere.store import open_store

    script = """
    CREATE TABLE Keyed (id INT PRIMARY KEY, name STRING);
    CREATE STREAM Log (id INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 0 SECONDS) LATE DROP;
    Names := SELECT name, count(*) AS n FROM Keyed GROUP BY name;
    Latest := SELECT count(*) AS n, max(at) AS at FROM Log;
    """
    monkeypatch.setattr(file_reader, "SMALL_BYTES", -1)
    monkeypatch.setattr("belvedere.connectors.files.CHUNK_BYTES", 1000)
    monkeypatch.setattr(held, "BATCH_ROWS", 64)
    catalog = compile_script(script).catalog
    for name, rows in {"old": 900, "new": 600}.items():
        folder = tmp_path / "Keyed"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text("".join(json.dumps({"id": n, "name": name}) + "\n" for n in range(rows)))
        os.utime(folder / f"{name}.json", (1, 1 + (name == "new")))
    (tmp_path / "Log").mkdir()
    times = [f"2024-01-01T00:{n % 60:02d}:{n // 60:02d}Z" for n in range(300)]
    (tmp_path / "Log" / "log.json").write_text(
        "".join(json.dumps({"id": n, "at": t}) + "\n" for n, t in enumerate(times))
    )
    store = open_store("sqlite://")
    engine = open_engine(spark, catalog, maintain(catalog), store, driver_memory=4096)
    now = datetime(2024, 1, 2, tzinfo=UTC)
    try:
        arrivals = {}
        for id_, table in catalog.inputs.items():
            folder = tmp_path / table.name
            if folder.exists():
                columns = tuple(c for c in table.schema if not c.hidden)
                source = replace(table, source=SourceTable("files", table.name, "files"))
                feed = open_feed(
                    FeedRequest(source, Source("files", path=tmp_path), table.name, columns, memory=held.Memory(4096))
                )
                span = feed.look(now, once=True)
                assert span is not None
                taken = feed.read(spark, span)
                assert not isinstance(taken.rows, pa.Table)
                arrivals[id_] = taken.rows
        used, clocks, _ = judge(catalog, engine.last.clocks, arrivals, now)
        engine.run_epoch(used, now, bounds=clocks.as_document())
        reader = store.reader()
        assert sorted(map(str, reader.rows(engine.tables.by_name["Names"]).select(["name", "n"]).to_pylist())) == [
            "{'name': 'new', 'n': 600}",
            "{'name': 'old', 'n': 300}",
        ]
        # each minute has the times of five hours' seconds: only the first pass over the minutes is not late, and its
        # last
        assert reader.rows(engine.tables.by_name["Latest"]).to_pylist()[0]["n"] == 60 + 4
        reader.close()
    finally:
        engine.close()
        store.close()


@pytest.mark.parametrize("small", [SMALL, LARGE])
def test_what_was_written_in_another_sense_is_rejected(spark: Any, tmp_path: Path, small: int) -> None:
    """Files whose header or members fit no column or two, quotes that never close, rounded numbers, halves of
    characters."""
    files = {
        "1.csv": 'id,name,price,at\n1,a,1.25,24.12.2026\n2,b,1.255,1/2/26\n3,"open,1,\n4,d,1,24-12-2026\n',
        "2.csv": "id;name;price\n5;e;1\n",
        "3.csv": "id,name,Name\n6,f,g\n",
        "4.jsonl": '{"id": 7, "price": 2.5}\n{"id": 8, "price": 2.555}\n{"id": 9, "name": "\\ud800"}\n'
        '{"id": 10, "name": "\\ud83d\\ude00"}\n'
        '{"id": 2.0}\n',
        "5.jsonl": '{"id": 11}\n{"id": 12, "name": "x", "NAME": "y"}\n',
        "6.json": '{\n "id": 13,\n "name": "two\\nlines"\n}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "7.csv").write_bytes("id,name\n14,é\n".encode("utf-16"))
    paths = sorted(tmp_path.iterdir())
    taken = read(spark, paths, small, timestamp_format=["dd.MM.yyyy", "d/M/yy"])
    rows = {r["id"]: (r["name"], r["price"], r["at"]) for r in taken.rows.to_pylist()}
    assert rows == {
        1: ("a", pytest.approx(1.25), datetime(2026, 12, 24, tzinfo=UTC)),
        7: (None, pytest.approx(2.5), None),
        10: ("😀", None, None),
        13: ("two\nlines", None, None),
        14: ("é", None, None),
    }
    found = {(Path(r.file).name, r.line): r.reason for r in taken.rejected}
    assert found.keys() == {
        ("1.csv", 3), ("1.csv", 4), ("1.csv", 5), ("2.csv", None), ("3.csv", None), ("4.jsonl", 2), ("4.jsonl", 3),
        ("4.jsonl", 5),
        ("5.jsonl", None),
    }  # fmt: skip
    for place, words in {
        ("1.csv", 3): "1.255 has more digits than DECIMAL(6, 2) keeps",
        ("1.csv", 4): "a quote that never closes",
        ("1.csv", 5): "24-12-2026 is not a time of the form dd.MM.yyyy or d/M/yy (timestamp_format)",
        ("2.csv", None): 'write delimiter = ";"',
        ("3.csv", None): 'has "name" and "Name", which differ only in case',
        ("4.jsonl", 2): "2.555 has more digits than DECIMAL(6, 2) keeps",
        ("4.jsonl", 3): "a lone surrogate",
        ("4.jsonl", 5): '"id"',
        ("5.jsonl", None): 'has "name" and "NAME", which differ only in case',
    }.items():
        assert words in found[place], (place, found[place])
