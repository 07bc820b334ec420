"""WITH HISTORY: a view as of any epoch is what batch answered then; what is not known is told."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.workbench.workbench import Workbench
from tests.depth import STORES_AND_SEEDS
from tests.event_time.cases import at

SCRIPT = """
CREATE TABLE Items (item INT, name STRING, price DOUBLE, PRIMARY KEY (item)) WITH HISTORY;
CREATE STREAM _Bids (ts TIMESTAMP, item INT, amount INT, WATERMARK FOR ts AS ts - INTERVAL 5 MINUTES) LATE KEEP;
Totals := SELECT item, count(*) AS n, sum(amount) AS amount FROM _Bids GROUP BY item WITH HISTORY;
Best := SELECT b.item, i.name, b.amount FROM _Bids b JOIN Items i ON b.item = i.item ORDER BY b.amount DESC LIMIT 3
    WITH HISTORY;
Latest := DISTINCT _Bids ON item ORDER BY ts DESC WITH HISTORY;
Hours := SELECT FLOOR(ts TO HOUR) AS hour, max(amount) AS top FROM _Bids GROUP BY FLOOR(ts TO HOUR)
         EMIT AFTER WATERMARK
         WITH HISTORY;
Changes := SELECT item, sum(amount) AS amount FROM _Bids GROUP BY item EMIT STREAM WITH HISTORY;
Recent := SELECT item, amount FROM _Bids WHERE ts > now() - INTERVAL 30 MINUTES WITH HISTORY;
_Wide := SELECT i.item, t.n FROM Items i LEFT JOIN Totals t ON i.item = t.item WITH HISTORY;
Items.totals := JOIN Totals t ON t.item = _.item;
Items.latest := JOIN Latest l ON l.item = _.item LIMIT 1;
Plain := SELECT item, price * 2 AS twice FROM Items;
Items.plain := JOIN Plain p ON p.item = _.item;
Short := SELECT item, price FROM Items WITH HISTORY KEEP 5 MINUTES;
"""
VIEWS = ("Items", "Totals", "Best", "Latest", "Hours", "Changes", "Recent", "_Wide")


def bag(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(list(r.items())) for r in rows)


def feed(wb: Workbench, epoch: int, random: Random) -> None:
    wb.clock(f"2020-01-01 {8 + epoch // 6:02}:{epoch % 6 * 10:02}:00")
    if random.random() < 0.7 or epoch == 0:
        items = random.sample(range(5), 2)
        wb.insert("Items", [{"item": i, "name": random.choice("xyz"), "price": random.random()} for i in items])
    if random.random() < 0.3 and wb.rows("Items"):
        wb.delete("Items", [{"item": wb.rows("Items")[0]["item"]}])
    times = (at(f"{random.randint(7, 9):02}:{random.randint(0, 59):02}") for _ in range(random.randint(0, 4)))
    wb.insert("_Bids", [{"ts": t, "item": random.randint(0, 4), "amount": random.randint(1, 9)} for t in times])


@pytest.mark.parametrize(("store", "seed"), STORES_AND_SEEDS, indirect=["store"])
def test_a_view_as_of_any_epoch_is_what_batch_answered_then(executor: Any, store: str, seed: int) -> None:
    wb, random = Workbench(SCRIPT, store, spark=executor), Random(seed)
    epochs, oracle = (4, ("Totals", "Best")) if seed == 1 else (14, VIEWS)
    try:
        then: dict[int, dict[str, list[str]]] = {}
        for n in range(epochs):
            feed(wb, n, random)
            epoch = wb.step()
            then[epoch] = {v: bag(wb.batch(v) if v in oracle and n % 3 == 2 else wb.rows(v)) for v in VIEWS}
            if n == epochs // 2:
                wb.restart()
        for n, (epoch, views) in enumerate(then.items()):
            within = f"2020-01-01 {8 + n // 6:02}:{n % 6 * 10:02}:00"
            for view, rows in views.items():
                assert bag(wb.rows(view, as_of=epoch)) == rows, (view, epoch)
                assert bag(wb.rows(view, as_of=within)) == rows, (view, within)
        assert then[1] != then[epochs]
        check_api(wb, epochs)
        check_unknown(wb, epochs)
    finally:
        wb.close()


def check_api(wb: Workbench, epochs: int) -> None:
    query = """query ($then: AsOf) { items(asOf: $then, order: [{item: ASC}]) { item name totals { n } latest { amount
    } }
               totalsPage(asOf: $then, first: 2) { nodes { item } hasNextPage totalCount }
               idle: items(asOf: $then, filter: {totals: {none: {}}}, order: [{item: ASC}]) { item }
               totalsAggregate(asOf: $then) { count sum { n } } }"""
    for epoch in range(1, epochs + 1):
        answer = wb.graphql(query, {"then": {"epoch": epoch}})
        assert answer["extensions"]["epoch"] == epochs
        items = wb.rows("Items", as_of=epoch)
        totals = {r["item"]: r["n"] for r in wb.rows("Totals", as_of=epoch)}
        latest = {r["item"]: r["amount"] for r in wb.rows("Latest", as_of=epoch)}
        assert answer["data"]["items"] == [
            {
                "item": r["item"],
                "name": r["name"],
                "totals": {"n": totals[r["item"]]} if r["item"] in totals else None,
                "latest": {"amount": latest[r["item"]]} if r["item"] in latest else None,
            }
            for r in sorted(items, key=lambda r: r["item"])
        ]
        assert answer["data"]["totalsPage"]["hasNextPage"] == (len(totals) > 2)
        assert answer["data"]["totalsPage"]["totalCount"] == len(totals)
        assert answer["data"]["idle"] == [{"item": i} for i in sorted(r["item"] for r in items) if i not in totals]
        assert answer["data"]["totalsAggregate"] == [
            {"count": len(totals), "sum": {"n": sum(totals.values()) if totals else None}}
        ]
    by_time = wb.graphql('{ totals(asOf: {time: "2020-01-01T08:05:00Z"}) { item n amount } }')
    assert bag(by_time["data"]["totals"]) == bag(wb.rows("Totals", as_of=1))
    item = wb.rows("Items", as_of=1)[0]
    (error,) = wb.graphql("{ items(asOf: {epoch: 1}, filter: {plain: {some: {}}}) { item } }")["errors"]
    assert error["message"] == "`Plain` has no history"
    found = wb.graphql("query ($i: Int!) { itemsByKey(item: $i, asOf: {epoch: 1}) { name } }", {"i": item["item"]})
    assert found["data"]["itemsByKey"] == {"name": item["name"]}


def check_unknown(wb: Workbench, epochs: int) -> None:
    for as_of, code in ((0, "B7053"), (epochs + 1, "B7052"), ("2019-01-01", "B7053"), ("2031-01-01", "B7052")):
        with pytest.raises(BelvedereError, match=code):
            wb.rows("Totals", as_of=as_of)
    with pytest.raises(BelvedereError, match="B7051"):
        wb.rows("Plain", as_of=1)
    assert len(wb.rows("Short", as_of=epochs)) == len(wb.rows("Short"))
    with pytest.raises(BelvedereError, match="B7053"):
        wb.rows("Short", as_of=1)  # its versions were dropped
    wrong = {
        "{ totals(asOf: {epoch: 99}) { n } }": "epoch 99 is in the future",
        '{ totals(asOf: {time: "2019-01-01T00:00:00Z"}) { n } }': "does not reach back",
        "{ totals(asOf: {epoch: 0}) { n } }": "does not reach back to epoch 0",
        "{ totals(asOf: {}) { n } }": "takes an epoch or a time",
        '{ totals(asOf: {epoch: 1, time: "2020-01-01T08:00:00Z"}) { n } }': "takes an epoch or a time",
        "{ items(asOf: {epoch: 1}) { plain { twice } } }": "`Plain` has no history",
        "{ plain(asOf: {epoch: 1}) { twice } }": "Unknown argument 'asOf'",
    }
    for query, message in wrong.items():
        (error,) = wb.graphql(query)["errors"]
        assert message in error["message"]


SMALL = """
CREATE STREAM _Bids (ts TIMESTAMP, item STRING, amount DECIMAL(12, 2), WATERMARK FOR ts);
Totals := SELECT item, sum(amount) AS amount FROM _Bids GROUP BY item WITH HISTORY;
Hours := SELECT FLOOR(ts TO HOUR) AS hour, count(*) AS n FROM _Bids GROUP BY FLOOR(ts TO HOUR)
         EMIT STREAM AFTER WATERMARK WITH HISTORY;
"""


@pytest.mark.spark
@pytest.mark.postgres
def test_postgres_tells_former_states_and_what_was_emitted(spark: Any, postgres_url: str) -> None:
    wb = Workbench(SMALL, postgres_url, spark=spark)
    try:
        for n, (time, bound) in enumerate((("8:10", "8:30"), ("8:40", "9:00"))):
            wb.clock(at(f"10:0{n}"))
            wb.insert("_Bids", [{"ts": at(time), "item": "a", "amount": 1.25}])
            wb.bound("_Bids", at(bound))
            wb.step()
        answer = wb.graphql(
            '{ totals(asOf: {time: "2020-01-01T10:00:59Z"}) { item amount } hours(asOf: {epoch: 1}) { n } }'
        )
        assert answer["data"] == {"totals": [{"item": "a", "amount": "1.25"}], "hours": []}
        assert wb.graphql("{ totals(asOf: {epoch: 2}) { amount } }")["data"] == {"totals": [{"amount": "2.50"}]}
        assert [(r["n"], r["undo"], r["ptime"], r["ver"]) for r in wb.rows("Hours", as_of=2)] == [
            (2, False, at("10:01"), 0)
        ]
        then = wb.rows("Totals", as_of="2020-01-01T10:00:59Z")  # the store picks the versions
        assert then == [{"item": "a", "amount": Decimal("1.25")}]
        assert wb.engine.counts()["Hours$groups"] == 0
    finally:
        wb.close()


@pytest.mark.spark
def test_history_begins_where_a_changed_view_begins_again(spark: Any, tmp_path: Any, capsys: Any) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    first = (
        "CREATE TABLE T (k INT, v INT, PRIMARY KEY (k)); V := SELECT k, v FROM T WITH HISTORY; W := SELECT k FROM T;"
    )
    wb = Workbench(first, url, spark=spark)
    for n in range(2):
        wb.clock(at(f"8:0{n}"))
        wb.insert("T", [{"k": 1, "v": n}])
        wb.step()
    wb.close()
    changed = first.replace("SELECT k, v", "SELECT k, v + 10 AS v").replace("FROM T;", "FROM T WITH HISTORY;")
    wb = Workbench(changed, url, spark=spark)
    wb.clock(at("8:10"))
    wb.step()
    wb.insert("T", [{"k": 2, "v": 5}])
    wb.step()
    assert wb.rows("V", as_of=3) == [{"k": 1, "v": 11}]
    assert wb.rows("W", as_of=3) == [{"k": 1}]
    for view in ("V", "W"):
        with pytest.raises(BelvedereError, match="B7053"):
            wb.rows(view, as_of=2)
    wb.close()
    check_command_line(url, capsys)


def check_command_line(url: str, capsys: Any) -> None:
    query = "SELECT v.v, w.k FROM V v JOIN W w ON v.k = w.k ORDER BY w.k DESC"
    for more, expected in (
        ([], [{"v": 15, "k": 2}, {"v": 11, "k": 1}]),
        (["--as-of", "3"], [{"v": 11, "k": 1}]),
        (["--as-of", "2020-01-01T08:10:00"], [{"v": 15, "k": 2}, {"v": 11, "k": 1}]),
    ):
        assert run(["query", query, "--store", url, "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out) == expected
    for arguments, message in (
        ([query, "--store", url, "--as-of", "2"], "B7053"),
        ([query, "--store", url, "--as-of", "2031-01-01"], "B7052"),
        (["SELECT * FROM T", "--store", url, "--as-of", "3"], "B7051"),
        (["SELECT * FROM Tt", "--store", url], "B2001"),
    ):
        assert run(["query", *arguments]) == 1
        assert message in capsys.readouterr().err
    for wrong in ([query, "--as-of", "2"], [query, "--store", url, "--as-of", "soon"]):
        assert run(["query", *wrong]) == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE STREAM S (a INT) KEEP 1 DAY WITH HISTORY", "B4031"),
        ("CREATE STREAM S (a INT); S.b := a + 1 WITH HISTORY;", "B4031"),
        ("CREATE STREAM S (a INT); CREATE SUBSCRIPTION X ON ADD AS SELECT a FROM S WITH HISTORY;", "B4031"),
        ("CREATE STREAM S (a INT); V := SELECT a FROM S WITH HISTORY KEEP 1 MONTH;", "B5002"),
        ("CREATE STREAM S (a INT); V := SELECT a FROM S WITH HISTORY KEEP 7 DAYS please;", "B1001"),
    ],
)
def test_history_is_of_views_and_inputs(text: str, code: str) -> None:
    assert code in {d.code for d in compile_script(text).diagnostics}


def test_a_table_with_a_new_column_keeps_its_history() -> None:
    compiled = compile_script(
        "CREATE STREAM S (a INT); V := SELECT a, count(*) AS n FROM S GROUP BY a WITH HISTORY KEEP 7 DAYS; V.twice := "
        "n * 2;"
    )
    assert dict(compiled.catalog.histories) == {"V": 7 * 86_400_000_000}


def test_history_comes_along_with_an_import(tmp_path: Path) -> None:
    text = (
        "CREATE STREAM S (a INT);\nV := SELECT a, count(*) AS n FROM S GROUP BY a WITH HISTORY;\nW := SELECT n "
        "FROM V WITH HISTORY;"
    )
    (tmp_path / "base.sqrl").write_text(text)
    compiled = compile_script("IMPORT base.V;\nX := SELECT n FROM V;", path=tmp_path / "main.sqrl")
    assert compiled.ok, compiled.diagnostics
    assert dict(compiled.catalog.histories) == {"V": None}
