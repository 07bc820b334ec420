"""Text files in all forms: open quotes, delimiters, duplicate names, UTF-16, documents, forms of times. No JVM."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.reading import csv_text
from belvedere.connectors.reading.column_inference import schema_of_files
from belvedere.connectors.reading.file_columns import ambiguous_member, what_header_lacks
from belvedere.connectors.reading.file_pieces import Piece, cut
from belvedere.connectors.reading.text_records import FIELDS, LINE, TEXT, csv_records, first_csv_record, json_records
from belvedere.connectors.reading.time_shapes import time_shape
from belvedere.lang.statements.source_tables import NOTES
from belvedere.schema import Column


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def csv(path: Path, delimiter: str = ",") -> list[tuple[int, list[str] | None, str]]:
    """Line, fields and text of each record."""
    batches = csv_records(str(path), path.name, delimiter, skip=False)
    return [(r[LINE], r[FIELDS], r[TEXT]) for b in batches for r in b.to_pylist()]


def lines(path: Path) -> list[tuple[int, str]]:
    return [(r[LINE], r[TEXT]) for b in json_records(str(path), path.name) for r in b.to_pylist()]


def found(files: list[Path], **options: Any) -> tuple[dict[str, str], list[str]]:
    """The columns of files, and what is said of them."""
    schema = schema_of_files("T", files, options)
    notes: list[str] = json.loads((schema.metadata or {}).get(NOTES, b"[]"))
    return {f.name: str(f.type) for f in schema}, notes


def test_an_open_quote_takes_its_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{n},row\n" for n in range(3, 1003))
    path = written(tmp_path, "1.csv", 'id,txt\n1,"two\nlines"\n2,"open\n' + rows)
    records = csv(path)
    assert records[1] == (2, ["1", "two\nlines"], '1,"two\nlines"')
    assert records[2] == (4, None, '2,"open')
    assert [r[1] for r in records[3:]] == [[str(n), "row"] for n in range(3, 1003)]
    assert records[-1][0] == 1004
    assert csv(written(tmp_path, "2.csv", 'a\n"'))[-1] == (2, None, '"')
    assert csv(written(tmp_path, "3.csv", '"x\n"y\n"z\n')) == [(1, ["x\ny"], '"x\ny"'), (3, None, '"z')]
    assert csv(written(tmp_path, "4.csv", 'a,"b ""c"""\r\nd,"e"\r\n')) == [
        (1, ["a", 'b "c"'], 'a,"b ""c"""'),
        (2, ["d", "e"], "d,e"),
    ]
    monkeypatch.setattr(csv_text, "MAX_RECORD_LENGTH", 40)
    far = csv(written(tmp_path, "5.csv", '1,"open\n' + "2,b\n" * 30 + '3,"c"\n'))
    assert far[0] == (1, None, '1,"open'), "a record has an end somewhere"
    assert far[1:] == [*[(n, ["2", "b"], "2,b") for n in range(2, 32)], (32, ["3", "c"], "3,c")]


def test_a_header_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    columns = [Column(n, None, True) for n in ("id", "City", "price")]  # type: ignore[arg-type]
    for header, reason in (
        ("id,city,price", None),
        ("PRICE ,more,,", None),
        ("id,,", None),
        ("id;city;price", "its delimiter seems to be ';': write delimiter = \";\""),
        ("id\tcity", "its delimiter seems to be '\\t': write delimiter = \"\\t\""),
        ("a,b", "has the header `a,b`, which has none of its table's columns"),
        ("id,city,id", 'has "id" twice in its header'),
        ("id,city,CITY", 'has "city" and "CITY", which differ only in case in its header'),
        ("id,x,X", None),
    ):
        path = written(tmp_path, "h.csv", header + "\n1,2,3\n")
        said = what_header_lacks(first_csv_record(str(path)), ",", columns)
        assert (said or "").endswith(reason or "" if reason is None or "delimiter" in reason else reason), (
            header,
            said,
        )
        assert (said is None) is (reason is None), (header, said)


def test_objects_with_a_name_twice(tmp_path: Path) -> None:
    import pyarrow as pa

    columns = [
        Column("id", pa.int64(), True),
        Column("v", pa.int64(), True),
        Column("o", pa.list_(pa.struct([("x", pa.int64())])), True),
        Column("m", pa.map_(pa.string(), pa.int64()), True),
    ]
    for text, pair in (
        ('{"id": 1, "v": 1}\n{"id": 2, "V": 5, "v": 6}\n', ("V", "v")),
        ('{"id": 1, "v": 1, "v": 2}', ("v", "v")),
        ('{"o": [{"x": 1, "X": 2}]}', ("x", "X")),
        ('{"m": {"a": 1, "A": 2}, "other": 1, "Other": 2}', None),
        ('{"id": 1}\n{"ID": 2}', None),
        ("no json\n", None),
    ):
        assert ambiguous_member(str(written(tmp_path, "1.jsonl", text)), columns) == pair, text


def test_columns_are_told_by_rows_that_are_read(tmp_path: Path) -> None:
    blank = written(tmp_path, "1.csv", "id,v\n1,2\n   \n5,6\n")
    assert found([blank]) == ({"id": "int64", "v": "int64"}, [])
    open_ = written(tmp_path, "2.csv", 'id,n\n1,2\n3,"4\n5,6\n')
    assert found([open_]) == ({"id": "int64", "n": "int64"}, [])
    broken = written(tmp_path, "3.csv", b"id,v\n1,2\nx\xff,y\n3,4\n")
    assert found([broken]) == ({"id": "int64", "v": "int64"}, [])


def test_what_is_not_clear_is_said(tmp_path: Path) -> None:
    one, other = written(tmp_path, "1.csv", "id,city\n1,Ghent\n"), written(tmp_path, "2.csv", "id;city\n3;Bern\n")
    columns, notes = found([one, other])
    assert columns == {"id": "int64", "city": "string"}
    assert len(notes) == 1
    assert "2.csv seems to be ';'" in notes[0]
    columns, notes = found([other])
    assert (list(columns), len(notes)) == (["id;city"], 1)
    for text, names, said in (
        ("id,v,v\n1,2,3\n", ["id", "v"], '"v" twice'),
        ("id,v,V\n1,2,3\n", ["id", "v"], '"v" and "V", which differ only in case'),
    ):
        columns, notes = found([written(tmp_path, "3.csv", text)])
        assert list(columns) == names
        assert said in notes[0]
    columns, notes = found([written(tmp_path, "4.jsonl", '{"v": 1, "o": {"x": 1, "X": "a"}}\n{"V": 2}\n')])
    assert columns == {"v": "int64", "o": "struct<x: int64>"}
    assert len(notes) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_utf_16_is_recognised(tmp_path: Path, encoding: str) -> None:
    table = written(tmp_path, "1.csv", "id,v\n1,é€𝄞\n".encode(encoding))
    assert csv(table)[-1] == (2, ["1", "é€𝄞"], "1,é€𝄞")
    objects = written(tmp_path, "1.jsonl", '{"id": 1, "v": "é"}\n{"id": 2}\n'.encode(encoding))
    assert lines(objects) == [(1, '{"id": 1, "v": "é"}'), (2, '{"id": 2}')]
    assert found([table])[0] == {"id": "int64", "v": "string"}
    assert found([objects])[0] == {"id": "int64", "v": "string"}
    packed = written(tmp_path, "2.csv.gz", gzip.compress("id,v\n1,é\n".encode(encoding)))
    assert csv(packed)[-1][1] == ["1", "é"]
    pieces = list(cut(Piece(str(objects), "1", "json", {}, size=40), 8))
    assert (len(pieces) == 1) is (encoding != "utf-8-sig"), "ranges of its bytes are no lines"


def test_bytes_that_begin_as_utf_16_and_are_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="begins as UTF-16"):
        csv(written(tmp_path, "1.csv", "id\n1".encode("utf-16") + b"\x00\xd8"))


def test_objects_over_several_lines_are_documents(tmp_path: Path) -> None:
    one = written(tmp_path, "1.json", '{\n  "id": 1,\n  "tags": ["a",\n "b"]\n}\n')
    assert lines(one) == [(1, '{"id": 1, "tags": ["a", "b"]}')]
    assert found([one])[0] == {"id": "int64", "tags": "list<item: string>"}
    several = written(tmp_path, "2.json", '\n{"id": 1,\n"v": {}}\n{"id": 2} {\n"id": 3}')
    assert [text for _, text in lines(several)] == ['{"id": 1, "v": {}}', '{"id": 2}', '{"id": 3}']
    assert len(list(cut(Piece(str(several), "2", "json", {}, size=40), 8))) == 1
    broken = written(tmp_path, "3.json", '{"id": 1,\n"v": 2}\n{"id": 3\n')
    assert len(lines(broken)) == 3, "what does not go on as objects is lines"
    assert len(lines(written(tmp_path, "4.json", '{"id": 1}\n{"id":\n2}\n'))) == 3, (
        "a first line that is an object begins lines"
    )


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"timestamp_format": "dd.MM.yyyy HH:mm"}, "string"),
        ({"timestamp_format": ["dd.MM.yyyy HH:mm", "d/M/yy"]}, "timestamp[us, tz=UTC]"),
        ({}, "string"),
    ],
)
def test_columns_are_times_by_the_forms_that_a_source_says(tmp_path: Path, options: dict[str, Any], kind: str) -> None:
    table = written(tmp_path, "1.csv", "id,t\n1,24.12.2026 18:00\n2,1/2/26\n")
    assert found([table], **options)[0]["t"] == kind
    objects = written(tmp_path, "1.jsonl", '{"t": "24.12.2026 18:00"}\n{"t": "1/2/26"}\n')
    assert found([objects], **options)[0]["t"] == "string", "JSON has them where the format says that it is JSON"
    assert found([objects], format="json", **options)[0]["t"] == kind


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        (
            "yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX",
            ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123+01:00"],
            ["2026-01-02 03:04:05Z"],
        ),
        ("d.M.yyyy", ["1.2.2026", "24.12.2026"], ["1-2-2026", "1.2.2026 10:00"]),
        ("dd MMM yyyy hh:mm a", ["24 Dec 2026 06:00 PM"], ["24 12 2026 06:00 PM"]),
        ("yyyyMMdd", ["20261224"], ["2026-12-24"]),
    ],
)
def test_forms_of_times(pattern: str, fits: list[str], does_not: list[str]) -> None:
    shape = time_shape(pattern)
    assert shape is not None
    assert all(map(shape.fullmatch, fits))
    assert not any(map(shape.fullmatch, does_not))
    assert time_shape("yyyy-MM-dd JJ") is None


def test_check_says_which_names_are_not_clear(tmp_path: Path) -> None:
    written(tmp_path, "belvedere.toml", '[sources.shop]\npath = "data"\nformat = "csv"\n')
    written(tmp_path, "data/Orders/1.csv", "id,v,V\n1,2,3\n")
    compiled = compile_script(
        "IMPORT shop.Orders KEEP 7 DAYS;\nV := SELECT v FROM Orders;\n", path=tmp_path / "shop.sqrl"
    )
    assert compiled.ok
    assert [d.code for d in compiled.diagnostics] == ["B6111"]
    assert [c.name for c in compiled.catalog.inputs["Orders"].schema.visible] == ["id", "v"]
