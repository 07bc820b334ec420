"""`belvedere query`: one query over files, in its order, as JSON, CSV or a table."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.cli import run
from belvedere.terminal.answer_formats import as_csv, as_json, as_table

ROWS = pa.table(
    {
        "i": pa.array([1, None], pa.int64()),
        "d": pa.array([Decimal("1.50"), Decimal("-123456789012345.67")]),
        "f": [float("nan"), 0.1],
        "t": pa.array([datetime(2024, 3, 1, 6, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
        "n": [{"a": [1, 2]}, None],
        "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
        "s": ["é\n,", None],
        "v": [timedelta(seconds=90), None],
    }
)


def test_json_has_every_digit() -> None:
    text = as_json(ROWS)
    first, second = json.loads(text, parse_float=Decimal)
    assert first == {
        "i": 1,
        "d": Decimal("1.50"),
        "f": "NaN",
        "t": "2024-03-01T06:00:00Z",
        "n": {"a": [1, 2]},
        "m": {"k": 1},
        "s": "é\n,",
        "v": "P0DT0H1M30S",
    }
    assert (second["d"], second["f"], second["s"]) == (Decimal("-123456789012345.67"), Decimal("0.1"), None)
    assert json.loads(as_json(ROWS.slice(0, 0))) == []


def test_csv_can_be_read_back() -> None:
    header, first, second = csv.reader(io.StringIO(as_csv(ROWS)))
    assert header == ROWS.column_names
    assert first == ["1", "1.50", "NaN", "2024-03-01T06:00:00Z", '{"a": [1, 2]}', '{"k": 1}', "é\n,", "P0DT0H1M30S"]
    assert [second[0], second[2], second[6]] == ["", "0.1", ""]


def test_a_table_is_aligned() -> None:
    lines = as_table(ROWS.select(["s", "i"])).splitlines()
    assert lines == ["s        i", "----  ----", "é\\n,     1", "NULL  NULL", "(2 rows)"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.jsonl").write_text(
        "".join(json.dumps({"id": i, "item": "abc"[i % 3], "price": i * 1.5}) + "\n" for i in range(1, 8)) + "{bad\n"
    )
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "1.csv").write_text("item,name\na,Ä\n")
    (tmp_path / "items" / "2.csv").write_text("name,item\nB,b\n")
    return tmp_path


TABLES = ["--table", "orders=orders.jsonl", "--table", "items=items"]


def answer(capsys: Any, *arguments: str) -> Any:
    capsys.readouterr()
    code = run(["query", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.spark
def test_queries_keep_their_order(spark: Any, files: Path, capsys: Any) -> None:
    query = """SELECT o.item, i.name, count(*) AS n, sum(o.price) AS total FROM orders o
    LEFT JOIN items i ON i.item = o.item
               GROUP BY o.item, i.name ORDER BY total DESC"""
    code, out, err = answer(capsys, query, *TABLES, "--format", "json")
    assert (code, json.loads(out)) == (
        0,
        [
            {"item": "b", "name": "B", "n": 3, "total": 18.0},
            {"item": "a", "name": "Ä", "n": 2, "total": 13.5},
            {"item": "c", "name": None, "n": 2, "total": 10.5},
        ],
    )
    assert "rejected for table" in err
    assert "orders.jsonl:8" in err
    code, out, _ = answer(
        capsys, "SELECT id FROM orders ORDER BY id DESC LIMIT 2 OFFSET 1;", *TABLES, "--format", "csv"
    )
    assert (code, out) == (0, "id\n6\n5\n")
    code, out, _ = answer(
        capsys, "WITH o AS (SELECT * FROM orders) SELECT DISTINCT item FROM o ORDER BY 1", *TABLES, "--json"
    )
    assert [r["item"] for r in json.loads(out)] == ["a", "b", "c"]
    code, out, _ = answer(capsys, "SELECT 1 AS one")
    assert (code, out) == (0, "one\n---\n  1\n(1 row)\n")


@pytest.mark.spark
def test_window_by_queries_run_too(spark: Any, files: Path, capsys: Any) -> None:
    query = """FROM orders AS o WINDOW BY w PARTITION BY o.item ORDER BY o.id TYPE SLIDING
               START AS s AT p WHEN true ONLY END AT e WHEN e - p = 1
               SELECT s.item AS item, s.id AS id, ARRAY_AVG(w[*].price) AS average, w.price AS nothing"""
    code, out, err = answer(capsys, query, *TABLES, "--json")
    assert code == 0
    assert 'an array has no field "price"' in err
    rows = sorted((r["item"], r["id"], r["average"]) for r in json.loads(out))
    assert rows == [("a", 3, 6.75), ("b", 1, 3.75), ("b", 4, 8.25), ("c", 2, 5.25)]


@pytest.mark.spark
def test_a_query_of_its_own_process_says_nothing_but_its_answer(files: Path) -> None:
    query = (
        "FROM items AS i WINDOW BY w ORDER BY i.item TYPE SLIDING START AS s END AS e WHEN e.name > s.name SELECT "
        "s.item, LEN(w) AS n"
    )
    command = [sys.executable, "-m", "belvedere.cli", "query", query, "--table", "items=items", "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "item,n")


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id + 9223372036854775807 AS x FROM orders",
        "FROM orders AS o WINDOW BY w ORDER BY o.id TYPE SLIDING START AS s END SELECT s.id + 9223372036854775807 AS x",
        "FROM orders AS o LET x = 9223372036854775807 - o.id WINDOW BY w ORDER BY o.id TYPE SLIDING START AS s END "
        "UNBOUNDED SELECT ARRAY_SUM(w[*].x) AS x",
        "FROM orders AS o WINDOW BY w ORDER BY o.id TYPE SLIDING START AS s END UNBOUNDED "
        "SELECT ARRAY_SUM((FROM w AS x SELECT VALUE x.id + 9223372036854775800)) AS x",
    ],
)
def test_what_fails_on_a_row_is_a_diagnostic(spark: Any, files: Path, capsys: Any, query: str) -> None:
    code, out, err = answer(capsys, query, *TABLES)
    assert (code, out) == (1, "")
    assert "error[B7041]: the query failed: arithmetic overflow" in err
    assert "hint" in err
    assert "Traceback" not in err


def test_how_windows_will_be_found(files: Path, capsys: Any) -> None:
    query = "FROM orders AS o WINDOW BY w ORDER BY o.id TYPE SLIDING START AS s END AS e WHEN e.price > 3 SELECT s.id"
    code, out, _ = answer(capsys, query, *TABLES, "--explain")
    assert code == 0
    assert "END: class a: one backward pass, O(n)" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["SELECT id FROM orders", *TABLES, "--explain"], 2, "WINDOW BY"),
        (["SELECT 1", "--store", "sqlite:///s.db", "--explain"], 2, "files"),
        (["SELECT nope FROM orders", *TABLES], 1, "<query>:1:8"),
        (["SELECT FROM", *TABLES], 1, "error[B"),
        (["FROM orders AS o WINDOW BY w SELECT w", *TABLES], 1, "<query>:1:30"),
        (
            ["FROM orders AS o WINDOW BY w ORDER BY o.id TYPE SLIDING START AS s END SELECT s.nope, t", *TABLES],
            1,
            "<query>:1:87",
        ),
        (["SELECT id FROM orders WHERE id = :p", *TABLES], 1, "B9121"),
        (["SELECT 1; SELECT 2"], 1, "B9120"),
        (["X := SELECT 1"], 1, "B9120"),
        (["SELECT 1", "--table", "orders"], 2, "name=path"),
        (["SELECT 1", "--table", "orders=missing.json"], 2, "missing.json"),
        (["SELECT 1", "--table", "a=items", "--table", "A=items"], 2, "twice"),
        (["SELECT 1", "--format", "xml"], 2, "xml"),
    ],
)
def test_what_is_wrong_is_said_without_spark(
    files: Path, capsys: Any, arguments: list[str], code: int, said: str
) -> None:
    found, out, err = answer(capsys, *arguments)
    assert (found, out) == (code, "")
    assert said in err
