"""Joins of two SPL windows: their spellings, their plans, and what cannot be joined."""

from __future__ import annotations

import pytest

from belvedere.plan.plan_text import plan_text
from belvedere.syntax.fmt.script_layout import format_script
from tests.lang_lower.test_spl import codes, found, node_of, plan_of

ON = "JOIN quotes WINDOW (sliding, count(1), partitioned BY sym) AS q ON t.sym = q.sym"
JOINS = [
    f"V := SELECT t.sym, bid FROM trades WINDOW (sliding, time(10)) AS t {ON}",
    f"V := SELECT t.sym, bid FROM trades WINDOW (sliding, time(10), count(1)) AS t {ON}",
    f"V := SELECT STREAM t.sym, bid FROM trades WINDOW (sliding, time(10)) AS t {ON}",
    "V := SELECT t.sym, bid FROM trades AS t JOIN quotes AS q ON t.sym = q.sym\nWINDOW t : sliding, time(10); q : "
    "sliding, count(1), partitioned PARTITION BY sym",
    "V := SELECT t.sym, bid FROM trades AS t WITH (window = 'sliding, time(10)') JOIN quotes AS q WITH (window = "
    "'sliding, count(1), partitioned', partitionBy = 'sym') USING (sym)",
]


@pytest.mark.parametrize("text", JOINS)
def test_joins_of_windows_in_every_spelling(text: str) -> None:
    assert plan_of(text) == plan_of(JOINS[0])
    once = format_script(text)
    assert format_script(once) == once
    assert plan_of(once) == plan_of(text)


def test_the_plan_of_a_join() -> None:
    text = (
        "V := SELECT t.sym AS s, firing() AS f FROM (SELECT * FROM trades WHERE qty > 1) WINDOW (sliding, delta(v,"
        f" 3)) AS t FULL {ON}"
    )
    plan = plan_of(text)
    assert plan.schema.key == ("_seq",)
    assert plan_text(plan).splitlines()[:2] == [
        "project s = t.sym, f = _firing, (_fired), (_firing), (_seq)",
        "  spl full join of (sliding, delta(t.v, 3), count(1)) and (sliding, count(1), count(1) partitioned by q.sym) "
        "on t.sym = q.sym",
    ]


def test_windows_over_the_results_of_a_join() -> None:
    node = node_of(f"{JOINS[2]}; W := SELECT count(*) AS n FROM V WINDOW (tumbling, punct())", "W")
    assert (node.order, node.clock, node.punctuation) == ("V._seq", "V._fired", "V._firing")


NOT_JOINED = [
    ("trades WINDOW (tumbling, count(5)) AS t", "B5216", "tumbling"),
    ("trades WINDOW (sliding, count(5), count(2)) AS t", "B5216", "count(2)"),
    ("trades WINDOW (sliding, count(5), partitioned BY sym, partitionAge(5)) AS t", "B5216", "partitionAge(5)"),
    ("trades WINDOW (sliding, count(5), aggregateIncompleteWindows) AS t", "B5216", "aggregateIncompleteWindows"),
    ("trades WINDOW (timeInterval, intervalDuration(5)) AS t", "B5216", "timeInterval"),
    ("trades WINDOW (sliding, count(5), partitioned BY bid) AS t", "B2002", "bid"),
    ("prices WINDOW (sliding, count(5)) AS t", "B5211", "prices WINDOW (sliding, count(5)) AS t"),
]


@pytest.mark.parametrize(("table", "code", "place"), NOT_JOINED)
def test_windows_that_cannot_be_joined(table: str, code: str, place: str) -> None:
    ((shown, at, hint),) = found(f"V := SELECT t.sym, bid FROM {table} {ON}")
    assert (shown, at) == (code, place)
    assert hint


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT t.sym FROM trades AS t {ON}",
        f"SELECT count(*) AS n FROM trades WINDOW (sliding, count(5)) AS t {ON}",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} WHERE bid > 1",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} GROUP BY t.sym",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} ORDER BY bid LIMIT 2",
        f"SELECT DISTINCT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON}",
        f"SELECT row_number() OVER (ORDER BY bid) AS n FROM trades WINDOW (sliding, count(5)) AS t {ON}",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t LEFT SEMI {ON}",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} AND t.ts > now()",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} AND bid IN (SELECT price FROM prices)",
        f"SELECT t.sym FROM trades WINDOW (sliding, count(5)) AS t {ON} JOIN prices AS p ON p.sym = t.sym",
    ],
)
def test_what_cannot_stand_beside_a_join_of_windows(text: str) -> None:
    assert codes(f"V := {text}") == ["B5214"]


def test_panes_have_no_order_among_rows() -> None:
    panes = "P := SELECT STREAM sym, count(*) AS n FROM trades WINDOW (timeInterval, intervalDuration(5)) GROUP BY sym"
    assert codes(f"{panes}; V := SELECT t.n, bid FROM P WINDOW (sliding, count(1)) AS t {ON}") == ["B5216"]
