"""Scripts compile to the plans that one expects."""

from belvedere.compiler import Compiled, compile_script
from belvedere.plan.plan_text import plan_text

IOT = """
CREATE TABLE Sensors (sensorid INT, machineid INT);
CREATE TABLE SensorReading (sensorid INT, time TIMESTAMP, temperature DECIMAL(10,2), temperature_f DECIMAL(10,2));
SensorReading.temperature := coalesce(temperature, (temperature_f - 32)/9*5)
Sensors := DISTINCT Sensors ON sensorid ORDER BY _ingest_time DESC
SensorSmoothReading := SELECT sensorid, minute(time) as time_min, median(temperature) as temp
FROM SensorReading GROUP BY sensorid, time_min
Sensors.readings := JOIN SensorSmoothReading r ON r.sensorid = _.sensorid
CREATE VIEW Machines AS SELECT DISTINCT machineid FROM Sensors
Machines.sensors := JOIN Sensors s ON s.machineid = _.machineid
"""


def compiled(text: str) -> Compiled:
    result = compile_script(text)
    assert result.ok, [d.message for d in result.diagnostics]
    return result


def plan_of(text: str, view: str) -> str:
    return plan_text(compiled(text).catalog.views[view].plan)


def test_redefinition_makes_versions() -> None:
    catalog = compiled(IOT).catalog
    assert list(catalog.inputs) == ["Sensors~1", "SensorReading~1"]
    assert {"Sensors", "SensorReading", "Machines"} <= set(catalog.views)
    assert catalog.views["Sensors"].schema.key == ("sensorid",)


def test_a_local_query_is_a_join_with_an_aggregate() -> None:
    text = IOT + "Machines.n := SELECT count(*) FROM Sensors s WHERE s.machineid = _.machineid"
    assert (
        plan_of(text, "Machines")
        == """\
project machineid = _.machineid, n = (COALESCE(aggregate, 0))
  join left on link = _.machineid
    project _.machineid = machineid
      scan Machines~1
    aggregate by [link = machineid] aggregate = COUNT(*)
      scan Sensors"""
    )


def test_a_path_is_joins() -> None:
    text = IOT + "V := SELECT machineid, max(temp) AS t FROM Machines m JOIN m.sensors.readings r GROUP BY machineid"
    plan = plan_of(text, "V")
    assert "join inner on r.sensorid = sensors.sensorid" in plan
    assert "join inner on sensors.machineid = m.machineid" in plan


def test_a_window_function_over_a_frame_with_too_few_rows_may_be_null() -> None:
    over = "OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)"
    calls = {
        "nth_value(k, 2)": True,
        "first_value(k)": True,
        "max(k)": True,
        "lag(k)": True,
        "lag(k, 1, 0)": False,
        "count(k)": False,
    }
    over_of = {c: "OVER (PARTITION BY g ORDER BY k)" if c.startswith("lag") else over for c in calls}
    items = ", ".join(f"{c} {over_of[c]} AS c{n}" for n, c in enumerate(calls))
    view = compiled(f"CREATE TABLE T (k INT PRIMARY KEY, g INT); V := SELECT k, {items} FROM T;").catalog.views["V"]
    assert {c: view.schema[f"c{n}"].nullable for n, c in enumerate(calls)} == calls


def test_a_variable_of_a_lambda_hides_outputs_and_columns_of_its_name() -> None:
    text = """
CREATE STREAM A (id INT, xs ARRAY<INT>, ys ARRAY<STRUCT<id: INT, zs: ARRAY<INT>>>);
V := SELECT xs[0] AS x, id FROM A ORDER BY transform(xs, X -> x * 2)[0] LIMIT 3;
W := SELECT transform(ys, ID -> aggregate(id.zs, 0, (s, z) -> s + z + id.id)) AS sums, _uid FROM A
"""
    assert "_order = TRANSFORM(xs, X -> x * 2)[0]" in plan_of(text, "V")
    assert "ID -> AGGREGATE(id.zs, 0, (s, z) -> s + z + id.id)" in plan_of(text, "W")


def test_a_function_takes_the_value_of_a_subquery() -> None:
    text = """
CREATE TABLE A (id INT, x INT, PRIMARY KEY (id));
CREATE TABLE B (id INT, y INT, PRIMARY KEY (id));
A.b := JOIN B b ON b.id = _.id;
A.text := concat('y is ', CAST(b.y AS STRING));
V := SELECT id, abs((SELECT max(y) FROM B)) AS most FROM A WHERE abs((SELECT min(y) FROM B)) > x
"""
    assert "CONCAT('y is ', CAST(value.y AS STRING))" in plan_of(text, "A")
    assert "filter ABS((aggregate)) > A.x" in plan_of(text, "V")


def test_the_value_of_a_path_is_no_part_of_the_key() -> None:
    catalog = compile_script("""
        CREATE STREAM Stops (parcel INT, at TIMESTAMP, status STRING) KEEP 1 DAY;
        CREATE TABLE Parcels (id INT, PRIMARY KEY (id));
        Parcels.last := JOIN Stops s ON s.parcel = _.id ORDER BY s.at DESC LIMIT 1;
        Parcels.first := JOIN Stops s ON s.parcel = _.id ORDER BY s.at LIMIT 1;
        V := SELECT p.last.status, p.first.status AS first_status, p.last.at FROM Parcels p;
    """).catalog
    assert catalog.views["V"].schema.key == ("_id",)
