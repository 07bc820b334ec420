/* Each cold observation with its neighbours (Fig. 17) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  LABEL AS l AT lp WHEN l.val < 25
  START AT sp WHEN lp - sp = 1
  END AT ep WHEN ep - lp = 1
SELECT l.station, l.date AS labelDate, ARRAY_AVG(w[*].val) AS avgTmin
