"""`explain --sql`: the seed's two figures, 'how SQRL syntax expands to standard SQL'."""

import sqlglot

from belvedere.compiler import compile_script
from belvedere.lang.expand import expand

SENSORS = """
CREATE TABLE Sensors (sensorid INT, machineid INT);
CREATE TABLE SensorReading (sensorid INT, time TIMESTAMP, temperature DECIMAL(10,2));
SensorSmoothReading := SELECT sensorid, minute(time) as time_min, median(temperature) as temp
FROM SensorReading GROUP BY sensorid, time_min
Sensors.readings := JOIN SensorSmoothReading r ON r.sensorid = _.sensorid
Sensors.lastReading := JOIN SensorSmoothReading r ON r.sensorid = _.sensorid ORDER BY r.time_min DESC LIMIT 1
CREATE VIEW Machines AS SELECT DISTINCT machineid FROM Sensors
Machines.sensors := JOIN Sensors s ON s.machineid = _.machineid
"""


def expansion(text: str, view: str) -> str:
    compiled = compile_script(SENSORS + text)
    assert compiled.ok, [d.message for d in compiled.diagnostics]
    return expand(compiled.catalog, view)


def same(printed: str, expected: str) -> None:
    name, _, query = printed.partition(" AS\n")
    assert name == "CREATE VIEW Machines"
    assert query == sqlglot.parse_one(expected, read="spark").sql("spark", pretty=True, max_text_width=100)


def test_figure_of_local_queries() -> None:
    text = """
    Machines.sensorcount := SELECT count(*) FROM Sensors s WHERE s.machineid = _.machineid
    Machines.maxRecentTemp := SELECT max(temp) FROM _.sensors.readings WHERE time_min + 24 HOUR >= now()
    """
    same(
        expansion(text, "Machines"),
        """SELECT machineid,
           (SELECT count(*) FROM Sensors s WHERE s.machineid = m.machineid) AS sensorcount,
           (SELECT max(temp) FROM Sensors s JOIN SensorSmoothReading r ON r.sensorid = s.sensorid
            WHERE s.machineid = m.machineid AND time_min + INTERVAL '24' HOUR >= current_timestamp()) AS maxRecentTemp
           FROM (SELECT DISTINCT machineid FROM Sensors) m""",
    )


FIGURE_TWO = """SELECT machineid,
   (SELECT avg(temp) FROM Sensors s JOIN
     (SELECT sensorid, temp FROM
        (SELECT sensorid, temp, row_number() OVER (PARTITION BY sensorid ORDER BY time_min DESC) AS row_no
         FROM SensorSmoothReading)
      WHERE row_no = 1) r ON r.sensorid = s.sensorid
    WHERE s.machineid = m.machineid) AS currentTemp
   FROM (SELECT DISTINCT machineid FROM Sensors) m"""


def test_figure_of_limited_relationships() -> None:
    same(expansion("Machines.currentTemp := SELECT avg(temp) FROM _.sensors.lastReading", "Machines"), FIGURE_TWO)


def test_a_path_in_an_aggregate_says_the_same() -> None:
    printed = expansion("Machines.currentTemp := avg(sensors.lastReading.temp)", "Machines")
    same(printed, FIGURE_TWO.replace("avg(temp)", "avg(r.temp)"))


def test_nested_tables_are_grouped_by_their_parent() -> None:
    printed = expansion(
        "Machines.byHour := SELECT hour(time_min) AS h, max(temp) AS t FROM _.sensors.readings GROUP BY h", "Machines.byHour"
    )
    assert "GROUP BY\n  m.machineid,\n  h" in printed
