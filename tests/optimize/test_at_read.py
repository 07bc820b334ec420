"""Views computed on read: answers never depend on the choice, the store or restarts."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.optimize.indexes import read_indexes
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain
from belvedere.pipeline.placement import Path, whole_plan, with_view_at_read
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.store.read.computed_views import is_said
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night, stores_by_turns
from tests.rules.random_plans import catalog_of
from tests.rules.test_recomputation import drive, random_row, same_rows

INPUTS = """
CREATE TABLE Keyed (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP, PRIMARY KEY (k));
CREATE STREAM Stream (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP);
CREATE TABLE Bag (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10, 2), t TIMESTAMP);
"""
VIEWS = (
    "Some := SELECT k, s, d, m, t FROM Keyed WHERE a > 1 OR s IS NULL;",
    "Groups := SELECT a, b, count(*) AS n, sum(k) AS k, max(s) AS s, min(t) AS t, avg(k) AS mean FROM Bag GROUP BY a, "
    "b;",
    "Rolled := SELECT a, sum(n) AS n, max(t) AS t FROM Groups GROUP BY a HAVING sum(n) > 1;",
    "Total := SELECT count(*) AS n, sum(m) AS m, max(d) AS d FROM Stream;",
    "_Named := SELECT k, s, b FROM Keyed WHERE s IS NOT NULL;",
    "Joined := SELECT g.k, n.s, g.m FROM Bag g JOIN _Named n ON g.a = n.k;",
    "Outer := SELECT g.a, g.n, x.s FROM Groups g LEFT JOIN Keyed x ON x.k = g.a AND x.b < 3;",
    "Idle := SELECT x.k FROM Keyed x LEFT ANTI JOIN Bag g ON g.k = x.k;",
    "Recent := SELECT k, t FROM Stream WHERE t + INTERVAL 5 MINUTES >= now();",
    "First3 := SELECT k, d, s FROM Bag ORDER BY d DESC, s LIMIT 3;",
    "Newest := SELECT k, a FROM Bag ORDER BY a DESC LIMIT 3;",
    "Most := DISTINCT Groups ON a ORDER BY n DESC;",
    "Latest := DISTINCT Stream ON k ORDER BY t DESC;",
    "Words := SELECT DISTINCT s, a FROM Stream;",
    "Both := SELECT k, s FROM Keyed UNION ALL SELECT k, s FROM Stream WHERE a = 1;",
    "Only := SELECT k, a FROM Bag EXCEPT SELECT k, a FROM Stream;",
    "Labels := SELECT k, CASE WHEN a > 2 THEN concat(s, '!') ELSE 'low' END AS label, a + b AS c FROM Bag;",
)
NAMES = [v.partition(" ")[0] for v in VIEWS if not v.startswith("_")]


def script(at_read: set[str]) -> str:
    lines = (f"/*+ at_read */\n{v}" if v.partition(" ")[0] in at_read else v for v in VIEWS)
    return (
        INPUTS
        + "\n".join(lines)
        + "\nKeyed.some := JOIN Some s ON s.k = _.k;\nKeyed.bags := JOIN Joined j ON j.k = _.k;\n"
    )


def partly_at_read(catalog: Catalog, random: Random, share: float) -> Catalog:
    """The catalog with some of the views computed when they are read, of those that can be, but for random parts."""
    for id_ in list(catalog.views):
        plan = whole_plan(catalog, id_)
        if random.random() < share and not isinstance(plan, Scan) and is_said(plan):
            parts = tuple(_cuts(plan, (), random, random.choice([0.0, 0.3])))
            with suppress(BelvedereError):
                catalog = with_view_at_read(catalog, id_, parts)
    return catalog


def _cuts(node: Node, path: Path, random: Random, share: float) -> Iterator[Path]:
    """Where a random cut goes through a plan: above what the database does not say at the latest."""
    for n, below in enumerate(node.inputs):
        if isinstance(below, Scan) or (is_said(below) and random.random() >= share):
            yield from _cuts(below, (*path, n), random, share)
        else:
            yield (*path, n)


def fill(wb: Workbench, random: Random) -> None:
    for table in ("Keyed", "Stream", "Bag"):
        rows = {n: random_row(random, random.randint(0, 6)) for n in range(6)}
        wb.insert(table, list({r["k"]: r for r in rows.values()}.values()))
    wb.delete("Keyed", [{"k": random.randint(0, 6)}])


def assert_right(wb: Workbench) -> None:
    for name, batch in wb.batches(NAMES).items():
        assert same_rows(wb.rows(name), batch), f"{name}: {wb.rows(name)} is not {batch}"


ASKED = (
    "{ some {k s} groups {a n} first3 {d s} keyed {k some {t} bags {s m}} joinedPage(first: 2) {nodes {k s} "
    "hasNextPage} }"
)


@pytest.mark.thorough
@pytest.mark.parametrize("each_store", ["sqlite", *at_night(["postgres"])], indirect=True)
def test_views_move_between_epochs_and_requests(
    executor: Any, each_store: str, tmp_path: pathlib.Path, request: Any
) -> None:
    """Each start has another choice over the same store; every answer is that of batch, and of GraphQL with all views
    stored."""
    random = Random(7)
    url = f"sqlite:///{tmp_path}/s.db" if each_store == "sqlite" else request.getfixturevalue("postgres_url")
    clock, asked, log = 0, [], None
    for at_read in (set(NAMES), set(), set(random.sample(NAMES, 8))):
        wb = Workbench(script(at_read), url, spark=executor)
        try:
            assert set(wb.catalog.placement.at_read) == at_read
            log = log or wb._log
            wb._log, wb._batch.log = log, log
            if not at_read:  # before its first epoch a store shows what it had
                wb.step()
                asked.append(wb.graphql(ASKED)["data"])
                assert asked[0] == asked[1]
            clock += 3
            wb.clock(f"2024-02-29 12:{clock:02}:00")
            fill(wb, random)
            wb.step()
            assert_right(wb)
            wb.restart()
            assert_right(wb)
            asked = [wb.graphql(ASKED)["data"]]
        finally:
            wb.close()


def check(spark: Any, seed: int) -> None:
    random = Random(seed)
    catalog = partly_at_read(catalog_of(seed, views=8, public_stream=seed % 2 == 0), random, random.choice([0.5, 1.0]))
    wb = Workbench.of_catalog(catalog, spark=spark)
    try:
        drive(wb, random, epochs=3)
    finally:
        wb.close()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(500, 516), 2), indirect=["each_store"])
def test_random_views_and_random_choices(spark: Any, seed: int) -> None:
    check(spark, seed)


@pytest.mark.spark
@pytest.mark.parametrize(
    "each_store", [pytest.param("postgres", marks=pytest.mark.postgres), *at_night(["sqlite"])], indirect=True
)
def test_random_cuts(spark: Any, each_store: str) -> None:
    check(spark, 501 if each_store == "sqlite" else 502)


def refusal(text: str) -> tuple[str, str]:
    found = [d for d in compile_script(text).diagnostics if d.code in ("B8024", "B4039", "B4033")]
    return found[0].code, found[0].message


TABLE = "CREATE TABLE T (k INT, d DOUBLE, a ARRAY<INT>, PRIMARY KEY (k));\n"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "/*+ at_read */\nV := SELECT k, median(d) AS m FROM T GROUP BY k;",
            "B8024",
            "cannot be computed at read time",
        ),
        (
            "/*+ at_read */\nV := SELECT d, count(*) AS n FROM T GROUP BY d;",
            "B8024",
            "which is DOUBLE",
        ),
        ("/*+ at_read */\nV := SELECT k FROM T WITH HISTORY;", "B8024", "its history is retained"),
        ("/*+ at_read */\nV := SELECT k FROM T;\nEXPORT V TO print.v;", "B8024", "its changes are exported"),
        (
            "CREATE TABLE _P (k INT, PRIMARY KEY (k));\n/*+ at_read */\nV := SELECT k FROM _P;",
            "B8024",
            "which is not stored",
        ),
        ("CREATE STREAM S (k INT) KEEP 7 DAYS;\n/*+ at_read */\nV := SELECT k FROM S;", "B8024", "rows leave `S`"),
        ("/*+ at_read, maintain */\nV := SELECT k FROM T;", "B4039", "both maintained and computed"),
        ("/*+ at_read */\n_V := SELECT k FROM T;", "B4033", "there is no hint `at_read` for `_V`"),
        ("/*+ at_read */\nCREATE TABLE U (k INT);", "B4033", "there is no hint `at_read` for `U`"),
        ("/*+ at_read(k) */\nV := SELECT k FROM T;", "B4033", "there is no hint `at_read` for `V`"),
    ],
)
def test_what_cannot_be_is_refused(text: str, code: str, message: str) -> None:
    found = refusal(TABLE + text)
    assert found[0] == code
    assert message in found[1]


def test_nothing_is_stored_and_what_it_reads_has_the_indexes() -> None:
    text = (
        TABLE
        + "/*+ at_read, query_by_any(x) */\nV := SELECT k, k + 0 AS y, k AS x FROM T WHERE d > 1;\nU := SELECT k FROM "
        "V;"
    )
    catalog = compile_script(text).catalog
    pipeline = maintain(catalog)
    assert "V" not in pipeline.relations
    assert "U" in pipeline.relations
    assert read_indexes(catalog, "V") == ()
    assert read_indexes(catalog, "T") == (("d",), ("k",))
    reported = {e.name: e.reads for e in explain(catalog, pipeline)}
    assert reported["V"] == 'computed by the database at read time from "T"'


def test_a_clock_that_only_requests_read_starts_epochs() -> None:
    text = (
        "CREATE TABLE T (k INT, t TIMESTAMP, PRIMARY KEY (k));\n/*+ at_read */\nV := SELECT k FROM T WHERE t > now();"
    )
    assert maintain(compile_script(text).catalog).reads_clock
