"""Arguments, literals and forms that Spark's analyzer rejects: `check` rejects them with their position."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script

COLUMNS = {
    "id": "INT", "k": "INT", "s": "STRING", "x": "INT", "n": "DECIMAL(10, 2)", "d": "DOUBLE", "day": "DATE",
    "t": "TIMESTAMP",
    "y": "BINARY", "xs": "ARRAY<INT>", "m": "MAP<STRING, INT>",
}  # fmt: skip
TABLE = f"CREATE TABLE T ({', '.join(f'{n} {t}' for n, t in COLUMNS.items())}, PRIMARY KEY (id));\n"

REFUSED: dict[str, tuple[str, ...]] = {
    "B3071": (
        "ntile(0) OVER (ORDER BY id)", "ntile(-1) OVER (ORDER BY id)", "ntile(x) OVER (ORDER BY id)",
        "ntile('a') OVER (ORDER BY id)",
        "nth_value(x, 0) OVER (ORDER BY id)", "nth_value(x, k) OVER (ORDER BY id)", "lag(x, k) OVER (ORDER BY id)",
        "lead(x, 1.5) OVER (ORDER BY id)", "percentile(x, 2.0)", "percentile(x, d)", "percentile(x, array(0.1, 3))",
        "percentile_cont(NULL) WITHIN GROUP (ORDER BY x)", "percentile_cont(2) WITHIN GROUP (ORDER BY x)",
        "approx_percentile(x, 0.5, -1)",
        "round(d, k)", "ceil(d, k)", "floor(d, k)", "bround(d, k)", "date_part(s, day)",
        "ntile(2L) OVER (ORDER BY id)", "lag(x, NULL) OVER (ORDER BY id)", "lead(x, 1L) OVER (ORDER BY id)",
        "ceil(n, 1S)", "floor(n, NULL)", "ceil(d, '1')", "round(n, length('ab'))",
    ),
    "B3015": (
        "sum(x) OVER (ORDER BY id ROWS 7S PRECEDING)", "sum(x) OVER (ORDER BY id ROWS NULL PRECEDING)",
        "sum(x) OVER (ORDER BY id ROWS BETWEEN (SELECT 1) PRECEDING AND CURRENT ROW)",
        "sum(x) OVER (ORDER BY id ROWS 2.00 PRECEDING)", "sum(x) OVER (ORDER BY id ROWS k PRECEDING)",
        "sum(x) OVER (ORDER BY s RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "sum(x) OVER (ORDER BY id, k RANGE 1 "
                                                                              "PRECEDING)",
        "sum(x) OVER (RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "sum(x) OVER (ORDER BY t RANGE 1 PRECEDING)",
        "sum(x) OVER (ORDER BY day RANGE INTERVAL 1 HOUR PRECEDING)", "sum(x) OVER (ORDER BY day RANGE INTERVAL '36' "
                                                                      "HOUR PRECEDING)",
        "sum(x) OVER (ORDER BY day RANGE make_dt_interval(0, 5) PRECEDING)",
        "sum(x) OVER (ORDER BY day RANGE INTERVAL '1 2' DAY TO HOUR PRECEDING)",
        "sum(x) FILTER (WHERE sum(x) > 1)", "sum(x) FILTER (WHERE rank() OVER (ORDER BY id) > 1)",
        "median(x) OVER (ORDER BY id)",
        "abs(x) FILTER (WHERE x > 1)", "row_number() FILTER (WHERE x > 1) OVER (ORDER BY id)", "abs(x) IGNORE NULLS",
        "row_number() IGNORE NULLS OVER (ORDER BY id)",
        "listagg(s) WITHIN GROUP (ORDER BY s) OVER (ORDER BY id)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x) "
                                                                   "OVER (ORDER BY id)",
    ),
    "B1024": ("date '1999 Jan 08'", "timestamp 'hello'", "date '2020-02-30'", "timestamp '2020-02-03 24:00:00'",
              "date 'today'"),
    "B3022": ("exists(xs, y -> y IN (SELECT k FROM T))", "filter(xs, y -> y + 1 NOT IN (SELECT k FROM T))"),
    "B1001": ("1e2L", "1.5S", "1e2Y"),
    "B3072": ("128Y", "40000S", "9223372036854775808L", "1e400D", "1e50F", "-129Y", "CAST(300 AS TINYINT)"),
    "B3048": (
        "extract(NOPE FROM day)", "date_part('NOPE', day)", "t + INTERVAL '1' 'DAY'", "date_add('DAY', 1, day)",
        "datediff('DAY', day, day)",
        "timestampadd('DAY', 1, t)", "timestampdiff(NOPE, t, t)",
    ),
    "B3002": (
        "aggregate(xs, 0, (a, y) -> a + 1L)", "aggregate(xs, NULL, (a, y) -> a + 1)",
        "aggregate(xs, array(), (a, y) -> array_append(a, y))",
        "day + 7L", "7L + day", "day - sum(x) OVER (ORDER BY id)", "element_at(xs, 1L)", "array_insert(xs, 1L, 1)",
        "element_at(xs, NULL)",
        "array_sort(array(m))", "sort_array(array(m))", "array_contains(xs, 'a')", "array_contains(xs, day)",
        "array_append(xs, 'a')",
        "array_union(xs, array('a'))", "element_at(xs, 'a')", "element_at(m, 1)", "element_at(m, day)", "nullif(xs, 1)",
        "nullif(day, x)",
        "xs LIKE 'a'", "m LIKE 'a'", "xs RLIKE 'a'", "year(x)", "month(d)", "hour(x)", "date_add(x, 1)",
        "date_add(day, d)",
        "date_add(day, n)",
        "datediff(x, t)", "extract(YEAR FROM x)", "~d", "concat(s, xs)", "s || xs", "d DIV 2", "day DIV 2", "x IS TRUE",
        "m <=> m",
        "x IS DISTINCT FROM day", "CAST(x AS DATE)", "CAST(t AS BOOLEAN)", "CAST(d AS BINARY)", "CAST(n AS BINARY)",
        "m < m", "x = t", "xs < (x > 1)", "upper(xs)",
        "make_timestamp(x, 1, 1, t, 1, 1)", "make_timestamp(day, x)", "try_make_timestamp_ntz(x, 1, 1, day, 1, 1)",
        "unix_date(s)",
        "unix_date(t)", "to_json(x)", "to_json(s)", "timestamp_seconds(s)", "ceil(INTERVAL '1' YEAR)",
        "stddev(INTERVAL '1' DAY)",
        "CAST(INTERVAL '1' YEAR AS INTERVAL DAY TO SECOND)", "INTERVAL '1' YEAR + INTERVAL '1' DAY",
    ),
}  # fmt: skip

ACCEPTED = {
    "-128Y": "TINYINT", "-9223372036854775808L": "BIGINT", "127Y": "TINYINT", "array_append(array(), 1)": "ARRAY<INT>",
    "-s": "DOUBLE",
    "date_sub(day, s)": "DATE", "date_sub(day, 1)": "DATE", "datediff(MICROSECOND, t, t)": "BIGINT",
    "datediff(day, t)": "INT",
    "CEIL(3.14115, -3)": "DECIMAL(4, 0)", "y || y": "BINARY", "x LIKE 'a'": "BOOLEAN", "s IS TRUE": "BOOLEAN",
    "try_add(-2147483648, 1)": "INT",
    "date '2020'": "DATE", "date '2020-1-1'": "DATE", "date '2020-01-01 12:00'": "DATE",
    "timestamp '2020-02-03T4:5:6'": "TIMESTAMP",
    "timestamp '2020-02-03 04:05:06 Europe/Berlin'": "TIMESTAMP", "timestamp '2020-02-03 4'": "TIMESTAMP",
    "element_at(m, 'a')": "INT",
    "lag(x, 1) OVER (ORDER BY id)": "INT", "lag(x, 1, 2L) OVER (ORDER BY id)": "INT", "lead(s, 1, x) OVER (ORDER BY "
                                                                                      "id)": "STRING",
    "lead(n, 1, 2.555) OVER (ORDER BY id)": "DECIMAL(10, 2)", "aggregate(xs, 0L, (a, y) -> a + y)": "BIGINT",
    "sum(x) OVER (ORDER BY day RANGE 1 PRECEDING)": "BIGINT", "array_contains(xs, 1.5)": "BOOLEAN",
    "sum(n / 7L) + sum(n / CAST(7 AS BIGINT))": "DECIMAL(38, 19)", "day + INTERVAL +7 DAY": "DATE",
    "sum(x) OVER (ORDER BY day RANGE INTERVAL '1-2' YEAR TO MONTH PRECEDING)": "BIGINT",
    "sum(n / CAST(7 AS BIGINT))": "DECIMAL(38, 23)",
    "sequence(1, 5, 1L)": "ARRAY<BIGINT>", "array_insert(xs, 1, 5L)": "ARRAY<BIGINT>",
    "sum(x) OVER (ORDER BY day RANGE INTERVAL 1 WEEK PRECEDING)": "BIGINT",
    "extract(DOW FROM t)": "INT", "extract(SECOND FROM s)": "DECIMAL(8, 6)", "round(d, -1)": "DOUBLE",
    "percentile(x, array(0.1, 0.5))":
    "ARRAY<DOUBLE>", "array_append(xs, 5000000000)": "ARRAY<BIGINT>", "sum(x) FILTER (WHERE x > 1)": "BIGINT",
    "x << s": "INT",
    "make_timestamp(day)": "TIMESTAMP", "make_timestamp(x, s, 1, n, 1, d, s)": "TIMESTAMP", "unix_date(day)": "INT",
    "mode() WITHIN GROUP (ORDER BY x) OVER (ORDER BY id)": "INT", "to_json(m)": "STRING",
    "abs(INTERVAL '1-2' YEAR TO MONTH)": "INTERVAL YEAR TO MONTH",
    "median(INTERVAL '1' DAY)": "INTERVAL DAY TO SECOND", "extract(MONTH FROM INTERVAL '1-2' YEAR TO MONTH)": "TINYINT",
}  # fmt: skip

QUERIES = {
    "B3015": (
        "SELECT median(x) OVER w AS c FROM T WINDOW w AS (ORDER BY id)",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) OVER W AS c FROM T WINDOW w AS (PARTITION BY k ORDER "
        "BY id)",
    ),
    "B3073": ("WITH a AS (SELECT 1 AS q), A AS (SELECT 2 AS q) SELECT q FROM a",),
}


def _errors(script: str) -> list[Any]:
    return [d for d in compile_script(script).diagnostics if d.severity == "error"]


@pytest.mark.parametrize("code", REFUSED)
def test_what_spark_refuses_is_refused_at_its_place(code: str) -> None:
    for call in REFUSED[code]:
        script = f"{TABLE}V := SELECT {call} AS v FROM T;"
        (found,) = _errors(script)
        assert (found.code, call) == (code, call)
        assert found.hint is not None
        assert found.span is not None
        assert found.span.start >= len(TABLE)


@pytest.mark.parametrize("code", QUERIES)
def test_queries_that_spark_refuses(code: str) -> None:
    for query in QUERIES[code]:
        assert [d.code for d in _errors(f"{TABLE}V := {query};")] == [code], query


def test_what_is_accepted_has_the_type_that_spark_gives() -> None:
    from belvedere.functions.spark_types import type_text

    script = TABLE + "".join(f"V{n} := SELECT {call} AS v FROM T;\n" for n, call in enumerate(ACCEPTED))
    compiled = compile_script(script)
    assert [d.message for d in compiled.diagnostics if d.severity == "error"] == []
    found = {call: type_text(compiled.catalog.views[f"V{n}"].schema["v"].type) for n, call in enumerate(ACCEPTED)}
    assert found == ACCEPTED


@pytest.mark.spark
def test_spark_agrees(spark: Any) -> None:
    from pyspark.errors import PySparkException

    rows = spark.sql("SELECT " + ", ".join(f"CAST(NULL AS {t}) AS {n}" for n, t in COLUMNS.items()))
    rows.createOrReplaceTempView("T")

    def refuses(query: str) -> bool:
        try:
            spark.sql(query)
        except PySparkException:
            return True
        return False

    calls = [f"SELECT {call} AS v FROM T" for calls in REFUSED.values() for call in calls]
    mistaken = [q for q in (*calls, *(q for queries in QUERIES.values() for q in queries)) if not refuses(q)]
    assert mistaken == [
        f"SELECT {call} AS v FROM T" for call in ("round(n, length('ab'))", "date 'today'", "CAST(300 AS TINYINT)")
    ], "the first has a meaning each day"
    types = {call: rows.selectExpr(call).schema.fields[0].dataType.simpleString() for call in ACCEPTED}
    assert types == {call: type_.lower().replace(", ", ",") for call, type_ in ACCEPTED.items()}


def test_the_printer_below_says_nothing_to_users(caplog: pytest.LogCaptureFixture) -> None:
    calls = (
        "max_by(x, k, 2)",
        "to_char(x, '999')",
        "to_char(x, s)",
        "to_char(s)",
        "to_char(xs, '9')",
        "instr(s, 'a', 1, 1)",
    )
    for call in calls:
        compile_script(f"{TABLE}V := SELECT {call} AS v FROM T; W := SELECT {call} FROM T;")
    assert caplog.records == []
