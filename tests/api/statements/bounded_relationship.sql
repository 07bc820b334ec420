-- { monitoringGroup { lastHours { avg_temp } top: lastHours(order: {max_temp: DESC}, limit: 1) { max_temp } } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT printf('[%s]',group_concat('{"lastHours":'||(SELECT printf('[%s]',group_concat('{"avg_temp":'||coalesce(CASE WHEN typeof(t1."avg_temp")='real' AND abs(t1."avg_temp")<=1.7976931348623157e308 THEN CASE WHEN CAST(printf('%!.15g',t1."avg_temp") AS REAL)=t1."avg_temp" THEN printf('%!.15g',t1."avg_temp") WHEN CAST(printf('%!.16g',t1."avg_temp") AS REAL)=t1."avg_temp" THEN printf('%!.16g',t1."avg_temp") ELSE printf('%!.17g',t1."avg_temp") END END,'null')||'}',','))
  FROM (SELECT t1."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."time_hour" DESC,t1."groupid",t1."time_hour" LIMIT min(3,100)) AS t1)||',"top":'||(SELECT printf('[%s]',group_concat('{"max_temp":'||coalesce(CASE WHEN typeof(t2."max_temp")='real' AND abs(t2."max_temp")<=1.7976931348623157e308 THEN CASE WHEN CAST(printf('%!.15g',t2."max_temp") AS REAL)=t2."max_temp" THEN printf('%!.15g',t2."max_temp") WHEN CAST(printf('%!.16g',t2."max_temp") AS REAL)=t2."max_temp" THEN printf('%!.16g',t2."max_temp") ELSE printf('%!.17g',t2."max_temp") END END,'null')||'}',','))
  FROM (SELECT t2."max_temp" AS "max_temp"
  FROM (SELECT t3.*
  FROM "MonitoringGroup.hourReading" AS t3
  WHERE t3."groupid"=t0."groupid" ORDER BY t3."time_hour" DESC,t3."groupid",t3."time_hour" LIMIT 3) AS t2 ORDER BY t2."max_temp" DESC,t2."groupid",t2."time_hour" LIMIT +?) AS t2)||'}',','))
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT '['||coalesce(string_agg('{"lastHours":'||(SELECT '['||coalesce(string_agg('{"avg_temp":'||coalesce(CASE WHEN t1."avg_temp" NOT IN ('NaN','Infinity','-Infinity') THEN (t1."avg_temp")::text END,'null')||'}',','),'')||']'
  FROM (SELECT t1."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."time_hour" DESC NULLS LAST,t1."groupid",t1."time_hour" LIMIT least(3,100)) AS t1)||',"top":'||(SELECT '['||coalesce(string_agg('{"max_temp":'||coalesce(CASE WHEN t2."max_temp" NOT IN ('NaN','Infinity','-Infinity') THEN (t2."max_temp")::text END,'null')||'}',','),'')||']'
  FROM (SELECT t2."max_temp" AS "max_temp"
  FROM (SELECT t3.*
  FROM "MonitoringGroup.hourReading" AS t3
  WHERE t3."groupid"=t0."groupid" ORDER BY t3."time_hour" DESC NULLS LAST,t3."groupid",t3."time_hour" LIMIT 3) AS t2 ORDER BY t2."max_temp" DESC NULLS LAST,t2."groupid",t2."time_hour" LIMIT CAST($1 AS bigint)) AS t2)||'}',','),'')||']'
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
