-- { thingsNamed(least: 1, name: "ab") { id } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"thingsNamed":'||(SELECT printf('[%s]',group_concat('{"id":'||coalesce(t0."id",'null')||'}',','))
  FROM (SELECT t0."id" AS "id"
  FROM (SELECT "id" AS "id", "small" AS "small", "name" AS "name"
  FROM (SELECT "id", "flag", "small", "big", "ratio", "price", "wide", "name", "at", "day", "raw", "tags", "info", "address.city", "_secret"
  FROM "Things" AS t
  WHERE (("small">=+?) AND ("name"=+?))) AS t) AS t0 ORDER BY t0."id" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"thingsNamed":'||(SELECT '['||coalesce(string_agg('{"id":'||coalesce((t0."id")::text,'null')||'}',','),'')||']'
  FROM (SELECT t0."id" AS "id"
  FROM (SELECT "id" AS "id", "small" AS "small", "name" AS "name"
  FROM (SELECT "id", "flag", "small", "big", "ratio", "price", "wide", "name", "at", "day", "raw", "tags", "info", "address.city", "_secret"
  FROM "Things" AS t
  WHERE (("small">=CAST($1 AS bigint)) AND ("name" COLLATE "C"=CAST($2 AS text) COLLATE "C" COLLATE "C"))) AS t) AS t0 ORDER BY t0."id" NULLS FIRST LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
