"""The readers of the GHCN-Daily formats, and the example's queries."""

from __future__ import annotations

import gzip
import importlib.util
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import Severity
from belvedere.schema import Column, Schema
from belvedere.sqlpp.check import check_window_query
from belvedere.sqlpp.lower import explain_window_query
from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.paper import close

FOLDER = Path(__file__).parents[2] / "examples" / "ghcn"
QUERIES = sorted((FOLDER / "queries").glob("*.sql"))
TYPES = (
    ("station", pa.string()),
    ("date", pa.date32()),
    ("dataType", pa.string()),
    ("val", pa.int64()),
    ("qflag", pa.string()),
)
SCHEMA = Schema(tuple(Column(n, t) for n, t in TYPES))


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"ghcn_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_month_of_fixed_width() -> None:
    cells = ["  -12  I", "-9999   ", "   30H a", *["-9999   "] * 28]
    line = "USC00012345" + "1999" + "02" + "TMIN" + "".join(cells)
    rows = list(load("read").read_dly([line, ""]))
    assert [(r["date"], r["val"], r["mflag"], r["qflag"], r["sflag"]) for r in rows] == [
        (date(1999, 2, 1), -12, None, None, "I"),
        (date(1999, 2, 3), 30, "H", None, "a"),
    ]
    assert {(r["station"], r["dataType"]) for r in rows} == {("USC00012345", "TMIN")}


def test_days_that_a_month_has_not_give_no_row() -> None:
    line = "USC00012345" + "1999" + "02" + "PRCP" + "    5   " * 31
    assert len(list(load("read").read_dly([line]))) == 28


def test_lines_of_a_year() -> None:
    lines = [
        "ID,DATE,ELEMENT,DATA_VALUE,M_FLAG,Q_FLAG,S_FLAG,OBS_TIME",
        "AE000041196,20240101,TMIN,149,,,S,",
        "AE000041196,20240102,TMAX,-9999,H,X,S,0700",
    ]
    rows = list(load("read").read_by_year(lines))
    assert [(r["date"], r["dataType"], r["val"], r["mflag"], r["sflag"]) for r in rows] == [
        (date(2024, 1, 1), "TMIN", 149, None, "S")
    ]


@pytest.mark.parametrize(
    ("reader", "line", "said"),
    [
        ("read_dly", "this is not a record", "no line of a .dly file"),
        ("read_dly", "USC00012345199902TMIN  1x5  I", "no line of a .dly file"),
        ("read_by_year", "USC00012345,19990201", "no line of a by-year CSV file"),
        ("read_by_year", "USC00012345,1999-2-1,TMIN,5,,,S,", "no line of a by-year CSV file"),
        ("read_by_year", "USC00012345,19990201,TMIN,,,,S,", "no line of a by-year CSV file"),
        ("read_lines", "garbage", "no line of a .dly file"),
    ],
)
def test_what_is_no_line_is_shown(reader: str, line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        list(getattr(load("read"), reader)([line]))
    assert line in str(raised.value)


@pytest.mark.parametrize("path", QUERIES, ids=lambda p: p.stem)
def test_the_queries_are_right_and_fast(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [d for d in check_window_query(text, {"ghcn": SCHEMA}) if d.severity != Severity.NOTICE] == []
    assert "class d" not in explain_window_query(text, {"ghcn": SCHEMA})


def test_there_are_twelve_queries() -> None:
    assert len(QUERIES) == 12


@pytest.mark.spark
def test_the_generator_is_deterministic_and_the_queries_run(spark: Any) -> None:
    import belvedere

    generate = load("generate")
    frame = generate.readings(spark, 3, seed=7, days=120).cache()
    assert sorted(map(tuple, frame.collect())) == sorted(
        map(tuple, generate.readings(spark, 3, seed=7, days=120).collect())
    )
    rows = frame.count()
    assert 3 * 60 < rows < 3 * 118
    plain = [row.asDict() for row in frame.collect()]
    for path in QUERIES:
        text = path.read_text(encoding="utf-8")
        expected = compile_query(parse_window_query(text))({"ghcn": plain})
        found = [row.asDict() for row in belvedere.sql(spark, text, ghcn=frame).collect()]
        assert close(found, expected), path.stem


@pytest.mark.spark
def test_files_of_both_formats_as_a_frame(spark: Any, tmp_path: Path) -> None:
    cells = ["  -12  I", "-9999   ", "   30H a", *["-9999   "] * 28]
    (tmp_path / "US1.dly").write_text("USC00012345" + "1999" + "02" + "TMIN" + "".join(cells) + "\n", encoding="ascii")
    with gzip.open(tmp_path / "1999.csv.gz", "wt", encoding="ascii") as file:
        file.write("USC00012345,19990201,TMIN,-12,,,I,\nUSC00012345,19990203,TMIN,30,H,,a,0700\n")
    with gzip.open(tmp_path / "US2.dly.gz", "wt", encoding="ascii") as file:
        file.write((tmp_path / "US1.dly").read_text().replace("USC00012345", "USC00054321"))
    (tmp_path / "empty.dly").touch()
    read = load("read")
    assert read.ghcn(spark, str(tmp_path)).groupBy("station").count().orderBy("station").collect() == [
        ("USC00012345", 4),
        ("USC00054321", 2),
    ]
    fixed, by_year = (sorted(read.ghcn(spark, str(tmp_path / n)).collect()) for n in ("*.dly", "1999.csv.gz"))
    assert fixed == by_year
    assert [(r.date.day, r.val, r.mflag, r.sflag) for r in fixed] == [(1, -12, None, "I"), (3, 30, "H", "a")]
