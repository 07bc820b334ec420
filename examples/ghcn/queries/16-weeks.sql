/* Weeks one after the other, each from the first observation after the one before (Fig. 16) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE TUMBLING
  START AS s WHEN true
  END NEXT AS n WHEN n.date - s.date > duration("P7D")
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
