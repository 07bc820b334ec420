"""Frames in and out without Spark: valid values, errors of invalid ones, and rows as frames and HTML."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.frames.answer_frames import QueryRows, RowList, row_list
from belvedere.frames.frame_columns import frame_table
from belvedere.frames.plain_values import plain
from belvedere.intake.program_rows import deletions_of_program, rows_of_program
from belvedere.values.row_texts import as_html

SCRIPT = """
CREATE TABLE Item (
  id BIGINT NOT NULL, name STRING, small INT, price DECIMAL(10, 2), weight DOUBLE, at TIMESTAMP, day DATE, good BOOLEAN,
  tags ARRAY<STRING>, place STRUCT<x: DOUBLE, label: STRING>, counts MAP<STRING, INT>, span INTERVAL DAY TO SECOND,
  body BINARY, since INTERVAL YEAR TO MONTH, kind STRING DEFAULT 'plain', PRIMARY KEY (id)
);
"""
ITEM = next(iter(compile_script(SCRIPT).catalog.inputs.values()))
BERLIN = datetime(2024, 3, 31, 12, tzinfo=UTC)
FULL: dict[str, Any] = {
    "id": 1,
    "name": "Zürich \U0001f600 <b>",
    "small": 7,
    "price": Decimal("12.50"),
    "weight": 0.1,
    "at": BERLIN,
    "day": date(2024, 2, 29),
    "good": True,
    "tags": ["a", "é", None],
    "place": {"x": 1.5, "label": "here"},
    "counts": [("k", 1), ("l", 2)],
    "span": timedelta(days=1, microseconds=3),
    "body": b"\x00\xff",
    "since": 14,
    "kind": "plain",
}
EMPTY = {**dict.fromkeys(FULL), "id": 2, "kind": "plain"}
REQUESTED = [FULL, EMPTY]


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ID": [1, 2],
            "name": pd.Categorical([FULL["name"], None]),
            "small": [7.0, np.nan],  # how pandas has whole numbers with NULLs
            "price": [Decimal("12.5"), None],
            "weight": [0.1, np.nan],
            "at": [pd.Timestamp("2024-03-31 14:00", tz="Europe/Berlin"), pd.NaT],
            "day": [date(2024, 2, 29), None],
            "good": pd.array([True, None], dtype="boolean"),
            "tags": [np.array(["a", "é", None], dtype=object), None],
            "place": [{"x": np.float32(1.5), "label": "here"}, None],
            "counts": [{"k": np.int64(1), "l": 2}, None],
            "span": [pd.Timedelta(days=1, microseconds=3), pd.NaT],
            "body": [b"\x00\xff", None],
            "since": ["P1Y2M", None],
        }
    )


def polars_frame() -> pl.DataFrame:
    entries = pl.List(pl.Struct({"key": pl.String, "value": pl.Int64}))
    return pl.DataFrame(
        {
            "id": [1, 2],
            "name": pl.Series([FULL["name"], None], dtype=pl.Categorical),
            "small": pl.Series([7, None], dtype=pl.UInt8),
            "price": [Decimal("12.5"), None],
            "weight": [0.1, None],
            "at": pl.Series([datetime(2024, 3, 31, 12), None], dtype=pl.Datetime("ms")),
            "day": [date(2024, 2, 29), None],
            "good": [True, None],
            "tags": [["a", "é", None], None],
            "place": [{"x": 1.5, "label": "here"}, None],
            "counts": pl.Series([[{"key": "k", "value": 1}, {"key": "l", "value": 2}], None], dtype=entries),
            "span": [timedelta(days=1, microseconds=3), None],
            "body": [b"\x00\xff", None],
            "since": ["P1Y2M", None],
        }
    )


def arrow_frame() -> pa.Table:
    made = rows_of_program(ITEM, pandas_frame()).drop_columns(["kind", "since"])
    return made.append_column("since", pa.array(["P1Y2M", None]))


def dicts() -> list[dict[str, Any]]:
    full = {**FULL, "counts": {"k": 1, "l": 2}, "since": "P1Y2M", "at": pd.Timestamp(BERLIN), "small": np.int32(7)}
    del full["kind"]
    missing = {
        "id": np.int64(2),
        "at": pd.NaT,
        "name": pd.NA,
        "span": np.timedelta64("NaT"),
        "day": np.datetime64("NaT"),
    }
    return [{**full, "tags": np.array(["a", "é", None], dtype=object), "good": np.bool_(True)}, missing]


FORMS: dict[str, Any] = {
    "pandas": pandas_frame,
    "pandas with Arrow's types": lambda: arrow_frame().to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with an index": lambda: pandas_frame().set_index("ID"),
    "Polars": polars_frame,
    "Arrow": arrow_frame,
    "a batch of Arrow": lambda: arrow_frame().combine_chunks().to_batches()[0],
    "a reader of Arrow": lambda: arrow_frame().to_reader(),
    "dicts": dicts,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_rows(form: str) -> None:
    given = FORMS[form]()
    if form == "a reader of Arrow":  # it can be read once
        given = given.read_all()
    table = rows_of_program(ITEM, given)
    assert [{**r, "since": s} for r, s in zip(_without_months(table), [14, None], strict=True)] == REQUESTED
    assert table["since"].cast(pa.int64()).to_pylist() == [14, None]
    assert table.schema.types == [c.type for c in ITEM.schema if c.name in table.schema.names]


def _without_months(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.drop_columns(["since"]).to_pylist()
    return rows


def test_no_rows_are_rows() -> None:
    for given in (
        [],
        pandas_frame().head(0),
        polars_frame().clear(),
        arrow_frame().slice(0, 0),
        pd.DataFrame(),
        pl.DataFrame(),
    ):
        assert rows_of_program(ITEM, given).num_rows == 0


def test_nan_is_null_in_pandas_alone() -> None:
    weights = [
        rows_of_program(ITEM, f({"id": [1], "weight": [float("nan")]}))["weight"].to_pylist()
        for f in (pd.DataFrame, pl.DataFrame)
    ]
    assert weights[0] == [None]
    assert str(weights[1]) == "[nan]"


def test_what_pandas_cannot_give_a_type_fits_value_by_value() -> None:
    frame = pd.DataFrame({"id": ["1", 2, 3.0], "price": [1, Decimal("2.50"), "3"], "name": ["a", float("nan"), "b"]})
    table = rows_of_program(ITEM, frame)
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table["price"].to_pylist() == [Decimal("1.00"), Decimal("2.50"), Decimal("3.00")]
    assert table["name"].to_pylist() == ["a", None, "b"]


def test_unlike_maps_stay_apart() -> None:
    table = rows_of_program(ITEM, pd.DataFrame({"id": [1, 2], "counts": [{"a": 1}, {"b": 2}]}))
    assert table["counts"].to_pylist() == [[("a", 1)], [("b", 2)]]


MISTAKES: dict[str, tuple[Any, str, str]] = {
    "unknown column": (lambda: pd.DataFrame({"id": [1], "nam": ["x"]}), "B6002", 'the frame for "Item" has a column '
                                                                                 '"nam"'),
    "columns without names": (lambda: pd.DataFrame([[1]]), "B6002", 'has a column "0"'),
    "wrong type": (lambda: pl.DataFrame({"id": [1, 2], "weight": ["1.5", "x"]}), "B6001",
                   "row 2 of \"Item\": 'x' is not a DOUBLE"),
    "fraction": (lambda: pd.DataFrame({"id": [1.0, 1.5]}), "B6001", 'row 2 of "Item": 1.5 is not a BIGINT'),
    "too large": (lambda: pl.DataFrame({"id": [1], "small": [2**40]}), "B6001", 'is not an INT for column "small"'),
    "a number for a text": (lambda: pa.table({"id": [1], "name": [5]}), "B6001", '5 is not a STRING for column "name"'),
    "seconds for months": (
        lambda: pa.table({"id": [1], "since": pa.array([5], pa.duration("s"))}), "B6001",
        "is not an INTERVAL YEAR TO MONTH"
    ),
    "nanoseconds": (
        lambda: pd.DataFrame({"id": [1], "at": [pd.Timestamp("2024-01-01 00:00:00.000000001")]}), "B6001", 'column "at"'
    ),
    "nanoseconds in dicts": (
        lambda: [{"id": 1, "at": pd.Timestamp("2024-01-01 00:00:00.000000001")}], "B6001", 'column "at"'
    ),
    "NULL": (lambda: pd.DataFrame({"id": pd.array([1, None], dtype="Int64")}), "B6003",
             'row 2 of "Item" has no value for "id"'),
    "key missing": (lambda: pd.DataFrame({"name": ["x"]}), "B6003", 'row 1 of "Item" has no value for "id"'),
    "two names": (lambda: pd.DataFrame([[1, 2]], columns=["id", "id"]), "B6015", 'two columns "id"'),
    "two spellings": (lambda: pl.DataFrame({"id": [1], "ID": [1]}), "B6015", 'two columns for "id"'),
    "an index that is a column": (
        lambda: pd.DataFrame({"id": [1]}, index=pd.Index([1], name="id")), "B6015", "the index of the frame"
    ),
    "a column of pandas": (lambda: pd.Series([1], name="id"), "B6015", "needs a frame, not Series"),
    "a column of Polars": (lambda: pl.Series("id", [1]), "B6015", "needs a frame, not Series"),
    "a lazy frame": (lambda: pl.LazyFrame({"id": [1]}), "B6015", "needs a frame, not LazyFrame"),
    "an array": (lambda: pa.array([1]), "B6015", "needs a frame"),
    "a number": (lambda: 5, "B6015", "needs a frame, not int"),
    "a text": (lambda: "id", "B6015", "needs a frame, not str"),
    "nothing": (lambda: None, "B6015", "needs a frame, not NoneType"),
    "one row": (lambda: {"id": 1}, "B6015", "not one row"),
    "tuples": (lambda: [(1, "x")], "B6015", 'row 1 of "Item" is not a dict'),
    "a map as pairs that are none": (lambda: [{"id": 1, "counts": [{"k": 1, "v": 2}]}], "B6001", 'column "counts"'),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(mistake: str) -> None:
    make, code, message = MISTAKES[mistake]
    with pytest.raises(BelvedereError) as error:
        rows_of_program(ITEM, make())
    (found,) = error.value.diagnostics
    assert found.code == code
    assert message in found.message
    assert found.hint or found.detail or code == "B6003"


def test_rows_are_deleted_by_key() -> None:
    for given in (pandas_frame(), polars_frame(), [{"id": 1, "name": "x"}, {"id": 2}]):
        assert deletions_of_program(ITEM, given).to_pylist() == [{"id": 1}, {"id": 2}]


def test_values_of_numpy_and_pandas() -> None:
    given = [
        np.float32(0.5),
        np.int8(3),
        np.str_("é"),
        np.bool_(False),
        np.datetime64("2024-01-01T00:00:01"),
        np.array([[1], [2]]),
    ]
    assert plain(given) == [0.5, 3, "é", False, datetime(2024, 1, 1, 0, 0, 1), [[1], [2]]]
    assert plain({"a": (pd.NA, np.timedelta64(1, "s"))}) == {"a": [None, timedelta(seconds=1)]}
    assert plain(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]")) == [datetime(2024, 1, 1), None]
    for finer in (np.datetime64("2024-01-01T00:00:00.000000001"), np.datetime64("20000-01-01")):
        with pytest.raises(ValueError, match="microsecond"):
            plain(finer)


def test_a_frame_for_spark_has_types_of_sql() -> None:
    frame = pl.DataFrame(
        {"n": pl.Series([1], dtype=pl.UInt32), "c": pl.Series(["a"], dtype=pl.Categorical), "t": [datetime(2024, 1, 1)]}
    )
    table = frame_table(frame, '"bids"')
    assert table.schema.types == [pa.int64(), pa.string(), pa.timestamp("us", tz="UTC")]
    for wrong, said in (
        (pd.DataFrame({"x": [1, "a"]}), 'column "x"'),
        (pa.table({"x": pa.array([1], pa.time32("s"))}), "x"),
    ):
        with pytest.raises(BelvedereError) as error:
            frame_table(wrong, '"bids"')
        assert error.value.diagnostics[0].code == "B6015"
        assert said in error.value.diagnostics[0].message


def test_rows_go_out_as_frames_and_come_in_again() -> None:
    table = rows_of_program(ITEM, pandas_frame())
    rows = row_list(table)
    assert rows[0]["since"] == "P1Y2M"
    for frame in (rows.to_pandas(), rows.to_polars(), rows.to_arrow(), rows):
        assert rows_of_program(ITEM, frame).equals(table)
    assert rows.to_pandas()["small"].dtype == pd.Int32Dtype()
    big = row_list(pa.table({"n": pa.array([2**62 + 1, None])})).to_pandas()
    assert big["n"][0] == 2**62 + 1


def test_a_query_is_a_sequence_of_dicts() -> None:
    rows = QueryRows(pa.table({"a": [1, 2, 3]}))
    assert rows == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert (len(rows), rows[-1], list(rows[::2])) == (3, {"a": 3}, [{"a": 1}, {"a": 3}])
    assert "(3 rows)" in repr(rows)
    with pytest.raises(IndexError):
        rows[3]


def test_html_is_escaped_and_bounded() -> None:
    html = as_html(pa.table({"<a>": ["<script>", None], "n": [1, 2]}), 1)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "2 rows, of which the first 1 are shown" in html
    assert "NULL" in RowList([], pa.table({"a": pa.array([None], pa.string())}))._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_told(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    rows = row_list(pa.table({"a": [1]}))
    with pytest.raises(BelvedereError) as error:
        getattr(rows, f"to_{library}")()
    assert error.value.diagnostics[0].code == "B9140"
    assert library in (error.value.diagnostics[0].hint or "")
