# ruff: noqa: E501
"""Forms of Spark and of other systems beside what they stand for: after every epoch both are what batch says, on both stores."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from belvedere import Workbench

TABLES = """
CREATE TABLE T (id INT, k INT, v INT, s STRING, t TIMESTAMP, js STRING, PRIMARY KEY (id));
CREATE TABLE U (id INT, k INT, v INT, t TIMESTAMP, PRIMARY KEY (id));
"""
FORMS: dict[str, tuple[str, str]] = {
    "JsonText": (
        "SELECT id, js ->> 'a' AS a, js:a.b AS b, js:xs[1] AS x, js -> 'a' ->> 'b' AS c, js ->> '$.a.b' AS d, upper(js ->> 'c') AS e, js:`é x` AS f FROM T",
        "SELECT id, get_json_object(js, '$.a') AS a, get_json_object(js, '$.a.b') AS b, get_json_object(js, '$.xs[1]') AS x, "
        "get_json_object(js, '$.a.b') AS c, get_json_object(js, '$.a.b') AS d, upper(get_json_object(js, '$.c')) AS e, "
        "get_json_object(js, \"$['é x']\") AS f FROM T",
    ),
    "JsonPart": (
        "SELECT id, js -> 'a' AS a, upper(js -> 'c') AS c, js -> 'xs' -> 0 AS x FROM T",
        "SELECT id, to_json(from_json(js, 'a STRUCT<b: STRING>').a) AS a, upper(concat('\"', get_json_object(js, '$.c'), '\"')) AS c, "
        "get_json_object(js, '$.xs[0]') AS x FROM T",
    ),
    "Variants": (
        "SELECT id, try_variant_get(try_parse_json(js), '$.xs', 'array<int>') AS xs, is_variant_null(parse_json('null')) AS n, "
        "variant_get(parse_json('{\"a\": 1}'), '$.a', 'int') AS one, to_json(try_parse_json(js):a) AS a FROM T",
        "SELECT id, from_json(js, 'xs ARRAY<INT>').xs AS xs, true AS n, 1 AS one, to_json(try_variant_get(try_parse_json(js), '$.a')) AS a FROM T",
    ),
    "Schema": (
        "SELECT id, from_json(js, schema_of_json('{\"xs\": [1], \"a\": {\"b\": \"\"}, \"c\": null}')) AS p FROM T",
        "SELECT id, from_json(js, 'a STRUCT<b: STRING>, c STRING, xs ARRAY<BIGINT>') AS p FROM T",
    ),
    "Pipes": (
        "FROM T |> WHERE k > 0 |> LEFT JOIN U ON T.k = U.k |> SELECT T.id, U.v AS w, T.s |> EXTEND w + 1 AS x, coalesce(x, 0) AS y |> DROP w "
        "|> SET y = y + 1, id = id + y |> AS q |> WHERE q.y > 1 OR s IS NULL",
        "SELECT id + y AS id, s, x, y FROM (SELECT T.id, T.s, U.v + 1 AS x, coalesce(U.v + 1, 0) + 1 AS y FROM T LEFT JOIN U ON T.k = U.k WHERE T.k > 0) "
        "WHERE y > 1 OR s IS NULL",
    ),
    "PipedGroups": (
        "(SELECT k, v FROM T UNION ALL SELECT k, v FROM U) |> AGGREGATE count(*) AS n, sum(v) AS s GROUP BY k % 2 AS p |> WHERE n > 1 |> AGGREGATE max(s) AS m, count(*) AS c",
        "SELECT max(s) AS m, count(*) AS c FROM (SELECT k % 2 AS p, count(*) AS n, sum(v) AS s FROM (SELECT k, v FROM T UNION ALL SELECT k, v FROM U) GROUP BY 1) WHERE n > 1",
    ),
    "PipedLimit": (
        "FROM T |> ORDER BY v DESC, id |> LIMIT 4 |> OFFSET 1 |> WHERE k > 0 |> SELECT DISTINCT k, v",
        "SELECT DISTINCT k, v FROM (SELECT * FROM T ORDER BY v DESC, id LIMIT 3 OFFSET 1) WHERE k > 0",
    ),
    "PipedSets": (
        "WITH x AS (SELECT k FROM U) SELECT k FROM T |> EXCEPT (SELECT v FROM U) |> UNION ALL (SELECT k FROM x) |> WHERE k IS NOT NULL",
        "SELECT k FROM ((SELECT k FROM T EXCEPT SELECT v FROM U) UNION ALL SELECT k FROM U) WHERE k IS NOT NULL",
    ),
    "SetsTwice": (
        "SELECT k, v, count(*) AS n, grouping_id() AS g FROM T GROUP BY GROUPING SETS (ROLLUP (k, v), (v, k), (v))",
        "SELECT k, v, count(*) AS n, 0 AS g FROM T GROUP BY k, v UNION ALL SELECT k, v, count(*), 0 FROM T GROUP BY k, v UNION ALL "
        "SELECT k, NULL, count(*), 1 FROM T GROUP BY k UNION ALL SELECT NULL AS a, NULL AS b, count(*), 3 FROM T HAVING count(*) > 0 UNION ALL "
        "SELECT NULL, v, count(*), 2 FROM T GROUP BY v",
    ),
    "TupleKey": ("SELECT (k, v) AS p, count(*) AS n FROM T GROUP BY (k, v)", "SELECT struct(k, v) AS p, count(*) AS n FROM T GROUP BY k, v"),
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
    found = {"id": id_, "k": choice.choice([None, 0, 1, 2]), "v": choice.choice([None, 0, 1, 2, 3, 9]), "t": t}
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


def told(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order, whatever theirs is."""
    return sorted(map(str, rows))


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_form_is_what_it_stands_for(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else "sqlite://"
    choice = random.Random(11 if store == "sqlite" else 12)
    with closing(Workbench(script(FORMS), store=url)) as bench:
        for epoch in range(4):
            change(bench, choice)
            bench.step()
            names = [n for form in FORMS for n in (form, f"{form}Long")]
            batch = bench.batches(names)
            for name in FORMS:
                assert told(bench.rows(name)) == told(batch[name]), (epoch, name)
                assert told(bench.rows(name)) == told(bench.rows(f"{name}Long")), (epoch, name)
            if epoch == 1:
                bench.restart()
