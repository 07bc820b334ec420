"""Bounds through plans: what a bound on an input's column says of a query's columns; and that it is never too high."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from sqlglot import exp, parse_one

from belvedere.compiler import compile_script
from belvedere.plan.bounds import bounds_of, event_time_columns, grouping_columns
from belvedere.plan.expressions import column
from belvedere.plan.monotone import FOREVER, NEVER, combine, monotone, reach
from belvedere.plan.operators.nodes import Node
from belvedere.plan.rewrites.rewrite import inline
from belvedere.values.instants import microseconds
from tests.event_time.cases import at

INPUTS = """
CREATE STREAM Bid (bidtime TIMESTAMP, price INT, item STRING, WATERMARK FOR bidtime);
CREATE STREAM Ask (asktime TIMESTAMP, price INT, item STRING, WATERMARK FOR asktime);
CREATE TABLE Items (item STRING, name STRING, PRIMARY KEY (item));
"""
Q7 = """
Q := SELECT MaxBid.wstart, MaxBid.wend, Bid.bidtime, Bid.price, Bid.item
FROM Bid, (SELECT MAX(T.price) maxPrice, T.wstart wstart, T.wend wend
           FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTE) T
           GROUP BY T.wend) MaxBid
WHERE Bid.price = MaxBid.maxPrice AND Bid.bidtime >= MaxBid.wend - INTERVAL '10' MINUTE AND Bid.bidtime < MaxBid.wend;
"""


def plan(query: str) -> Node:
    compiled = compile_script(INPUTS + query)
    assert compiled.ok, compiled.diagnostics
    views = compiled.catalog.views
    return inline(views["Q"].plan, lambda i: views[i].plan if i in views else None)


def shown(node: Node, bid: str | None, ask: str | None = None) -> dict[str, str]:
    """The bounds of visible columns as clock times."""
    known = {
        "Bid": {"bidtime": NEVER if bid is None else microseconds(at(bid))},
        "Ask": {"asktime": NEVER if ask is None else microseconds(at(ask))},
        "Items": None,
    }
    found = bounds_of(node, known.__getitem__)
    names = [c.name for c in node.schema.visible]
    return {n: clock(b) for n, b in found.items() if n in names}


def clock(bound: int) -> str:
    if bound in (NEVER, FOREVER):
        return "never" if bound == NEVER else "forever"
    seconds, micros = divmod(bound - microseconds(at("0:00")), 1_000_000)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}"
    return text + (f":{seconds % 60:02}" if seconds % 60 else "") + (f"+{micros}us" if micros else "")


TUMBLE = "Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES)"
HOP = (
    "Hop(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '5' "
    "MINUTES)"
)


@pytest.mark.parametrize(
    ("query", "bound", "expected"),
    [
        ("SELECT * FROM Bid", "8:05", {"bidtime": "8:05"}),
        ("SELECT item FROM Bid", "8:05", {}),
        ("SELECT bidtime + INTERVAL '100' SECOND AS t FROM Bid WHERE price > 2", "8:05", {"t": "8:06:40"}),
        ("SELECT bidtime + INTERVAL 1 MONTH AS t FROM Bid", None, {"t": "never"}),
        ("SELECT FLOOR(bidtime TO HOUR) AS t, CAST(bidtime AS DATE) AS d FROM Bid", "8:05", {"t": "8:00", "d": "0:00"}),
        ("SELECT month(bidtime) AS t, year(bidtime) AS y FROM Bid", "2020-03-05 08:00", {"t": "1440:00", "y": "0:00"}),
        ("SELECT week(bidtime) AS t FROM Bid", "2020-01-09", {"t": "120:00"}),
        (f"SELECT wstart, wend FROM {TUMBLE}", "8:05", {"wstart": "8:00", "wend": "8:10"}),
        (f"SELECT wstart, wend FROM {TUMBLE}", "8:20", {"wstart": "8:20", "wend": "8:30"}),
        (f"SELECT wstart, wend FROM {HOP}", "8:07", {"wstart": "8:00", "wend": "8:10"}),
        (f"SELECT wstart, wend FROM {HOP}", "8:10", {"wstart": "8:05", "wend": "8:15"}),
        (f"SELECT wend, SUM(price) AS p, max(bidtime) AS m FROM {TUMBLE} GROUP BY wend", "8:12", {"wend": "8:20"}),
        (f"SELECT item, SUM(price) AS p FROM {TUMBLE} GROUP BY item", "8:12", {}),
        (
            "SELECT wstart, wend FROM Cumulate(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), "
            "dur => INTERVAL '1' HOUR, hopsize => INTERVAL '10' MINUTES)",
            "8:12",
            {"wstart": "8:00", "wend": "8:20"},
        ),
        (
            "SELECT bidtime, wstart, wend FROM Session(data => TABLE(Bid), timecol => DESCRIPTOR(bidtime), "
            "key => DESCRIPTOR(item), gap => INTERVAL '10' MINUTES)",
            "8:12",
            {"wend": "8:12"},
        ),
        ("SELECT b.bidtime, i.name FROM Bid b JOIN Items i ON b.item = i.item", "8:12", {"bidtime": "8:12"}),
        ("SELECT DISTINCT bidtime, item FROM Bid", "8:12", {"bidtime": "8:12"}),
        ("SELECT bidtime, sum(price) OVER (PARTITION BY bidtime) AS p FROM Bid", "8:12", {"bidtime": "8:12"}),
        ("SELECT bidtime, sum(price) OVER (ORDER BY price) AS p FROM Bid", "8:12", {}),
        (
            "SELECT bidtime, sum(price) OVER (ORDER BY bidtime RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT "
            "ROW) AS p FROM Bid",
            "8:12",
            {"bidtime": "8:12"},
        ),
        ("SELECT bidtime, lead(price) OVER (ORDER BY bidtime NULLS LAST) AS p FROM Bid", "8:12", {}),
        ("SELECT bidtime, price FROM Bid ORDER BY price LIMIT 3", "8:12", {}),
    ],
)
def test_one_input(query: str, bound: str, expected: dict[str, str]) -> None:
    assert shown(plan(f"Q := {query};"), bound) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT bidtime AS t FROM Bid UNION ALL SELECT asktime FROM Ask", {"t": "8:05"}),
        ("SELECT b.bidtime, a.asktime FROM Bid b JOIN Ask a ON b.item = a.item", {}),
        (
            "SELECT b.bidtime, a.asktime FROM Bid b JOIN Ask a ON b.bidtime = a.asktime",
            {"bidtime": "8:05", "asktime": "8:05"},
        ),
        (
            "SELECT b.bidtime, a.asktime FROM Bid b JOIN Ask a "
            "ON b.item = a.item AND a.asktime BETWEEN b.bidtime - INTERVAL 1 MINUTE AND b.bidtime + INTERVAL 2 MINUTES",
            {"bidtime": "8:05", "asktime": "8:04"},
        ),
        (
            "SELECT b.bidtime FROM Bid b LEFT JOIN Ask a "
            "ON b.item = a.item AND a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 5 MINUTES",
            {"bidtime": "8:04"},
        ),
        ("SELECT bidtime AS t FROM Bid EXCEPT SELECT asktime FROM Ask", {"t": "8:05"}),
        # the later of two times is above the bound of whichever side a change comes from ...
        (
            "SELECT CASE WHEN a.asktime IS NULL THEN NULL WHEN b.bidtime IS NULL THEN NULL ELSE greatest(b.bidtime, "
            "a.asktime) END AS t FROM Bid b JOIN Ask a ON a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 5 "
            "MINUTES",
            {"t": "8:05"},
        ),
        # ... but not where one may be NULL, which greatest() skips
        (
            "SELECT greatest(b.bidtime, a.asktime) AS t "
            "FROM Bid b JOIN Ask a ON a.asktime BETWEEN b.bidtime AND b.bidtime + INTERVAL 5 MINUTES",
            {"t": "8:04"},
        ),
        (
            "SELECT greatest(b.bidtime, a.asktime) AS t FROM Bid b FULL JOIN Ask a ON a.asktime = b.bidtime",
            {"t": "8:05"},
        ),
    ],
)
def test_two_inputs(query: str, expected: dict[str, str]) -> None:
    assert shown(plan(f"Q := {query};"), "8:05", "8:09") == expected


def test_the_papers_query_completes_a_window_when_the_watermark_reaches_its_end() -> None:
    node = plan(Q7)
    assert shown(node, "8:08") == {"wend": "8:08+1us", "bidtime": "8:00"}
    assert shown(node, "8:10")["wend"] == "8:10+1us"
    known = {"Bid": {"bidtime": NEVER}}
    assert grouping_columns(node, known.__getitem__) == {"wend"}
    assert event_time_columns(node, known.__getitem__) == {"wend", "bidtime"}


def test_an_unmatched_row_of_an_outer_join_has_its_own_bounds_alone() -> None:
    query = (
        "Q := SELECT b.bidtime, b.t FROM (SELECT bidtime, item, to_timestamp(item) AS t FROM Bid) b {} JOIN Items i "
    )
    condition = "ON i.item = b.item AND b.t >= b.bidtime;"
    assert shown(plan(query.format("") + condition), "8:05") == {"bidtime": "8:05", "t": "8:05"}
    assert shown(plan(query.format("LEFT") + condition), "8:05") == {"bidtime": "8:05"}


def test_grouping_columns_are_windows_and_event_time_keys() -> None:
    known = {"Bid": {"bidtime": NEVER}, "Items": None}.__getitem__
    assert grouping_columns(plan(f"Q := SELECT * FROM {TUMBLE};"), known) == {"wstart", "wend"}
    assert grouping_columns(plan("Q := SELECT bidtime, item FROM Bid;"), known) == frozenset()
    hourly = (
        "Q := SELECT FLOOR(bidtime TO HOUR) AS h, item, count(*) AS n FROM Bid GROUP BY FLOOR(bidtime TO HOUR), item;"
    )
    assert grouping_columns(plan(hourly), known) == {"h"}
    exact = "Q := SELECT bidtime, count(*) AS n FROM Bid GROUP BY bidtime;"
    assert grouping_columns(plan(exact), known) == {"bidtime"}


def expressions() -> list[exp.Expr]:
    texts = [
        "t",
        "t + INTERVAL '90' MINUTE",
        "t - INTERVAL '2' DAY",
        "t + INTERVAL '1' MONTH",
        "t - INTERVAL '2' YEAR",
        "date_trunc('HOUR', t)",
        "date_trunc('WEEK', t)",
        "date_trunc('MONTH', t)",
        "date_trunc('QUARTER', t + INTERVAL '40' DAY)",
        "date_trunc('YEAR', t) + INTERVAL '3' HOUR",
        "CAST(t AS DATE)",
    ]

    def named(node: Any) -> Any:
        return column("t") if isinstance(node, exp.Column) else node

    return [parse_one(t, dialect="spark").transform(named) for t in texts]


def test_functions_of_one_column_never_fall() -> None:
    random = Random(3)
    for expr in expressions():
        found = monotone(expr)
        assert found is not None, expr
        times = sorted(random.randrange(-(10**15), 4 * 10**15) for _ in range(300))
        moved = [found(t) for t in times]
        assert moved == sorted(moved), expr
        if found.above is not None:
            assert all(m <= t + found.above for m, t in zip(moved, times, strict=True)), expr


def test_expressions_stay_within_reach_of_their_column() -> None:
    random = Random(4)
    for expr in expressions():
        found, within = monotone(expr), reach(expr)
        assert found is not None
        calendar = any(i.args["unit"].name in ("MONTH", "YEAR") for i in expr.find_all(exp.Interval))
        assert (within is None) == calendar, expr
        for time in (random.randrange(-(10**15), 4 * 10**15) for _ in range(100)):
            assert within is None or found(time) <= time + within[1], expr
    assert reach(parse_one("minute(t)", dialect="spark")) is None


def test_what_is_not_monotone_has_no_bound() -> None:
    for text in ("minute(t)", "-t", "t % 7", "date_format(t, 'HH')", "INTERVAL '1' DAY"):
        assert monotone(parse_one(text, dialect="spark").transform(lambda n: n)) is None, text
    both = {"a": 10, "b": 20}
    assert combine(both, exp.Greatest(this=column("a"), expressions=[column("b")]), {"a", "b"}) == 20
    assert combine(both, exp.Greatest(this=column("a"), expressions=[column("b")])) == 10  # a NULL is left out
    assert combine(both, exp.Least(this=column("a"), expressions=[column("b")])) == 10
    assert combine({"a": 10}, exp.Coalesce(this=column("a"), expressions=[column("b")])) is None
