-- { things(filter: {or: [{id: {in: [1, 2]}}, {not: {name: {ilike: "a%"}, at: {isNull: false}}}]}) { id } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"things":'||(SELECT printf('[%s]',group_concat('{"id":'||coalesce(t0."id",'null')||'}',','))
  FROM (SELECT t0."id" AS "id"
  FROM "Things" AS t0
  WHERE (t0."id" IN (+?,+?) OR NOT ((CASE WHEN instr(t0."name",char(0))=0 THEN t0."name" ELSE json_extract(replace(replace(json_quote(t0."name"),'\\','\u005c'),'\u0000','\uffff'),'$') END GLOB +? AND t0."at" IS NOT NULL))) ORDER BY t0."id" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"things":'||(SELECT '['||coalesce(string_agg('{"id":'||coalesce((t0."id")::text,'null')||'}',','),'')||']'
  FROM (SELECT t0."id" AS "id"
  FROM "Things" AS t0
  WHERE (t0."id" IN (CAST($1 AS bigint),CAST($2 AS bigint)) OR NOT ((t0."name" COLLATE "C" ~ CAST($3 AS text) COLLATE "C" AND t0."at" IS NOT NULL))) ORDER BY t0."id" LIMIT 100) AS t0)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
