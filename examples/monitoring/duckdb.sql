-- Tables SensorReading, Sensors (with `_arrival`) and MonitorGroup, and a macro `clock()`. `-- view: Name` starts each.

-- view: SensorSmoothReading
SELECT sensorid, date_trunc('minute', time) AS time_min,
       median(coalesce(temperature, (temperature_f - 32) / 9 * 5)) AS temp
FROM SensorReading GROUP BY ALL;

-- view: Machines
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (
         SELECT sensorid, date_trunc('minute', time) AS time_min,
                median(coalesce(temperature, (temperature_f - 32) / 9 * 5)) AS temp
         FROM SensorReading GROUP BY ALL
     ),
     l AS (SELECT DISTINCT ON (sensorid) sensorid, temp FROM r ORDER BY sensorid, time_min DESC)
SELECT machineid, count(DISTINCT s.sensorid) AS sensorcount,
       max(r.temp) FILTER (r.time_min + INTERVAL 24 HOUR >= clock()) AS maxRecentTemp,
       (SELECT avg(l.temp) FROM l JOIN s AS t USING (sensorid) WHERE t.machineid = s.machineid) AS currentTemp
FROM s LEFT JOIN r USING (sensorid) GROUP BY machineid;

-- view: MachineMinuteReading
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (
         SELECT sensorid, date_trunc('minute', time) AS time_min,
                median(coalesce(temperature, (temperature_f - 32) / 9 * 5)) AS temp
         FROM SensorReading GROUP BY ALL
     )
SELECT machineid, time_min, avg(temp) AS avg_temp, max(temp) AS max_temp
FROM s JOIN r USING (sensorid) WHERE time_min + INTERVAL 1 HOUR >= clock() GROUP BY ALL;

-- view: MonitoringGroup.hourReading
WITH s AS (SELECT DISTINCT ON (sensorid) sensorid, machineid FROM Sensors ORDER BY sensorid, _arrival DESC),
     r AS (
         SELECT sensorid, date_trunc('minute', time) AS time_min,
                median(coalesce(temperature, (temperature_f - 32) / 9 * 5)) AS temp
         FROM SensorReading GROUP BY ALL
     ),
     g AS (SELECT groupid, unnest(machines).machineId AS machineid FROM MonitorGroup)
SELECT groupid, date_trunc('hour', time_min) AS time_hour, avg(temp) AS avg_temp, max(temp) AS max_temp
FROM g JOIN s USING (machineid) JOIN r USING (sensorid) GROUP BY ALL;
