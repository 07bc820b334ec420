-- { monitoringGroup { warmHours(filter: {max_temp: {lt: 40}}) { avg_temp } } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT printf('[%s]',group_concat('{"warmHours":'||(SELECT printf('[%s]',group_concat('{"avg_temp":'||coalesce(CASE WHEN typeof(t1."avg_temp")='real' AND abs(t1."avg_temp")<=1.7976931348623157e308 THEN CASE WHEN CAST(printf('%!.15g',t1."avg_temp") AS REAL)=t1."avg_temp" THEN printf('%!.15g',t1."avg_temp") WHEN CAST(printf('%!.16g',t1."avg_temp") AS REAL)=t1."avg_temp" THEN printf('%!.16g',t1."avg_temp") ELSE printf('%!.17g',t1."avg_temp") END END,'null')||'}',','))
  FROM (SELECT t1."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" AND ((t1."avg_temp">CAST(20 AS REAL))) AND t1."max_temp"<+? ORDER BY t1."groupid",t1."time_hour" LIMIT 100) AS t1)||'}',','))
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT '['||coalesce(string_agg('{"warmHours":'||(SELECT '['||coalesce(string_agg('{"avg_temp":'||coalesce(CASE WHEN t1."avg_temp" NOT IN ('NaN','Infinity','-Infinity') THEN (t1."avg_temp")::text END,'null')||'}',','),'')||']'
  FROM (SELECT t1."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" AND ((t1."avg_temp">CAST(20 AS double precision))) AND t1."max_temp"<CAST($1 AS double precision) ORDER BY t1."groupid",t1."time_hour" LIMIT 100) AS t1)||'}',','),'')||']'
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
