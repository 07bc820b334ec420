"""Forms of Spark and other systems with their equivalents: after every epoch both equal batch, on both stores."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench
from tests import depth
from tests.depth import at_night

TABLES = """
CREATE TABLE T (id INT, k INT, v INT, s STRING, at TIMESTAMP, js STRING, PRIMARY KEY (id));
CREATE TABLE U (id INT, k INT, v INT, at TIMESTAMP, PRIMARY KEY (id));
"""


def some(condition: str, where: str = "TRUE") -> str:
    """Whether a condition is TRUE for some row of U; NULL where NULLs leave it open."""
    cases = f"CASE WHEN bool_or({condition}) THEN TRUE WHEN count(*) > count({condition}) THEN NULL ELSE FALSE END"
    return f"(SELECT {cases} FROM U WHERE {where})"


def every(condition: str, where: str = "TRUE") -> str:
    """Whether it is TRUE for all rows."""
    cases = f"CASE WHEN NOT bool_and({condition}) THEN FALSE WHEN count(*) > count({condition}) THEN NULL ELSE TRUE END"
    return f"(SELECT {cases} FROM U WHERE {where})"


FORMS: dict[str, tuple[str, str]] = {
    "JsonText": (
        "SELECT id, js ->> 'a' AS a, js:a.b AS b, js:xs[1] AS x, js -> 'a' ->> 'b' AS c, js ->> '$.a.b' AS d, "
        "upper(js ->> 'c') AS e, js:`é x` AS f FROM T",
        "SELECT id, get_json_object(js, '$.a') AS a, get_json_object(js, '$.a.b') AS b, get_json_object(js, "
        "'$.xs[1]') AS x, get_json_object(js, '$.a.b') AS c, get_json_object(js, '$.a.b') AS d, "
        "upper(get_json_object(js, '$.c')) AS e, get_json_object(js, \"$['é x']\") AS f FROM T",
    ),
    "JsonPart": (
        "SELECT id, js -> 'a' AS a, upper(js -> 'c') AS c, js -> 'xs' -> 0 AS x FROM T",
        "SELECT id, to_json(from_json(js, 'a STRUCT<b: STRING>').a) AS a, upper(concat('\"', get_json_object(js, "
        "'$.c'), '\"')) AS c, get_json_object(js, '$.xs[0]') AS x FROM T",
    ),
    "Variants": (
        "SELECT id, try_variant_get(try_parse_json(js), '$.xs', 'array<int>') AS xs, "
        "is_variant_null(parse_json('null')) AS n, variant_get(parse_json('{\"a\": 1}'), '$.a', 'int') AS one, "
        "to_json(try_parse_json(js):a) AS a FROM T",
        "SELECT id, from_json(js, 'xs ARRAY<INT>').xs AS xs, true AS n, 1 AS one, "
        "to_json(try_variant_get(try_parse_json(js), '$.a')) AS a FROM T",
    ),
    "Schema": (
        "SELECT id, from_json(js, schema_of_json('{\"xs\": [1], \"a\": {\"b\": \"\"}, \"c\": null}')) AS p FROM T",
        "SELECT id, from_json(js, 'a STRUCT<b: STRING>, c STRING, xs ARRAY<BIGINT>') AS p FROM T",
    ),
    "Pipes": (
        "FROM T |> WHERE k > 0 |> LEFT JOIN U ON T.k = U.k |> SELECT T.id, U.v AS w, T.s |> EXTEND w + 1 AS x, "
        "coalesce(x, 0) AS y |> DROP w |> SET y = y + 1, id = id + y |> AS q |> WHERE q.y > 1 OR s IS NULL",
        "SELECT id + y AS id, s, x, y FROM (SELECT T.id, T.s, U.v + 1 AS x, coalesce(U.v + 1, 0) + 1 AS y FROM T LEFT "
        "JOIN U ON T.k = U.k WHERE T.k > 0) WHERE y > 1 OR s IS NULL",
    ),
    "PipedGroups": (
        "(SELECT k, v FROM T UNION ALL SELECT k, v FROM U) |> AGGREGATE count(*) AS n, sum(v) AS s GROUP BY k % 2 AS "
        "p |> WHERE n > 1 |> AGGREGATE max(s) AS m, count(*) AS c",
        "SELECT max(s) AS m, count(*) AS c FROM (SELECT k % 2 AS p, count(*) AS n, sum(v) AS s FROM (SELECT k, v FROM "
        "T UNION ALL SELECT k, v FROM U) GROUP BY 1) WHERE n > 1",
    ),
    "PipedLimit": (
        "FROM T |> ORDER BY v DESC, id |> LIMIT 4 |> OFFSET 1 |> WHERE k > 0 |> SELECT DISTINCT k, v",
        "SELECT DISTINCT k, v FROM (SELECT * FROM T ORDER BY v DESC, id LIMIT 3 OFFSET 1) WHERE k > 0",
    ),
    "PipedSets": (
        "WITH x AS (SELECT k FROM U) SELECT k FROM T |> EXCEPT (SELECT v FROM U) |> UNION ALL (SELECT k FROM x) |> "
        "WHERE k IS NOT NULL",
        "SELECT k FROM ((SELECT k FROM T EXCEPT SELECT v FROM U) UNION ALL SELECT k FROM U) WHERE k IS NOT NULL",
    ),
    "SetsTwice": (
        "SELECT k, v, count(*) AS n, grouping_id() AS g FROM T GROUP BY GROUPING SETS (ROLLUP (k, v), (v, k), (v))",
        "SELECT k, v, count(*) AS n, 0 AS g FROM T GROUP BY k, v UNION ALL SELECT k, v, count(*), 0 FROM T GROUP BY k,"
        " v UNION ALL SELECT k, NULL, count(*), 1 FROM T GROUP BY k UNION ALL SELECT NULL AS a, NULL AS b, count(*), "
        "3 FROM T HAVING count(*) > 0 UNION ALL SELECT NULL, v, count(*), 2 FROM T GROUP BY v",
    ),
    "TupleKey": ("SELECT (k, v) AS p, count(*) AS n FROM T GROUP BY (k, v)", "SELECT struct(k, v) AS p, count(*) AS n "
                                                                             "FROM T GROUP BY k, v"),
    "Repeated": (
        "WITH x AS (SELECT * FROM T JOIN U ON T.k = U.k) SELECT s, js, q.w FROM x, (SELECT id, v AS w, v, v, count(*) "
        "OVER () AS w2 FROM U) q",
        "SELECT x.s, x.js, U.v AS w FROM (SELECT T.s, T.js FROM T JOIN U ON T.k = U.k) x, U",
    ),
    "RepeatedKeys": (
        "SELECT n, a FROM (SELECT k AS a, count(*) AS n, k AS b, count(*) AS n2, k AS b FROM T GROUP BY k)",
        "SELECT count(*) AS n, k AS a FROM T GROUP BY k",
    ),
    "AnyAll": (
        "SELECT id, k > ANY (SELECT v FROM U) AS a, k <= ALL (SELECT v FROM U WHERE U.k = T.k) AS b, k = ALL (SELECT "
        "v FROM U WHERE U.k = T.k) AS c, k <> ANY (SELECT v FROM U WHERE v IS NOT NULL) AS d, k = ANY (array(0, v)) "
        "AS e, k < ALL (array(1, v)) AS f FROM T",
        f"SELECT id, {some('T.k > v')} AS a, {every('T.k <= v', 'U.k = T.k')} AS b, {every('T.k = v', 'U.k = T.k')} "
        f"AS c, {some('T.k <> v', 'v IS NOT NULL')} AS d, array_contains(array(0, v), k) AS e, forall(array(1, v), x "
        "-> k < x) AS f FROM T",
    ),
    "InOrder": ("SELECT v, id FROM T ORDER BY ALL DESC LIMIT 3", "SELECT v, id FROM T ORDER BY v DESC, id DESC LIMIT "
                                                                 "3"),
    "StructStar": ("SELECT id, p.* FROM (SELECT id, struct(k, v AS `w w`) AS p FROM T)",
                   "SELECT id, k, v AS `w w` FROM T"),
    "Generators": (
        "SELECT id, stack(2, 'k', k, 'v') FROM T UNION ALL SELECT id, 'o', x FROM (SELECT id, "
        "explode_outer(filter(array(k, v), e -> e > 0)) AS x FROM T)",
        "SELECT id, 'k' AS col0, k AS col1 FROM T UNION ALL SELECT id, 'v', NULL FROM T UNION ALL SELECT T.id, 'o', "
        "e.x FROM T LEFT JOIN (SELECT id, k AS x FROM T WHERE k > 0 UNION ALL SELECT id, v FROM T WHERE v > 0) e ON "
        "e.id = T.id",
    ),
    "JsonTuple": ("SELECT id, json_tuple(js, 'c', 'é x') AS (c, d) FROM T", "SELECT id, js ->> 'c' AS c, js ->> 'é x' "
                                                                            "AS d FROM T"),
    "TupleNotIn": (
        "SELECT id FROM T WHERE (k, v) NOT IN (SELECT k, v FROM U)",
        "SELECT id FROM T WHERE NOT EXISTS (SELECT 1 FROM U WHERE (U.k = T.k OR U.k IS NULL OR T.k IS NULL) AND (U.v "
        "= T.v OR U.v IS NULL OR T.v IS NULL))",
    ),
    "GroupedByLink": (
        "SELECT id, (SELECT max(v) FROM U WHERE U.k = T.k GROUP BY U.k) AS m FROM T",
        "SELECT id, (SELECT max(v) FROM U WHERE U.k = T.k) AS m FROM T",
    ),
    "Intervals": (
        "SELECT id, at + INTERVAL (k + 1) WEEK AS a, at - INTERVAL v MONTH AS b FROM T",
        "SELECT id, at + make_dt_interval(7 * (k + 1)) AS a, at - make_ym_interval(0, v) AS b FROM T",
    ),
    "Sessions": (
        "SELECT k, session_window.start AS a, session_window.end AS b, count(*) AS n FROM T WHERE at IS NOT NULL "
        "GROUP BY k, session_window(at, '40 minutes')",
        "SELECT k, wstart AS a, wend AS b, count(*) AS n FROM Session(data => (SELECT * FROM T WHERE at IS NOT NULL), "
        "timecol => DESCRIPTOR(at), gap => INTERVAL '40' MINUTES, keys => DESCRIPTOR(k)) GROUP BY k, wstart, wend",
    ),
    "SortedBy": (
        "SELECT id, array_sort(array(k, v, 1), (a, b) -> CASE WHEN a < b THEN 1 WHEN a > b THEN -1 ELSE 0 END) AS xs, "
        "iff(k > 0, 'p', 'n') AS i FROM T WHERE k IS NOT NULL AND v IS NOT NULL",
        "SELECT id, sort_array(array(k, v, 1), false) AS xs, if(k > 0, 'p', 'n') AS i FROM T WHERE k IS NOT NULL AND "
        "v IS NOT NULL",
    ),
    "Nearest": (
        "SELECT T.id, u.id AS other FROM T LEFT ASOF JOIN U u MATCH_CONDITION (T.at >= u.at) USING (k)",
        "SELECT T.id, u.id AS other FROM T ASOF JOIN U u MATCH_CONDITION (T.at >= u.at) ON T.k = u.k",
    ),
    "OnWithSubquery": (
        "SELECT T.id, U.id AS other FROM T LEFT JOIN U ON T.k = U.k AND U.v IN (SELECT v FROM T) AND T.v > (SELECT "
        "min(v) FROM U x WHERE x.k = T.k)",
        "SELECT T.id, U.id AS other FROM (SELECT *, v > (SELECT min(v) FROM U x WHERE x.k = T.k) AS f FROM T) T LEFT "
        "JOIN (SELECT * FROM U WHERE v IN (SELECT v FROM T)) U ON T.k = U.k AND T.f",
    ),
}  # fmt: skip
START = datetime(2024, 3, 30, 22, tzinfo=UTC)
WORDS = [None, "", "a", "ab", "b", "é", "a|b"]
TEXTS = [
    None,
    "",
    "no json",
    '{"a": {"b": "x"}, "c": "it\'s", "xs": [5, 6]}',
    '{"a": {"b": "é"}, "é x": "ü", "xs": []}',
    '{"c": "", "xs": [7]}',
]


def script(forms: dict[str, tuple[str, str]]) -> str:
    """Each form as a view, and its equal as another."""
    return TABLES + "".join(f"{n} := {form};\n{n}Long := {long};\n" for n, (form, long) in forms.items())


def row(choice: random.Random, table: str, id_: int) -> dict[str, Any]:
    """A random row."""
    t = None if choice.random() < 0.1 else START + timedelta(minutes=choice.randrange(300))
    found = {"id": id_, "k": choice.choice([None, 0, 1, 2]), "v": choice.choice([None, 0, 1, 2, 3, 9]), "at": t}
    return found if table == "U" else found | {"s": choice.choice(WORDS), "js": choice.choice(TEXTS)}


def change(bench: Workbench, choice: random.Random) -> None:
    """Some rows come, change and go."""
    for table in "TU":
        present = {r["id"]: r for r in bench.rows(table)}
        for id_ in choice.sample(range(9), choice.randrange(5)):
            if id_ in present and choice.random() < 0.4:
                bench.delete(table, [present[id_]])
            else:
                bench.insert(table, [row(choice, table, id_)])


def reported(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order, whatever theirs is."""
    return sorted(map(str, rows))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("part", [0, *at_night([1])])
def test_a_form_is_what_it_stands_for(store: str, part: int, spark: Any, request: pytest.FixtureRequest) -> None:
    """One of 24 forms on each of the stores; at night all on both."""
    url = request.getfixturevalue("postgres_url") if store == "postgres" else "sqlite://"
    turn = (part + (store == "postgres")) % 2
    forms = dict(list(FORMS.items())[turn :: 24 if depth.quick else 2])
    choice = random.Random(11 + turn)
    with closing(Workbench(script(forms), store=url, spark=spark)) as bench:
        for epoch in range(3):
            change(bench, choice)
            bench.step()
            for name in forms:
                assert reported(bench.rows(name)) == reported(bench.rows(f"{name}Long")), (epoch, name)
            if epoch == 0:
                bench.restart()
        batch = bench.batches([*forms])
        for name in forms:
            assert reported(bench.rows(name)) == reported(batch[name]), name
