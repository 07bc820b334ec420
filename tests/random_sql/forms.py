"""Queries in forms that are rewritten in the front end, and in DuckDB's words: SAME where they are the same, None where it has none."""

from __future__ import annotations

from tests.random_sql.queries import Query

SAME = ""

FORMS: list[tuple[str, str | None]] = [
    ("SELECT * REPLACE (a + 1 AS a, upper(s) AS s) FROM Keyed", SAME),
    ("SELECT * EXCEPT (d) RENAME (a AS z) FROM Bag", "SELECT * EXCLUDE (d) RENAME (a AS z) FROM Bag"),
    ("SELECT k, smallint(a) AS i, string(b) AS j, decimal(b) AS n, double(b) AS x FROM Keyed",
     "SELECT k, a::SMALLINT AS i, b::VARCHAR AS j, b::DECIMAL(10,0) AS n, b::DOUBLE AS x FROM Keyed"),
    ("TABLE Keyed", "FROM Keyed"),
    ("SELECT k FROM Keyed WHERE (k, coalesce(b, 1)) IN ((1, 2), (2, 1), (3, 1))", SAME),
    ("SELECT k FROM Keyed WHERE (k, coalesce(b, 1)) < (coalesce(a, 3), 2)", SAME),
    ("SELECT count(DISTINCT (k, coalesce(b, 0))) AS n FROM Keyed", SAME),
    ("SELECT k FROM Keyed WHERE s LIKE ANY ('a%', '%b') OR s NOT LIKE ALL ('%|%', 'b')",
     "SELECT k FROM Keyed WHERE s LIKE 'a%' OR s LIKE '%b' OR (s NOT LIKE '%|%' AND s NOT LIKE 'b')"),
    ("SELECT k FROM Keyed WHERE s NOT LIKE ANY ('a%', '%b')", "SELECT k FROM Keyed WHERE s NOT LIKE 'a%' OR s NOT LIKE '%b'"),
    ("SELECT k FROM Keyed WHERE a = ANY (SELECT b FROM Bag) OR k <> ALL (SELECT a FROM Bag WHERE a IS NOT NULL)", SAME),
    ("SELECT k, decode(a, 1, 'one', NULL, 'none', 'many') AS w, decode(b, 2, 'two') AS v FROM Keyed",
     "SELECT k, CASE WHEN a = 1 THEN 'one' WHEN a IS NULL THEN 'none' ELSE 'many' END AS w, if(b = 2, 'two', NULL) AS v FROM Keyed"),
    ("SELECT k, a FROM Keyed ORDER BY k FETCH FIRST 3 ROWS ONLY", "SELECT k, a FROM Keyed ORDER BY k LIMIT 3"),
]  # fmt: skip


def form_queries() -> dict[str, Query]:
    """The queries by names of views."""
    return {f"Form{n}": Query(ours, ours if theirs == SAME else theirs) for n, (ours, theirs) in enumerate(FORMS)}
