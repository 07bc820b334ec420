"""What Spark refuses when it first sees a query is refused by `check`; long chains compile."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script
from tests.spark_grammar.samples import SCRIPT

REFUSED = [
    ("SELECT id FROM T WHERE NULL", "B3002"),
    ("SELECT id FROM T WHERE coalesce(NULL, NULL)", "B3002"),
    ("SELECT T.id FROM T JOIN U ON NULL", "B3002"),
    ("SELECT T.id FROM T LEFT JOIN U ON NULL", "B3002"),
    ("SELECT id, CASE WHEN NULL THEN 1 END AS x FROM T", "B3002"),
    ("SELECT count(*) FILTER (WHERE NULL) AS n FROM T", "B3002"),
    ("SELECT array_agg(DISTINCT m) AS x FROM T", "B3002"),
    ("SELECT to_binary(s, ss[0]) AS x FROM T", "B3071"),
    ("SELECT listagg(y, X'42') AS x FROM T", "B3002"),
    ("SELECT listagg(y, 'a') AS x FROM T", "B3002"),
    ("SELECT listagg(s, X'42') AS x FROM T", "B3002"),
    ("SELECT T.id, e.k FROM T, LATERAL (SELECT k FROM explode(T.m) AS x(k, v)) e", "B3022"),
    ("SELECT * FROM T GROUP BY 1", "B3042"),
    ("SELECT id FROM T ORDER BY -1", "B3042"),
    ("SELECT count(*) AS n FROM T GROUP BY -1", "B3042"),
    ("SELECT from_json(s, 'a NOSUCH') AS x FROM T", "B3003"),
    ("SELECT from_json(s, 'INT') AS x FROM T", "B3003"),
    ("SELECT from_json(s, 'a INT', 'x') AS x FROM T", "B3002"),
    ("SELECT from_json(s, 'a INT', map('mode', 1)) AS x FROM T", "B3002"),
    ("SELECT from_json(s, 'a INT', map('mode', s)) AS x FROM T", "B3002"),
    ("SELECT from_csv(s, 'a NOSUCH') AS x FROM T", "B3003"),
    ("SELECT from_csv(s, 'a INT', array('x')) AS x FROM T", "B3002"),
    ("SELECT to_json(r, 'x') AS x FROM T", "B3002"),
    ("SELECT to_csv(r, map('a', 1)) AS x FROM T", "B3002"),
    ("SELECT schema_of_json('[1]', 'x') AS x FROM T", "B3002"),
    ("SELECT id FROM range(INTERVAL '1' DAY, INTERVAL '2' DAY)", "B3002"),
    ("SELECT i FROM T JOIN U USING (i) JOIN E ON E.i = T.i", "B2003"),
    ("SELECT i FROM (SELECT i FROM T) a, (SELECT i FROM T) b JOIN E USING (i)", "B2002"),
    ("SELECT i FROM (U a JOIN U b USING (i)) JOIN (U c JOIN U d USING (i)) ON TRUE", "B2003"),
    ("SELECT i AS k FROM T JOIN U USING (i) LATERAL VIEW explode(xs) x AS i", "B2003"),
    ("SELECT rank() OVER (ORDER BY i) AS j FROM T GROUP BY i HAVING j > 1", "B3038"),
    ("SELECT max(i) AS i FROM T GROUP BY s HAVING T.i > 1", "B3030"),
    ("SELECT FLOOR(t TO MICROSECOND) AS x FROM T", "B3048"),
]
TAKEN = [
    "SELECT i FROM T GROUP BY i HAVING NULL",
    "SELECT id, -NULL AS a, ~NULL AS b, NULL | NULL AS c, day + 7S AS e FROM T WHERE NULL AND i > 1 LIMIT +1",
    "SELECT id, if(NULL, 1, 2) AS x, filter(xs, x -> NULL) AS y FROM T WHERE i = 1 OR NULL OR NOT NULL",
    "SELECT from_json(s, 'a INT', map('mode', 'FAIL' || 'FAST')) AS x FROM T",
    "SELECT from_json(s, 'ARRAY<INT>') AS x, from_json(s, 'STRUCT<a: INT>') AS y, from_json(s, 'MAP<STRING, INT>') AS "
    "z FROM T",
    "SELECT try_to_binary(NULL, CAST(NULL AS STRING)) AS x, to_binary(s, concat('he', 'x')) AS y FROM T",
    "SELECT listagg(y) AS x, listagg(s, ',') AS z FROM T",
    "SELECT T.id, k FROM T JOIN LATERAL explode(m) AS e(k, v) ON true",
    "WITH RECURSIVE w AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM w WHERE n < 5) SELECT * FROM w",
    "SELECT * FROM range(1, 5, 2)",
    "SELECT T.id, U.id AS j FROM T JOIN U ON T.i = (SELECT max(i) FROM E e WHERE e.i = U.i)",
    "SELECT id FROM T WHERE EXISTS (SELECT 1 FROM U) IN (SELECT b FROM U)",
    "SELECT id FROM T q WHERE EXISTS (SELECT 1 FROM U JOIN E x ON U.i = x.i AND U.id = q.id AND U.i IN (SELECT j FROM "
    "T))",
]


def codes(query: str) -> list[str]:
    return [d.code for d in compile_script(f"{SCRIPT}V := {query};").diagnostics if d.severity == "error"]


@pytest.mark.parametrize(("query", "code"), REFUSED)
def test_refused_as_by_spark(query: str, code: str) -> None:
    assert codes(query) == [code]


@pytest.mark.parametrize("query", TAKEN)
def test_taken_as_by_spark(query: str) -> None:
    assert codes(query) == []


CHAINS = {
    "OR": "SELECT id FROM T WHERE " + " OR ".join(f"i = {n}" for n in range(250)),
    "AND": "SELECT id FROM T WHERE " + " AND ".join(f"s NOT LIKE '%{n}'" for n in range(1000)),
    "+": "SELECT id, " + " + ".join(["i"] * 500) + " AS x FROM T",
    "||": "SELECT id, " + " || ".join(["s"] * 500) + " AS x FROM T",
    "UNION ALL": " UNION ALL ".join(f"SELECT id, {n} AS n FROM T" for n in range(300)),
    "IN": "SELECT id FROM T WHERE i IN (" + ", ".join(map(str, range(2000))) + ")",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_long_chains_compile(chain: str) -> None:
    assert codes(CHAINS[chain]) == []


def test_what_is_deeper_than_a_tree_can_be_walked_is_told() -> None:
    assert codes("SELECT id, " + "-(" * 4000 + "i" + ")" * 4000 + " AS x FROM T") == ["B1015"]
