"""A script whose views have each operator of a plan once at least: their plans are compared as text."""

from __future__ import annotations

SHOWN = """
CREATE TABLE T (id INT PRIMARY KEY, k STRING, x INT, d DOUBLE, xs ARRAY<INT>, m MAP<STRING, INT>);
CREATE STREAM S (k STRING, x INT, price DOUBLE, t TIMESTAMP NOT NULL, WATERMARK FOR t AS t - INTERVAL 5 SECONDS);
CREATE STREAM Q (k STRING, bid DOUBLE);

Chosen := SELECT id, x + 1 AS y, k FROM T WHERE x > 2 AND k LIKE 'a%';
Listed := SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, s);
Joined := SELECT a.id, b.x FROM T a LEFT JOIN T b ON a.x = b.id;
Both := SELECT a.id AS i, b.id AS j FROM T a FULL JOIN T b ON a.k = b.k;
Some := SELECT id FROM T a WHERE EXISTS (SELECT 1 FROM S WHERE S.k = a.k) AND x NOT IN (SELECT x FROM S
    WHERE x IS NOT NULL);
Grouped := SELECT k, sum(x) FILTER (WHERE d > 1) AS s, count(DISTINCT x) AS n FROM T GROUP BY k HAVING count(*) > 1;
Rolled := SELECT k, x, count(*) AS n FROM T GROUP BY ROLLUP (k, x);
Once := SELECT DISTINCT k, x FROM T;
Together := SELECT k FROM T UNION ALL SELECT k FROM S;
Apart := (SELECT k FROM T INTERSECT SELECT k FROM S) EXCEPT SELECT k FROM Q;
Over := SELECT id, lag(x) OVER (ORDER BY id) AS l,
  sum(x) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM T;
First := SELECT id, x FROM T ORDER BY x DESC NULLS FIRST, id LIMIT 3 OFFSET 1;
Best := DISTINCT S ON k ORDER BY t DESC;
Parts := SELECT id, e FROM T LATERAL VIEW explode(xs) q AS e;
Entries := SELECT id, a, b FROM T LATERAL VIEW OUTER explode(m) q AS a, b;
Minutes := SELECT window_end, k, count(*) AS n
  FROM TUMBLE(S, DESCRIPTOR(t), INTERVAL '1' MINUTE) GROUP BY window_end, k;
Hops := SELECT window_start, count(*) AS n
  FROM HOP(S, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY window_start;
Sessions := SELECT k, window_start, window_end, count(*) AS n
  FROM SESSION(S PARTITION BY k, DESCRIPTOR(t), INTERVAL '30' SECOND) GROUP BY k, window_start, window_end;
Emitted := SELECT window_end, count(*) AS n
  FROM TUMBLE(S, DESCRIPTOR(t), INTERVAL '1' MINUTE) GROUP BY window_end EMIT STREAM AFTER WATERMARK;
Delayed := SELECT k, count(*) AS n FROM S GROUP BY k EMIT STREAM AFTER DELAY INTERVAL '5' SECONDS;
Ordered := SELECT STREAM t, k, x FROM S;
Windows := FROM T AS r WINDOW BY w PARTITION BY r.k ORDER BY r.id TYPE SLIDING START AS s WHEN s.x < 3 END NEXT AS n
    WHEN n.x >= 3
  SELECT s.k AS k, LEN(w) AS n;
Last := SELECT k, sum(x) AS s, firing() AS f FROM S WINDOW (sliding, count(10), time(5), partitioned BY k) GROUP BY k;
Pairs := SELECT STREAM a.k, a.x, b.bid FROM S WINDOW (sliding, count(3)) AS a JOIN Q
    WINDOW (sliding, count(0)) AS b ON a.k = b.k;
Down := WITH RECURSIVE r AS (SELECT id, x FROM T WHERE x IS NULL UNION SELECT T.id, r.x FROM T JOIN r ON T.x = r.id)
    SELECT * FROM r;
"""
