/* When TMIN is below 2.5 C: its average over that day and the two observations after it (Fig. 10), complete windows only */
FROM ghcn AS g
WHERE g.dataType = "TMIN"
WINDOW BY w
  PARTITION BY g.station
  ORDER BY g.date
  TYPE SLIDING
  START AS s AT sp WHEN s.val < 25
  ONLY END AT ep WHEN ep - sp = 2
SELECT s.station, s.date AS startDate, ARRAY_AVG(w[*].val) AS avgTmin
