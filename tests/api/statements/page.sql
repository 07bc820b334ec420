-- { thingsPage(first: 2, after: "5B5D", order: [{small: DESC}]) { nodes { id } endCursor hasNextPage } }

-- sqlite
SELECT e.epoch,e.clock,e.committed_at,'{"thingsPage":'||(SELECT '{"nodes":'||printf('[%s]',group_concat(CASE WHEN n<=+? THEN o0 END,','))||',"endCursor":'||coalesce('"'||substr(max(CASE WHEN n<=+? THEN printf('%06d',n)||c END),7)||'"','null')||',"hasNextPage":'||CASE WHEN count(*)>+? THEN 'true' ELSE 'false' END||'}'
  FROM (SELECT '{"id":'||coalesce(t0."id",'null')||'}' AS o0,hex('["698e84c2ab0a"'||','||json_quote(t0."small")||','||json_quote(t0."id")||']') AS c,row_number() OVER () AS n
  FROM (SELECT t0."id" AS "id",t0."small" AS "small"
  FROM "Things" AS t0
  WHERE (((t0."small"<? OR (t0."small" IS NULL AND NOT ? IS NULL)) OR (t0."small" IS ? AND t0."id">?))) ORDER BY t0."small" DESC,t0."id" LIMIT +?+1) AS t0) AS q)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e

-- postgres
SELECT e.epoch,e.clock,e.committed_at,'{"thingsPage":'||(SELECT '{"nodes":'||'['||coalesce(string_agg(CASE WHEN n<=CAST($1 AS bigint) THEN o0 END,','),'')||']'||',"endCursor":'||coalesce('"'||substr(max(CASE WHEN n<=CAST($2 AS bigint) THEN lpad((n)::text,6,'0')||c END),7)||'"','null')||',"hasNextPage":'||CASE WHEN count(*)>CAST($3 AS bigint) THEN 'true' ELSE 'false' END||'}'
  FROM (SELECT '{"id":'||coalesce((t0."id")::text,'null')||'}' AS o0,upper(encode(convert_to('["698e84c2ab0a"'||','||coalesce(to_json((t0."small")::text)::text,'null')||','||coalesce(to_json((t0."id")::text)::text,'null')||']','UTF8'),'hex')) AS c,row_number() OVER () AS n
  FROM (SELECT t0."id" AS "id",t0."small" AS "small"
  FROM "Things" AS t0
  WHERE (((t0."small"<CAST(CAST($4 AS text) AS bigint) OR (t0."small" IS NULL AND NOT CAST(CAST($5 AS text) AS bigint) IS NULL)) OR (t0."small" IS NOT DISTINCT
  FROM CAST(CAST($6 AS text) AS bigint) AND t0."id">CAST(CAST($7 AS text) AS bigint)))) ORDER BY t0."small" DESC NULLS LAST,t0."id" LIMIT CAST($8 AS bigint)+1) AS t0) AS q)||'}'
  FROM (SELECT "epoch","clock","committed_at"
  FROM "_belvedere_epoch" ORDER BY "epoch" DESC LIMIT 1) AS e
