-- { monitoringGroup(filter: {groupid: {eq: 501}}) { groupName machines { machineId } hourReading(limit: 24) { avg_temp } } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT printf('[%s]',group_concat('{"groupName":'||json_quote(t0."groupName")||',"machines":'||(SELECT printf('[%s]',group_concat('{"machineId":'||coalesce(t1."machineId",'null')||'}',','))
  FROM (SELECT t1."machineId" AS "machineId"
  FROM "MonitoringGroup.machines" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."groupid",t1."_index" LIMIT 100) AS t1)||',"hourReading":'||(SELECT printf('[%s]',group_concat('{"avg_temp":'||coalesce(CASE WHEN typeof(t2."avg_temp")='real' AND abs(t2."avg_temp")<=1.7976931348623157e308 THEN CASE WHEN CAST(printf('%!.15g',t2."avg_temp") AS REAL)=t2."avg_temp" THEN printf('%!.15g',t2."avg_temp") WHEN CAST(printf('%!.16g',t2."avg_temp") AS REAL)=t2."avg_temp" THEN printf('%!.16g',t2."avg_temp") ELSE printf('%!.17g',t2."avg_temp") END END,'null')||'}',','))
  FROM (SELECT t2."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t2
  WHERE t2."groupid"=t0."groupid" ORDER BY t2."groupid",t2."time_hour" LIMIT +?) AS t2)||'}',','))
  FROM (SELECT t0."groupName" AS "groupName",t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0
  WHERE t0."groupid"=+? ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT '['||coalesce(string_agg('{"groupName":'||CASE WHEN t0."groupName" IS NULL THEN 'null' WHEN strpos(t0."groupName",chr(1))=0 THEN to_json(t0."groupName")::text ELSE replace(replace(to_json(t0."groupName")::text,'\u0001\u0001','\u0000'),'\u0001\u0002','\u0001') END||',"machines":'||(SELECT '['||coalesce(string_agg('{"machineId":'||coalesce((t1."machineId")::text,'null')||'}',','),'')||']'
  FROM (SELECT t1."machineId" AS "machineId"
  FROM "MonitoringGroup.machines" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."groupid",t1."_index" LIMIT 100) AS t1)||',"hourReading":'||(SELECT '['||coalesce(string_agg('{"avg_temp":'||coalesce(CASE WHEN t2."avg_temp" NOT IN ('NaN','Infinity','-Infinity') THEN (t2."avg_temp")::text END,'null')||'}',','),'')||']'
  FROM (SELECT t2."avg_temp" AS "avg_temp"
  FROM "MonitoringGroup.hourReading" AS t2
  WHERE t2."groupid"=t0."groupid" ORDER BY t2."groupid",t2."time_hour" LIMIT CAST($1 AS bigint)) AS t2)||'}',','),'')||']'
  FROM (SELECT t0."groupName" AS "groupName",t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0
  WHERE t0."groupid"=CAST($2 AS bigint) ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
