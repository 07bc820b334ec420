"""What is wrong is said with a code, at the exact place, with a hint that helps."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script

BASE = """CREATE TABLE Sensors (sensorid INT, machineid INT, name STRING, PRIMARY KEY (sensorid));
CREATE TABLE Readings (sensorid INT, time TIMESTAMP, temp DOUBLE, tags ARRAY<STRING>);
Machines := SELECT DISTINCT machineid FROM Sensors;
Machines.sensors := JOIN Sensors s ON s.machineid = _.machineid;
"""

NUMBER = "row_number() OVER (ORDER BY sensorid)"

CASES = [
    ("V := SELECT sensrid FROM Sensors", "B2002", "sensrid", "did you mean `sensorid`?"),
    ("V := SELECT s.foo FROM Sensors s", "B2002", "s.foo", "there is `sensorid`, `machineid`, `name`"),
    ("V := SELECT s.11 = name AS b FROM Sensors s", "B1001", "s.11", "quote"),
    (
        "V := SELECT * FROM W;\nW := SELECT * FROM Sensors",
        "B2001",
        "W",
        "`W` is defined later, in line 6: a definition can only use earlier ones",
    ),
    ("V := SELECT coun(*) AS n FROM Sensors", "B3005", "coun(*)", "did you mean `count`?"),
    (
        "V := SELECT * FROM Readings WHERE hour(time) BETWEEN 8 AND 17",
        "B3002",
        "hour(time) BETWEEN 8 AND 17",
        "extract(HOUR FROM t)",
    ),
    ("V := SELECT * FROM Readings WHERE year(time) IN (2024)", "B3002", "2024", "extract(YEAR FROM t)"),
    ("V := SELECT * FROM Sensor", "B2001", "Sensor", "did you mean `Sensors`?"),
    ("V := SELECT x.name FROM Sensors s", "B2004", "x.name", "did you mean `s`?"),
    (
        "V := SELECT sensorid FROM Sensors s JOIN Readings r ON s.sensorid = r.sensorid",
        "B2003",
        "sensorid",
        "write `s.sensorid`",
    ),
    ("V := SELECT * FROM Sensors s, Readings s", "B2005", "Readings s", "another alias"),
    ("V := SELECT sensorid, name AS sensorid FROM Sensors", "B3043", "name AS sensorid", "another name with AS"),
    ("V := SELECT s.*, 1 AS name FROM Sensors s", "B3043", "1 AS name", "another name with AS"),
    (
        "V := SELECT x.name FROM (SELECT name, sensorid AS name FROM Sensors) x",
        "B2003",
        "x.name",
        "rename them with AS",
    ),
    (
        "V := WITH x AS (SELECT name, sensorid AS name FROM Sensors) SELECT name FROM x",
        "B2003",
        "name",
        "rename them with AS",
    ),
    ("V := SELECT sensorid, temp, count(*) AS n FROM Readings GROUP BY sensorid", "B3030", "temp", "max(temp)"),
    ("V := SELECT sensorid FROM Sensors WHERE count(*) > 1", "B3031", "count(*) > 1", "HAVING"),
    ("V := SELECT sensorid FROM Sensors WHERE name", "B3002", "name", "compare it"),
    (
        "V := SELECT name FROM Sensors WHERE sensorid <=> ANY (SELECT sensorid FROM Readings)",
        "B3012",
        "ANY (SELECT sensorid FROM Readings)",
        "write IN or EXISTS",
    ),
    ("V := SELECT count(*) AS n FROM Sensors HAVING 1", "B3002", "1", "compare it"),
    ("V := SELECT name FROM Sensors GROUP BY name HAVING sum(sensorid)", "B3002", "sum(sensorid)", "compare it"),
    ("V := SELECT count(*) FILTER (WHERE sensorid) AS n FROM Sensors", "B3002", "sensorid", "compare it"),
    ("V := SELECT CASE WHEN name THEN 1 END AS x FROM Sensors", "B3002", "name", "compare it"),
    ("V := SELECT CASE temp WHEN time THEN 1 END AS x FROM Readings", "B3002", "time THEN 1", "CAST one side"),
    ("V := SELECT if(name, 1, 2) AS x FROM Sensors", "B3002", "name", "compare it"),
    ("V := SELECT s.name FROM Sensors s JOIN Readings r ON r.temp", "B3002", "r.temp", "compare it"),
    (
        "V := SELECT s.name FROM Sensors s JOIN Readings r ON max(r.temp) > 1",
        "B3031",
        "max(r.temp) > 1",
        "subquery of FROM",
    ),
    (f"V := SELECT sensorid FROM Sensors WHERE {NUMBER} = 1", "B3038", f"{NUMBER} = 1", "QUALIFY"),
    (f"V := SELECT sensorid, {NUMBER} AS n FROM Sensors WHERE n = 1", "B3038", "n = 1", "QUALIFY"),
    (
        "V := SELECT count(*) AS c FROM Sensors HAVING rank() OVER (ORDER BY count(*)) = 1",
        "B3038",
        "rank() OVER (ORDER BY count(*)) = 1",
        "QUALIFY",
    ),
    (f"V := SELECT count(*) AS c FROM Sensors GROUP BY {NUMBER}", "B3038", NUMBER, "subquery of FROM"),
    (f"V := SELECT max({NUMBER}) AS c FROM Sensors", "B3038", f"max({NUMBER}) AS c", "subquery of FROM"),
    (
        "V := SELECT s.name FROM Sensors s JOIN Readings r ON rank() OVER (ORDER BY s.name) = 1",
        "B3038",
        "rank() OVER (ORDER BY s.name) = 1",
        "subquery of FROM",
    ),
    ("V := SELECT () AS x FROM Sensors", "B3001", "()", ""),
    (
        "V := SELECT s.name FROM Sensors s LEFT ANTI JOIN Readings r ON s.sensorid + r.sensorid IN (SELECT machineid "
        "FROM Machines)",
        "B3022",
        "s.sensorid + r.sensorid IN (SELECT machineid FROM Machines)",
        "EXISTS",
    ),
    (
        "V := SELECT a.name FROM (SELECT name FROM Sensors), (SELECT name FROM Sensors) a WHERE name = 'x'",
        "B2003",
        "name",
        "alias",
    ),
    ("V := SELECT CAST(sensorid AS DATE) AS x FROM Sensors", "B3002", "CAST(sensorid AS DATE)", "date_from_unix_date"),
    ("V := SELECT TRY_CAST(time AS BOOLEAN) AS x FROM Readings", "B3002", "TRY_CAST(time AS BOOLEAN)", "compute it"),
    (
        "V := SELECT CAST(tags AS ARRAY<INT>) AS x, CAST(tags AS MAP<STRING, INT>) AS y FROM Readings",
        "B3002",
        "CAST(tags AS MAP<STRING, INT>)",
        "compute it",
    ),
    ("V := SELECT tags['k'] AS x FROM Readings", "B3002", "'k'", "a[0]"),
    ("V := SELECT name FROM Sensors WHERE name SIMILAR TO 'a%'", "B3040", "name SIMILAR TO 'a%'", "RLIKE"),
    *(
        (f"V := SELECT sum(temp) OVER (ORDER BY sensorid {frame}) AS x FROM Readings", "B3015", place, hint)
        for frame, place, hint in (
            ("ROWS 2.00 PRECEDING", "2.00", "ROWS 2"),
            ("ROWS 'a' PRECEDING", "'a'", "ROWS 2"),
            *(
                (f"{kind} BETWEEN {between}", f"sum(temp) OVER (ORDER BY sensorid {kind} BETWEEN {between})", "earlier")
                for kind in ("ROWS", "RANGE")
                for between in (
                    "1 FOLLOWING AND 1 PRECEDING",
                    "CURRENT ROW AND 1 PRECEDING",
                    "1 PRECEDING AND 2 PRECEDING",
                    "UNBOUNDED FOLLOWING AND 1 PRECEDING",
                    "1 FOLLOWING AND UNBOUNDED PRECEDING",
                )
            ),
        )
    ),
    ("V := SELECT 1.20E-38BD AS x FROM Sensors", "B3003", "1.20E-38BD", "38 digits"),
    (
        "V := SELECT CAST(name AS DECIMAL(40, 2)) AS x FROM Sensors",
        "B3003",
        "CAST(name AS DECIMAL(40, 2))",
        "38 digits",
    ),
    ("V := SELECT sensorid FROM Readings WHERE tags = 1", "B3002", "tags = 1", "CAST"),
    ("V := SELECT time + 1 AS x FROM Readings", "B3002", "time + 1", "CAST"),
    ("V := SELECT rand() AS r FROM Sensors", "B3006", "rand()", "now()"),
    ("V := SELECT foo(name) AS r FROM Sensors", "B3005", "foo(name)", "Spark SQL has no function"),
    ("V := SELECT CAST(uper(name) AS STRING) AS r FROM Sensors", "B3005", "uper(name)", "did you mean `upper`?"),
    (
        "V := SELECT CAST(nosuch(name) AS STRING) AS r FROM Sensors",
        "B3005",
        "nosuch(name)",
        "Spark SQL has no function",
    ),
    (
        "V := SELECT CAST(bitmap_or_agg(x'01') AS STRING) AS r FROM Sensors",
        "B3005",
        "bitmap_or_agg(x'01')",
        "without it",
    ),
    ("V := SELECT parse_json(name) AS r FROM Sensors", "B3044", "", "variant_get(v"),
    ("V := SELECT greatest(name, 5) AS r FROM Sensors", "B3002", "greatest(name, 5)", "CAST the arguments"),
    ("V := SELECT try_mod(sensorid) AS r FROM Sensors", "B3002", "try_mod(sensorid)", "it takes 2 arguments"),
    ("V := SELECT max_by(name) AS r FROM Sensors", "B3002", "max_by(name)", "it takes 2 or 3 arguments"),
    (
        "V := SELECT regexp_replace(name, 'x') AS r FROM Sensors",
        "B3002",
        "regexp_replace(name, 'x')",
        "it takes 3 or 4 arguments",
    ),
    ("V := SELECT date_part('hour') AS r FROM Sensors", "B3002", "date_part('hour')", "it takes 2 arguments"),
    (
        "V := SELECT zip_with(array(1), array(2)) AS r FROM Sensors",
        "B3002",
        "zip_with(array(1), array(2))",
        "it takes 3 arguments",
    ),
    ("V := SELECT map() AS r FROM Sensors", "B3002", "map()", "give it one"),
    ("V := SELECT s.name FROM Sensors s, inline_outer() AS x", "B3002", "inline_outer()", "it takes 1 argument"),
    ("V := SELECT upper(array(name)) AS r FROM Sensors", "B3002", "upper(array(name))", "CAST the arguments"),
    ("V := SELECT sqrt(name = 'x') AS r FROM Sensors", "B3002", "sqrt(name = 'x')", "CAST the arguments"),
    ("V := SELECT uper(name) AS r FROM Sensors", "B3005", "uper(name)", "did you mean `upper`?"),
    (
        "V := SELECT (SELECT temp FROM Readings r WHERE r.sensorid = s.sensorid) AS x FROM Sensors s",
        "B3010",
        "",
        "LIMIT 1",
    ),
    ("V := SELECT sensorid FROM Sensors UNION ALL SELECT sensorid, temp FROM Readings", "B3052", "", "same number"),
    ("V := SELECT row_number() AS n FROM Sensors", "B3036", "", "OVER"),
    (
        "V := SELECT s.name FROM Sensors s LEFT JOIN LATERAL "
        "(SELECT count(*) AS n FROM Readings r WHERE r.sensorid = s.sensorid) x ON x.n > 1",
        "B3022",
        "x.n > 1",
        "ON TRUE",
    ),
    ("V := SELECT m.sensors FROM Machines m", "B4003", "m.sensors", "JOIN m.sensors"),
    ("V := SELECT * FROM Machines m JOIN m.sensor s", "B4001", "sensor", "did you mean `sensors`?"),
    ("V := SELECT * FROM Sensors s JOIN s.name n", "B4002", "name", "s.name"),
    (
        "Machines.x := SELECT count(*) FROM Sensors s WHERE s.machineid = _.machinid",
        "B2002",
        "_.machinid",
        "`machineid`",
    ),
    ("Machines.x := count(sensrs)", "B4021", "count(sensrs)", "did you mean `sensors`?"),
    ("Machine.x := 1", "B2001", "Machine", "did you mean `Machines`?"),
    ("Machines.sensors.x := 1", "B4004", "", "`Sensors` itself"),
    ("Machines.sensors := 5", "B4005", "sensors", ""),
    ("V := SELECT * FROM Readings LIMIT sensorid", "B3046", "sensorid", ""),
    ("EXPORT Foo TO a.B", "B2001", "Foo", ""),
    ("V := SELECT max(count(*)) AS x FROM Readings", "B3032", "", ""),
    ("V := SELECT array(INTERVAL '1-2' YEAR TO MONTH) AS x FROM Readings", "B3044", "", "make_ym_interval"),
    ("V := SELECT array(make_interval(1)) AS x FROM Readings", "B3044", "", "make_ym_interval"),
    ("CREATE TABLE X (a INTERVAL YEAR)", "B3003", "", "INTERVAL YEAR TO MONTH"),
    ("CREATE TABLE X (a INTERVAL DAY)", "B3003", "", "INTERVAL DAY TO SECOND"),
    ("V := SELECT CAST(d AS INT) AS x FROM (SELECT time - time AS d FROM Readings)", "B3002", "", "INTERVAL SECOND"),
    ("V := SELECT NULL AS x FROM Readings", "B3044", "", "CAST(NULL"),
    ("SELECT ? AS x FROM Sensors", "B3004", "?", "declare"),
    ("V := SELECT count(DISTINCT *) AS n FROM Sensors", "B3013", "*", "name the columns"),
    (
        "V := SELECT * FROM Tumble(data => TABLE(Readings), timecol => DESCRIPTOR(temp), dur => INTERVAL '1' HOUR)",
        "B5001",
        "temp",
        "",
    ),
    (
        "V := SELECT * FROM Tumble(data => TABLE(Readings), timecol => DESCRIPTOR(time), dur => INTERVAL '0' MONTH)",
        "B5002",
        "",
        "",
    ),
    ("IMPORT foo.Bar", "B6100", "foo", "[sources.foo]"),
    ("CREATE TABLE X (a INT, a INT)", "B2007", "a", ""),
    ("CREATE TABLE X (_key INT)", "B2012", "CREATE TABLE X (_key INT)", "underscore"),
    ("CREATE TABLE X (a INT, _UID INT)", "B2012", "CREATE TABLE X (a INT, _UID INT)", "underscore"),
    ("CREATE TABLE X (a ARRAY<STRUCT<_h0: INT>>)", "B2012", "CREATE TABLE X (a ARRAY<STRUCT<_h0: INT>>)", "underscore"),
    ("V := SELECT name AS _weight FROM Sensors", "B2012", "V := SELECT name AS _weight FROM Sensors", "underscore"),
    ("_Belvedere_x := SELECT name FROM Sensors", "B2012", "_Belvedere_x := SELECT name FROM Sensors", "reserved"),
    ("CREATE TABLE X (a INT, WATERMARK FOR a)", "B5001", "a", ""),
    ("CREATE TABLE X (t TIMESTAMP, WATERMARK FOR t AS t + INTERVAL 1 HOUR)", "B5003", "", "WATERMARK FOR t"),
]


@pytest.mark.parametrize(("text", "code", "place", "hint"), CASES)
def test_refusal(text: str, code: str, place: str, hint: str) -> None:
    compiled = compile_script(BASE + text)
    found = [d for d in compiled.diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code], [(d.code, d.message) for d in found]
    diagnostic = found[0]
    assert diagnostic.span is not None
    if place:
        assert (BASE + text)[diagnostic.span.start : diagnostic.span.end] == place
    assert hint in (diagnostic.hint or "")
    assert not diagnostic.message.endswith(".")


def test_one_mistake_is_said_once() -> None:
    compiled = compile_script(
        BASE + "V := SELECT nope FROM Sensors;\nW := SELECT * FROM V;\nV.x := 1;\nEXPORT W TO a.B;"
    )
    assert [d.code for d in compiled.diagnostics if d.severity == "error"] == ["B2002"]


def test_several_mistakes_are_said_together() -> None:
    compiled = compile_script(BASE + "V := SELECT nope FROM Sensors;\nW := SELECT * FROM Nowhere;")
    assert [d.code for d in compiled.diagnostics if d.severity == "error"] == ["B2002", "B2001"]


def test_notices_name_what_grows_without_end() -> None:
    text = """CREATE STREAM A (k INT, t TIMESTAMP, WATERMARK FOR t);
    CREATE STREAM _B (k INT, t TIMESTAMP, WATERMARK FOR t);
    J := SELECT a.k FROM A a JOIN _B b ON a.k = b.k;
    Bounded := SELECT a.k FROM A a JOIN _B b ON a.k = b.k WHERE b.t + 1 DAY >= now();
    State := DISTINCT _B ON k ORDER BY t DESC;
    S := SELECT a.k FROM A a JOIN State s ON a.k = s.k;"""
    found = [(d.code, d.message) for d in compile_script(text).diagnostics]
    assert found == [
        ("B6120", "public stream `A` is kept forever"),
        ("B6121", "the join in `J` keeps all rows of `A` and `_B` forever"),
    ]


TIMED = """CREATE STREAM _A (k INT, t TIMESTAMP, WATERMARK FOR t);
CREATE STREAM _B (k INT, t TIMESTAMP, WATERMARK FOR t);
CREATE STREAM _Plain (k INT);
CREATE TABLE _Kinds (k INT, PRIMARY KEY (k));
"""
TOTAL = "(SELECT k, count(*) AS n FROM _A GROUP BY k)"


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("SELECT k, count(*) AS n FROM _A GROUP BY k", ("B6122", "notice")),
        ("SELECT k % 7 AS d, count(*) AS n FROM _A GROUP BY k % 7", ("B6122", "notice")),
        ("SELECT x.k, count(*) AS n FROM _A a JOIN _Kinds x ON x.k = a.k GROUP BY x.k", None),
        ("SELECT k > 5 AS large, count(*) AS n FROM _A GROUP BY k > 5", None),
        (f"SELECT b.t, x.n FROM _B b JOIN {TOTAL} x ON x.k = b.k EMIT AFTER WATERMARK", ("B5013", "error")),
        (
            "SELECT k, FLOOR(t TO HOUR) AS h, count(*) AS n FROM _A GROUP BY k, FLOOR(t TO HOUR) EMIT AFTER WATERMARK",
            None,
        ),
        ("SELECT count(*) AS n FROM _A", None),
        ("SELECT k, count(*) AS n FROM _Plain GROUP BY k", None),
        ("SELECT k, count(*) AS n FROM _A WHERE t > now() - INTERVAL 1 DAY GROUP BY k", None),
        ("SELECT a.k FROM _A a JOIN _B b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR", None),
        ("SELECT a.k FROM _A a JOIN _B b ON a.k = b.k AND b.t >= a.t", ("B6121", "notice")),
    ],
)
def test_state_that_no_bound_frees_is_told(view: str, said: tuple[str, str] | None) -> None:
    compiled = compile_script(f"{TIMED}V := {view};")
    assert [(d.code, d.severity.value) for d in compiled.diagnostics] == ([said] if said else [])


def test_groups_without_end_are_told_once() -> None:
    views = "".join(f"V{i} := SELECT k, count(*) AS n FROM _A GROUP BY k;\n" for i in range(5))
    (found,) = compile_script(TIMED + views).diagnostics
    assert (
        found.message
        == "the groups of `V0`, `V1`, `V2` and 2 more are never complete: there is one for each key that ever arrived"
    )
