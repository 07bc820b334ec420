"""Queries over each type, and over behaviour that differs between databases: the store equals Spark or leaves it to
Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.queries.store_queries import PLACE, answer_in_store, compile_read, with_place
from belvedere.store.read.computed_views import BEYOND
from belvedere.workbench.workbench import Workbench
from tests.depth import turn
from tests.rules.test_recomputation import same_rows
from tests.run.test_store_queries import START, by_spark, open_tables

TYPES = """
CREATE STREAM Types (k INT, i INT, ti TINYINT, si SMALLINT, bi BIGINT, f FLOAT, d DOUBLE,
  wide DECIMAL(38, 10), whole DECIMAL(20, 0), m DECIMAL(10, 2), yes BOOLEAN, s STRING, raw BINARY, day DATE,
      t TIMESTAMP, ntz TIMESTAMP_NTZ,
  tags ARRAY<STRING>, info STRUCT<a INT, b DOUBLE>,
  props MAP<STRING, INT>, span INTERVAL DAY TO SECOND, months INTERVAL YEAR TO MONTH);
"""
COMPARABLE = "i ti si bi f d wide whole m yes s raw day t ntz span months".split()
LITERALS = {
    "i": "7", "ti": "7", "si": "-7", "bi": "9223372036854775807", "f": "0.1", "d": "0.1", "wide": "1.5", "whole": "3",
    "m": "0.10",
    "yes": "TRUE", "s": "'a'", "raw": "X'00FF'", "day": "DATE '2024-02-29'", "t": "TIMESTAMP '2024-02-29 "
                                                                                  "12:00:00.000001'",
    "ntz": "TIMESTAMP_NTZ '2024-02-29 12:00:00'", "span": "INTERVAL '1' HOUR", "months": "INTERVAL '1' YEAR",
}  # fmt: skip
CHOSEN = (
    "SELECT * FROM Types ORDER BY k",
    "SELECT 1 AS a, 'x''\\\\y' AS b, NULL AS c, 1.50 AS d, -2.5e0 AS e, TRUE AS f, DATE '2024-02-29' AS g, "
    "TIMESTAMP '2024-02-29 12:00:00' AS h, -3 AS i",
    "SELECT k, ti + si AS a, bi + i AS b, si - 1 AS c, i * 2 AS d, -i AS e, i - -5 AS f FROM Types WHERE k < 4",
    "SELECT k, length(s) AS a, concat(s, '-', s) AS b, s || 'x' AS c, coalesce(s, 'none') AS d, nullif(i, 7) AS e, "
    "trim(s) AS f, ltrim(s) AS g, rtrim(s) AS h, contains(s, 'a') AS i, startswith(s, 'a') AS j, "
    "if(yes, 1, 0) AS n, isnull(s) AS o FROM Types WHERE k <> 6",
    "SELECT k, abs(ti) AS a, ti * ti AS b FROM Types WHERE ti BETWEEN -11 AND 11",
    "SELECT abs(ti) AS a FROM Types",
    "SELECT ti - ti - ti AS a FROM Types WHERE ti = -128",
    "SELECT k, dayofweek(t) AS a, dayofmonth(t) AS b, dayofyear(t) AS c, to_date(t) AS d, unix_micros(t) AS e, "
    "unix_millis(t) AS f, unix_seconds(t) AS g, dayofweek(day) AS h FROM Types",
    "SELECT k, t + INTERVAL '1' DAY AS a, t - INTERVAL '90' MINUTES AS b, day + 1 AS c, t - INTERVAL '1' MONTH AS d "
    "FROM Types WHERE k > 2",
    "SELECT k, CAST(i AS BIGINT) AS a, CAST(i AS DOUBLE) AS b, CAST(f AS DOUBLE) AS c, CAST(s AS STRING) AS d FROM "
    "Types",
    "SELECT CAST(ti AS INT) AS a, CAST(ti AS BIGINT) AS b FROM Types",
    "SELECT k, CAST(i AS STRING) AS a, CAST(d AS STRING) AS b, CAST(m AS DOUBLE) AS c FROM Types",
    "SELECT CAST(yes AS INT) AS a FROM Types",
    "SELECT CAST(t AS DATE) AS a FROM Types",
    *(
        f"SELECT k FROM Types WHERE s {'I' * n}LIKE '{p}'"
        for n in (0, 1)
        for p in ("a\\\\_%", "%\\\\%", "É%", "ß", "_", "%i%", "[a]*", "a?b")
    ),
    "SELECT k FROM Types WHERE s NOT LIKE '%a%' OR s IS NULL",
    "SELECT count(*) FILTER (WHERE i > 0) AS a, sum(i) FILTER (WHERE yes) AS b, count(DISTINCT s) AS c, "
    "count(DISTINCT d) AS e FROM Types",
    "SELECT k FROM Types WHERE i NOT IN (SELECT i FROM Types WHERE k > 5)",
    "SELECT k, (SELECT max(x.k) FROM Types x WHERE x.i = y.i) AS m FROM Types y",
    "SELECT k FROM Types y WHERE NOT EXISTS (SELECT 1 FROM Types x WHERE x.bi = y.i)",
    "SELECT a.k, b.k AS bk FROM Types a JOIN Types b ON a.whole = b.bi",
    "SELECT a.k, b.k AS bk FROM Types a JOIN Types b ON a.wide = b.m",
    "SELECT a.k, b.k AS bk FROM Types a JOIN Types b ON a.d = b.f",
    "SELECT a.k, b.k AS bk FROM Types a JOIN Types b ON a.d <=> b.d AND a.s <=> b.s",
    "SELECT k, s FROM Types a FULL JOIN (SELECT k, s FROM Types WHERE k > 4) b USING (k, s)",
    "SELECT i FROM Types INTERSECT ALL SELECT si FROM Types",
    "SELECT i FROM Types EXCEPT ALL SELECT ti FROM Types WHERE k > 1",
    "SELECT i AS x FROM Types UNION SELECT bi FROM Types UNION SELECT ti FROM Types",
    "SELECT m AS x FROM Types UNION ALL SELECT wide FROM Types",
    "SELECT CASE WHEN yes THEN i ELSE bi END AS a, CASE i WHEN 7 THEN 'seven' END AS b, coalesce(i, bi, ti) AS c FROM "
    "Types",
    "SELECT k FROM Types WHERE yes",
    "SELECT k FROM Types WHERE NOT yes OR yes IS NULL",
    "SELECT k FROM Types WHERE yes IS NOT TRUE",
    "SELECT k FROM Types WHERE i BETWEEN 0 AND 7 AND s BETWEEN 'a' AND 'z'",
    "SELECT k FROM Types WHERE (i, ti) IN ((7, 7), (NULL, 1))",
    "SELECT k FROM Types WHERE t = '2024-02-29 12:00:00'",
    "SELECT k FROM Types WHERE day = '2024-02-29' OR day > DATE '2024-03-01'",
    "SELECT k FROM Types WHERE i = '7'",
    "SELECT k FROM Types WHERE bi > d",
    "SELECT k FROM Types WHERE i < d AND f < d",
    "SELECT k FROM Types WHERE m = d",
    "SELECT k FROM Types WHERE t > day",
    "SELECT k FROM Types WHERE t > ntz",
    "FROM Types |> WHERE i > 0 |> AGGREGATE count(*) AS n GROUP BY yes",
    "SELECT info.a AS a, tags[0] AS b, props['x'] AS c FROM Types",
    "SELECT k, current_date() AS a, now() AS b FROM Types WHERE t < current_timestamp()",
    "SELECT DISTINCT yes, i FROM Types ORDER BY i NULLS FIRST, yes LIMIT 3",
    "SELECT max(k) + 1 AS a, count(*) * 2 AS b FROM Types HAVING count(*) > 1",
    "SELECT k FROM Types WHERE k > (SELECT avg(k) FROM Types)",
    "SELECT sum(bi) AS s FROM Types WHERE k < 2",
    *(f"SELECT count({c}) AS a, min({c}) AS b, max({c}) AS c FROM Types" for c in COMPARABLE),
    *(f"SELECT sum({c}) AS a, avg({c}) AS b FROM Types WHERE k <> 1" for c in "i ti si bi f d wide whole m".split()),
    *(f"SELECT {c}, count(*) AS n FROM Types GROUP BY {c}" for c in COMPARABLE),
    *(f"SELECT DISTINCT {c} FROM Types" for c in COMPARABLE),
    *(f"SELECT {c}, k FROM Types ORDER BY {c} {o}, k" for c in COMPARABLE for o in ("", "DESC")),
    *(f"SELECT k FROM Types WHERE {c} {o} {LITERALS[c]}" for c in COMPARABLE for o in ("=", "<", ">=", "<=>")),
)
"""Each type, and what databases are known to do in their own ways."""


def decimals(*texts: str | None) -> list[Decimal | None]:
    return [None if t is None else Decimal(t) for t in texts]


def typed_rows() -> list[dict[str, Any]]:
    """Extremes and ordinary values of each type."""
    big = 2**63 - 1
    columns: dict[str, list[Any]] = {
        "i": [7, None, 0, -7, 2**31 - 1, 7, 1, None, 3],
        "ti": [7, None, 0, -128, 127, 7, 1, 2, 3],
        "si": [-7, None, 0, -32768, 32767, 7, 1, 2, 3],
        "bi": [7, None, 0, -big, big, 7, 3, 9007199254740993, 3],
        "f": [0.1, None, -0.0, float("nan"), float("inf"), 0.1, 1.5, 2.5, 0.0],
        "d": [0.1, None, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, 9007199254740992.0, 0.1],
        "wide": decimals("1.5", None, "0", f"-{'9' * 28}.{'9' * 10}", "1E-10", "1.5", "0.1", "3",
                         f"{'9' * 28}.{'9' * 10}"),
        "whole": decimals("3", None, "0", f"-{'9' * 20}", "9" * 20, "3", "7", "1", "3"),
        "m": decimals("0.10", None, "0", "-99999999.99", "99999999.99", "0.10", "1.50", "3", "0.1"),
        "yes": [True, None, False, True, False, True, None, False, True],
        "s": ["a", None, "", "a_b%", "Élan", "ß", "a\u0000b", "\uffff", "\U0001d11e İi  "],
        "raw": [b"\x00\xff", None, b"", b"a", b"\xff", b"\x00", b"\x00\xff", b"b", b"c"],
        "day": [date(2024, 2, 29), None, date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31),
                *(date(2024, 3, n) for n in range(1, 5))],
        "t": [START, None, START + timedelta(microseconds=1), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
              datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), START, START, START],
        "tags": [["a", None], None, [], ["é", "\u0000"], ["x"], None, None, None, ["y"]],
        "info": [{"a": 1, "b": 0.5}, None, {"a": None, "b": float("nan")}, *[{"a": n, "b": None} for n in range(6)]],
        "span": [*(n and timedelta(n[0], 0, n[1]) for n in ((0, 5), None, (0, 0), (-3, 1), (999, 0))),
                 *[timedelta(hours=1)] * 4],
        "props": [{"x": 1}, None, {}, {"x": None, "é": -1}, *[{"y": n} for n in range(5)]],
        "months": ["P1Y", None, "P0M", "-0-1", "P13M", *["P1Y"] * 4],
    }  # fmt: skip
    columns["ntz"] = [t and t.replace(tzinfo=None) for t in columns["t"]]
    return [{"k": n} | {name: values[n] for name, values in columns.items()} for n in range(9)]


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_each_type_is_the_same_in_the_database_and_in_spark(spark: Any, each_store: str) -> None:
    wb = Workbench(TYPES, spark=spark)
    wb.clock(START)
    wb.insert("Types", typed_rows())
    wb.step()
    reader, tables, known = open_tables(wb)
    plans, found = {}, {}
    for number, text in enumerate(turn(CHOSEN, int(each_store == "sqlite"), 6)):
        _, template = compile_read(text, known)
        plan, is_ordered = with_place(template.plan)
        try:
            _, rows = answer_in_store(plan, reader)
        except BelvedereError as error:
            if error.diagnostics[0].code not in BEYOND:
                raise
            continue
        plans[f"q{number}"], found[f"q{number}"] = (
            plan,
            (text, rows, is_ordered, [c.name for c in template.schema.visible]),
        )
    answers = by_spark(wb, plans, {n: reader.rows(t) for n, t in tables.items()})
    for name, (text, rows, is_ordered, shown) in found.items():
        ours, theirs = ((t.sort_by(PLACE) if is_ordered else t).select(shown) for t in (rows, answers[name]))
        assert ours.schema.types == theirs.schema.types, text
        assert same_rows(ours.to_pylist(), theirs.to_pylist()), text
        for n in range(ours.num_rows if is_ordered else 0):
            assert same_rows(ours.slice(n, 1).to_pylist(), theirs.slice(n, 1).to_pylist()), (text, n)
    reader.close()
    wb.close()
