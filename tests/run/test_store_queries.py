"""Queries over a store: the database and Spark give the same rows, and Spark is asked only where it must be."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.queries.store_queries import (
    PLACE,
    Vocabulary,
    answer_in_store,
    answer_query,
    compile_read,
    store_vocabulary,
    with_place,
)
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night
from tests.rules.test_recomputation import same_rows

SCRIPT = """
CREATE TABLE Keyed (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP, PRIMARY KEY (k));
CREATE STREAM Log (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP, day DATE, yes BOOLEAN);
/** Groups of rows. */
Groups := SELECT a, b, count(*) AS n, sum(m) AS m, max(s) AS s, avg(d) AS d FROM Log GROUP BY a, b;
Newest := SELECT k, a, t FROM Log ORDER BY t DESC, k;
_Private := SELECT k, s FROM Keyed WHERE k > 2;
Keyed.rows := JOIN Log l ON l.k = _.k;
ByName(name STRING, most INT = 2) := SELECT k, s, m FROM Log WHERE s = :name ORDER BY m DESC, k LIMIT :most;
"""
WORDS = [None, "", "a", "ab", "é", "日本", "a'b\\", "~", "\x01\x00"]
DOUBLES = [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), -7.0]
START = datetime(2024, 2, 29, 12, tzinfo=UTC)


def row(pick: Any, k: int) -> dict[str, Any]:
    return {
        "k": k,
        "a": pick([None, 0, 1, 2, 3]),
        "b": pick([None, 1, 2]),
        "s": pick(WORDS),
        "d": pick(DOUBLES),
        "m": pick([None, Decimal("0.10"), Decimal("-3.25"), Decimal("12345678.99")]),
        "t": pick([None, START + timedelta(microseconds=pick(range(-10, 10)) * 1_500_000)]),
    }


def filled(spark: Any, url: str = "sqlite://") -> Workbench:
    pick = Random(5).choice
    wb = Workbench(SCRIPT, url, spark=spark)
    wb.clock(START)
    wb.insert("Keyed", [row(pick, k) for k in range(8)])
    more = [{"day": pick([None, "2024-02-29", "1969-12-31"]), "yes": pick([None, True, False])} for _ in range(30)]
    wb.insert("Log", [row(pick, k % 9) | m for k, m in enumerate(more)])
    wb.step()
    return wb


def value(random: Random) -> str:
    pick = random.choice
    forms = (
        "k",
        "a",
        "b",
        "m",
        "d",
        "k + b",
        "a - 1",
        "m * 2",
        "coalesce(a, 0)",
        "CASE WHEN a > 1 THEN k ELSE b END",
        "abs(a)",
    )
    return pick(forms)


def condition(random: Random, depth: int = 1) -> str:
    pick = random.choice
    if depth and random.random() < 0.4:
        return f"({condition(random, 0)} {pick(['AND', 'OR'])} {condition(random, 0)})"
    compared = (
        f"{pick(['k', 'a', 'm', 'd', 'b'])} {pick(['=', '<>', '<', '>=', '<=>'])} {pick(['1', '2', '0', 'a', '1.5'])}"
    )
    others = (
        f"s {pick(['=', '<', '>'])} {pick(['s', repr('a'), repr('é')])}",
        f"{pick('abskdmt')} IS {pick(['', 'NOT '])}NULL",
        f"t {pick(['<', '>='])} TIMESTAMP '2024-02-29 12:00:00'",
        f"t + INTERVAL 3 SECONDS {pick(['<', '>'])} now()",
        f"a IN (1, {pick('23')}, NULL)",
        f"s LIKE '{pick(['a%', '%b', '_', '%'])}'",
        f"NOT (a {pick('<>')} b)",
        f"k {pick(['', 'NOT '])}IN (SELECT k FROM Keyed WHERE a > 0)",
        f"EXISTS (SELECT 1 FROM Groups g WHERE g.a = b AND g.n > {pick('12')})",
    )
    return pick([compared, *others])


def query(random: Random) -> str:
    """A query that answers in one way only: what its order leaves open does not show."""
    pick = random.choice
    where = f" WHERE {condition(random)}" if random.random() < 0.7 else ""
    first = f"{pick('tmdsa')} {pick(['', 'DESC', 'ASC NULLS LAST'])}"
    order = f" ORDER BY {first}, k LIMIT {pick('0379')}{pick(['', ' OFFSET 2'])}"
    table = pick(["Keyed", "Log"])
    kind = random.randrange(8)
    if kind == 0:
        return f"SELECT k, s, d, m, t, {value(random)} AS v FROM {table}{where}{pick(['', order])}"
    if kind == 1:
        aggregates = (
            "count(*)",
            "count(s)",
            "sum(k)",
            "min(s)",
            "max(t)",
            "min(d)",
            "max(m)",
            "sum(m)",
            "avg(k)",
            "avg(m)",
            "count(DISTINCT a)",
        )
        listed = ", ".join(f"{a} AS x{n}" for n, a in enumerate(random.sample(aggregates, 4)))
        having = pick(["", " HAVING count(*) > 1"])
        return pick(
            [f"SELECT a, b, {listed} FROM {table}{where} GROUP BY a, b{having}", f"SELECT {listed} FROM {table}{where}"]
        )
    if kind == 2:
        join = pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        columns = "l.k, l.s" if "SEMI" in join or "ANTI" in join else "l.k, l.s, x.k AS xk, x.m AS xm"
        return f"SELECT {columns} FROM Log l {join} Keyed x ON x.k = l.a{pick(['', ' AND x.b > l.b'])}"
    if kind == 3:
        return f"SELECT DISTINCT {pick(['a, s', 'b', 'm', 's, t', 'd'])} FROM {table}{where}"
    if kind == 4:
        return (
            f"SELECT k, a, s FROM Keyed {pick(['UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT'])} SELECT k, a, s FROM "
            f"Log{where}"
        )
    if kind == 5:
        return f"SELECT n, m, s, d FROM Groups{pick(['', ' WHERE n > 1', ' ORDER BY n DESC, s, m, a, b LIMIT 3'])}"
    if kind == 6:
        inner = f"SELECT a, {pick(['sum(k)', 'count(*)', 'max(b)'])} AS v FROM {table}{where} GROUP BY a"
        return f"WITH x AS ({inner}) SELECT v, count(*) AS n FROM x GROUP BY v"
    first = f"{pick(['m', 'd', 's', 'yes', 'day'])} {pick(['', 'DESC'])}"
    return f"SELECT k, t, day, yes, {value(random)} AS v FROM Log{where} ORDER BY {first}, t, k"


def by_spark(wb: Workbench, plans: dict[str, Node], rows: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The answers of all plans in as few queries of Spark as they allow."""
    from belvedere.spark.batch import BatchAnswers, SingleEpochLog

    scans = {n.relation: n.schema for p in plans.values() for n in p.walk() if isinstance(n, Scan)}
    inputs = {i: Input(i, i, InputKind.TABLE, s) for i, s in scans.items()}
    views = {n: View(n, n, p, p.schema) for n, p in plans.items()}
    catalog = replace(wb.catalog, inputs=inputs, views=views)
    now = wb.engine.last.clock
    assert now is not None
    batch = BatchAnswers(
        wb.spark, catalog, SingleEpochLog(catalog, {i: rows[i].select(s.names) for i, s in scans.items()}, now)
    )
    try:
        return batch.answers(list(plans), now)
    finally:
        batch.close()


def no_spark(why: str) -> NoReturn:
    raise AssertionError(why)


def open_tables(wb: Workbench) -> tuple[Any, dict[str, Any], Vocabulary]:
    reader = wb.store.reader()
    tables = {t.name: t for t in wb.store.tables() if "$" not in t.name}
    return reader, tables, store_vocabulary(tables.values())


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 12))])
def test_the_database_and_spark_give_the_same_rows(spark: Any, seed: int) -> None:
    wb = filled(spark)
    reader, tables, known = open_tables(wb)
    random = Random(seed)
    texts = [query(random) for _ in range(80)]
    plans, found = {}, {}
    for number, text in enumerate(texts):
        _, template = compile_read(text, known)
        plan, is_ordered = with_place(template.plan)
        try:
            _, rows = answer_in_store(plan, reader)
        except BelvedereError as error:
            if error.diagnostics[0].code != "B8020":
                raise
            continue
        name = f"q{number}"
        plans[name], found[name] = plan, (text, rows, is_ordered, [c.name for c in template.schema.visible])
    assert len(found) > 50, "most of them need no Spark"
    answers = by_spark(wb, plans, {n: reader.rows(t) for n, t in tables.items()})
    for name, (text, rows, is_ordered, shown) in found.items():
        ours, theirs = ((t.sort_by(PLACE) if is_ordered else t).select(shown) for t in (rows, answers[name]))
        if is_ordered and not ours.num_rows == theirs.num_rows:
            raise AssertionError(text)
        assert same_rows(ours.to_pylist(), theirs.to_pylist()), text
        if is_ordered:
            for n in range(ours.num_rows):
                assert same_rows(ours.slice(n, 1).to_pylist(), theirs.slice(n, 1).to_pylist()), (text, n)
    reader.close()
    wb.close()


BY_SPARK = (
    ("SELECT upper(s) AS s FROM Keyed WHERE k = 1", "`UPPER(Keyed.s)` cannot be computed at read time"),
    ("SELECT k, row_number() OVER (ORDER BY k DESC) AS n FROM Keyed ORDER BY k LIMIT 2", "window functions"),
    ("SELECT d, count(*) AS n FROM Log GROUP BY d", "rows are compared by `Log.d`, which is DOUBLE"),
    ("SELECT median(k) AS m FROM Log", "MEDIAN"),
)


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_spark_answers_what_the_database_cannot(spark: Any) -> None:
    wb = filled(spark)
    reader, tables, known = open_tables(wb)
    keyed, log = wb.rows("Keyed"), wb.rows("Log")
    reasons: list[str] = []

    def start(why: str) -> Any:
        reasons.append(why)
        return spark

    answers = [answer_query(text, reader, tables, known, start) for text, _ in BY_SPARK]
    for (text, why), answer in zip(BY_SPARK, answers, strict=True):
        assert why in answer.by_spark, text
    assert reasons == [a.by_spark for a in answers]
    upper, numbered, doubles, median = (a.rows.to_pylist() for a in answers)
    assert upper == [{"s": next(r["s"] and r["s"].upper() for r in keyed if r["k"] == 1)}]
    assert numbered == [{"k": 0, "n": 8}, {"k": 1, "n": 7}]
    assert sorted(r["n"] for r in doubles) == sorted(
        Counter("nan" if r["d"] != r["d"] else r["d"] for r in log).values()
    )
    assert median == [{"m": statistics.median(r["k"] for r in log)}]
    with pytest.raises(BelvedereError) as error:
        answer_query("SELECT k + 9223372036854775807 AS x FROM Keyed", reader, tables, known, start)
    assert error.value.diagnostics[0].code == "B7041", "the database gave up, Spark says why"
    newest = answer_query("SELECT k, t FROM Newest LIMIT 4", reader, tables, known, no_spark).rows.to_pylist()
    assert newest == [{"k": r["k"], "t": r["t"]} for r in wb.rows("Newest")[:4]], "a view's own order"
    reader.close()
    wb.close()
