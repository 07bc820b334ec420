/* Blocks of twenty observations (Fig. 15) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE TUMBLING
  START AS s AT sp WHEN true
  END AT ep WHEN ep - sp = 19
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
