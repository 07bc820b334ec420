/* The average over the week that begins with each observation (Fig. 11) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  START AS s WHEN true
  END NEXT AS n WHEN n.date - s.date > duration("P7D")
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
