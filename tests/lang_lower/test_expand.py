"""`explain --sql`: the seed's two figures, 'how SQRL syntax expands to standard SQL'."""

import pytest
import sqlglot

from belvedere.compiler import compile_script
from belvedere.lang.select.standard_sql import expand

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
        "Machines.byHour := SELECT hour(time_min) AS h, max(temp) AS t FROM _.sensors.readings GROUP BY h",
        "Machines.byHour",
    )
    assert "GROUP BY\n  m.machineid,\n  h" in printed


NAVIGATION = """
CREATE TABLE Halls (hallid INT, city STRUCT<name: STRING>, PRIMARY KEY (hallid));
CREATE TABLE Placed (sensorid INT, hallid INT, PRIMARY KEY (sensorid));
Placed.hall := JOIN Halls h ON h.hallid = _.hallid
Placed.last := JOIN SensorSmoothReading r ON r.sensorid = _.sensorid ORDER BY r.time_min DESC LIMIT 1
Placed.near := JOIN SensorSmoothReading r ON r.temp > _.hallid ORDER BY abs(r.temp - _.sensorid) LIMIT 1
"""


def query_of(printed: str) -> str:
    return " ".join(printed.partition(" AS\n")[2].split())


def test_navigation_is_a_left_join_that_columns_share() -> None:
    text = "V := SELECT sensorid, hall.city.name AS city, p.hall.hallid AS h FROM Placed p WHERE hall.hallid > 1"
    assert query_of(expansion(NAVIGATION + text, "V")) == (
        "SELECT p.sensorid, h.city.name AS city, h.hallid AS h FROM Placed AS p "
        "LEFT JOIN Halls AS h ON h.hallid = p.hallid WHERE h.hallid > 1"
    )


def test_navigation_in_a_column() -> None:
    text = "Placed.temp := last.temp\nPlaced.hot := _.last.temp > 100"
    assert query_of(expansion(NAVIGATION + text, "Placed")) == (
        "SELECT p.sensorid, p.hallid, r.temp AS temp, r.temp > 100 AS hot FROM `Placed (definition 1)` AS p "
        "LEFT JOIN ( SELECT sensorid, temp FROM ( SELECT sensorid, temp, "
        "ROW_NUMBER() OVER (PARTITION BY sensorid ORDER BY time_min DESC) AS row_no FROM SensorSmoothReading ) "
        "WHERE row_no = 1 ) AS r ON r.sensorid = p.sensorid"
    )


def test_a_limit_by_row_is_lateral() -> None:
    assert query_of(expansion(NAVIGATION + "V := SELECT p.near.temp FROM Placed p", "V")) == (
        "SELECT r.temp AS temp FROM Placed AS p LEFT JOIN LATERAL ( SELECT * FROM SensorSmoothReading AS r2 "
        "WHERE r2.temp > p.hallid ORDER BY ABS(r2.temp - p.sensorid) ASC LIMIT 1 ) AS r ON TRUE"
    )


def test_subqueries_see_the_aliases_around() -> None:
    text = "V := SELECT p.sensorid FROM Placed p WHERE EXISTS (SELECT 1 FROM p.hall x WHERE x.city.name = 'Rome')"
    assert query_of(expansion(NAVIGATION + text, "V")) == (
        "SELECT p.sensorid FROM Placed AS p WHERE EXISTS( SELECT 1 FROM Halls AS x WHERE x.hallid = p.hallid AND "
        "x.city.name = 'Rome' )"
    )


TIMED = "CREATE STREAM T (id INT, ts TIMESTAMP, WATERMARK FOR ts);\n"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT wend, COUNT(*) AS n FROM TUMBLE(data => TABLE(T), timecol => DESCRIPTOR(ts), dur => INTERVAL '5' "
        "MINUTE) GROUP BY wend EMIT STREAM AFTER DELAY INTERVAL '6' MINUTE AND AFTER WATERMARK",
        "SELECT window_end, COUNT(*) AS n FROM HOP(TABLE(T), DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR) "
        "GROUP BY window_end EMIT AFTER WATERMARK",
        "SELECT window_end, id, COUNT(*) AS n FROM SESSION(TABLE(T) PARTITION BY id, DESCRIPTOR(ts), INTERVAL '5' "
        "MINUTE) AS x GROUP BY window_end, id",
        "SELECT ts FROM T UNION ALL SELECT ts FROM T EMIT AFTER WATERMARK",
        "SELECT STREAM ts AS ROWTIME, id FROM T ORDER BY ts WITHIN INTERVAL '2' SECOND",
        "SELECT STREAM o.id FROM T OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS o LEFT JOIN T AS t ON o.id = t.id",
        "SELECT STREAM o.id FROM T OVER (RANGE INTERVAL '1' MINUTE PRECEDING) LEFT JOIN T AS o ON o.id = T.id",
    ],
)
def test_clauses_of_time_are_shown_as_they_stand(query: str) -> None:
    assert query_of(expansion(f"{TIMED}V := {query}", "V")) == query


def test_distinct_on_shows_its_alias() -> None:
    printed = query_of(expansion(f"{TIMED}V := DISTINCT T t ON t.id ORDER BY t.ts DESC", "V"))
    assert "ROW_NUMBER() OVER (PARTITION BY t.id ORDER BY t.ts DESC) AS row_no FROM T AS t" in printed
