-- { things(order: [{name: DESC_NULLS_FIRST}, {ratio: ASC}], offset: 2) { id } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"things":'||(SELECT printf('[%s]',group_concat('{"id":'||coalesce(t0."id",'null')||'}',','))
  FROM (SELECT t0."id" AS "id"
  FROM "Things" AS t0 ORDER BY t0."name" DESC NULLS FIRST,t0."ratio",t0."id" LIMIT 100 OFFSET +?) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"things":'||(SELECT '['||coalesce(string_agg('{"id":'||coalesce((t0."id")::text,'null')||'}',','),'')||']'
  FROM (SELECT t0."id" AS "id"
  FROM "Things" AS t0 ORDER BY t0."name" COLLATE "C" DESC NULLS FIRST,t0."ratio" NULLS FIRST,t0."id" LIMIT 100 OFFSET CAST($1 AS bigint)) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
