-- { monitoringGroup { lastHour { time_hour parent { groupName } } } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT printf('[%s]',group_concat('{"lastHour":'||coalesce((SELECT '{"time_hour":'||coalesce('"'||CASE WHEN t1."time_hour"%1000000=0 THEN replace(datetime(t1."time_hour"/1000000,'unixepoch'),' ','T')||'Z' ELSE replace(datetime((t1."time_hour"-((t1."time_hour"%1000000)+1000000)%1000000)/1000000,'unixepoch'),' ','T')||printf('.%06dZ',((t1."time_hour"%1000000)+1000000)%1000000) END||'"','null')||',"parent":'||coalesce((SELECT '{"groupName":'||json_quote(t2."groupName")||'}'
  FROM "MonitoringGroup" AS t2
  WHERE t2."groupid"=t1."groupid" LIMIT 1),'null')||'}'
  FROM (SELECT t1."time_hour" AS "time_hour",t1."groupid" AS "groupid"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."time_hour" DESC,t1."groupid",t1."time_hour" LIMIT 1) AS t1),'null')||'}',','))
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroup":'||(SELECT '['||coalesce(string_agg('{"lastHour":'||coalesce((SELECT '{"time_hour":'||coalesce('"'||to_char(((t1."time_hour") AT TIME ZONE 'UTC'),'YYYY-MM-DD"T"HH24:MI:SS')||CASE WHEN extract(microseconds
  FROM ((t1."time_hour") AT TIME ZONE 'UTC'))::bigint%1000000=0 THEN '' ELSE to_char(((t1."time_hour") AT TIME ZONE 'UTC'),'.US') END||'Z'||'"','null')||',"parent":'||coalesce((SELECT '{"groupName":'||CASE WHEN t2."groupName" IS NULL THEN 'null' WHEN strpos(t2."groupName",chr(1))=0 THEN to_json(t2."groupName")::text ELSE replace(replace(to_json(t2."groupName")::text,'\u0001\u0001','\u0000'),'\u0001\u0002','\u0001') END||'}'
  FROM "MonitoringGroup" AS t2
  WHERE t2."groupid"=t1."groupid" LIMIT 1),'null')||'}'
  FROM (SELECT t1."time_hour" AS "time_hour",t1."groupid" AS "groupid"
  FROM "MonitoringGroup.hourReading" AS t1
  WHERE t1."groupid"=t0."groupid" ORDER BY t1."time_hour" DESC NULLS LAST,t1."groupid",t1."time_hour" LIMIT 1) AS t1),'null')||'}',','),'')||']'
  FROM (SELECT t0."groupid" AS "groupid"
  FROM "MonitoringGroup" AS t0 ORDER BY t0."groupid" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
