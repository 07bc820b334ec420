/* Observations without a gap of more than five days (Fig. 20, whose sessions end after five minutes) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE TUMBLING
  START AS s WHEN true
  END AS e NEXT AS n WHEN n.date - e.date > duration("P5D")
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
