"""Queries in forms that the front end rewrites, and for DuckDB: SAME if equal, None if DuckDB has no such form."""

from __future__ import annotations

from tests import depth
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
    ("SELECT k FROM Keyed WHERE s NOT LIKE ANY ('a%', '%b')", "SELECT k FROM Keyed WHERE s NOT LIKE 'a%' OR s NOT "
                                                              "LIKE '%b'"),
    ("SELECT k FROM Keyed WHERE a = ANY (SELECT b FROM Bag) OR k <> ALL (SELECT a FROM Bag WHERE a IS NOT NULL)", SAME),
    ("SELECT k, decode(a, 1, 'one', NULL, 'none', 'many') AS w, decode(b, 2, 'two') AS v FROM Keyed",
     "SELECT k, CASE WHEN a = 1 THEN 'one' WHEN a IS NULL THEN 'none' ELSE 'many' END AS w, if(b = 2, 'two', NULL) AS "
     "v FROM Keyed"),
    ("SELECT array_join(array_agg(a ORDER BY t, k), ',') AS x, array_join(array_agg(a ORDER BY s DESC, k DESC), ',') "
     "AS y FROM Keyed",
     "SELECT coalesce(array_to_string(array_agg(a ORDER BY t NULLS FIRST, k) FILTER (WHERE a IS NOT NULL), ','), '') "
     "AS x, coalesce(array_to_string(array_agg(a ORDER BY s DESC NULLS LAST, k DESC) FILTER (WHERE a IS NOT NULL), ',"
     "'), '') AS y FROM Keyed"),
    ("SELECT b, listagg(s, '-') WITHIN GROUP (ORDER BY k) AS x, string_agg(DISTINCT s, '-' ORDER BY s) FILTER (WHERE "
     "k > 2) AS y FROM Keyed GROUP BY b",
     "SELECT b, string_agg(s, '-' ORDER BY k) AS x, string_agg(DISTINCT s, '-' ORDER BY s) FILTER (WHERE k > 2) AS y "
     "FROM Keyed GROUP BY b"),
    ("SELECT b, first_value(a ORDER BY s NULLS LAST, k) AS x, last_value(a ORDER BY t, k) FILTER (WHERE a > 1) AS y "
     "FROM Keyed GROUP BY b",
     "SELECT b, first(a ORDER BY s NULLS LAST, k) AS x, last(a ORDER BY t NULLS FIRST, k) FILTER (WHERE a > 1) AS y "
     "FROM Keyed GROUP BY b"),
    ("SELECT b, mode() WITHIN GROUP (ORDER BY a) AS x, percentile_disc(0.3) WITHIN GROUP (ORDER BY k) AS y, "
     "percentile_cont(0.3) WITHIN GROUP (ORDER BY k) FILTER (WHERE k > 2) AS z FROM Keyed GROUP BY b", None),
    ("SELECT * FROM (SELECT k, a, b FROM Keyed) PIVOT (sum(k) FOR a IN (1, 2 AS two, 3))", SAME),
    ("SELECT p.x_n, p.y_m FROM (SELECT k, a, b FROM Keyed) PIVOT (sum(k) AS n, max(k) AS m FOR (a, b) IN ((1, 2) AS x,"
     " (2, 3) AS y)) p",
     "SELECT sum(k) FILTER (a = 1 AND b = 2), max(k) FILTER (a = 2 AND b = 3) FROM Keyed"),
    ("SELECT b, `1`, `2` FROM (SELECT k, a, b FROM Keyed) PIVOT (count(*) FOR a IN (1, 2))", None),
    ("SELECT * FROM (SELECT k, a, b FROM Keyed) UNPIVOT (v FOR name IN (a, b AS bee))",
     "SELECT k, 'a' AS name, a AS v FROM Keyed WHERE a IS NOT NULL "
     "UNION ALL SELECT k, 'bee', b FROM Keyed WHERE b IS NOT NULL"),
    ("SELECT u.v, u.name FROM Bag UNPIVOT INCLUDE NULLS ((v, w) FOR name IN ((a, b), (b, a))) AS u",
     "SELECT a AS v, 'a_b' AS name FROM Bag UNION ALL SELECT b, 'b_a' FROM Bag"),
    ("SELECT a, b, count(*) AS n FROM Keyed GROUP BY a, b GROUPING SETS ((b), (a, b))",
     "SELECT NULL::INT AS a, b, count(*) AS n FROM Keyed GROUP BY b UNION ALL SELECT a, b, count(*) FROM Keyed GROUP "
     "BY ALL"),
    ("SELECT k, extract(epoch FROM t) AS e FROM Keyed", SAME),
    ("SELECT date_bin('7 minutes', t, TIMESTAMP '2024-03-01 00:00:01') AS b, count(*) AS n FROM Keyed GROUP BY 1",
     "SELECT time_bucket(INTERVAL '7 minutes', t, TIMESTAMPTZ '2024-03-01 00:00:01') AS b, count(*) AS n FROM Keyed "
     "GROUP BY 1"),
    ("SELECT k, t AT TIME ZONE 'Europe/Berlin' AS z, to_utc_timestamp(t, 'Asia/Tokyo') AS u FROM Keyed",
     "SELECT k, t AT TIME ZONE 'Europe/Berlin' AS z, (t AT TIME ZONE 'UTC') AT TIME ZONE 'Asia/Tokyo' AS u FROM Keyed"),
    ("SELECT DISTINCT ON (b) b, k, s AS w FROM Keyed ORDER BY b, w DESC NULLS LAST, k", SAME),
    ("SELECT DISTINCT ON (1) a + 1 AS c, max(k) AS m FROM Keyed GROUP BY a, b ORDER BY 1, m", SAME),
    ("SELECT r.id, k FROM range(1, 6, 2) r LEFT JOIN Keyed ON r.id = a",
     "SELECT r.range, k FROM range(1, 6, 2) r LEFT JOIN Keyed ON r.range = a"),
    ("SELECT k, g.g AS n FROM Keyed JOIN generate_series(3, 1, -1) AS g ON g.g = b",
     "SELECT k, b FROM Keyed WHERE b BETWEEN 1 AND 3"),
    ("SELECT k, x, y FROM Keyed LATERAL VIEW json_tuple(to_json(named_struct('a', a, 'b c', s)), 'a', 'b c') j AS x, y",
     "SELECT k, a::VARCHAR AS x, s AS y FROM Keyed"),
    ("SELECT (SELECT count(*) FROM Bag WHERE Bag.a = Keyed.k) AS c, count(*) AS n FROM Keyed GROUP BY 1", SAME),
    ("SELECT a IN (SELECT b FROM Bag) AS c, count(*) AS n FROM Keyed GROUP BY a IN (SELECT b FROM Bag) HAVING "
     "count(*) > 1", SAME),
    ("SELECT b, sum((SELECT count(*) FROM Bag WHERE Bag.a < Keyed.k)) AS c, count(*) FILTER (WHERE a IN (SELECT b "
     "FROM Bag)) AS n FROM Keyed GROUP BY b", SAME),
    ("SELECT k FROM Keyed o WHERE EXISTS (SELECT 1 FROM Bag p "
     "WHERE p.b = o.b AND EXISTS (SELECT 1 FROM Log q WHERE q.a = o.a AND q.b = p.b))", SAME),
    ("SELECT k FROM Keyed o WHERE NOT EXISTS (SELECT 1 FROM Bag p "
     "WHERE NOT EXISTS (SELECT 1 FROM Log q WHERE q.a = o.a AND q.b = p.b))", SAME),
    ("SELECT k, (SELECT count(*) FROM Bag p WHERE p.a > (SELECT min(q.a) FROM Log q WHERE q.b = o.b)) AS n FROM Keyed "
     "o", SAME),
    ("SELECT k FROM Keyed o WHERE a IN (SELECT a FROM (SELECT a FROM Bag WHERE Bag.b = o.b) p)", SAME),
    ("SELECT k, (SELECT count(*) FROM (SELECT DISTINCT a FROM Bag WHERE Bag.b = o.b) p) AS n FROM Keyed o", SAME),
    ("SELECT k, (SELECT max(q.m) FROM (SELECT b, max(a) AS m FROM Bag "
     "WHERE Bag.a < o.k GROUP BY b) q WHERE q.b = o.b) AS n FROM Keyed o", SAME),
    ("SELECT k FROM Keyed o WHERE EXISTS (SELECT a FROM Bag WHERE Bag.b = o.b UNION SELECT a FROM Log WHERE Log.a = "
     "o.k)", SAME),
    ("SELECT k FROM Keyed o WHERE k NOT IN (SELECT a FROM Bag WHERE a IS NOT NULL EXCEPT SELECT a FROM Log WHERE "
     "Log.b = o.b)", SAME),
    ("SELECT k, (SELECT sum(u.a) FROM (SELECT a FROM Bag "
     "WHERE Bag.b = o.b UNION ALL SELECT b FROM Log WHERE Log.a = o.k) u) AS s FROM Keyed o", SAME),
    ("SELECT window.start AS s, window.end AS e, b, count(*) AS n FROM Keyed x GROUP BY window(x.t, '7 minutes'), b",
     "SELECT w, w + INTERVAL '7 minutes', b, count(*) FROM (SELECT time_bucket(INTERVAL '7 minutes', t, TIMESTAMPTZ "
     "'1970-01-01') AS w, b FROM Keyed WHERE t IS NOT NULL) GROUP BY w, b"),
    ("SELECT k FROM Keyed o WHERE EXISTS (SELECT 1 FROM Bag t JOIN LATERAL (SELECT u.a + o.a AS x FROM Log u) l ON "
     "l.x = t.b)", SAME),
    ("SELECT k, a FROM Keyed ORDER BY k FETCH FIRST 3 ROWS ONLY", "SELECT k, a FROM Keyed ORDER BY k LIMIT 3"),
]  # fmt: skip


def form_queries() -> dict[str, Query]:
    """The queries by names of views; a quarter of them in `make test`."""
    named = {f"Form{n}": Query(ours, ours if theirs == SAME else theirs) for n, (ours, theirs) in enumerate(FORMS)}
    return dict(list(named.items())[:: depth.PART if depth.quick else 1])
