"""SPL's window clause: its spellings, its static rules, its names of aggregates, and the plans that come of it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import Severity
from belvedere.functions.function_table import ARITY, BY_KEY
from belvedere.lang.select.standard_sql import expand
from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.spl_aggregate import FiringReading, GroupCount, SplAggregate
from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    Interval,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)
from belvedere.plan.plan_text import plan_text
from belvedere.queries.single_query import compile_query
from belvedere.syntax.fmt.script_layout import format_script
from belvedere.syntax.parse import parse_script

BASE = """CREATE STREAM trades (sym STRING, price DOUBLE, qty INT, ts TIMESTAMP, v BIGINT, d DECIMAL(10, 2),
    wide DECIMAL(20, 2), WATERMARK FOR ts);
CREATE STREAM quotes (sym STRING, bid DOUBLE);
CREATE TABLE prices (sym STRING, price DOUBLE);
big := SELECT sym, price * 2 AS twice, ts AS at FROM trades WHERE qty > 10;
"""
S = 1_000_000
VOLUME = "SELECT sum(qty) AS q"


def plan_of(text: str, name: str = "V") -> Node:
    compiled = compile_script(BASE + text)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    return compiled.catalog.views[name].plan


def node_of(text: str, name: str = "V") -> SplAggregate:
    return next(n for n in plan_of(text, name).walk() if isinstance(n, SplAggregate))


def window_of(clause: str) -> SplWindow:
    return node_of(f"V := {VOLUME} FROM trades AS C WINDOW ({clause})").window


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("tumbling, count(5)", Tumbling(Count(5))),
        ("tumbling, time(0.5)", Tumbling(Time(500_000))),
        ("Tumbling, Delta(v, 10)", Tumbling(Delta("C.v", 10))),
        ("sliding, delta(d, 0.25)", Sliding(Delta("C.d", Decimal("0.25")), Count(1))),
        ("tumbling, delta(C.price, 2)", Tumbling(Delta("C.price", 2.0))),
        ("tumbling, delta(ts, 1.5)", Tumbling(Delta("C.ts", 1_500_000, of_time=True))),
        ("sliding, count(4)", Sliding(Count(4), Count(1))),
        ("sliding, count(0)", Sliding(Count(0), Count(1))),
        ("sliding, time(10), count(5)", Sliding(Time(10 * S), Count(5))),
        ("sliding, time(10u), count(5lu)", Sliding(Time(10 * S), Count(5))),
        ("sliding, count(10l), time(5.0f)", Sliding(Count(10), Time(5 * S))),
        ("sliding, time(INTERVAL '10' MINUTE), delta(v, 5)", Sliding(Time(600 * S), Delta("C.v", 5))),
        ("sliding, delta(v, 2.5), time(1.0w)", Sliding(Delta("C.v", 2), Time(S))),
        ("timeInterval, intervalDuration(60.0)", Interval(60 * S, 60 * S)),
        (
            "TIMEINTERVAL, intervalDuration(60.0), creationPeriod(10.0), discardAge(3600.0), intervalOffset(5)",
            Interval(60 * S, 10 * S, 3600 * S, 5 * S),
        ),
    ],
)
def test_policies(clause: str, kind: Tumbling | Sliding | Interval) -> None:
    assert window_of(clause) == SplWindow(kind)


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("tumbling, count(5), partitioned BY sym", SplWindow(Tumbling(Count(5)))),
        ("sliding, count(5), partitioned BY sym, qty % 2, partitionAge(1.5)",
         SplWindow(Sliding(Count(5), Count(1)), PartitionAge(1_500_000))),
        ("tumbling, count(5), partitioned BY sym, partitionCount(3)", SplWindow(Tumbling(Count(5)), PartitionCount(3))),
        (
            "tumbling, count(5), partitioned BY sym, tupleCount(3), aggregateEvictedPartitions",
            SplWindow(Tumbling(Count(5)), TupleCount(3), evicted=True),
        ),
        ("sliding, count(5), aggregateIncompleteWindows", SplWindow(Sliding(Count(5), Count(1)), incomplete=True)),
        ("sliding, count(5), aggregateIncompleteWindows : true",
         SplWindow(Sliding(Count(5), Count(1)), incomplete=True)),
        ("sliding, count(5), aggregateIncompleteWindows = false", SplWindow(Sliding(Count(5), Count(1)))),
    ],
)  # fmt: skip
def test_partitions_and_options(clause: str, expected: SplWindow) -> None:
    assert window_of(clause) == expected


SPELLINGS = [
    "V := SELECT sym, sum(qty) AS q FROM trades WINDOW (sliding, time(10), count(5), partitioned BY sym) AS C GROUP "
    "BY sym",
    "V := SELECT sym, sum(qty) AS q FROM trades AS C WINDOW (sliding, time(10), count(5), partitioned BY sym) GROUP "
    "BY sym",
    "V := SELECT sym, sum(qty) AS q FROM trades AS C WINDOW (C : sliding, time(10), count(5), partitioned BY C.sym)",
    "V := SELECT sym, sum(qty) AS q FROM trades AS C window C : sliding, time(10), count(5), partitioned PARTITION BY "
    "C.sym;",
    "V := SELECT sym, sum(qty) AS q FROM trades AS C\n  WINDOW c: sliding, time(10),\n count(5), partitioned BY "
    "sym\nGROUP BY sym",
    "V := SELECT sym, sum(qty) AS q FROM trades AS C WITH (window = 'C : sliding, time(10), count(5), partitioned', "
    "partitionBy = 'sym')",
    "V := SELECT sym, sum(qty) AS q FROM trades WITH (window = 'sliding, time(10), count(5), partitioned BY sym') AS "
    "C GROUP BY sym",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_spellings_mean_the_same(text: str) -> None:
    assert plan_of(text) == plan_of(SPELLINGS[0])


@pytest.mark.parametrize("text", SPELLINGS)
def test_layout_keeps_the_meaning(text: str) -> None:
    once = format_script(text)
    assert "WINDOW" in once.upper()
    assert format_script(once) == once
    assert plan_of(once) == plan_of(text)


def test_layout() -> None:
    text = "v := select sym, sum(qty) as q from trades as c window c : sliding, time(10u), delta(v, -5.0f) group by sym"
    assert format_script(text) == (
        "v :=\n    SELECT sym, sum(qty) AS q\n    FROM trades AS c\n    WINDOW c : sliding, time(10u), delta(v, "
        "-5.0f)\n    GROUP BY sym;\n"
    )


def test_the_plan() -> None:
    text = """V := SELECT sym, qty % 2 AS odd, sum(price * qty) / sum(qty) AS vwap, firing() AS f
    FROM trades WINDOW (sliding, time(10), count(5), partitioned BY sym) AS t WHERE price > 0
    GROUP BY sym, odd HAVING count(*) > 1"""
    assert plan_text(plan_of(text)) == (
        "project sym = t.sym, odd = group, vwap = aggregate / aggregate_2, f = firing\n"
        "  filter aggregate_3 > 1\n"
        "    spl window sliding, time(10), count(5) partitioned by [t.sym] group by [group] aggregate = "
        "SUM(_argument), aggregate_2 = SUM(t.qty), aggregate_3 = COUNT(*), firing = firing()\n"
        "      project t.sym, group = qty % 2, _argument = price * qty, t.qty, (t._uid), (t._ingest_time)\n"
        "        filter t.price > 0\n"
        "          project t.sym = sym, t.price = price, t.qty = qty, (t._uid = _uid), (t._ingest_time = "
        "_ingest_time)\n"
        "            scan trades"
    ).replace("group = qty", "group = t.qty").replace("price * qty", "t.price * t.qty")


def test_the_last_firing_is_known_by_partition_group_and_pane() -> None:
    assert plan_of(f"V := {VOLUME} FROM trades WINDOW (tumbling, count(3))").schema.key == ()
    text = (
        "V := SELECT sym AS s, qty, count(*) AS n FROM trades WINDOW (tumbling, count(3), partitioned BY sym) "
        "GROUP BY qty"
    )
    assert plan_of(text).schema.key == ("s", "qty")
    text = (
        "V := SELECT intervalEnd() AS e, count(*) AS n FROM trades WINDOW (timeInterval, intervalDuration(5), "
        "partitioned BY sym)"
    )
    assert plan_of(text).schema.key == ("_sym", "_pane")
    text = (
        "V := SELECT intervalStart() AS s, count(*) AS n FROM trades WINDOW (timeInterval, intervalDuration(5)) "
        "GROUP BY intervalStart()"
    )
    assert plan_of(text).schema.key == ("s",)


def test_all_firings_are_numbered() -> None:
    text = "V := SELECT STREAM sym, count(*) AS n FROM trades WINDOW (tumbling, count(3), partitioned BY sym)"
    plan = plan_of(text)
    assert plan.schema.key == ("_seq",)
    assert [c.name for c in plan.schema if c.hidden] == ["_fired", "_firing", "_seq"]
    assert node_of(text).every


def test_a_chain_goes_by_the_firings_below() -> None:
    text = """A := SELECT STREAM sym, count(*) AS n FROM trades WINDOW (tumbling, count(3)) GROUP BY sym;
    B := SELECT n FROM A WHERE n > 1;
    V := SELECT max(n) AS n FROM A AS a WINDOW (tumbling, punct());
    W := SELECT max(n) AS n FROM B AS b WINDOW (sliding, count(3));"""
    node = node_of(text)
    assert (node.order, node.clock, node.punctuation) == ("a._seq", "a._fired", "a._firing")
    assert node.window.kind == Tumbling(Punctuation())
    assert node_of(text, "W").punctuation is None


def test_a_view_or_subquery_of_a_stream_may_be_the_table() -> None:
    node = node_of("V := SELECT max(twice) AS m FROM big WINDOW (timeInterval, intervalDuration(5))")
    assert (node.order, node.clock, node.time) == ("big._uid", "_ingest_time", "trades.ts") or node.time == "big.at"
    text = (
        "V := SELECT max(p) AS m FROM (SELECT price + 1 AS p FROM trades WHERE qty > 1) WINDOW (sliding, count(3)) AS t"
    )
    assert node_of(text).input.schema.find("t.p") is not None


AGGREGATES = [
    ("Count()", "count(*)"),
    ("CountAll()", "count(*)"),
    ("CountDistinct(sym)", "count(DISTINCT sym)"),
    ("First(qty)", "first(qty)"),
    ("Last(qty)", "last(qty)"),
    ("CountGroups()", "least(count(*), 1)"),
    ("CountByGroup()", "array(count(*))"),
    ("Any(sym)", "last(sym)"),
    ("Any(price > 1)", "bool_or(price > 1)"),
    ("Collect(qty)", "collect_list(qty)"),
    ("CollectDistinct(qty)", "array_distinct(collect_list(qty))"),
    ("Sum(qty)", "sum(qty)"),
    ("Average(price)", "CAST(avg(price) AS DOUBLE)"),
    ("Average(qty)", "CAST(sum(qty) DIV nullif(count(qty), 0) AS INT)"),
    ("SampleStdDev(price)", "CASE WHEN count(price) > 0 THEN coalesce(stddev_samp(price), 0e0) END"),
    ("PopulationStdDev(price)", "stddev_pop(price)"),
    ("Min(price)", "min(price)"),
    ("MinCount(price)", "size(filter(collect_list(price), v -> v = min(price)))"),
    ("MaxCount(price + 1)", "size(filter(collect_list(price + 1), v -> v = max(price + 1)))"),
    ("ArgMin(price, sym)", "min_by(sym, price)"),
    ("argmax(price, sym)", "max_by(sym, price)"),
    (
        "CountByDistinct(qty)",
        "transform(array_distinct(collect_list(qty)), v -> size(filter(collect_list(qty), w -> w = v)))",
    ),
]


@pytest.mark.parametrize(("spl", "sql"), AGGREGATES)
def test_aggregates_by_their_names_in_spl(spl: str, sql: str) -> None:
    table = "FROM trades WINDOW (sliding, count(4))"
    assert plan_of(f"V := SELECT {spl} AS x {table}") == plan_of(f"V := SELECT {sql} AS x {table}")


def test_counts_over_all_groups() -> None:
    counts = "CountGroups() AS g, CountAll() AS a, CountByGroup() AS b, size(CountByGroup()) AS s"
    node = node_of(
        f"V := SELECT sym, {counts} FROM trades WINDOW (sliding, count(4)) GROUP BY sym HAVING CountAll() > 1"
    )
    assert [c.count for c in node.counts] == [GroupCount.GROUPS, GroupCount.ROWS, GroupCount.BY_GROUP]
    assert (
        node_of(
            "V := SELECT CountGroups() AS g FROM trades WINDOW (sliding, count(4), partitioned BY sym) GROUP BY sym"
        ).counts
        == ()
    )


def test_columns_are_named_by_what_is_written() -> None:
    plan = plan_of(
        "V := SELECT ArgMin(price, sym), Count(), Average(qty), Any(sym) FROM trades WINDOW (sliding, count(4))"
    )
    assert plan.schema.names == ("argmin_price_sym", "count", "average_qty", "any_sym")


@pytest.mark.parametrize(
    "call", ["Average(qty)", "CollectDistinct(qty)", "CountAll()", "MinCount(qty)", "firing()", "intervalStart()"]
)
def test_spl_names_are_unknown_elsewhere(call: str) -> None:
    assert codes(f"V := SELECT {call} AS x FROM trades") == ["B3005"]


def test_the_functions_of_the_language_stay_as_they_are() -> None:
    assert ARITY["count"][0] == 1
    assert not {"average", "collectdistinct", "countdistinct", "firing"} & {k.lower() for k in BY_KEY}
    assert codes("V := SELECT count() AS n FROM trades") == ["B3002"]
    elsewhere = (
        "V := SELECT n FROM (SELECT Count() AS n FROM trades) q; W := SELECT 1 AS one FROM trades WINDOW "
        "(sliding, count(4))"
    )
    assert codes(elsewhere)[0] == "B3002"


def test_a_window_of_sql_stays_sqls() -> None:
    text = "V := SELECT sum(qty) OVER w AS s FROM trades WINDOW w AS (PARTITION BY sym ORDER BY ts)"
    assert not any(isinstance(n, SplAggregate) for n in plan_of(text).walk())
    named = "V := SELECT sum(qty) OVER sliding AS s FROM trades WINDOW sliding AS (PARTITION BY sym ORDER BY ts)"
    assert not any(isinstance(n, SplAggregate) for n in plan_of(named).walk())


def test_the_lines_of_several_ports_are_one_statement() -> None:
    text = """V := SELECT sum(qty) AS q FROM trades AS C, quotes AS D, big AS T
     window C : sliding, time(10), count(5);
            D : tumbling, delta(i, 10);
            T : timeInterval, intervalDuration(60.0), creationPeriod(10.0), discardAge(3600.0);
    W := SELECT sym FROM trades;"""
    script = parse_script(text)
    assert script.ok
    assert len(script.statements) == 2
    assert codes(text) == ["B5214"]
    assert format_script(format_script(text)) == format_script(text)


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_expansion_keeps_the_window(text: str) -> None:
    catalog = compile_script(BASE + text).catalog
    again = expand(catalog, "V")
    assert "WINDOW" in again
    assert "count(5)" in again.lower()
    assert compile_script(BASE + again).catalog.views["V"].plan == catalog.views["V"].plan


# -- refusals ---------------------------------------------------------------------------------------------------------


def found(text: str) -> list[tuple[str, str, str]]:
    """Code, place as text, and hint of each error."""
    compiled = compile_script(BASE + text)
    errors = [d for d in compiled.diagnostics if d.severity is Severity.ERROR]
    return [(d.code, (BASE + text)[d.span.start : d.span.end] if d.span else "", d.hint or "") for d in errors]


def codes(text: str) -> list[str]:
    return [code for code, _, _ in found(text)]


STATIC = [
    ("tumbling", "B5203", "tumbling"),
    ("sliding, count(5), count(2), count(1)", "B5203", "count(1)"),
    ("sliding, count(5), partitionAge(10.0)", "B5206", "partitionAge(10.0)"),
    ("tumbling, count(5), partitioned BY sym, partitionAge(1.0), tupleCount(5)", "B5206", "tupleCount(5)"),
    ("timeInterval, intervalDuration(5.0), count(3)", "B5207", "count(3)"),
    ("timeInterval, intervalDuration(5.0), partitioned BY sym, partitionCount(5)", "B5206", "partitionCount(5)"),
    ("tumbling, delta(1, 10)", "B5205", "1"),
    ("tumbling, delta(v)", "B5205", "delta(v)"),
    ("tumbling, count(5), aggregateIncompleteWindows", "B5209", "aggregateIncompleteWindows"),
    ("tumbling, count(5), PARTITION BY sym", "B5208", "sym"),
    ("tumbling, count(5), partitioned", "B5208", "partitioned"),
    ("count(5)", "B5201", "count"),
    ("slidding, count(5)", "B5201", "slidding"),
    ("sliding(1), count(5)", "B5201", "sliding(1)"),
    ("tumbling, sliding, count(5)", "B5202", "sliding"),
    ("tumbling, cuont(5)", "B5202", "cuont(5)"),
    ("tumbling, count", "B5202", "count"),
    ("sliding, count(5), partitioned : 1", "B5202", "partitioned : 1"),
    ("sliding, count(5), partitioned(1)", "B5202", "partitioned(1)"),
    ("timeInterval, intervalDuration(5), discardAge(1), discardAge(2)", "B5202", "discardAge(2)"),
    ("sliding, count(5), partitioned BY sym, aggregateIncompleteWindows, partitionAge(1)", "B5204", "partitionAge(1)"),
    ("sliding, punct()", "B5203", "punct()"),
    ("sliding, count(5), discardAge(5)", "B5207", "discardAge(5)"),
    ("timeInterval, creationPeriod(5)", "B5203", "creationPeriod(5)"),
    ("timeInterval", "B5203", "timeInterval"),
    ("timeInterval, intervalDuration(5), intervalOffset(5)", "B5205", "intervalOffset(5)"),
    ("tumbling, count(qty)", "B5205", "qty"),
    ("tumbling, count(0)", "B5205", "0"),
    ("tumbling, count(1.5)", "B5205", "1.5"),
    ("tumbling, count(1, 2)", "B5205", "count(1, 2)"),
    ("tumbling, time(0)", "B5205", "0"),
    ("tumbling, time(INTERVAL '1' MONTH)", "B5205", "INTERVAL '1' MONTH"),
    ("tumbling, punct(1)", "B5205", "punct(1)"),
    ("tumbling, delta(sym, 1)", "B5205", "sym"),
    ("tumbling, delta(wide, 1)", "B5205", "wide"),
    ("tumbling, delta(v, -1)", "B5205", "-1"),
    ("tumbling, delta(nothing, 1)", "B2002", "nothing"),
    ("tumbling, punct()", "B5212", "punct()"),
    ("sliding, count(5), aggregateEvictedPartitions", "B5209", "aggregateEvictedPartitions"),
    ("sliding, count(5), flushOnFinal", "B5209", "flushOnFinal"),
]


@pytest.mark.parametrize(("clause", "code", "place"), STATIC, ids=[c for c, _, _ in STATIC])
def test_static_rules(clause: str, code: str, place: str) -> None:
    ((shown, at, hint),) = found(f"V := {VOLUME} FROM trades WINDOW ({clause})")
    assert (shown, at) == (code, place)
    assert hint


OTHERS = [
    ("V := SELECT sym, sum(qty) AS q FROM trades WINDOW (sliding, count(4))", "B3030"),
    ("V := SELECT sum(price) AS s FROM prices WINDOW (sliding, count(4))", "B5211"),
    ("V := SELECT sum(n) AS s FROM (SELECT sym, count(*) AS n FROM trades GROUP BY sym) WINDOW (sliding, count(4))",
     "B5211"),
    ("V := SELECT sum(n) AS s FROM (SELECT count(*) AS n FROM trades WINDOW (sliding, count(3))) WINDOW (sliding, "
     "count(4))", "B5211"),
    ("V := SELECT DISTINCT sym FROM trades; W := SELECT count(*) AS n FROM V WINDOW (sliding, count(4))", "B5211"),
    ("A := SELECT STREAM count(*) AS n FROM trades WINDOW (sliding, count(3)); V := SELECT max(n) AS n FROM A WINDOW "
     "(timeInterval, intervalDuration(5))", "B5210"),
    ("V := SELECT intervalStart() AS s FROM trades WINDOW (sliding, count(4))", "B5213"),
    ("V := SELECT Custom(qty) AS s FROM trades WINDOW (sliding, count(4))", "B5213"),
    ("V := SELECT CountAll(qty) AS s FROM trades WINDOW (sliding, count(4)) GROUP BY sym", "B3002"),
    ("V := SELECT Collect() AS s FROM trades WINDOW (sliding, count(4))", "B3002"),
    (f"V := {VOLUME} FROM trades JOIN quotes USING (sym) WINDOW trades : sliding, count(4)", "B5214"),
    (f"V := {VOLUME} FROM trades AS t WINDOW u : sliding, count(4)", "B5215"),
    (f"V := {VOLUME} FROM trades AS t WINDOW (u : sliding, count(4))", "B5215"),
    (f"V := {VOLUME} FROM trades AS t WINDOW (sliding, count(4)) WINDOW t : sliding, count(4)", "B5215"),
    (f"V := {VOLUME} FROM trades WINDOW (sliding, count(4)) AS t WINDOW (sliding, count(4))", "B5215"),
    ("V := SELECT DISTINCT sum(qty) AS q FROM trades WINDOW (sliding, count(4))", "B5214"),
    (f"V := {VOLUME} FROM trades WINDOW (sliding, count(4)) GROUP BY ROLLUP (sym)", "B5214"),
    (f"V := {VOLUME} FROM trades WINDOW (sliding, count(4)) WHERE ts > now()", "B5214"),
    (f"V := {VOLUME} FROM trades WINDOW (sliding, count(4)) WHERE sym IN (SELECT sym FROM prices)", "B5214"),
    ("V := SELECT sum(sum(qty)) OVER () AS q FROM trades WINDOW (sliding, count(4)) GROUP BY sym", "B5214"),
    ("V := SELECT STREAM sum(qty) AS q FROM trades WINDOW (sliding, count(4)) ORDER BY q", "B5214"),
    ("V := SELECT STREAM Last(qty) AS q FROM trades WINDOW (tumbling, count(4)) ORDER BY q", "B5214"),
    ("V := SELECT STREAM qty FROM trades WINDOW (sliding, time(4)) ORDER BY qty", "B5218"),
    ("V := SELECT STREAM qty FROM trades WINDOW (sliding, count(4), count(2)) ORDER BY qty", "B5218"),
    ("V := SELECT STREAM qty FROM trades WINDOW (tumbling, count(4)) ORDER BY qty LIMIT 2", "B5214"),
    (f"V := SELECT sym FROM prices WHERE price > ({VOLUME} FROM trades WINDOW (sliding, count(4)))", "B5214"),
    (f"V := {VOLUME} FROM trades WITH (window = 'sliding, count(4)', windows = 3)", "B5202"),
    (f"V := {VOLUME} FROM trades WITH (window = 'sliding, count(4), partitioned BY sym', partitionBy = 'sym')",
     "B5208"),
    (f"V := {VOLUME} FROM trades WITH (window = '')", "B5201"),
    (f"V := {VOLUME} FROM trades WITH (window = 'count(4)')", "B5201"),
    (f"V := {VOLUME} FROM trades WINDOW (sliding count(4))", "B1001"),
    (f"V := {VOLUME} FROM trades WINDOW (a, b)", "B1001"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), OTHERS, ids=[str(n) for n in range(len(OTHERS))])
def test_refusals(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_the_end_of_rows_is_told_where_there_is_none() -> None:
    text = f"{BASE}V := {VOLUME} FROM trades WINDOW (tumbling, count(4), flushOnFinal);"
    compiled = compile_script(text)
    (reported,) = (d for d in compiled.diagnostics if d.code == "B5217")
    assert reported.severity is Severity.NOTICE
    assert reported.span is not None
    assert text[reported.span.start : reported.span.end] == "flushOnFinal"
    columns = {"trades": list(compiled.catalog.inputs["trades"].schema.visible)}
    catalog, _ = compile_query(f"{VOLUME} FROM trades WINDOW (tumbling, count(4), flushOnFinal)", columns)
    assert catalog.templates


def test_a_column_that_is_not_aggregated_is_refused_with_the_way_out() -> None:
    ((_, place, hint),) = found("V := SELECT price, sum(qty) AS q FROM trades WINDOW (sliding, count(4))")
    assert place == "price"
    assert "last(price)" in hint


def test_readings_have_types() -> None:
    text = """V := SELECT intervalStart() AS s, intervalEnd() AS e, paneTiming() AS t, paneIndex() AS i, firing() AS f,
    firingTime() AS at
    FROM trades WINDOW (timeInterval, intervalDuration(60))"""
    node = node_of(text)
    assert {r.reading for r in node.readings} == set(FiringReading)
    shown = (
        FiringReading.INTERVAL_START,
        FiringReading.INTERVAL_END,
        FiringReading.PANE_TIMING,
        FiringReading.PANE_INDEX,
        FiringReading.FIRING,
        FiringReading.FIRING_TIME,
    )
    assert [c.type for c in plan_of(text).schema.visible] == [r.type for r in shown]
