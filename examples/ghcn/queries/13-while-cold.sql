/* From each cold observation for as long as it stays cold (Fig. 13) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  START AS s WHEN s.val < 25
  END NEXT AS n WHEN n.val >= 25
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
