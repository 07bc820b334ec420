"""Redefined names, joins of relationships, columns of subscriptions, keys of windows, and arrival columns."""

from __future__ import annotations

import pytest

from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.lang.select.standard_sql import expand
from belvedere.pipeline.choose import maintain

TABLES = """
CREATE TABLE A (id INT, PRIMARY KEY (id));
CREATE TABLE B (id INT, v INT, PRIMARY KEY (id));
CREATE TABLE C (v INT, w INT, PRIMARY KEY (v));
CREATE STREAM _S (k STRING, i INT, ts TIMESTAMP, WATERMARK FOR ts);
"""


def catalog(text: str) -> Catalog:
    found = compile_script(TABLES + text)
    assert found.ok, found.diagnostics
    return found.catalog


def codes(text: str) -> list[str]:
    return [
        d.code for d in compile_script(TABLES + text).diagnostics if d.code not in ("B6120", "B6122", "B8023", "B5034")
    ]


@pytest.mark.parametrize(
    ("join", "pairs"),
    [
        ("JOIN B b USING (id)", (("id", "id"),)),
        ("INNER JOIN B USING (ID) WHERE v > 1", (("id", "id"),)),
        ("NATURAL JOIN B b", (("id", "id"),)),
        ("NATURAL JOIN C", ()),
        ("CROSS JOIN B", ()),
        ("JOIN B b", ()),
    ],
)
def test_using_and_natural_are_equalities(join: str, pairs: tuple[tuple[str, str], ...]) -> None:
    (found,) = (r for r in catalog(f"A.r := {join};").relationships if r.name == "r")
    assert found.pairs == pairs


@pytest.mark.parametrize(
    ("join", "code"),
    [
        ("JOIN B b USING (nosuch)", "B2002"),
        ("LEFT JOIN B b ON b.id = _.id", "B4045"),
        ("RIGHT OUTER JOIN B b USING (id)", "B4045"),
        ("FULL JOIN B b ON b.id = _.id", "B4045"),
        ("JOIN B b USING (id) FULL JOIN C c USING (v)", "B4045"),
        ("LEFT SEMI JOIN B b ON b.id = _.id", "B4045"),
        ("NATURAL LEFT JOIN B b", "B4045"),
        ("JOIN B b, B c", "B4045"),
        ("JOIN B b ON b.id = _.id CROSS JOIN C c", "B4045"),
    ],
)
def test_joins_that_mean_nothing_in_a_relationship_are_refused(join: str, code: str) -> None:
    assert codes(f"A.r := {join};") == [code]


def test_tables_that_a_condition_links_are_joined() -> None:
    for join in ("JOIN B b, C c WHERE b.id = _.id AND c.v = b.v", "JOIN B b USING (id) LEFT JOIN C c USING (v)"):
        found = catalog(f"A.r := {join};")
        assert [c.name for c in found.views["A.r"].schema.visible] == ["v", "w"], join


def test_a_relationship_stays_with_the_definition_that_it_saw() -> None:
    text = (
        "A.r := JOIN B b ON b.id = _.id;\nB.twice := 2 * v;\nB := SELECT id + 1 AS id, v FROM B;\nB.w := v;\nV := "
        "SELECT r.twice FROM A a JOIN a.r r;\n"
    )
    found = catalog(text)
    (link,) = (r for r in found.relationships if r.name == "r")
    assert link.target == "B~2"
    assert codes(text) == ["B4046"], "the column `twice` is gone from what `B` means now"
    override = catalog("A.r := JOIN B b ON b.id = _.id;\nB.id := id + 1;")
    assert next(r.target for r in override.relationships if r.name == "r") == "B~1", "of the former column"
    (reported,) = (
        d
        for d in compile_script(TABLES + "B.r := JOIN A a USING (id);\nB := SELECT id FROM B;").diagnostics
        if d.code == "B4046"
    )
    assert "`v`" in reported.message
    assert "`r`" in reported.message
    assert codes("B := SELECT * FROM B WHERE v > 1;") == []


@pytest.mark.parametrize(
    "again",
    [
        "B.r(l INT) := SELECT count(*) AS n FROM A a WHERE a.id = _.id AND a.id > :l;",
        "B.r := JOIN A a;",
        "B.r := v + 1;",
    ],
)
def test_the_name_of_a_computed_relationship_is_free_after_its_owner_is_defined_again(again: str) -> None:
    computes = "B.r(l INT) := SELECT count(*) AS n FROM A a WHERE a.id = _.id AND a.id > :l;\n"
    assert codes(f"{computes}B := SELECT id, v FROM B WHERE v > 1;\n{again}") == ["B4046"]
    assert codes(computes + again) == ["B4005"]


def test_a_computed_relationship_over_a_former_definition_has_a_hint() -> None:
    text = "A.r(l INT) := SELECT count(*) AS n FROM B b WHERE b.id = _.id AND b.v > :l;\nB.v := v * 10;"
    (found,) = (d for d in compile_script(TABLES + text).diagnostics if d.code == "B8021")
    assert found.hint == "write this definition behind the last definition of the name, or of its column"


def test_columns_of_subscriptions_are_columns_of_their_events() -> None:
    found = catalog(
        "CREATE SUBSCRIPTION S ON CHANGE AS SELECT id, v FROM B;\nS.w := v + 1;\nS.x := w + S.v;\nN := SELECT x, _op "
        "FROM S;"
    )
    events = found.subscriptions["S"]
    assert [c.name for c in events.schema.visible] == ["id", "v", "w", "x", "_op", "_event_time", "_seq", "_old"]
    assert [f.name for f in events.schema["_old"].type] == ["id", "v", "w", "x"]
    stages = [s.output for s in maintain(found).stages]
    assert [s for s in stages if s.startswith("S")] == ["S~query", "S"], "former definitions make no events"
    assert codes("CREATE SUBSCRIPTION S ON ADD AS SELECT id, v FROM B;\nS.d := date_trunc('DAY', _event_time);") == [
        "B4047"
    ]


def test_columns_of_subscriptions_follow_its_relationships() -> None:
    made = (
        "CREATE SUBSCRIPTION S ON ADD AS SELECT id, v FROM B;\n"
        "S.same := JOIN B b ON b.id = _.id LIMIT 1;\nS.equals := JOIN B b ON b.v = _.v;\n"
    )
    found = catalog(made + "S.w := same.v + 1;\nS.n := count(equals);\nN := SELECT w, n, _op FROM S;").subscriptions[
        "S"
    ]
    assert [c.name for c in found.schema.visible] == ["id", "v", "w", "n", "_op", "_event_time", "_seq"]
    assert codes(made + "S.last := JOIN B b ON b.id = _._seq;\nS.w := last.v;") == ["B2004"], (
        "an event's number is not its row's"
    )


def test_the_start_is_the_key_of_a_window() -> None:
    tumble = "TABLE(TUMBLE(TABLE _S, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
    found = catalog(
        f"V := SELECT window_start, count(*) AS n FROM {tumble} GROUP BY window_start, window_end;\n"
        f"W := SELECT k, window_end AS e, window_start, sum(i) AS s FROM {tumble} GROUP BY window_end, k, "
        "window_start EMIT AFTER WATERMARK;\n"
        "X := SELECT e, max(s) AS s FROM W GROUP BY window_start, e;\nY := SELECT window_start, max(s) AS s FROM W "
        "GROUP BY e;\n"
        "T := SELECT window_start, wend FROM (SELECT window_start, window_end AS wend, row_number() OVER (PARTITION "
        f"BY window_start, window_end ORDER BY count(*) DESC) AS r FROM {tumble} GROUP BY window_start, window_end, "
        "k) WHERE r <= 3;\n"
    )
    keys = {name: view.schema.key for name, view in found.views.items()}
    assert (keys["V"], keys["W"], keys["X"]) == (("window_start",), ("k", "window_start"), ("_window_start",))
    session = (
        "SELECT wstart, count(*) AS n FROM Session(data => TABLE(_S), timecol => DESCRIPTOR(ts), gap => "
        "INTERVAL '1' MINUTE) GROUP BY wstart, wend"
    )
    assert len(catalog(f"V := {session};").views["V"].schema.key or ()) == 2, "of a session neither end tells the other"


def test_columns_of_arrival_are_there_behind_views_that_clean() -> None:
    clean = (
        "CREATE STREAM T (id INT, v INT) KEEP 1 DAY;\nT := SELECT * FROM T WHERE v > 0;\nC := SELECT id, v + 1 AS "
        "w FROM T;\n"
    )
    found = catalog(
        clean + "D := DISTINCT C ON id ORDER BY _ingest_time DESC;\nE := SELECT w, _uid AS u FROM C;\nC.since := "
        "_ingest_time;\n"
    )
    assert [c.name for c in found.views["T"].schema] == ["id", "v", "_uid"], "nothing more is stored"
    assert [c.name for c in found.views["D"].schema.visible] == ["id", "w"]
    assert [c.name for c in found.views["C"].schema.visible] == ["id", "w", "since"]
    assert codes("G := SELECT v, count(*) AS n FROM B GROUP BY v;\nV := SELECT _ingest_time FROM G;") == ["B2002"]
    shown = {
        "below": "SELECT id, _ingest_time FROM (SELECT id FROM C WHERE w > 3) AS x",
        "below two": "SELECT x.id, x._ingest_time FROM (SELECT id FROM (SELECT * FROM T) AS y) AS x",
        "named": "WITH x AS (SELECT * FROM T) SELECT id, _ingest_time FROM x",
        "renamed": "SELECT id, _ingest_time FROM (SELECT v FROM T) AS x (id)",
    }
    for name, query in shown.items():
        assert [c.name for c in catalog(f"{clean}V := {query};").views["V"].schema.visible] == ["id", "_ingest_time"], (
            name
        )
    grouped = "V := SELECT _ingest_time FROM (SELECT v, count(*) AS n FROM B GROUP BY v) AS x;"
    assert codes(grouped) == ["B2002"]


def test_joins_whose_rows_leave_are_not_told_and_late_rows_are() -> None:
    streams = (
        "CREATE STREAM _L (k INT, ts TIMESTAMP, WATERMARK FOR ts){};\nCREATE STREAM _R (k INT, ts TIMESTAMP, "
        "WATERMARK FOR ts){};\n"
    )
    join = (
        "V := SELECT l.k, r.k AS rk, l.ts FROM _L l {} JOIN _R r ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 4 "
        "HOURS AND l.ts;"
    )
    for kind in ("", "LEFT", "RIGHT", "FULL"):
        assert codes(streams.format("", "") + join.format(kind)) == [], kind
    (reported,) = (
        d
        for d in compile_script(streams.format("", " LATE KEEP") + join.format("LEFT")).diagnostics
        if d.code == "B6121"
    )
    assert reported.hint is not None
    assert reported.hint.startswith("declare LATE DROP for `_R`:")


def test_a_column_that_is_defined_twice_is_printed_once() -> None:
    text = expand(catalog("B.x := v;\nB.x := id;\nB.y := v;"), "B")
    assert text.count(" AS x") == 1
    assert "id AS x" in text
