-- { monitoringGroupByKey(groupid: 501) { groupName __typename } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroupByKey":'||coalesce((SELECT '{"groupName":'||json_quote(t0."groupName")||',"__typename":"MonitoringGroup"}'
  FROM "MonitoringGroup" AS t0
  WHERE t0."groupid"=+? LIMIT 1),'null')||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"monitoringGroupByKey":'||coalesce((SELECT '{"groupName":'||CASE WHEN t0."groupName" IS NULL THEN 'null' WHEN strpos(t0."groupName",chr(1))=0 THEN to_json(t0."groupName")::text ELSE replace(replace(to_json(t0."groupName")::text,'\u0001\u0001','\u0000'),'\u0001\u0002','\u0001') END||',"__typename":"MonitoringGroup"}'
  FROM "MonitoringGroup" AS t0
  WHERE t0."groupid"=CAST($1 AS bigint) LIMIT 1),'null')||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
