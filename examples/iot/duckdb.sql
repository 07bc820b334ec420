-- The views of iot.sqrl as DuckDB says them, over tables SensorReading and Sensors (with `_arrival`, the order in which its rows
-- came) and a macro `clock()`, the moment that now() stands for. `-- view: Name` starts each.

-- view: SensorSmoothReading
SELECT sensorid, date_trunc('minute', time) AS time_min, median(temperature) AS temp
FROM SensorReading GROUP BY ALL;

-- view: MachineHourReading
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (SELECT sensorid, date_trunc('minute', time) AS time_min, median(temperature) AS temp FROM SensorReading GROUP BY ALL)
SELECT machineid, date_trunc('hour', time_min) AS time_hour, avg(temp) AS avg_temp, max(temp) AS max_temp
FROM s JOIN r USING (sensorid) GROUP BY ALL;

-- view: MachineMinuteReading
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (SELECT sensorid, date_trunc('minute', time) AS time_min, median(temperature) AS temp FROM SensorReading GROUP BY ALL)
SELECT machineid, time_min, avg(temp) AS avg_temp, max(temp) AS max_temp
FROM s JOIN r USING (sensorid) WHERE time_min + INTERVAL 1 HOUR >= clock() GROUP BY ALL;

-- view: MachineRecentMaxTemp
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (SELECT sensorid, date_trunc('minute', time) AS time_min, median(temperature) AS temp FROM SensorReading GROUP BY ALL)
SELECT machineid, max(temp) AS max_temp
FROM s JOIN r USING (sensorid) WHERE time_min + INTERVAL 24 HOUR >= clock() GROUP BY ALL;

-- view: Machines
SELECT DISTINCT machineid FROM (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC);
