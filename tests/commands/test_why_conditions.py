"""Conditions of `belvedere why` and `why-not` that no row or several rows meet, on every database, without Spark."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from belvedere.cli import run
from belvedere.provenance.why_not.impossible_literals import may_be
from tests.commands.stored import CLOCK, make_store
from tests.commands.test_store_query import no_spark

SCRIPT = """CREATE TABLE `Größe` (id BIGINT, n INT, price DOUBLE, cost DECIMAL(9, 2), fine BOOLEAN, day DATE,
    at TIMESTAMP, name STRING,
    PRIMARY KEY (id));
CREATE TABLE Part (part INT, whole BIGINT, colour STRING, PRIMARY KEY (part));
`Größe`.parts := SELECT p.colour, count(*) AS n FROM Part p WHERE p.whole = this.id GROUP BY p.colour;
"""
TOTALS = """CREATE TABLE Owner (id BIGINT, PRIMARY KEY (id));
CREATE TABLE Box (id BIGINT, owner BIGINT, PRIMARY KEY (id));
CREATE TABLE Item (part BIGINT, whole BIGINT, n INT, price DOUBLE, PRIMARY KEY (part));
Box.total := SELECT sum(i.n * i.price) FROM Item i WHERE i.whole = _.id;
Owner.spent := SELECT sum(b.total) FROM Box b WHERE b.owner = _.id;
"""
ROW = {"id": 1, "n": 2, "price": 0.5, "cost": None, "fine": True, "day": date(2024, 2, 29), "at": CLOCK, "name": "abc"}
PARTS = [{"colour": "red", "n": 1, "_id": 1}, {"colour": "red", "n": 2, "_id": 2}]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store."""
    monkeypatch.setattr("belvedere.spark.jvm.quiet_session.batch_session", no_spark)
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def asked(url: str, tmp_path: Path) -> list[str]:
    """The script and the option that names its store."""
    script = tmp_path / "a.sqrl"
    script.write_text(SCRIPT, encoding="utf-8")
    make_store(url, script, {"Größe": [ROW], "Größe.parts": PARTS})
    return [str(script), "--store", url]


@pytest.mark.parametrize("command", ["why", "why-not"])
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("id = 'abc'", "`id` is BIGINT, but 'abc' is not a value of this type"),
        ("name = 'abc' AND 'x' < n", "`n` is INT, but 'x' is not a value of this type"),
        ("NOT price IN (1, 'much')", "`price` is DOUBLE, but 'much' is not a value of this type"),
        ("cost BETWEEN 1 AND ''", "`cost` is DECIMAL(9, 2), but '' is not a value of this type"),
        ("fine <=> 'maybe'", "`fine` is BOOLEAN, but 'maybe' is not a value of this type"),
        ("day > 'tomorrow'", "`day` is DATE, but 'tomorrow' is not a value of this type"),
        ("at > 'now'", "`at` is TIMESTAMP, but 'now' is not a value of this type"),
        ("n = 1 AND name = NULL", "nothing equals NULL, so no row meets this"),
        ("NULL <> name", "nothing equals NULL, so no row meets this"),
    ],
)
def test_a_text_that_is_no_value_of_its_column(
    asked: list[str], command: str, condition: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, asked[0], "Größe", condition, *asked[1:]]) == 1
    assert f"error[B8113]: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["why", "why-not"])
def test_a_mistake_is_json_for_machines(asked: list[str], command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, asked[0], "Größe", "name = 'a' LIMIT 1", *asked[1:], "--json"]) == 1
    out, err = capsys.readouterr()
    reported = json.loads(out)
    (found,) = reported["diagnostics"]
    assert (reported["ok"], found["code"], found["message"], err) == (
        False,
        "B8114",
        "there is more text after the condition",
        "",
    )


def test_sums_on_the_way_that_nobody_asks_for_are_not_computed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of a total's parts are found by their keys: no database multiplies DOUBLEs as Spark does, and none has
    to."""
    script = tmp_path / "totals.sqrl"
    script.write_text(TOTALS, encoding="utf-8")
    items = [{"part": n, "whole": w, "n": 2, "price": 0.5} for n, w in enumerate((1, 1, 2))]
    boxes = [{"id": 1, "owner": 7, "total": 2.0}, {"id": 2, "owner": 8, "total": 1.0}]
    make_store(url, script, {"Item": items, "Box": boxes, "Owner": [{"id": 7, "spent": 2.0}, {"id": 8, "spent": 1.0}]})
    assert run(["why", str(script), "Owner", "id = 7", "--store", url, "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert {r["relation"]: (r["count"], r.get("untold")) for r in reported["inputs"]} == {
        "Item": (2, None), "Box": (1, None), "Owner": (1, None),
    }  # fmt: skip


def test_null_beside_what_a_row_fulfils_is_no_mistake(asked: list[str]) -> None:
    assert run(["why", asked[0], "Größe", "id = 1 OR name = NULL", *asked[1:]]) == 0


def test_of_several_rows_of_a_nested_table_one_is_named_by_more_columns(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", asked[0], "Größe.parts", "colour = 'red'", *asked[1:]]) == 1
    reported = capsys.readouterr().err
    assert 'error[B8112]: "Größe.parts" has several rows with colour = ' in reported
    assert "hint: add conditions on more columns: colour, n" in reported


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (pa.int64(), [" 12 ", "-3", "+4", "99999999999999999999"], ["1.5", "1e3", "", "0x1", "١"]),
        (pa.float64(), ["1d", ".5f", "-Infinity", "nan", "1e-7", "0x1p3"], ["d", "1,5", "-"]),
        (pa.decimal128(9, 2), ["1.005", "7"], ["seven"]),
        (pa.bool_(), ["T", " yes", "0"], ["2", "on"]),
        (pa.date32(), ["2024", "2024-2-9"], ["today"]),
        (pa.string(), ["", "x"], []),
    ],
)
def test_what_may_be_a_value(type_: pa.DataType, good: list[str], bad: list[str]) -> None:
    assert all(may_be(t, type_) for t in good)
    assert not any(may_be(t, type_) for t in bad)
