"""Columns of source files from a sample."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from belvedere.compiler import compile_script
from belvedere.connectors.reading.column_inference import infer_file
from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError
from belvedere.lang.statements import source_tables
from belvedere.lang.statements.source_tables import TableSchema
from belvedere.lang.types.samples import kind_of_text
from belvedere.project.settings import ProjectSettings, Source
from belvedere.schema import TIMESTAMP


def source_table(source: Source, table: str) -> TableSchema:
    return source_tables.source_table(source, table, SourceTables())


def columns(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "T.json"
    file.write_text(
        '{"i": 1, "d": 1, "s": "x", "b": true, "t": "2024-01-01T00:00:00Z", "day": "2024-02-29", '
        '"n": null, "big": 1e30}\n'
        "not json\n\n"
        '{"i": 9223372036854775807, "d": 1.5, "s": "2024-01-01", "t": "2024-01-01 10:00:00.123+02:00", '
        '"late": "x", "big": 1}\n'
    )
    assert columns(infer_file(file)) == {
        "i": pa.int64(), "d": pa.float64(), "s": pa.string(), "b": pa.bool_(), "t": TIMESTAMP, "day": pa.date32(),
        "n": pa.string(),
        "big": pa.float64(), "late": pa.string(),
    }  # fmt: skip


def test_nested_json(tmp_path: Path) -> None:
    file = tmp_path / "T.jsonl"
    file.write_text(
        '{"o": {"a": 1}, "l": [], "m": [{"x": 1, "deep": [[1], []]}]}\n'
        '{"o": {"b": "x"}, "l": [1.5, null], "m": [{"y": true}], "mixed": [1, "x"]}\n'
    )
    assert columns(infer_file(file)) == {
        "o": pa.struct([("a", pa.int64()), ("b", pa.string())]),
        "l": pa.list_(pa.float64()),
        "m": pa.list_(pa.struct([("x", pa.int64()), ("deep", pa.list_(pa.list_(pa.int64()))), ("y", pa.bool_())])),
        "mixed": pa.list_(pa.string()),
    }


def test_a_json_array_and_compression(tmp_path: Path) -> None:
    (tmp_path / "A.json").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "B.json.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"b": "x"}\n'))
    source = Source("s", path=tmp_path)
    assert source_tables.table_names(source, SourceTables()) == ("A", "B")
    assert columns(source_table(source, "a").schema) == {"a": pa.int64()}
    assert columns(source_table(source, "B").schema) == {"b": pa.string()}


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "T.csv").write_text(
        'id,zip,price,when,note,empty,flag\n1,0123,1.50,2024-01-01 10:00,"a, b",,true\n-2,9,NA,NA,,,false\n'
    )
    schema = source_table(Source("s", path=tmp_path, options={"null": "NA"}), "T").schema
    assert columns(schema) == {
        "id": pa.int64(), "zip": pa.string(), "price": pa.float64(), "when": TIMESTAMP, "note": pa.string(),
        "empty": pa.string(),
        "flag": pa.bool_(),
    }  # fmt: skip


def test_parquet_types_become_those_of_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "T"
    folder.mkdir()
    rows = pa.table(
        {
            "u": pa.array([1], pa.uint32()),
            "l": pa.array(["x"], pa.large_string()),
            "t": pa.array([0], pa.timestamp("ns")),
            "c": pa.array(["x"]).dictionary_encode(),
            "d": pa.array([1], pa.decimal128(10, 2)),
            "n": pa.array([[{"a": 1}]]),
        }
    )
    parquet.write_table(rows, folder / "part-0.parquet")
    (folder / "_SUCCESS").write_text("")
    assert columns(source_table(Source("s", path=tmp_path), "T").schema) == {
        "u": pa.int64(), "l": pa.string(), "t": TIMESTAMP, "c": pa.string(), "d": pa.decimal128(10, 2),
        "n": pa.list_(pa.struct([("a", pa.int64())])),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "table", "code"),
    [
        ("T.json", "{}", "Tt", "B6101"),
        ("T.json", "nonsense\n", "T", "B6102"),
        ("T.json", "", "T", "B6103"),
        ("T.parquet", "nonsense", "T", "B6102"),
        ("T.json.gz", "nonsense", "T", "B6102"),
    ],
)
def test_what_cannot_be_told(tmp_path: Path, name: str, content: str, table: str, code: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BelvedereError) as raised:
        source_table(Source("s", path=tmp_path), table)
    assert [d.code for d in raised.value.diagnostics] == [code]


def test_a_file_that_cannot_be_read_beside_others(tmp_path: Path) -> None:
    (tmp_path / "T").mkdir()
    (tmp_path / "T" / "1.parquet").write_text("nonsense")
    (tmp_path / "T" / "2.json").write_text('{"a": 1}\n')
    (tmp_path / "T" / "3.json.gz").write_text("nonsense")
    assert columns(source_table(Source("s", path=tmp_path), "T").schema) == {"a": pa.int64()}


def test_declared_columns_need_no_files(tmp_path: Path) -> None:
    declared = {"columns": {"id": "BIGINT", "items": "ARRAY<STRUCT<a: INT>>"}, "primary_key": ["id"]}
    found = source_table(Source("s", path=tmp_path / "nowhere", tables={"T": declared}), "t")
    assert (found.name, found.primary_key) == ("T", ("id",))
    assert columns(found.schema)["items"] == pa.list_(pa.struct([("a", pa.int32())]))


@pytest.mark.parametrize(
    ("declared", "code"),
    [({"columns": {"id": "BIGINTT"}}, "B6104"), ({"columns": {"id": "BIGINT"}, "primary_key": ["di"]}, "B6105")],
)
def test_declarations_that_do_not_fit(declared: dict[str, object], code: str) -> None:
    with pytest.raises(BelvedereError) as raised:
        source_table(Source("s", tables={"T": declared}), "T")
    assert [d.code for d in raised.value.diagnostics] == [code]


def test_maps_from_json_have_texts_as_keys() -> None:
    for text in ("MAP<INT, STRING>", "ARRAY<STRUCT<a: MAP<DATE, INT>>>"):
        declared = {"T": {"columns": {"id": "BIGINT", "m": text}}}
        for source in (Source("s", "kafka", tables=declared), Source("s", "files", format="json", tables=declared)):
            with pytest.raises(BelvedereError, match="B6104") as raised:
                source_table(source, "T")
            assert 'column "m" of table "T" is ' in raised.value.diagnostics[0].message
        assert source_table(Source("s", "kafka", format="avro", tables=declared), "T").is_found is False
    fine = {"T": {"columns": {"m": "MAP<STRING, MAP<STRING, INT>>"}}}
    assert source_table(Source("s", "kafka", tables=fine), "T").name == "T"


def test_an_alias_is_written_as_it_is_said(tmp_path: Path) -> None:
    project = ProjectSettings(
        tmp_path, sources={"crm": Source("crm", tables={"customers": {"columns": {"id": "BIGINT"}}})}
    )
    for text, name in (
        ("crm.customers AS Customers", "Customers"),
        ("crm.CUSTOMERS", "customers"),
        ("crm.customers AS c", "c"),
    ):
        compiled = compile_script(f"IMPORT {text};", path=tmp_path / "s.sqrl", project=project)
        assert [t.name for t in compiled.catalog.inputs.values()] == [name]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("12", pa.int64()), ("+0", pa.int64()), ("00", pa.string()), ("0.5", pa.float64()), (".5", pa.float64()),
        ("1e3", pa.float64()),
        ("1.2.3", pa.string()), ("TRUE", pa.bool_()), ("99999999999999999999", pa.decimal128(38, 0)),
        ("2024-13-01", pa.string()),
        ("2024-01-01T25:00:00", pa.string()), ("NaN", pa.float64()), ("-", pa.string()), (".", pa.string()),
    ],
)  # fmt: skip
def test_csv_fields(text: str, kind: pa.DataType) -> None:
    assert kind_of_text(text) == kind
