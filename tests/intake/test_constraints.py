"""DEFAULT fills fields that rows do not bring; a row that breaks a CHECK is refused with the condition."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.catalog.inputs import Input
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.intake.request_rows import read_rows
from belvedere.store.row_checks import broken_checks
from belvedere.values.input_rows import arrow_rows

SCRIPT = """
CREATE TABLE Orders (
  id INT, amount INT NOT NULL DEFAULT 1 CHECK (amount > 0), note STRING DEFAULT 'é', day DATE DEFAULT DATE '2024-02-29',
  price DECIMAL(6,2) DEFAULT 2.5, PRIMARY KEY (id),
  CONSTRAINT cheap CHECK (price < 100 OR note LIKE 'gift%') ENFORCED, CHECK (id < 0) NOT ENFORCED
);
V := SELECT id, amount, note, day, price FROM Orders;
"""


def input_of(columns: str) -> Input:
    compiled = compile_script(f"CREATE TABLE T ({columns});")
    assert compiled.ok, compiled.diagnostics
    return compiled.catalog.inputs["T"]


@pytest.mark.usefixtures("each_store")
def test_rows_of_a_workbench(executor: Any) -> None:
    with closing(Workbench(SCRIPT)) as bench:
        bench.insert("Orders", [{"id": 1}, {"id": 2, "amount": 5, "note": None, "price": "99.99", "day": None}])
        bench.insert("Orders", [{"ID": 3, "Amount": 2, "price": 100, "note": "gift ü"}])
        for row, said in (
            ({"id": 4, "amount": 0}, "`amount > 0`"),
            ({"id": 5, "price": "100.00"}, "`cheap`"),
            ({"id": 6, "amount": None}, "may not be NULL"),
        ):
            with pytest.raises(BelvedereError, match=said):
                bench.insert("Orders", [{"id": 9}, row])
        bench.step()
        requested = [
            {"id": 1, "amount": 1, "note": "é", "day": date(2024, 2, 29), "price": Decimal("2.50")},
            {"id": 2, "amount": 5, "note": None, "day": None, "price": Decimal("99.99")},
            {"id": 3, "amount": 2, "note": "gift ü", "day": date(2024, 2, 29), "price": Decimal("100.00")},
        ]
        assert sorted(bench.rows("V"), key=lambda r: r["id"]) == requested
        bench.restart()
        bench.delete("Orders", [{"id": 1}])
        bench.step()
        assert (
            sorted(bench.rows("V"), key=lambda r: r["id"])
            == sorted(bench.batch("V"), key=lambda r: r["id"])
            == requested[1:]
        )


@pytest.mark.parametrize("keep", ["", " KEEP 1 DAY"])
def test_a_changed_check_is_asked_of_rows_that_come(executor: Any, tmp_path: Path, keep: str) -> None:
    """Rows that were taken are there under the new one, also for a view that is added, and after a restart."""
    store = f"sqlite:///{tmp_path}/s.db"
    text = "CREATE STREAM S (id INT, v INT CHECK (v {}))" + keep + ";\nV := SELECT id, v FROM S;\n"
    with closing(Workbench(text.format("> 0"), store, spark=executor)) as bench:
        bench.insert("S", [{"id": 1, "v": 5}, {"id": 2, "v": 500}])
        bench.step()
    text += "W := SELECT count(*) AS n, max(v) AS most FROM S;\n"
    with closing(Workbench(text.format("< 100"), store, spark=executor)) as bench:
        bench.step()
        assert bench.rows("W") == [{"n": 2, "most": 500}]
        with pytest.raises(BelvedereError, match="`v < 100`"):
            bench.insert("S", [{"id": 3, "v": 100}])
        bench.insert("S", [{"id": 4, "v": -1}])
        bench.restart()
        bench.step()
        assert sorted(r["v"] for r in bench.rows("V")) == [-1, 5, 500]
        assert bench.rows("W") == [{"n": 3, "most": 500}]


def test_rows_of_a_push() -> None:
    table = compile_script(SCRIPT).catalog.inputs["Orders"]
    given = [
        {"id": 1},
        {"id": 2, "amount": -1},
        {"id": 3, "price": 1000},
        {"id": 4, "nope": 1},
        {"id": 5, "_delete": True},
        {"id": 6},
    ]
    pushed = read_rows(table, given)
    assert pushed.places == (0, 4, 5)
    assert pushed.rows["amount"].to_pylist() == [1, None, 1]
    assert pushed.rows["_weight"].to_pylist() == [1, -1, 1]
    assert [(m.index, code) for m, code in zip(pushed.malformed, pushed.codes, strict=True)] == [
        (1, "B6004"),
        (2, "B6004"),
        (3, "B6002"),
    ]
    assert pushed.malformed[0].reason == 'row 2 of "Orders" breaks the CHECK `amount > 0`'
    assert "`cheap`: `price < 100 OR note LIKE 'gift%'`" in pushed.malformed[1].reason


@pytest.mark.parametrize(
    ("type_", "condition", "fits", "breaks"),
    [
        ("INT", "x BETWEEN 1 AND 3", [1, 3, None], [0, 4]),
        ("STRING", "x IN ('a', 'é') OR length(x) > 3", ["a", "é", "日本語文", None], ["", "b"]),
        ("DOUBLE", "x < 5.5", [5.25, None, float("-inf")], [5.5, float("inf"), float("nan")]),
        ("BOOLEAN", "x", [True, None], [False]),
        ("DATE", "x >= DATE '2024-01-01'", ["2024-01-01", None], ["2023-12-31"]),
        (
            "TIMESTAMP",
            "x < TIMESTAMP '2024-01-01 00:00:00'",
            [datetime(2023, 1, 1, tzinfo=UTC)],
            ["2024-01-01T00:00:00Z"],
        ),
        ("DECIMAL(38,2)", "x <> 0.10", ["99999999999999999999.00", "-1"], ["0.1"]),
        ("BIGINT", "x <> 9007199254740993", [9007199254740992], [9007199254740993]),
    ],
)
def test_conditions_are_those_of_spark(type_: str, condition: str, fits: list[Any], breaks: list[Any]) -> None:
    table = input_of(f"x {type_} CHECK ({condition})")
    columns = [c for c in table.schema if c.name == "x"]
    rows = arrow_rows("T", columns, [{"x": value} for value in (*fits, *breaks)])
    assert sorted(broken_checks(table, rows)) == list(range(len(fits), rows.num_rows))
    assert broken_checks(table, rows.slice(0, 0)) == {}
    assert (
        broken_checks(
            table, pa.table({"x": pa.chunked_array([rows["x"].combine_chunks(), rows["x"].combine_chunks()])})
        )
        != {}
    )


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("k INT DEFAULT 'x'", "B4043"),
        ("k INT, v INT DEFAULT k + 1", "B4043"),
        ("k INT NOT NULL DEFAULT NULL", "B4043"),
        ("k TINYINT DEFAULT 300", "B4043"),
        ("k INT CHECK (k)", "B3002"),
        ("k INT CHECK (z > 1)", "B2002"),
        ("k INT CHECK (k IN (SELECT 1))", "B4044"),
        ("k INT CHECK (sum(k) > 1)", "B4044"),
        ("s STRING CHECK (s RLIKE '^a')", "B4044"),
        ("t TIMESTAMP CHECK (t < now())", "B4044"),
    ],
)
def test_what_is_refused(columns: str, code: str) -> None:
    found = [d for d in compile_script(f"CREATE TABLE T ({columns});").diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code]
    assert found[0].span is not None


def test_a_column_may_be_called_check() -> None:
    assert input_of("check INT, `default` STRING").schema.names[:2] == ("check", "default")
