/* Everything up to each observation (Fig. 19a) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  LABEL AS l AT lp WHEN true
  START UNBOUNDED
  END AT ep WHEN ep = lp
SELECT l.station, l.date AS labelDate, ARRAY_AVG(w[*].val) AS avgTmin
