"""What a past epoch took is read again as it was read then: by the columns, formats and rejections of that time. DuckDB
has no part in it: the answers are counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors.source_readings import reading_at, with_reading
from tests.run.loops import Loop


def put(folder: Path, name: str, *rows: Any) -> None:
    (folder / "data" / "Orders").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "Orders" / name).write_text("".join(json.dumps(r) + "\n" for r in rows))


def accept(loop: Loop) -> None:
    """`belvedere schema accept`, in this process."""
    from belvedere.commands.schema import command

    (loop.folder / "s.sqrl").write_text(loop.script)
    assert command(["accept", str(loop.folder / "s.sqrl")], store=loop.url) == 0


def test_how_a_source_is_read_is_noted_where_it_changes() -> None:
    one, two = {"columns": "a"}, {"columns": "b"}
    known = with_reading(with_reading(with_reading({}, "T", 3, one), "T", 4, one), "T", 9, two)
    assert known == {"T": [{"since": 3, "columns": "a"}, {"since": 9, "columns": "b"}]}
    assert [reading_at(known["T"], n) and reading_at(known["T"], n)["columns"] for n in (2, 3, 8, 9, 20)] == [
        None,
        "a",
        "a",
        "b",
        "b",
    ]


@pytest.mark.spark
@pytest.mark.parametrize("keep", ["KEEP 7 DAYS", ""])
def test_a_wider_type_is_accepted_and_rows_that_it_would_take_stay_rejected(
    spark: Any, tmp_path: Path, keep: str
) -> None:
    """The documented way to widen a column: the file with 1.5 was rejected as BIGINT, and stays so until it is tried
    again."""
    name = "Orders" if keep else "Orders AS _Orders"
    script = (
        f"IMPORT shop.{name} {keep};\nTotals := SELECT cust, sum(price) AS total FROM "
        f"{name.rsplit(maxsplit=1)[-1]} GROUP BY cust;"
    )
    loop = Loop(spark, tmp_path, script, '[sources.shop]\npath = "data"\n')
    put(tmp_path, "1.jsonl", {"cust": 1, "price": 10})
    loop.once()
    put(tmp_path, "2.jsonl", {"cust": 4, "price": 1.5}, {"cust": 1, "price": 5})
    loop.once()
    accept(loop)
    loop.once()
    assert {(r["cust"], r["total"]) for r in loop.rows("Totals")} == {(1, 15.0)}
    put(tmp_path, "3.jsonl", {"cust": 9, "price": 7.25})
    loop.once()
    assert {(r["cust"], r["total"]) for r in loop.rows("Totals")} == {(1, 15.0), (9, 7.25)}
    loop.once(retry=True)
    assert {(r["cust"], r["total"]) for r in loop.rows("Totals")} == {(1, 15.0), (4, 1.5), (9, 7.25)}
    loop.script = loop.script.replace(
        "sum(price) AS total", "sum(price) AS total, count(*) AS n"
    )  # all is read again, as it was
    loop.once()
    assert {(r["cust"], r["total"], r["n"]) for r in loop.rows("Totals")} == {(1, 15.0, 2), (4, 1.5, 1), (9, 7.25, 1)}


@pytest.mark.spark
def test_options_of_text_count_as_they_were(spark: Any, tmp_path: Path) -> None:
    """Two epochs of CSV, each under other options: a new view has the rows that each epoch had."""
    project = (
        '[sources.shop]\npath = "data"\nformat = "csv"\ndelimiter = "{}"\nnull = "{}"\ntimestamp_format = "{}"\n'
        '[sources.shop.tables.Orders]\ncolumns = {{ id = "INT", at = "TIMESTAMP", note = "STRING" }}\n'
    )
    script = "IMPORT shop.Orders AS _Orders;\nN := SELECT count(*) AS n FROM _Orders;"
    loop = Loop(spark, tmp_path, script, project.format(",", "-", "d.M.yyyy"))
    (tmp_path / "data" / "Orders").mkdir(parents=True)
    (tmp_path / "data" / "Orders" / "1.csv").write_text("id,at,note\n1,2.1.2020,-\n2,1/2/2020,x\n")
    loop.once()
    (tmp_path / "belvedere.toml").write_text(project.format(";", "?", "M/d/yyyy"))
    (tmp_path / "data" / "Orders" / "2.csv").write_text("id;at;note\n3;1/2/2020;-\n4;?;?\n")
    loop.once()
    loop.script += "\nAll := SELECT id, CAST(at AS STRING) AS at, note FROM _Orders;"
    loop.once()
    found = {r["id"]: (r["at"], r["note"]) for r in loop.rows("All")}
    day = "2020-01-02 00:00:00"
    assert found == {1: (day, None), 3: (day, "-"), 4: (None, None)}
    assert [r["n"] for r in loop.rows("N")] == [3]


@pytest.mark.spark
def test_a_view_is_added_after_rejected_rows_were_tried_again(spark: Any, tmp_path: Path) -> None:
    project = (
        '[sources.shop]\npath = "data"\n[sources.shop.tables.Orders]\ncolumns = {{ id = "BIGINT", price = "{}" }}\n'
    )
    script = "IMPORT shop.Orders AS _Orders;\nN := SELECT count(*) AS n FROM _Orders;"
    loop = Loop(spark, tmp_path, script, project.format("BIGINT"))
    put(tmp_path, "1.jsonl", {"id": 1, "price": 900}, {"id": 2, "price": "5,50"})
    loop.once()
    (tmp_path / "belvedere.toml").write_text(project.format("STRING"))
    loop.script = loop.script.replace("N :=", "M :=")  # nothing that is stored has a price
    loop.once(retry=True)
    put(tmp_path, "2.jsonl", {"id": 3, "price": "x"})
    loop.once()
    loop.script += "\nP := SELECT price, count(*) AS n FROM _Orders GROUP BY price;"
    loop.once()
    assert {(r["price"], r["n"]) for r in loop.rows("P")} == {("900", 1), ("5,50", 1), ("x", 1)}
    assert [r["n"] for r in loop.rows("M")] == [3]
