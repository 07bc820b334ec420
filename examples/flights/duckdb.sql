-- The views of flights.sqrl as DuckDB says them, over tables Flights, Weather, Planes, Airports, Airlines. `-- view: Name` starts each.

-- view: CarrierHour
SELECT carrier, time_hour AS scheduled_hour, count(*) AS flights, count(dep_time) AS departed,
       avg(dep_delay) AS avg_dep_delay, max(dep_delay) AS max_dep_delay
FROM Flights GROUP BY ALL;

-- view: CarrierDay
SELECT a.carrier, a.name, date_trunc('day', f.time_hour) AS flight_day, count(*) AS flights,
       count(*) FILTER (f.dep_time IS NULL) AS cancelled, avg(f.arr_delay) AS avg_arr_delay, median(f.arr_delay) AS median_arr_delay
FROM Flights f JOIN Airlines a USING (carrier) GROUP BY ALL;

-- view: LateAircraft
SELECT p.tailnum, p.manufacturer, p.model, p.seats, count(*) AS late_arrivals, max(f.arr_delay) AS worst_arr_delay
FROM Flights f JOIN Planes p USING (tailnum) WHERE f.arr_delay > 60 GROUP BY ALL;

-- view: DestinationDay
SELECT f.dest, a.name AS airport, date_trunc('day', f.time_hour) AS flight_day, count(*) AS flights, sum(f.distance) AS miles
FROM Flights f LEFT JOIN Airports a ON a.faa = f.dest GROUP BY ALL;

-- view: VisibilityDelay
SELECT f.origin, w.visib, count(*) AS flights, avg(f.dep_delay) AS avg_dep_delay
FROM Flights f JOIN Weather w ON w.origin = f.origin AND w.time_hour = f.time_hour GROUP BY ALL;

-- view: LastFlight
SELECT tailnum, max(time_hour) AS last_hour, count(DISTINCT dest) AS destinations
FROM Flights WHERE tailnum IS NOT NULL AND dep_time IS NOT NULL GROUP BY ALL;

-- view: BusiestRoutes
SELECT origin, dest, count(*) AS flights FROM Flights GROUP BY ALL ORDER BY flights DESC, origin, dest LIMIT 10;

-- view: BadDays
WITH d AS (
    SELECT carrier, date_trunc('day', time_hour) AS flight_day, count(*) FILTER (dep_time IS NULL) AS cancelled
    FROM Flights JOIN Airlines USING (carrier) GROUP BY ALL
)
SELECT carrier, flight_day, cancelled FROM d JOIN (SELECT carrier, avg(cancelled) AS usual FROM d GROUP BY ALL) USING (carrier)
WHERE cancelled > usual;
