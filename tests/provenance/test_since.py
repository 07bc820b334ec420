"""When a row appeared: with and without history, of inputs and views, and after the store has dropped epochs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.cli import run
from belvedere.errors import BelvedereError
from belvedere.plan.operators.nodes import Node
from belvedere.provenance.epoch_lookup import Moment
from belvedere.provenance.findings import Since, since_text
from belvedere.provenance.plan_queries import Answers, QueryRunner
from belvedere.store.write import database

SCRIPT = """
CREATE TABLE Customer (id INT, city STRING, PRIMARY KEY (id)) WITH HISTORY;
CREATE TABLE Rate (city STRING, percent INT, PRIMARY KEY (city));
CREATE STREAM Sale (customer INT, amount INT);
CREATE STREAM _Hit (page STRING);
ByCustomer := SELECT customer, sum(amount) AS total FROM Sale GROUP BY customer WITH HISTORY;
ByCity := SELECT c.city, sum(s.amount) AS total FROM Sale s JOIN Customer c ON c.id = s.customer GROUP BY c.city
    WITH HISTORY;
Rated := SELECT c.id, r.percent FROM Customer c JOIN Rate r ON r.city = c.city WITH HISTORY;
Plain := SELECT customer, count(*) AS n FROM Sale GROUP BY customer;
RatedNow := SELECT c.id, r.percent FROM Customer c JOIN Rate r ON r.city = c.city;
Told := SELECT customer, count(*) AS n FROM Sale GROUP BY customer EMIT STREAM;
Recent := SELECT customer, amount FROM Sale WHERE _ingest_time > now() - INTERVAL 1 HOUR;
Hits := SELECT page, count(*) AS n FROM _Hit GROUP BY page;
"""


def clock(minute: int) -> datetime:
    return datetime(2020, 1, 1, 8, minute, tzinfo=UTC)


def step(wb: Workbench, minute: int, **rows: list[dict[str, Any]]) -> None:
    wb.clock(clock(minute))
    for name, given in rows.items():
        wb.insert(name.removesuffix("_").replace("Hit", "_Hit"), given)
    wb.step()


def sale(customer: int | None, amount: int) -> dict[str, Any]:
    return {"customer": customer, "amount": amount}


def filled(store: str, spark: Any) -> Workbench:
    """Four epochs: sales in 1, 2 and 4, customer 1 moves in 3."""
    wb = Workbench(SCRIPT, store, spark=spark)
    people = [{"id": 1, "city": "Zürich"}, {"id": 2, "city": "Bern"}]
    step(wb, 1, Customer=people, Rate=[{"city": "Zürich", "percent": 8}], Sale=[sale(1, 10), sale(2, 1), sale(None, 7)])
    step(wb, 2, Sale=[sale(1, 5), sale(1, 6)])
    step(wb, 3, Customer=[{"id": 1, "city": "Bern"}])
    step(wb, 4, Sale=[sale(2, 3)], Hit=[{"page": "a"}])
    return wb


def asked(wb: Workbench, view: str, **key: Any) -> Since:
    found = wb.why(view, key).since
    assert found is not None
    return found


def made(found: Since) -> list[tuple[int | None, dict[tuple[str, str], int]]]:
    """The epochs of the versions, with how many rows of which input made each."""
    return [(v.since.epoch, {(r.relation, r.words): r.count for r in v.made_by}) for v in found.versions]


@pytest.mark.usefixtures("each_store")
def test_a_history_tells_the_versions_and_what_made_each(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    found = asked(wb, "ByCustomer", customer=1)
    assert (found.appeared, found.changed, found.exact) == (Moment(1, clock(1)), Moment(2, clock(2)), True)
    assert [v.row["total"] for v in found.versions] == [21, 10]
    assert [v.until for v in found.versions] == [None, Moment(2, clock(2))]
    assert made(found) == [(2, {("Sale", "arrived"): 2}), (1, {("Sale", "arrived"): 1})]
    assert (found.count, found.unknown) == (2, ())
    assert (
        since_text(found) == "last changed in epoch 2, 2020-01-01T08:02:00Z; there since epoch 1, 2020-01-01T08:01:00Z"
    )
    null = asked(wb, "ByCustomer", customer=None)
    assert since_text(null) == "there since epoch 1, 2020-01-01T08:01:00Z"
    moved = asked(wb, "ByCity", city="Bern")
    assert [(e, {w for _, w in rows}) for e, rows in made(moved)] == [
        (4, {"arrived"}),
        (3, {"arrived"}),
        (1, {"arrived"}),
    ]
    assert made(moved)[1][1] == {("Customer", "arrived"): 1}
    wb.close()


@pytest.mark.usefixtures("each_store")
def test_rows_that_went_are_seen_in_the_history_of_their_input_alone(executor: Any) -> None:
    wb = filled("sqlite://", executor)
    wb.clock(clock(5))
    wb.insert("Customer", [{"id": 1, "city": "Zürich"}])
    wb.step()
    wb.clock(clock(6))
    wb.delete("Rate", [{"city": "Zürich", "percent": 8}])
    wb.insert("Rate", [{"city": "Zürich", "percent": 9}])
    wb.step()
    found = asked(wb, "Rated", id=1)
    assert made(found) == [
        (6, {("Rate", "arrived"): 1}),
        (5, {("Customer", "arrived"): 1}),  # its former city had no rate: the row was not made of that version
        (1, {("Customer", "arrived"): 1}),
    ]
    assert (found.appeared, found.count) == (Moment(5, clock(5)), 3)
    bern = asked(wb, "ByCity", city="Bern")
    assert made(bern)[0] == (5, {("Customer", "were deleted or replaced"): 1})
    city = asked(wb, "Customer", id=1)
    assert [(v.row["city"], v.since.epoch) for v in city.versions] == [("Zürich", 5), ("Bern", 3), ("Zürich", 1)]
    step(wb, 7, Customer=[{"id": 1, "city": "Zürich"}])
    again = asked(wb, "Customer", id=1)
    assert (again.changed, again.count) == (Moment(5, clock(5)), 3)  # it came again as it was
    assert [v.until and v.until.epoch for v in again.versions] == [None, 5, 3]
    rate = asked(wb, "Rate", city="Zürich")
    assert (rate.appeared, rate.changed, rate.exact) == (None, Moment(6, clock(6)), False)
    assert "has no history" in rate.unknown[0]
    wb.close()


@pytest.mark.usefixtures("each_store")
def test_without_a_history_the_last_arrival_is_told_and_what_cannot_be(
    executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb = filled("sqlite://", executor)
    found = asked(wb, "Plain", customer=1)
    assert (found.appeared, found.changed, found.exact) == (None, Moment(2, clock(2)), False)
    assert [(r.relation, r.count) for r in found.made_by] == [("Sale", 2)]
    assert found.unknown == ("when the row appeared, and whether its last arrival changed it: `Plain` has no history",)
    assert since_text(found) == "last arrival: epoch 2, 2020-01-01T08:02:00Z"
    wb.clock(clock(5))
    wb.insert("Rate", [{"city": "Bern", "percent": 7}])
    wb.step()
    rated = asked(wb, "RatedNow", id=1)
    assert rated.changed == Moment(5, clock(5))
    assert any("`Rate` that were deleted or replaced" in u for u in rated.unknown)
    assert not any("`Customer` that were" in u for u in rated.unknown)
    assert [r.relation for r in rated.made_by] == ["Rate"]
    step(wb, 6, Customer=[{"id": 1, "city": "Bern"}])
    asks: list[int] = []
    ask = QueryRunner.ask

    def counted(query_runner: QueryRunner, plans: Sequence[Node]) -> Answers:
        asks.append(len(plans))
        return ask(query_runner, plans)

    monkeypatch.setattr(QueryRunner, "ask", counted)
    rated = asked(wb, "RatedNow", id=1)
    assert {r.relation for r in rated.made_by} == {"Customer"}
    assert asks[2:] == [4], (
        "what arrived in `Customer` and what went is counted and sampled; of `Rate` all came earlier"
    )
    row = asked(wb, "Sale", customer=1, amount=5)
    assert (row.appeared, row.changed, row.exact) == (Moment(2, clock(2)), Moment(2, clock(2)), True)
    reported = asked(wb, "Told", customer=1, n=3, undo=False)
    assert (reported.appeared, reported.exact) == (Moment(2, clock(2)), True)
    recent = asked(wb, "Recent", customer=2, amount=3)
    assert recent.changed == Moment(4, clock(4))
    assert any("now()" in u for u in recent.unknown)
    private = asked(wb, "Hits", page="a")
    assert private.changed is None
    assert any("`_Hit` are not stored: it is private" in u for u in private.unknown)
    wb.close()


@pytest.mark.usefixtures("each_store")
def test_epochs_with_one_clock_and_epochs_that_are_forgotten(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "EPOCHS_KEPT", 3)
    wb = filled("sqlite://", executor)
    step(wb, 4, Sale=[sale(2, 4)])
    step(wb, 4, Sale=[sale(2, 5)])
    assert asked(wb, "Sale", customer=2, amount=4).appeared == Moment(5, clock(4))
    assert asked(wb, "Sale", customer=2, amount=5).appeared == Moment(6, clock(4))
    found = asked(wb, "ByCustomer", customer=2)
    assert made(found)[:2] == [(6, {("Sale", "arrived"): 1}), (5, {("Sale", "arrived"): 1})]
    old = asked(wb, "Sale", customer=1, amount=10)
    assert old.appeared == Moment(None, clock(1))
    assert "its last 1,000 epochs" in old.unknown[0]
    assert asked(wb, "Plain", customer=1).changed == Moment(None, clock(2))
    assert asked(wb, "ByCustomer", customer=1).changed == Moment(2, clock(2))
    wb.close()


def test_a_history_that_began_later_says_so(tmp_path: Path, executor: Any) -> None:
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    text = (
        "CREATE STREAM Sale (customer INT, amount INT);\nTotals := SELECT customer, sum(amount) AS n FROM Sale "
        "GROUP BY customer"
    )
    wb = Workbench(f"{text};", store, spark=executor)
    step(wb, 1, Sale=[sale(1, 1)])
    wb.close()
    wb = Workbench(f"{text} WITH HISTORY;", store, spark=executor)
    step(wb, 2, Sale=[sale(2, 1)])
    step(wb, 3, Sale=[sale(3, 1)])
    found = asked(wb, "Totals", customer=1)
    assert (found.appeared, found.changed, found.exact) == (None, None, False), "it was so before there was a history"
    assert found.unknown == (
        "when a row of its key appeared: its history begins with epoch 2",
        "which rows caused the versions since epoch 2: they are no longer stored",
    )
    assert asked(wb, "Totals", customer=3).appeared == Moment(3, clock(3))
    step(wb, 4, Sale=[sale(1, 5)])
    later = asked(wb, "Totals", customer=1)
    assert (later.appeared, later.changed, later.exact) == (None, Moment(4, clock(4)), True)
    wb.close()


@pytest.mark.usefixtures("each_store")
def test_before_the_first_epoch_it_is_said_that_there_is_none(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    for ask in (wb.why, wb.why_not):
        with pytest.raises(BelvedereError, match="B7063: the store has no epoch yet"):
            ask("Plain", {"customer": 1})
    wb.step()
    with pytest.raises(BelvedereError, match="B8111"):
        wb.why("Plain", {"customer": 1})
    assert [lost.view for lost in wb.why_not("Plain", {"customer": 1}).lost] == ["Sale"]
    wb.close()


def test_from_the_command_line(tmp_path: Path, executor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = tmp_path / "shop.sqrl", f"sqlite:///{tmp_path / 'shop.db'}"
    script.write_text(SCRIPT)
    filled(store, executor).close()
    command = ["why", str(script), "ByCustomer", "customer = 1", "--store", store]
    assert run([*command, "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)["since"]
    assert reported["changed"] == {"epoch": 2, "time": "2020-01-01T08:02:00Z"}
    assert [v["row"] for v in reported["versions"]] == [{"customer": 1, "total": 21}, {"customer": 1, "total": 10}]
    assert reported["versions"][0]["made_by"][0]["rows"] == [sale(1, 5), sale(1, 6)]
    assert run([*command, "--rows", "1"]) == 0
    text = capsys.readouterr().out
    assert "last changed in epoch 2, 2020-01-01T08:02:00Z; there since epoch 1, 2020-01-01T08:01:00Z" in text
    assert "since epoch 2, 2020-01-01T08:02:00Z: customer = 1, total = 21" in text
    assert "... 1 earlier" in text
    assert run(["why", str(script), "Plain", "customer = 1", "--store", store]) == 0
    assert "not known: when the row appeared" in capsys.readouterr().out


CHOSEN = """
CREATE TABLE Offer (id INT, shop STRING, price INT, PRIMARY KEY (id)) WITH HISTORY;
CREATE STREAM Visit (shop STRING, page INT);
Best := DISTINCT Offer ON shop ORDER BY price DESC WITH HISTORY;
Last := DISTINCT Visit ON shop ORDER BY page DESC WITH HISTORY;
Dear := SELECT id, shop, price FROM Offer ORDER BY price DESC LIMIT 2 WITH HISTORY;
Of := SELECT id, price FROM Best WHERE shop = 'ü' WITH HISTORY;
"""


def causes(wb: Workbench, view: str, key: dict[str, Any], column: str) -> list[tuple[Any, ...]]:
    """Of each version, the oldest first, its epoch and the rows that came and that went, by a column."""
    found = wb.why(view, key, size=50).since
    assert found is not None
    rows = [{r.words: sorted(row[column] for row in r.rows) for r in v.made_by} for v in found.versions[::-1]]
    epochs = [v.since.epoch for v in found.versions[::-1]]
    return [(e, r.get("arrived", []), r.get("were deleted or replaced", [])) for e, r in zip(epochs, rows, strict=True)]


@pytest.mark.usefixtures("each_store")
def test_versions_of_first_rows_came_by_themselves_or_as_those_ahead_went(executor: Any) -> None:
    wb = Workbench(CHOSEN, spark=executor)

    def step(minute: int, offers: list[tuple[Any, ...]], pages: list[int], gone: tuple[Any, ...] | None = None) -> None:
        wb.clock(datetime(2020, 1, 1, 0, minute, tzinfo=UTC))
        wb.insert("Offer", [dict(zip(("id", "shop", "price"), o, strict=True)) for o in offers])
        wb.insert("Visit", [{"shop": "ü", "page": p} for p in pages])
        if gone is not None:
            wb.delete("Offer", [dict(zip(("id", "shop", "price"), gone, strict=True))])
        wb.step()

    step(1, [(1, "ü", 5), (2, "ü", None), (3, "b", 9)], [1])
    step(2, [(4, "ü", 7), (5, "ü", 6)], [3, 2])
    step(3, [(5, "ü", 1)], [], (4, "ü", 7))
    step(4, [(1, "ü", None)], [9])
    step(5, [], [], (3, "b", 9))
    best = [(1, [5], []), (2, [7], []), (3, [], [6, 7]), (4, [], [5])]
    assert causes(wb, "Best", {"shop": "ü"}, "price") == best
    assert causes(wb, "Last", {"shop": "ü"}, "page") == [(1, [1], []), (2, [3], []), (4, [9], [])]
    assert causes(wb, "Dear", {"id": 5}, "price") == [(4, [], [5])]
    (row,) = wb.rows("Of")
    assert causes(wb, "Of", row, "price") == best
    wb.close()
