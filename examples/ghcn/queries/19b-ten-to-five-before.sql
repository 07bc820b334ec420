/* The tenth to the fifth observation before each; ONLY END drops the first five, which have none (Fig. 19b) */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  LABEL AS l AT lp WHEN true
  START AT sp WHEN lp - sp = 10
  ONLY END AT ep WHEN lp - ep = 5
SELECT l.station, l.date AS labelDate, ARRAY_AVG(w[*].val) AS avgTmin
