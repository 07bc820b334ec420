/* The average over each observation and the nineteen after it (Fig. 12) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  START AS s AT sp WHEN true
  END AT ep WHEN ep - sp = 19
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
