"""What the static checks refuse, and the text they point at."""

from __future__ import annotations

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError, Severity
from belvedere.schema import Column, Schema
from belvedere.sqlpp.check import check_window_query
from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query

GHCN = Schema(
    (
        Column("station", pa.string()),
        Column("date", pa.date32()),
        Column("val", pa.int64()),
        Column("tags", pa.list_(pa.string())),
    )
)
HEAD = "FROM ghcn AS g WINDOW BY w PARTITION BY g.station ORDER BY g.date TYPE SLIDING "
REFUSED = [
    (HEAD + "START AS s WHEN g.val > 3 END SELECT w", "B2607", "g"),
    (HEAD + "START AS s WHEN s.val END SELECT w", "B3608", "s.val"),
    (HEAD + "START AS s END AS s SELECT w", "B2605", "s"),
    (HEAD + "START AS w END SELECT w", "B2605", "w"),
    (HEAD + "START WHEN e.val = 1 END AS e SELECT e", "B2607", "e"),
    (HEAD + "START AS s WHEN w[0].val = 1 END SELECT w", "B2606", "w"),
    (HEAD + "START END AS e WHEN w[0].val = 1 SELECT w", "B2606", "w"),
    (HEAD + "START END AS e WHEN MEDIAN(w.val) > 1 SELECT w", "B2606", "w"),
    (HEAD + "START AS s END AS e WHEN SUM(w.val - s.val) > 1 SELECT w", "B2607", "s"),
    (HEAD + "START END AS e WHEN MAX(w.station) = 'a' SELECT w", "B3605", None),
    (HEAD + "START END SELECT g.val", "B2601", "g"),
    (HEAD + "START AS s END SELECT AVG(s.val) AS a", "B3605", "AVG(s.val)"),
    (HEAD + "START END SELECT ARAY_AVG(w[*].val) AS a", "B2604", "ARAY_AVG(w[*].val)"),
    (HEAD + "START END SELECT w[*].val, w[0].val", "B2608", "w[0].val"),
    (HEAD + 'START AS s END AS e WHEN e.date - s.date > duration("P1M") SELECT w', "B3602", None),
    (HEAD + "START AS s END AS e WHEN e.station + s.val > 1 SELECT w", "B3606", None),
    (HEAD + "START AT p AS s END SELECT w", "B1601", "AS"),
    (HEAD + "START SELECT w", "B1601", "SELECT"),
    (HEAD + "ONLY START END SELECT w", "B1601", "START"),
    (HEAD + "TYPE TUMBLING START END SELECT w", "B1601", "TUMBLING"),
    ("FROM ghcn AS g WINDOW BY w TYPE SLIDING START END SELECT w", "B1601", "START"),
    ("FROM ghcn AS g WINDOW BY w ORDER BY g.date START END SELECT w", "B1601", "START"),
    (HEAD.replace("SLIDING", "SLIDDING") + "START END SELECT w", "B1601", "SLIDDING"),
    (HEAD + "START s WHEN s.val > 3 END SELECT w", "B1601", "s"),
    (HEAD + "START UNBOUNDED AS s END SELECT w", "B1601", "AS"),
    (HEAD + "START AS s END AS e WHEN e.val > 3", "B1601", ""),
    (HEAD + "START AS s END WHERE s.val > 3 SELECT w", "B1601", "WHERE"),
    ("FROM nothing AS g SELECT g", "B2601", "nothing"),
    ("FROM ghcn AS g, ghcn AS g SELECT g", "B2605", "g"),
    ('FROM ghcn AS g SELECT CASE WHEN g.val > 1 THEN 1 ELSE "a" END AS x', "B3614", None),
    ("FROM ghcn AS g GROUP BY g.station AS st SELECT g.val", "B2601", "g"),
]


@pytest.mark.parametrize(("text", "code", "place"), REFUSED)
def test_refused(text: str, code: str, place: str | None) -> None:
    errors = [d for d in check_window_query(text, {"ghcn": GHCN}) if d.severity == Severity.ERROR]
    assert errors[0].code == code
    if place is not None:
        span = errors[0].span
        assert span is not None
        assert text[span.start : span.end] == place


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "START END SELECT w",
        HEAD + "END AS e WHEN SUM(w.val) > 100 OR COUNT(*) = 9 OR COUNT(w) > e.val SELECT w",
        HEAD + "END AS e WHEN MAX(w.date) - e.date > INTERVAL 1 DAY WITHIN INTERVAL 7 DAYS SELECT w",
        HEAD + "END SELECT w",
        HEAD + "START UNBOUNDED ONLY END UNBOUNDED SELECT w",
        HEAD.replace("SLIDING", "TUMBLING") + "START AS s WHEN CASE WHEN s.val > 1 THEN TRUE END SELECT VALUE w",
        "FROM ghcn AS g WINDOW BY w AS (TYPE TUMBLING ORDER BY g.date DESC NULLS LAST START END) SELECT VALUE LEN(w)",
        "SELECT start.station AS type, label.val AS start FROM ghcn AS start JOIN ghcn AS label ON start.val = "
        "label.val",
        'FROM ghcn AS g SELECT VALUE {"a": g.tags[0], "b": [1, 2.5], "c": {}}',
        "FROM ghcn AS g GROUP BY g.station SELECT g.station, COUNT(*) AS n, AVG(g.val) AS a",
        "FROM (" + HEAD + "START AS s END SELECT s.val AS v) AS t WHERE t.v IS NOT MISSING SELECT VALUE t.v",
        HEAD + "LABEL AS l WHEN EVERY t IN l.tags SATISFIES t LIKE 'a%' START WHEN TRUE END SELECT l.val",
    ],
)
def test_accepted(text: str) -> None:
    assert [d for d in check_window_query(text, {"ghcn": GHCN}) if d.severity == Severity.ERROR] == []


@pytest.mark.parametrize(
    ("rest", "message", "hint"),
    [
        ("START s WHEN s.val > 3 END SELECT w", 'expected START AS before a variable, found "s"', None),
        (
            "START AS s END WHERE s.val > 3 SELECT w",
            'expected SELECT, found "WHERE"',
            "HAVING after it filters windows",
        ),
        (
            "START AS s WHEN SUM(w.val) > 3 END SELECT s",
            'the window "w" cannot be used in its own boundaries',
            "END AS e WHEN SUM(w.field) > 100",
        ),
        (
            "START AS s END AS e WHEN AVG(w.val * s.val) > 3 SELECT s",
            'variable "s" is not visible in AVG',
            "AVG reads the window's tuples alone",
        ),
        ("START AS s END AS e WHEN e.val > 3", "expected SELECT, found the end of the text", None),
        (
            "START AS s END SELECT ARRAY_AVG(w.val) AS a",
            'an array has no field "val": the path is always MISSING',
            "[*].val",
        ),
    ],
)
def test_what_it_says(rest: str, message: str, hint: str | None) -> None:
    try:
        (found,) = check_window_query(HEAD + rest, {"ghcn": GHCN})
    except BelvedereError as error:
        (found,) = error.diagnostics
    assert found.message == message
    assert hint is None or hint in str(found.hint)


SELECTED = HEAD + "START AS s END SELECT "


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (SELECTED + "s.val ILIKE 'a'", "ILIKE is not supported in a query with WINDOW BY", "LOWER"),
        (SELECTED + "s.val <=> 1 AS x", "<=> is not supported in a query with WINDOW BY", "IS UNKNOWN"),
        (SELECTED + ":p AS x", "a parameter is not supported in a query with WINDOW BY", "its value"),
        (SELECTED + "EXTRACT(YEAR FROM s.date) AS x", "EXTRACT is not supported in a query with WINDOW BY", "YEAR(d)"),
        (SELECTED + "DATEDIFF(s.date, s.date) AS x", "function DATEDIFF is not known", "a - b"),
        (
            SELECTED + "9223372036854775808 AS x",
            "9223372036854775808 is not supported: whole numbers have 64 bits",
            "9.2",
        ),
        (SELECTED + "s.val LIMIT -1", "LIMIT and OFFSET need a whole number that is not negative", None),
        (
            "FROM ghcn AS g GROUP BY g.station AS k SELECT k, COUNT(DISTINCT g.val) AS n",
            "DISTINCT in an aggregate is not supported in a query with WINDOW BY",
            "ARRAY_DISTINCT",
        ),
        (
            SELECTED + "s.val UNION ALL FROM ghcn AS g SELECT g.date",
            "the blocks of UNION ALL give results of different types",
            "one gives the columns val, another date",
        ),
        (
            SELECTED + "s.val AS x UNION ALL FROM ghcn AS g SELECT g.date AS x",
            "the blocks of UNION ALL give results of different types",
            'column "x" is a number in one and a date in another',
        ),
        (
            SELECTED.replace("SELECT ", "ORDER BY s.val SELECT s.val"),
            'expected SELECT, found "ORDER BY"',
            "after SELECT",
        ),
    ],
)
def test_what_it_says_of_other_dialects(text: str, message: str, hint: str | None) -> None:
    found = check_window_query(text, {"ghcn": GHCN})[0]
    assert found.message == message
    assert hint is None or hint in str(found.hint)


def test_the_least_whole_number_and_quotes_in_strings() -> None:
    text = SELECTED + '-9223372036854775808 AS a, \'it\'\'s\' AS b, "say ""so""" AS c, "it\'s" AS d'
    assert check_window_query(text, {"ghcn": GHCN}) == ()
    (row,) = compile_query(
        parse_window_query('FROM [1] AS z SELECT \'it\'\'s\' AS b, "say ""so""" AS c, "it\'s" AS d')
    )({})
    assert row == {"b": "it's", "c": 'say "so"', "d": "it's"}


def test_advice_is_no_error() -> None:
    text = HEAD + "START AS s END AS e WHEN e = s SELECT s.vall"
    assert [(d.code, d.severity) for d in check_window_query(text, {"ghcn": GHCN})] == [
        ("B3615", Severity.NOTICE),
        ("B2602", Severity.WARNING),
    ]
