"""Queries that a random one once found wrong, made small, and forms that few random ones have."""

from __future__ import annotations

CHOSEN = (
    "SELECT id, CAST('2024-01-01' AS TIMESTAMP_NTZ) - INTERVAL 1 DAY 2 HOURS AS a FROM U",
    "SELECT U.id, e.r FROM U LEFT JOIN (SELECT i, named_struct('a', 1, 'b', coalesce(s, '')) AS r FROM E WHERE i > 2) "
    "e ON U.i = e.i",
    "SELECT id, nullif(named_struct('a', 1), struct(1 AS a)) AS r, array(CASE WHEN id > 2 THEN named_struct('a', 1) "
    "END) AS rs FROM U",
    "TABLE T |> SET i = h + 1, j = i * 2 |> SELECT id, i, j",
    "(SELECT * FROM U) |> DROP b, t |> AS p |> WHERE p.i > 0 |> EXTEND p.i + 1 AS k",
    "FROM U |> LEFT JOIN (SELECT i AS ui, max(id) AS uid FROM U GROUP BY i) ON i = ui |> AGGREGATE count(*) AS n, "
    "sum(uid) AS u GROUP BY s",
    "FROM U u |> WHERE u.i > 0 |> AGGREGATE sum(id) AS a, count(*) AS n GROUP BY u.s AS k, i |> WHERE n > 0 |> ORDER "
    "BY k, i",
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
    "SELECT id FROM U WHERE (id, i) NOT IN (SELECT i, id FROM T)",
    "SELECT id FROM U WHERE NOT (s, i) IN (SELECT s, i FROM E WHERE E.t < U.t)",
    "SELECT id FROM U WHERE (s, i) IN (SELECT s, i FROM E) OR id > 3",
    "SELECT id, if((id, i) IN (SELECT i, i FROM E WHERE E.t < U.t), 1, 2) AS c FROM U",
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
    "SELECT i, s, count(*) AS n FROM U GROUP BY i, s GROUPING SETS ((s))",
    "SELECT i, s, grouping_id(i, s) AS g, grouping(s) AS h FROM U GROUP BY CUBE (i, s)",
    "SELECT i AS a, i AS b, count(*) AS n FROM U GROUP BY 1, 2",
    "SELECT count(*) FILTER (WHERE i IN (SELECT i FROM E)) AS c FROM U",
    "SELECT id, try_to_timestamp(concat('2024', left(s, 0)), 'y') AS a, datediff(MICROSECOND, t, timestampadd(HOUR, 1,"
    " t)) AS b, try_add(-2147483648, i) AS c, CEIL(3.14115, -3) AS d, -9223372036854775808L AS e FROM U",
    "SELECT i, listagg(y) AS c FROM (SELECT i, y FROM T WHERE y = X'01') GROUP BY i",
    "SELECT DISTINCT array_append(array(), 1) AS a, date_sub(day, CAST(i AS STRING)) AS b FROM T",
    "SELECT * FROM (SELECT id AS a FROM U), (SELECT id AS b FROM T)",
    "SELECT id, (SELECT max(E.i) FROM E WHERE E.i = q.m['a']) AS c FROM T q",
    "SELECT id, day + make_ym_interval(0, i) AS a, extract(MONTH FROM make_ym_interval(1, i)) AS b, "
    "CAST(CAST(sum(make_ym_interval(0, i)) OVER (PARTITION BY s) AS INTERVAL MONTH) AS INT) AS c FROM T",
    "SELECT T.id, U.id AS j FROM T JOIN U ON T.i = U.i AND U.id > (SELECT min(id) FROM U)",
    "SELECT T.id, U.id AS j FROM T JOIN U ON U.i = (SELECT max(i) FROM E)",
    "SELECT T.id, U.id AS j FROM T JOIN U ON T.i = U.i AND U.id IN (SELECT i FROM E)",
    "SELECT id FROM T WHERE (SELECT max(i) FROM U) IN (SELECT i FROM E)",
    "SELECT id FROM T q WHERE (SELECT max(i) FROM U u WHERE u.id = q.id) IN (SELECT i FROM E)",
    "SELECT id FROM T WHERE ((SELECT max(i) FROM U), i) IN (SELECT i, i FROM E)",
    "SELECT i FROM T GROUP BY i HAVING NULL",
    "SELECT id, i & 1 << 1 AS a, i | 1 << 2 AS b, i ^ 1 << 1 AS c, id & 8 >>> 1 AS e, '1' || i - 1 AS f, "
    "i <=> j = b AS h, (i = j) = b AS k FROM T",
    "SELECT id, elt(1, y, y) AS a, arrays_zip(xs, T.ss)[0].ss AS b, to_date(s, 'yyyy-MM-dd') AS c FROM T WHERE s = "
    "'2024-03-01'",
    "SELECT id, try_to_binary(s, CAST(NULL AS STRING)) AS a, unix_timestamp(s, 'yyyy-MM-dd') AS b FROM T WHERE s = "
    "'2024-03-01'",
    "SELECT id, q.a, q.b FROM T LATERAL VIEW stack(2, i, 'a', j) q AS a, b",
    "SELECT i, max(j) AS j, count(l) AS l FROM T GROUP BY i HAVING j > 1 AND l IN (1, 2) AND j IN (SELECT j FROM T)",
    "SELECT upper(s) AS s, sum(i) AS i FROM T GROUP BY upper(s) HAVING lower(s) > 'a' AND abs(i) > 0",
    "SELECT count(i) AS i FROM U GROUP BY id HAVING i = 1",
    "SELECT max(U.n) AS i FROM T LEFT JOIN U USING (i) GROUP BY U.i HAVING i > 0",
    "SELECT U.i, count(*) AS c FROM T FULL JOIN U USING (i) GROUP BY ROLLUP(U.i) HAVING i > 0",
    "SELECT * FROM (SELECT j, i FROM T) t JOIN (SELECT d, i, s FROM U) u USING (i) JOIN (SELECT l, s FROM E) e USING "
    "(s)",
    "SELECT u.* FROM (SELECT j, i, s FROM T) t NATURAL FULL JOIN (SELECT d, s, i FROM U) u",
    "SELECT t.* FROM (SELECT j, s, i FROM T) t LEFT SEMI JOIN U USING (i, s)",
    "SELECT * FROM (SELECT j, i FROM T) t JOIN ((SELECT d, i AS k FROM U) u JOIN (SELECT l, i AS k FROM E) e USING "
    "(k)) ON t.i = k",
    "SELECT id, -NULL AS a, ~NULL AS b, NULL | NULL AS c, day + 7S AS e FROM T WHERE i > 0",
    "SELECT id FROM T WHERE NULL AND i > 1",
    "SELECT i FROM (SELECT i, j FROM T) t LEFT SEMI JOIN ((SELECT d, i FROM U) u JOIN (SELECT l, i FROM E) e USING "
    "(i)) ON t.i = u.i",
    "SELECT t.j, x.q FROM ((SELECT i, j FROM T) t JOIN (SELECT i, d FROM U) u USING (i)) JOIN ((SELECT i, l FROM E) e "
    "JOIN (SELECT i, n FROM U) v USING (i)) ON t.j = e.l JOIN (SELECT i, s AS q FROM T) x USING (i)",
)
