"""`CREATE TABLE T (...) LIKE 'file'`: an input with the columns of a file, before or with its own."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from belvedere.catalog.inputs import Input, InputKind
from belvedere.compiler import Compiled, compile_script

AVRO = {
    "type": "record", "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "int"}]}}},
    ],
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rows = [
        {"id": 1, "at": "2024-01-01T00:00:00Z", "price": 1.5, "items": [{"sku": 7, "n": 2}]},
        {"id": 2, "größe": "é"},
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/orders.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    (tmp_path / "cities.csv").write_text("id,name,price\n1,Łódź,2.5\n", encoding="utf-8")
    (tmp_path / "sale.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "empty.jsonl").write_text("")
    parquet.write_table(
        pa.table({"id": pa.array([1]), "cost": pa.array([None], pa.decimal128(10, 2))}), tmp_path / "p.parquet"
    )
    return tmp_path


def compiled(home: Path, text: str) -> Compiled:
    return compile_script(text, path=home / "main.sqrl")


def table_of(home: Path, text: str) -> Input:
    found = compiled(home, text)
    assert found.ok, found.diagnostics
    return next(i for i in found.catalog.inputs.values() if i.late_of is None)


def names(table: Input) -> list[str]:
    return [c.name for c in table.schema.visible]


def test_json_lines_with_columns_key_watermark_and_metadata(home: Path) -> None:
    text = """
    CREATE TABLE Orders (
        who STRING METADATA FROM 'uuid', note STRING, twice AS price * 2,
        PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR at AS at - INTERVAL '1' SECOND
    ) LIKE 'data/orders.jsonl' KEEP 7 DAYS;
    V := SELECT o.id, o.twice, i.sku FROM Orders o JOIN o.items i;
    """
    found = compiled(home, text)
    assert found.ok, found.diagnostics
    table = found.catalog.inputs["Orders~1"]
    assert names(table) == ["id", "at", "price", "größe", "who", "note"]
    assert (table.kind, table.primary_key, table.keep) == (InputKind.TABLE, ("id",), 7 * 86_400_000_000)
    assert [(w.column, w.delay) for w in table.watermarks] == [("at", 1_000_000)]
    assert table.source is None
    assert [c.name for c in found.catalog.views["V"].schema.visible] == ["id", "twice", "sku"]


def test_other_formats(home: Path) -> None:
    cities = table_of(home, "CREATE TABLE Cities LIKE 'cities.csv';")
    assert [(c.name, str(c.type)) for c in cities.schema.visible] == [
        ("id", "int64"),
        ("name", "string"),
        ("price", "double"),
    ]
    paid = table_of(home, "CREATE TABLE Paid (PRIMARY KEY (id)) LIKE `p.parquet`;")
    assert [(c.name, str(c.type)) for c in paid.schema.visible] == [("id", "int64"), ("cost", "decimal128(10, 2)")]
    sales = table_of(
        home, "CREATE STREAM Sales LIKE 'sale.avsc' WATERMARK FOR at;\nV := SELECT l.sku FROM Sales s JOIN s.lines l;"
    )
    assert (sales.kind, names(sales)) == (InputKind.STREAM, ["id", "note", "at"])


def test_an_own_column_comes_before_that_of_the_file(home: Path) -> None:
    table = table_of(
        home, "CREATE TABLE Cities (PRICE DECIMAL(10, 2) NOT NULL DEFAULT 1, PRIMARY KEY (id)) LIKE 'cities.csv';"
    )
    assert [(c.name, str(c.type)) for c in table.schema.visible] == [
        ("id", "int64"), ("name", "string"), ("PRICE", "decimal128(10, 2)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "place", "said"),
    [
        ("CREATE TABLE T LIKE 'nosuch.csv';", "B6118", "'nosuch.csv'", "no file"),
        ("CREATE TABLE T LIKE 'main.xml';", "B6118", "'main.xml'", "cannot read columns"),
        ("CREATE TABLE T LIKE 'empty.jsonl';", "B6103", "'empty.jsonl'", "empty"),
        ("CREATE TABLE T (PRIMARY KEY (nosuch)) LIKE 'cities.csv';", "B2002", "nosuch", "not defined"),
        ("CREATE TABLE T LIKE cities;", "B1001", "cities", "a file in quotes"),
        (
            "CREATE TABLE T LIKE 'cities.csv' (name STRING) LIKE 'cities.csv' LIKE 'p.parquet';",
            "B1013",
            "LIKE",
            "twice",
        ),
    ],
)
def test_refused(home: Path, text: str, code: str, place: str, said: str) -> None:
    (error,) = (d for d in compiled(home, text).diagnostics if d.severity == "error")
    assert error.code == code
    assert error.span is not None
    assert text[error.span.start : error.span.end] == place
    assert said in error.message


def test_a_script_without_a_folder_has_no_files() -> None:
    (error,) = (d for d in compile_script("CREATE TABLE T LIKE 'a.csv';").diagnostics if d.severity == "error")
    assert error.code == "B6118"
