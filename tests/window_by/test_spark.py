"""WINDOW BY on Spark: what the other tests cannot see without a JVM. One table, few jobs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.paper import close

pytestmark = pytest.mark.spark
ROWS: list[dict[str, Any]] = [
    {
        "k": k,
        "o": o,
        "v": None if (o * 7 + (k or 0)) % 5 == 0 else (o * 13 + (k or 0) * 5) % 11,
        "tags": [str(o), "é"],
        "x": (o % 4) / 2,
    }
    for k in (2, 1, None)
    for o in (5, 3, 9, 1, 7, 8)
]
HEAD = "FROM t AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE SLIDING "
TIMED = (
    "FROM t AS r LET at = DATETIME('2024-02-29T10:00:00') + r.o * duration('PT1H') WINDOW BY w PARTITION BY r.k "
    "ORDER BY at TYPE "
)
QUERIES = {
    "kernels": HEAD
    + "START AS s AT p WHEN s.v > 2 END NEXT AS n WHEN n.v < s.v SELECT s.k, p, n.o AS after, LEN(w) AS len, w[*].v "
    "AS vs",
    "objects": HEAD
    + "START AS s ONLY END AS e WHEN e.o - s.o >= 4 SELECT VALUE {'s': s, 'w': w, 'first': w[0].tags[1], 'e': e.x}",
    "interpreter": HEAD
    + "START AS s END AS e WHEN e.v + s.v > 9 AND e.x * s.x >= 0 SELECT s.k, s.o, (SELECT VALUE t.v FROM w AS t "
    "WHERE t.v > 3 ORDER BY t.v DESC LIMIT 2) AS top",
    "having": HEAD
    + "START AS s END AT e WHEN e = 3 LET n = LEN(w) HAVING n > 1 AND ROUND(ARRAY_AVG(w[*].x), 1) >= 0 SELECT s.k AS "
    "k, n",
    "outer": "FROM ("
    + HEAD
    + "START AS s END AS e AT ep WHEN e.v > 8 SELECT s.k AS k, ep, ARRAY_MAX(w[*].v) AS m) AS q "
    "WHERE q.ep IS MISSING SELECT q.k, q.m",
    "limit": HEAD + "START AS s END UNBOUNDED SELECT s.k, s.o, ARRAY_COUNT(w[*].v) AS c LIMIT 4",
    "order": HEAD + "START AS s END UNBOUNDED SELECT VALUE s.o * 10 ORDER BY LEN(w) DESC, s.k, s.o LIMIT 5",
    "groups": "FROM t AS r GROUP BY r.k, r.x AS x GROUP AS g LET total = SUM(r.v) WINDOW BY w PARTITION BY k ORDER BY "
    "x TYPE TUMBLING START AS s END AT e WHEN e % 2 = 0 SELECT s.k, w[*].total AS totals, LEN(s.g) AS n",
    "join": "FROM t AS r LEFT JOIN u ON u.id = r.k, r.tags AS tag LET z = r.o + 1 WHERE tag = 'é' WINDOW BY w "
    "PARTITION BY r.k ORDER BY z TYPE TUMBLING START AS s END AS e WHEN e.u.name IS MISSING OR e.z > 6 SELECT "
    "s.r.k, s.u.name, e.z, LEN(w) AS n",
    "label": HEAD
    + "LABEL AS l AT lp WHEN l.v > 5 START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1 SELECT l.k, l.o, sp, ep, "
    "w[*].o AS os",
    "decimals": "FROM t AS r LET d = CAST(r.v AS DECIMAL(10, 2)) WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE "
    "SLIDING START AS s END AS e WHEN e.d > 5 SELECT s.r.o, ARRAY_SUM(w[*].d) AS a, ARRAY_AVG(w[*].d) AS "
    "b, ARRAY_MEDIAN(w[*].d) AS c, ARRAY_MAX(w[*].d) AS d",
    "missing": "FROM t AS r LEFT JOIN u ON u.id = r.k WINDOW BY w PARTITION BY NULL_IF(u.name, 'one') ORDER BY r.k, "
    "r.o TYPE TUMBLING START AS s AT p SELECT s.r.k, s.r.o, p",
    "times": TIMED + "SLIDING START AS s END NEXT AS n WHEN n.at - s.at > duration('PT3H') "
    "SELECT s.at AS first, n.at AS after, ARRAY_MAX(w[*].at) AS a",
    "times by the interpreter": TIMED + "SLIDING START AS s END AS e WHEN GREATEST(e.at, s.at) > s.at "
    "SELECT s.at AS first, e.at AS last, w[*].at AS a",
    "union": HEAD
    + "START AS s END AS e WHEN e.v > 8 SELECT s.k AS o, e.v AS v UNION ALL FROM t AS r WHERE r.o > 8 SELECT r.k AS o,"
    " r.x AS v ORDER BY v DESC NULLS LAST, o LIMIT 5",
    "union in FROM": "FROM ("
    + HEAD
    + "START AS s END AS e WHEN e.v > 8 SELECT s.k AS k, e AS e UNION ALL FROM t AS r SELECT r.k AS k, r AS e) "
    "AS q WHERE q.e IS MISSING OR q.e.v IS NULL SELECT q.k, q.e IS MISSING AS m, q.e.o AS o ORDER BY m, q.k, o",
    "a result that hides a variable": HEAD
    + "START AS s AT p END AS e AT ep WHEN e.v > 8 SELECT s.o, ep AS p ORDER BY p, s.k, o",
    "arrays differ": HEAD + "START AS s END AS e WHEN e.tags <> s.tags AND e.tags > ['3'] SELECT s.k, s.o, e.o AS eo",
    "arrays equal": HEAD
    + "LABEL AS l START AS s WHEN s.tags = l.tags END AS e WHEN e.tags = l.tags SELECT l.k, s.o, e.o AS eo",
    "partitions by arrays": HEAD.replace("r.k ", "r.tags ").replace("r.o", "r.k")
    + "START AS s END UNBOUNDED SELECT s.k, LEN(w) AS n "
    "ORDER BY s.o, s.k",
    "partitions by objects": HEAD.replace("r.k ", "{'a': r.o, 'b': r.x} ").replace("r.o TYPE", "r.k TYPE")
    + "START AS s END UNBOUNDED "
    "SELECT s.k, LEN(w) AS n ORDER BY s.o, s.k",
    "constants": "WITH big AS (FROM u AS u SELECT VALUE u.id) "
    + HEAD
    + "START AS s WHEN s.k IN big END AT e WHEN e = 2 SELECT s.k, s.o",
    "within: an array": "FROM t AS r LET n = (FROM r.tags AS x AT i WINDOW BY w ORDER BY i TYPE SLIDING START AS s AT "
    "p END UNBOUNDED SELECT VALUE {'n': LEN(w), 's': s.x, 'p': p, 'o': r.o}) SELECT r.k, r.o, n",
    "within: a window": HEAD
    + "START AS s END UNBOUNDED SELECT s.k, s.o, ARRAY_SUM((FROM w AS a AT i WINDOW BY u ORDER BY i TYPE TUMBLING "
    "START AS b AT p END AS e WHEN e.a.v > b.a.v SELECT VALUE LEN(u) * p + s.o)) AS inside",
    "within: WHERE, ORDER BY and LIMIT": "FROM t AS r WHERE (FROM [r.o, r.v, 3, 8, 2] AS x AT i WINDOW BY w ORDER BY "
    "i TYPE TUMBLING START AS s END AS e WHEN e.x > r.x + s.x SELECT VALUE e.x "
    "ORDER BY e.x DESC LIMIT 1)[0] > 3 SELECT r.k, r.o",
    "within: a table": "FROM u AS x SELECT x.id, (FROM t AS q WHERE q.k = x.id WINDOW BY w ORDER BY q.o TYPE TUMBLING "
    "START AS s END AS e WHEN e.o - s.o > 3 SELECT VALUE w[*].o) AS found",
    "within: a query within": "FROM t AS r WHERE r.o > 7 SELECT r.k, r.o, (FROM [[1, 2, r.o], [r.v, 4]] AS y SELECT "
    "VALUE (FROM y AS x AT i WINDOW BY w ORDER BY i TYPE TUMBLING START AS s SELECT VALUE "
    "[s.x, r.o])) AS found",
}


@pytest.fixture(scope="module")
def frames(spark: Any) -> dict[str, Any]:
    types = pa.schema(
        [("k", pa.int64()), ("o", pa.int64()), ("v", pa.int64()), ("tags", pa.list_(pa.string())), ("x", pa.float64())]
    )
    table = spark.createDataFrame(pa.Table.from_pylist(ROWS, types))
    return {"t": table, "u": spark.createDataFrame(pa.table({"id": [1, 9], "name": ["one", "nine"]}))}


@pytest.mark.parametrize("name", QUERIES)
def test_as_the_interpreter_over_everything(spark: Any, frames: dict[str, Any], name: str) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    expected = compile_query(parse_window_query(QUERIES[name]))(
        {"t": ROWS, "u": [{"id": 1, "name": "one"}, {"id": 9, "name": "nine"}]}
    )
    result = run_window_query(spark, QUERIES[name], frames)
    found = result.toArrow().to_pylist()
    requested = [plain(r) if isinstance(r, dict) else {"value": r} for r in expected]
    assert close(found, [{n: r.get(n) for n in result.columns} for r in requested])


TUMBLING = HEAD.replace("SLIDING", "TUMBLING")
AGGREGATES = (
    "ARRAY_AVG(w[*].v) AS a, ARRAY_COUNT(w[*].v) AS b, ARRAY_MIN(w[*].v) AS c, ARRAY_MAX(w[*].o) AS d, LEN(w) AS n"
)
FRAMES = {
    "grows": HEAD + "LABEL AS l AT lp NEXT AS x WHEN l.v > 2 START UNBOUNDED END AT ep WHEN ep = lp SELECT l.k, l.o, "
                    "x.v, lp, ep, ",
    "all": HEAD.replace("PARTITION BY r.k ", "").replace("r.o", "r.o, r.k") + "LABEL AS l AT lp START UNBOUNDED END "
                                                                              "AT ep WHEN ep = lp SELECT l.k, l.o, ",
    "blocks": TUMBLING + "START AS s AT sp END AS e AT ep WHEN ep - sp = 3 SELECT s.k, s.o, sp, e.o AS eo, ep, ",
    "only": TUMBLING + "START AS s AT sp ONLY END AS e AT ep NEXT AS x WHEN ep = sp + 1 SELECT s.k, s.o, x.v, e.v AS "
                       "ev, ",
    "sessions": TUMBLING + "START AS s END AS e AT ep NEXT AS x WHEN x.o - e.o > 1 OR x IS MISSING AND e.v = 2 "
    "SELECT s.k, s.o, e IS MISSING AS m, ",
    "turns": TUMBLING + "START AS s PREV AS b END AS e PREV AS p WHEN e.v < p.v SELECT s.k, b.o AS before, s.o, e.o "
                        "AS last, ",
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_windows_that_frames_say_too_are_what_the_rules_say(spark: Any, frames: dict[str, Any], name: str) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    text = FRAMES[name] + AGGREGATES
    expected = compile_query(parse_window_query(text))({"t": ROWS})
    result = run_window_query(spark, text, frames)
    assert close(result.toArrow().to_pylist(), [{n: r.get(n) for n in result.columns} for r in map(plain, expected)])


@pytest.mark.parametrize("name", FRAMES)
def test_windows_that_frames_say_too_in_any_order_and_with_limits(
    spark: Any, frames: dict[str, Any], name: str
) -> None:
    from belvedere.spark.window_by.windows import Spread
    from belvedere.spark.window_by.windows_query import run_window_query

    text = FRAMES[name] + AGGREGATES + ", s AS whole" * (name not in ("grows", "all"))
    requested = [plain(r) for r in compile_query(parse_window_query(text))({"t": ROWS})]
    for spread in (Spread.HASHED, Spread.SINGLE):
        result = run_window_query(spark, text, frames, spread=spread)
        found = sorted(result.toArrow().to_pylist(), key=by_start)
        assert close(found, [{n: r.get(n) for n in result.columns} for r in sorted(requested, key=by_start)])
    limited = run_window_query(spark, text + " LIMIT 3 OFFSET 1", frames)
    assert close(limited.toArrow().to_pylist(), [{n: r.get(n) for n in limited.columns} for r in requested[1:4]])


def by_start(row: dict[str, Any]) -> tuple[int, int]:
    return row["k"] or 0, row["o"]


def test_plans_ask_spark_for_no_more_than_they_need(spark: Any, frames: dict[str, Any]) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    text = TUMBLING + "START AS s END AS e NEXT AS n WHEN n.o - e.o > 2 SELECT ARRAY_AVG(w[*].v) AS a"
    client, calls = spark.sparkContext._gateway._gateway_client, 0
    send = client.send_command

    def counted(command: str, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += not command.startswith("m\n")  # these free objects of earlier tests, whenever Python finds them
        return send(command, *given, **named)

    client.send_command = counted
    try:
        run_window_query(spark, text, {"t": frames["t"]})
    finally:
        del client.send_command
    assert calls < 350  # it was 1,300, of which each takes time that does not depend on the rows


def plain(value: Any) -> Any:
    """MISSING members as None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return None if repr(value) == "MISSING" else value


def test_group_as_holds_its_members_in_the_order_of_their_values(spark: Any, frames: dict[str, Any]) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    text = "FROM t AS r GROUP BY r.k AS k GROUP AS g WINDOW BY w ORDER BY k TYPE TUMBLING START AS s SELECT s.g"
    for frame in (frames["t"], frames["t"].repartition(4), frames["t"].orderBy("x")):
        for row in run_window_query(spark, text, {"t": frame}).toArrow().to_pylist():
            assert [m["r"]["o"] for m in row["g"]] == [1, 3, 5, 7, 8, 9]


def test_sql_is_exported_and_takes_plain_sql_too(spark: Any, frames: dict[str, Any]) -> None:
    import belvedere

    assert belvedere.sql(spark, "SELECT count(*) AS n FROM t", **frames).collect()[0].n == len(ROWS)
    with pytest.raises(BelvedereError) as raised:
        belvedere.sql(spark, HEAD + "START END SELECT nothing.x", **frames)
    assert [d.code for d in raised.value.diagnostics] == ["B2601"]


def test_changed_partitions_are_recomputed_alone(spark: Any, frames: dict[str, Any]) -> None:
    from belvedere.engine.sql.plan_sql import render
    from belvedere.plan.operators.nodes import Scan
    from belvedere.spark.window_by.frame_types import schema_of
    from belvedere.spark.window_by.windows import Spread, windows
    from belvedere.sqlpp.lower import lower_window_query
    from tests.window_by.without_spark import window_of

    source = Scan("t", schema_of(frames["t"]).with_key(("k", "o")))
    node = window_of(lower_window_query(QUERIES["label"], {"t": source})[0])
    key, _ = node.schema.key or ()

    def found(frame: Any, spread: Spread = Spread.HASHED) -> list[Any]:
        frame.createOrReplaceTempView("some_rows")
        return list(windows(node, spark.sql(render(node.input, lambda _: "some_rows")), spread).collect())

    everything = found(frames["t"])
    assert list(everything[0].asDict()) == list(node.schema.names)
    some = found(frames["t"].where("k = 1 OR k IS NULL").repartition(3))
    assert sorted(map(str, some)) == sorted(str(r) for r in everything if r[key] != 2)
    few = found(frames["t"].where("k = 2").repartition(3), Spread.SINGLE)
    assert sorted(map(str, few)) == sorted(str(r) for r in everything if r[key] == 2)
