"""Queries that a random one once found wrong, made small, and forms that few random ones have."""

from __future__ import annotations

CHOSEN = (
    "SELECT id, CAST('2024-01-01' AS TIMESTAMP_NTZ) - INTERVAL 1 DAY 2 HOURS AS a FROM U",
    "SELECT U.id, e.r FROM U LEFT JOIN (SELECT i, named_struct('a', 1, 'b', coalesce(s, '')) AS r FROM E WHERE i > 2) e ON U.i = e.i",
    "SELECT id, nullif(named_struct('a', 1), struct(1 AS a)) AS r, array(CASE WHEN id > 2 THEN named_struct('a', 1) END) AS rs FROM U",
    "TABLE T |> SET i = h + 1, j = i * 2 |> SELECT id, i, j",
    "(SELECT * FROM U) |> DROP b, t |> AS p |> WHERE p.i > 0 |> EXTEND p.i + 1 AS k",
    "FROM U |> LEFT JOIN (SELECT i AS ui, max(id) AS uid FROM U GROUP BY i) ON i = ui |> AGGREGATE count(*) AS n, sum(uid) AS u GROUP BY s",
    "FROM U u |> WHERE u.i > 0 |> AGGREGATE sum(id) AS a, count(*) AS n GROUP BY u.s AS k, i |> WHERE n > 0 |> ORDER BY k, i",
    "FROM U |> AGGREGATE sum(i) AS a",
    "FROM U |> AGGREGATE GROUP BY s",
    "FROM U |> SELECT DISTINCT s |> UNION ALL (SELECT s FROM E) |> WHERE s <> ''",
    "FROM U |> SELECT id, s |> EXCEPT (SELECT id, s FROM T)",
    "(SELECT id, i, s FROM U) |> PIVOT (sum(id) FOR i IN (1, 2))",
    "(SELECT id, i FROM U) |> UNPIVOT (v FOR name IN (id, i))",
    "FROM U |> ORDER BY id |> LIMIT 3 OFFSET 1",
    "SELECT id FROM U ORDER BY id LIMIT 1 + 1",
    "SELECT s, id FROM U ORDER BY ALL DESC LIMIT 3",
    "SELECT s FROM U UNION SELECT s FROM E ORDER BY ALL LIMIT 2",
    "SELECT id, mode() WITHIN GROUP (ORDER BY i DESC) FILTER (WHERE id > 1) OVER (PARTITION BY s) AS c FROM U",
    "SELECT id, listagg(s, ',') WITHIN GROUP (ORDER BY s) OVER (PARTITION BY i) AS c FROM U",
    "SELECT id, percentile_disc(0.5) WITHIN GROUP (ORDER BY i) OVER w AS c, "
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY i DESC) OVER w AS d FROM U WINDOW w AS (PARTITION BY s)",
    "SELECT id, s FROM U WHERE (i, i) IN (SELECT i, i FROM E)",
    "SELECT a.id, i FROM U a LEFT SEMI JOIN E b USING (i, s)",
    "SELECT a.id, s FROM U a ANTI JOIN E b USING (s)",
    "SELECT id, i FROM U SORT BY i",
    "SELECT id, i FROM U DISTRIBUTE BY i SORT BY id",
    "SELECT i, any(b) AS a, some(b) FILTER (WHERE id > 2) AS c FROM U GROUP BY i",
    "SELECT id, any(b) OVER (PARTITION BY i) AS c FROM U",
    "SELECT id, array_sort(xs, (x, y) -> CASE WHEN x < y THEN 1 WHEN x > y THEN -1 ELSE 0 END) AS c FROM T "
    "WHERE NOT exists(xs, x -> x IS NULL)",
    "SELECT id, map_zip_with(m, map('a', 5, 'z', 1), (k, v, w) -> coalesce(v, 0) + w) AS c FROM T",
    "SELECT DISTINCT i AS c8, (SELECT max(l) FROM E z WHERE z.i < U.i) c9 FROM U ORDER BY c8, c9 DESC LIMIT 3",
    "SELECT U.id FROM U ANTI JOIN E ON U.i = E.i AND 'a' IN (SELECT s FROM E)",
    "SELECT U.id FROM U SEMI JOIN E ON U.i = E.i AND U.s IN (SELECT s FROM T)",
    "SELECT U.id, E.l FROM U LEFT JOIN E ON U.i = E.i AND U.s IN (SELECT s FROM E)",
    "SELECT U.id, E.l FROM U FULL JOIN E ON U.i = E.i AND E.l > (SELECT min(l) FROM E)",
    "SELECT s, mode() WITHIN GROUP (ORDER BY i DESC) AS c, mode() WITHIN GROUP (ORDER BY i) AS d FROM U GROUP BY s",
    "SELECT id, q.a, q.b FROM T LATERAL VIEW stack(2, i, 'a', j) q AS a, b",
)
