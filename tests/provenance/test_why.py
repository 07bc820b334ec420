"""What `why` names for rows of small scripts, from the Workbench and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.cli import run
from belvedere.errors import BelvedereError

SCRIPT = """
CREATE TABLE Customer (id INT, city STRING, PRIMARY KEY (id));
CREATE STREAM Sale (customer INT, amount INT);
_Big := SELECT customer, amount FROM Sale WHERE amount >= 10;
ByCustomer := SELECT customer, sum(amount) AS total, count(*) AS n FROM _Big GROUP BY customer;
ByCity := SELECT c.city, sum(b.total) AS total FROM ByCustomer b JOIN Customer c ON c.id = b.customer GROUP BY c.city;
Best := SELECT DISTINCT ON (customer) customer, amount FROM Sale ORDER BY customer, amount DESC;
Quiet := SELECT c.id, s.amount FROM Customer c LEFT JOIN Sale s ON s.customer = c.id;
In(city STRING) := SELECT c.id, b.total FROM ByCustomer b JOIN Customer c ON c.id = b.customer WHERE c.city = :city;
"""
CUSTOMERS = [(1, "Zürich"), (2, "Zürich"), (3, "Bern"), (4, None)]
SALES = [(1, 10), (1, 20), (1, 5), (2, 30), (3, 40)]


def filled(store: str, spark: Any) -> Workbench:
    wb = Workbench(SCRIPT, store, spark=spark)
    wb.insert("Customer", [{"id": i, "city": c} for i, c in CUSTOMERS])
    wb.insert("Sale", [{"customer": c, "amount": a} for c, a in SALES])
    wb.step()
    return wb


def shown(rows: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[n] for n in names) for r in rows)


@pytest.mark.usefixtures("each_store")
def test_rows_are_told_view_by_view_and_in_all(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    found = wb.why("ByCity", {"city": "Zürich"}, depth=2)
    assert {r.relation: r.count for r in found.reads} == {"ByCustomer": 2, "Customer": 2}
    assert {
        r.relation: shown(r.rows, *n) for r, n in zip(found.inputs, (("customer", "amount"), ("id",)), strict=True)
    } == {
        "Sale": [(1, 10), (1, 20), (2, 30)],
        "Customer": [(1,), (2,)],
    }
    below = next(r for r in found.reads if r.relation == "ByCustomer").below
    assert {w.row["customer"]: w.reads[0].count for w in below} == {1: 2, 2: 1}
    wb.close()


def test_a_first_row_has_its_partition_and_a_row_without_a_partner_is_alone(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    found = wb.why("Best", {"customer": 1})
    assert [(r.words, r.count) for r in found.reads] == [("the row itself", 1), ("its partition by Sale.customer", 3)]
    assert shown(found.reads[0].rows, "amount") == [(20,)]
    private = wb.why("ByCustomer", {"customer": 1})
    assert [(r.relation, r.words, r.count) for r in private.reads] == [("_Big", "its group by customer", 2)]
    assert shown(private.inputs[0].rows, "customer", "amount") == [(1, 10), (1, 20)]
    alone = wb.why("Quiet", {"id": 4})
    assert [(r.relation, r.count) for r in alone.inputs] == [("Customer", 1)]
    wb.close()


def test_a_row_that_is_not_there_and_one_that_is_not_alone(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    for ask in (wb.why, wb.why_not):
        with pytest.raises(BelvedereError, match="B8115"):
            ask("In", {"id": 1})
        with pytest.raises(BelvedereError, match="B8114: a key must be a dict of the key columns' values, not"):
            ask("ByCity", "city = 'Bern'")
    with pytest.raises(BelvedereError, match=r'"ByCity" has several rows$'):
        wb.why("ByCity", {})
    for key, code in (
        ({"city": "Basel"}, "B8111"),
        ({}, "B8112"),
        ({"total": "many"}, "B8113"),
        ({"town": "Bern"}, "B2002"),
    ):
        with pytest.raises(BelvedereError) as raised:
            wb.why("ByCity", key)
        assert [d.code for d in raised.value.diagnostics] == [code]
    wb.close()


def test_from_the_command_line(tmp_path: Path, executor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = tmp_path / "shop.sqrl", f"sqlite:///{tmp_path / 'shop.db'}"
    script.write_text(SCRIPT)
    filled(store, executor).close()
    asked = ["why", str(script), "ByCity", "city = 'Bern'", "--store", store]
    assert run([*asked, "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["row"] == {"city": "Bern", "total": 40}
    assert {r["relation"]: r["rows"] for r in reported["inputs"]} == {
        "Sale": [{"customer": 3, "amount": 40}],
        "Customer": [{"id": 3, "city": "Bern"}],
    }
    assert run(asked) == 0
    text = capsys.readouterr().out
    assert "Sale: 1 row" in text
    assert "customer = 3, total = 40" in text
    assert run(["why-not", str(script), "in", "id = 7", "--store", store]) == 1
    reported = capsys.readouterr().err
    assert "B8115" in reported
    assert 'query template "In" stores no rows' in reported
    assert "the relations that it reads: `ByCustomer`, `Customer`" in reported
    for view, condition, words in (
        ("In", "id = 1", "B8115"),
        ("ByCity", "city = 'Basel'", "B8111"),
        ("ByCity", "city IN (SELECT city FROM Customer)", "B8114"),
        ("ByCity", " ", "B8114"),
        ("ByCity", "city = 'Bern' LIMIT 1", "there is more text after the condition"),
        ("Bycities", "city = 'Bern'", "ByCity"),
        ("ByCity", "city = Bern", "<condition>:1:8\n  |\n1 | city = Bern\n  |        ^^^^\n"),
        ("ByCity", "city = Bern", "there is `city`, `total`; write a string in quotes: 'Bern'"),
        ("ByCity", "citi = 'Bern'", "did you mean `city`?"),
        ("ByCity", "city =", "an expression is missing"),
    ):
        for command in ("why", "why-not") if "<condition>" in words or "stands" in words else ("why",):
            assert run([command, str(script), view, condition, "--store", store]) == 1
            said = capsys.readouterr().err
            assert words in said
            assert condition != "city =" or "`)`" not in said
    assert run(["why", str(script), "`ByCity`", "city = 'Bern' -- the capital", "--store", store]) == 0


def test_rows_that_are_not_stored_are_told_by_name(executor: Any) -> None:
    wb = Workbench(
        "CREATE STREAM _Hit (page STRING); Hits := SELECT page, count(*) AS n FROM _Hit GROUP BY page;", spark=executor
    )
    wb.insert("_Hit", [{"page": "a"}, {"page": None}])
    wb.step()
    (read,) = wb.why("Hits", {"page": None}).inputs
    assert (read.relation, read.untold) == ("_Hit", "the rows of `_Hit` are not stored: it is private")
    with pytest.raises(BelvedereError, match="B8110"):
        wb.why("_Hit", {"page": "a"})
    wb.close()


TIMES = """
CREATE STREAM Bid (at TIMESTAMP NOT NULL, item STRING, price INT, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
Tens := SELECT wend, sum(price) AS total FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(at),
    dur => INTERVAL '10' MINUTES) GROUP BY wend;
Sessions := SELECT item, wstart, wend, sum(price) AS total FROM Session(data => TABLE(Bid), timecol => DESCRIPTOR(at),
    key => DESCRIPTOR(item), gap => INTERVAL '5' MINUTES) GROUP BY item, wstart, wend;
Done := SELECT wend, count(*) AS n FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(at),
    dur => INTERVAL '10' MINUTES) GROUP BY wend EMIT AFTER WATERMARK;
Told := SELECT wend, count(*) AS n FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(at),
    dur => INTERVAL '10' MINUTES) GROUP BY wend EMIT STREAM;
Last2 := SELECT item, sum(price) AS total, firingTime() AS fired FROM Bid
    WINDOW (sliding, count(2), count(1), partitioned BY item) GROUP BY item;
Pairs := FROM Bid AS s WINDOW BY w PARTITION BY s.item ORDER BY s.at TYPE SLIDING START AS a END NEXT AS e WHEN e.at >
    a.at + INTERVAL '3' MINUTES SELECT a.item, a.at, ARRAY_SUM(w[*].price) AS total;
"""
BIDS = [("08:01", "a", 1), ("08:03", "b", 2), ("08:05", "a", 4), ("08:14", "a", 8), ("08:31", "b", 16)]


def test_rows_of_windows_and_of_what_was_emitted(executor: Any) -> None:
    wb = Workbench(TIMES, spark=executor)
    wb.clock("2020-01-01 09:00:00")
    wb.insert("Bid", [{"at": f"2020-01-01 {t}:00", "item": i, "price": p} for t, i, p in BIDS])
    wb.step()

    def prices(view: str, **key: Any) -> list[int]:
        (read,) = wb.why(view, key, size=100).inputs
        assert not read.untold, read
        return sorted(r["price"] for r in read.rows)

    for view in ("Tens", "Done", "Told"):
        assert prices(view, wend="2020-01-01 08:10:00") == [1, 2, 4], view
    for row in wb.rows("Sessions"):
        assert sum(prices("Sessions", **row)) == row["total"]
    assert prices("Last2", item="a") == [4, 8]
    for row in wb.rows("Pairs"):
        found = prices("Pairs", item=row["item"], at=row["at"])
        assert sum(found) >= row["total"], "the bid that ends the window is named too"
        assert len(found) <= 3
    wb.close()


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_texts_that_no_statement_holds_are_asked_of_spark(spark: Any) -> None:
    wb = Workbench("CREATE TABLE T (k STRING, PRIMARY KEY (k)); V := SELECT k FROM T;", spark=spark)
    wb.insert("T", [{"k": "a\x00b"}, {"k": "\x01"}, {"k": "a"}])
    wb.step()
    for k in ("a\x00b", "\x01", "a"):
        assert [[row["k"] for row in r.rows] for r in wb.why("V", {"k": k}).inputs] == [[k]]
    for k in ("a\x00", "\x01\x01", "\x00"):
        answer = wb.why_not("V", {"k": k})
        assert (answer.there, [lost.at for lost in answer.lost]) == (0, ["input"]), answer
    wb.close()
