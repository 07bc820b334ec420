"""Queries whose lowered plans must answer as Spark itself does, and expressions whose types must be Spark's."""

TABLES = """
CREATE TABLE a (id INT, k STRING, x INT, d DECIMAL(10,2), f DOUBLE, t TIMESTAMP, b BOOLEAN);
CREATE TABLE b (id INT, k STRING, y BIGINT, e DECIMAL(5,3), day DATE);
CREATE TABLE c (n INT, tags ARRAY<STRING>, m MAP<STRING, INT>, s STRUCT<p: INT, q: STRUCT<r: STRING>>,
  os ARRAY<STRUCT<u: INT, v: STRING>>);
"""

ROWS = {
    "a": """VALUES (1,'p',10,1.50,1.5,TIMESTAMP'2024-01-01 00:00:30',true),
        (2,'q',NULL,2.25,-0.5,TIMESTAMP'2024-01-01 00:01:10',false),
        (3,'p',7,NULL,2.5,NULL,NULL), (4,NULL,7,9.99,NULL,TIMESTAMP'2023-12-31 23:59:59',true),
        (5,'r',-3,0.01,3.5,TIMESTAMP'2024-02-01 10:00:00',false),
        (6,'q',10,2.25,1.5,TIMESTAMP'2024-01-01 00:01:10',true)""",
    "b": """VALUES (1,'p',100,1.125,DATE'2024-01-01'), (1,'p',NULL,2.5,DATE'2024-01-02'), (3,'q',300,NULL,NULL),
        (NULL,'s',400,0.5,DATE'2020-02-29'),
        (7,NULL,7,9.999,DATE'1969-12-31')""",
    "c": """VALUES (1,array('u','v'),map('a',1,'b',2),named_struct('p',1,'q',named_struct('r','deep')),
        array(named_struct('u',1,'v','one'),named_struct('u',2,'v','two'))),
        (2,array(),map(),NULL,array()), (3,NULL,NULL,named_struct('p',NULL,'q',NULL),NULL)""",
}

QUERIES = (
    """
SELECT * FROM a
SELECT x, y FROM (SELECT x FROM a), (SELECT y FROM b)
SELECT k AS one, k AS other, count(*) AS n FROM a GROUP BY 1, 2
SELECT k AS one, k AS other, count(*) AS n FROM a GROUP BY k, k
SELECT k AS one, k AS other, count(*) AS n FROM a GROUP BY ROLLUP (1, 2)
SELECT count(*) AS n FROM a HAVING count(*) > 1
SELECT a.*, b.y FROM a JOIN b ON a.id = b.id
SELECT * EXCEPT (d, f) FROM a
SELECT id, x + 1 AS x1, d * 2 AS d2 FROM a WHERE x > 5
SELECT a.id, b.y FROM a LEFT JOIN b ON a.id = b.id AND b.y > 100
SELECT a.id, b.y FROM a RIGHT JOIN b ON a.id = b.id
SELECT a.id AS i, b.id AS j FROM a FULL JOIN b ON a.id = b.id
SELECT id, k, x, y FROM a JOIN b USING (id, k)
SELECT id, x, y FROM a LEFT JOIN b USING (id)
SELECT id, x, y FROM a RIGHT JOIN b USING (id)
SELECT id, x, y FROM a FULL JOIN b USING (id)
SELECT * FROM a JOIN (SELECT id, y FROM b) b USING (id)
SELECT * FROM a NATURAL JOIN b
SELECT a.id, b.id AS bid FROM a, b WHERE a.id = b.id AND a.x > 5
SELECT a.id, b.id AS bid FROM a CROSS JOIN b
SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id
SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id
SELECT x.id, y.id AS other FROM a x JOIN a y ON x.x = y.x AND x.id < y.id
SELECT k, count(*) AS n, sum(x) AS s, avg(d) AS m FROM a GROUP BY k
SELECT k AS kk, count(x) AS n FROM a GROUP BY kk
SELECT k, x % 2 AS odd, count(*) AS n FROM a GROUP BY 1, 2
SELECT k, count(*) AS n FROM a GROUP BY ALL
SELECT upper(k) AS u, max(x) AS m FROM a GROUP BY upper(k) HAVING count(*) > 1
SELECT k, max(x) + min(x) AS r FROM a GROUP BY k HAVING max(x) > 5 OR k IS NULL
SELECT count(*) AS n, sum(d) AS s, count(DISTINCT k) AS u, count(DISTINCT k, x) AS v FROM a
SELECT count(*) AS n FROM a WHERE id > 100
SELECT sum(x) AS s FROM a HAVING count(*) > 100
SELECT sum(x) FILTER (WHERE k = 'p') AS s, count(*) FILTER (WHERE x IS NULL) AS n FROM a
SELECT k, x, count(*) AS n FROM a GROUP BY ROLLUP (k, x)
SELECT k, x, count(*) AS n, grouping_id() AS g FROM a GROUP BY CUBE (k, x)
SELECT k, x, sum(id) AS n, grouping(k) AS g FROM a GROUP BY GROUPING SETS ((k, x), (k), ())
SELECT b, k, count(*) AS n FROM a GROUP BY b, ROLLUP (k)
SELECT k, count(*) AS n FROM a GROUP BY k WITH ROLLUP
SELECT DISTINCT k FROM a
SELECT DISTINCT k, x FROM a WHERE id > 1
SELECT id FROM a ORDER BY x DESC, id LIMIT 2
SELECT id FROM a ORDER BY x NULLS LAST, id LIMIT 2 OFFSET 1
SELECT id AS z FROM a ORDER BY z DESC LIMIT 3
SELECT id, d FROM a ORDER BY f + 1 DESC NULLS LAST, id LIMIT 3
SELECT DISTINCT k FROM a ORDER BY k DESC NULLS LAST LIMIT 2
SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY count(*) DESC, k LIMIT 2
SELECT id FROM a UNION ALL SELECT id FROM b
SELECT id, k FROM a UNION SELECT id, k FROM b
SELECT id FROM a INTERSECT SELECT id FROM b
SELECT id FROM a EXCEPT SELECT id FROM b
SELECT x FROM a INTERSECT ALL SELECT x FROM a WHERE id <> 1
SELECT x FROM a EXCEPT ALL SELECT x FROM a WHERE id = 6
SELECT x FROM a UNION ALL SELECT d FROM a
SELECT x AS v FROM a UNION ALL SELECT y FROM b ORDER BY v DESC LIMIT 3
(SELECT id FROM a ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM b WHERE id = 7)
WITH w AS (SELECT k, max(x) AS m FROM a GROUP BY k) SELECT a.id, w.m FROM a JOIN w ON a.k = w.k
WITH w AS (SELECT * FROM a), v(i) AS (SELECT id FROM w) SELECT i FROM v WHERE i > 3
SELECT s.k, s.n FROM (SELECT k, count(*) AS n FROM a GROUP BY k) s WHERE s.n > 1
SELECT v.p, v.q FROM VALUES (1, 'a'), (2, NULL) AS v(p, q)
SELECT 1 AS one, 'x' AS two
SELECT id FROM a WHERE id IN (SELECT id FROM b)
SELECT id FROM a WHERE id NOT IN (SELECT id FROM b)
SELECT id FROM a WHERE id NOT IN (SELECT id FROM b WHERE id IS NOT NULL)
SELECT id FROM a WHERE x NOT IN (SELECT id FROM b WHERE id IS NOT NULL)
SELECT id FROM a WHERE x NOT IN (SELECT id FROM b WHERE id > 1000)
SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.id = a.id)
SELECT id FROM a WHERE x NOT IN (SELECT id FROM b WHERE b.k = a.k AND id IS NOT NULL)
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)
SELECT id FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.id = a.id AND b.y > 100)
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.y > 350)
SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y > 3500)
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id < a.id)
SELECT id FROM a WHERE id IN (SELECT id FROM b) OR x = 7
SELECT id FROM a WHERE (id NOT IN (SELECT id FROM b WHERE id IS NOT NULL)) OR x = 10
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id) OR k = 'q'
SELECT id FROM a WHERE (id, k) IN (SELECT id, k FROM b)
SELECT id, (SELECT max(y) FROM b) AS m FROM a
SELECT id, (SELECT max(y) FROM b WHERE b.id = a.id) AS m FROM a
SELECT id, (SELECT count(*) FROM b WHERE b.id = a.id) AS n FROM a
SELECT id, (SELECT count(*) + 1 FROM b WHERE b.id = a.id AND b.y > 100) AS n FROM a
SELECT id, (SELECT coalesce(sum(y), -1) FROM b WHERE b.k = a.k) AS n FROM a
SELECT id FROM a WHERE x > (SELECT avg(x) FROM a)
SELECT id FROM a WHERE d > (SELECT avg(e) FROM b WHERE b.k = a.k)
SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > (SELECT count(*) FROM b WHERE b.k = a.k)
SELECT k, sum(x) AS s FROM a WHERE id IN (SELECT id FROM b) GROUP BY k
SELECT id, id IN (SELECT id FROM b WHERE id IS NOT NULL) AS i FROM a
SELECT id, EXISTS (SELECT 1 FROM b WHERE b.id = a.id) AS e FROM a
SELECT id, CASE WHEN x > (SELECT min(y) FROM b) THEN 'hi' ELSE 'lo' END AS c FROM a
SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM a
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM a
SELECT id, x - lag(x) OVER (ORDER BY id) AS diff, rank() OVER (PARTITION BY b ORDER BY x DESC NULLS LAST) AS r FROM a
SELECT id, sum(x) OVER w AS s, avg(x) OVER w AS m FROM a WINDOW w AS (PARTITION BY k ORDER BY id)
SELECT k, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC NULLS LAST) AS r FROM a GROUP BY k
SELECT id, k FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1
SELECT id, max(f) OVER (PARTITION BY k) AS m FROM a WHERE f IS NOT NULL
SELECT id, lead(k, 1, 'none') OVER (ORDER BY id) AS n, ntile(2) OVER (ORDER BY id) AS t FROM a
SELECT n, tag FROM c LATERAL VIEW explode(tags) e AS tag
SELECT n, tag FROM c LATERAL VIEW OUTER explode(tags) e AS tag
SELECT n, p, tag FROM c LATERAL VIEW posexplode(tags) e AS p, tag
SELECT n, key, value FROM c LATERAL VIEW explode(m) e
SELECT n, explode(tags) AS tag FROM c
SELECT n, posexplode(tags) AS (i, tag) FROM c
SELECT n, inline(os) FROM c
SELECT n, s.p, s.q.r, c.s.q.r AS r2 FROM c
SELECT n, tags[0] AS first, m['a'] AS ma, size(tags) AS z FROM c WHERE size(tags) > 0
SELECT n, transform(tags, t -> concat(t, '!')) AS t, filter(tags, t -> t > 'u') AS g, exists(tags, t -> t = 'v') AS e
    FROM c
SELECT n, aggregate(transform(os, o -> o.u), 0, (acc, u) -> acc + u) AS total FROM c
SELECT n, os.u AS us, os[0].v AS v0 FROM c WHERE size(os) > 0
SELECT k, collect_list(x) AS xs, max_by(id, x) AS m, bool_or(b) AS bb FROM a WHERE id <> 6 GROUP BY k
SELECT k, sort_array(collect_set(x)) AS xs FROM a GROUP BY k
SELECT percentile(x, 0.5) AS p, median(f) AS m, stddev(f) AS s, var_pop(f) AS v, corr(f, x) AS c FROM a
SELECT date_trunc('MINUTE', t) AS minute, count(*) AS n FROM a GROUP BY 1
SELECT id, t + INTERVAL 1 DAY AS u, t - INTERVAL '2' HOUR AS v, extract(HOUR FROM t) AS h FROM a
SELECT id, date_add(day, 1) AS e, day + INTERVAL 1 MONTH AS f, datediff(day, DATE'2024-01-01') AS g FROM b
SELECT a.id, l.y FROM a JOIN LATERAL (SELECT y FROM b WHERE b.id = a.id) l
SELECT id + 1 AS i, i * 2 AS j FROM a
SELECT x.id FROM (a x JOIN b y ON x.id = y.id)
SELECT a.id FROM a JOIN (b JOIN c ON b.id = c.n) ON a.id = b.id
SELECT count(*) AS n FROM a JOIN b ON a.id <> b.id
SELECT a.id, count(b.y) AS n FROM a LEFT JOIN b ON a.id = b.id GROUP BY a.id
SELECT id, k <=> NULL AS n, k IS NOT NULL AS p, nvl(k, 'none') AS q, nullif(x, 7) AS r FROM a
SELECT id FROM a WHERE k LIKE 'p%' OR k RLIKE '^r' OR x BETWEEN 8 AND 11
SELECT if(b, 'y', 'n') AS i, CASE k WHEN 'p' THEN 1 WHEN 'q' THEN 2.5 END AS c FROM a
SELECT (SELECT max(y) FROM b WHERE b.id = a.id) + (SELECT min(y) FROM b WHERE b.id = a.id) AS s, id FROM a
SELECT id, (SELECT first(y) FROM b WHERE b.id < a.id AND b.y > 5 HAVING count(*) > 0) AS f FROM a WHERE id < 3
SELECT id, (SELECT count(*) FROM b WHERE b.id < a.id) AS f FROM a
SELECT id, (SELECT count(*) FROM b WHERE b.id = a.id HAVING count(*) < 2) AS f FROM a
SELECT id, (SELECT coalesce(sum(y), -1) FROM b WHERE b.id = a.id HAVING count(*) > 0) AS f FROM a
SELECT id, (SELECT y FROM b WHERE b.id = a.id ORDER BY y DESC LIMIT 1) AS f FROM a
SELECT id, (SELECT max(y) FROM b WHERE b.y > a.x AND b.id >= a.id) AS f FROM a
TABLE a
SELECT id, smallint(x) AS s, string(d) AS t, decimal(f) AS u, boolean(x) AS v, binary(k) AS w FROM a
SELECT id FROM a WHERE (k, x) IN ((k, 10), (k, id)) OR (x, id) = (x + 1, 4)
SELECT id, (id, x) AS p, (id, x) < (x, id) AS q, (x, 1) <=> (x, id) AS r, (x, 1) = (x, id) AS s FROM a
SELECT k, count(DISTINCT (x, b)) AS n FROM a GROUP BY k
SELECT id FROM a WHERE k LIKE ANY ('p%', '%q') OR k NOT LIKE ALL ('r', 's')
SELECT id, k LIKE ALL ('p%', '%p') AS l, k NOT LIKE ANY ('p%', 'q') AS m, k NOT LIKE ALL ('p', NULL) AS n FROM a
SELECT k, listagg(x, '-') WITHIN GROUP (ORDER BY x DESC) AS l, string_agg(k, ',') WITHIN GROUP (ORDER BY id) AS m
    FROM a GROUP BY k
SELECT k, listagg(DISTINCT x, '-') WITHIN GROUP (ORDER BY x) AS l, listagg(k) WITHIN GROUP (ORDER BY id) FILTER (WHERE
    id > 2) AS m FROM a GROUP BY k
SELECT b, mode() WITHIN GROUP (ORDER BY x) AS m, percentile_disc(0.4) WITHIN GROUP (ORDER BY x DESC) AS p,
    percentile_disc(0) WITHIN GROUP (ORDER BY d) AS q FROM a GROUP BY b
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY f) FILTER (WHERE id > 1) AS p,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE id > 1) AS q,
    percentile_disc(1) WITHIN GROUP (ORDER BY id) AS r FROM a
SELECT * FROM (SELECT k, x, b FROM a) PIVOT (sum(x) FOR k IN ('p', 'q' AS queue))
SELECT * FROM (SELECT k, x, b FROM a) PIVOT (sum(x) AS s, count(*), count(x) AS n FOR (k, b) IN (('p', true) AS p,
    ('r', false), ('z', true) AS z))
SELECT * FROM (SELECT id, x, y FROM a JOIN b USING (id)) UNPIVOT (v FOR name IN (x AS ex, y))
SELECT * FROM (SELECT id, x, d, f FROM a) UNPIVOT INCLUDE NULLS ((v, w) FOR name IN ((x, d), (d, f) AS df)) AS u
SELECT k, b, x, count(*) AS n FROM a GROUP BY k, b, x GROUPING SETS ((b), (k, b), ())
SELECT k, b, grouping__id, count(*) AS n FROM a GROUP BY k, b WITH CUBE
SELECT id, from_utc_timestamp(t, 'Europe/Berlin') AS u, to_utc_timestamp(t, '+05:30') AS v, to_char(d, '999.99') AS w
    FROM a
SELECT r.id AS i, a.id AS j FROM range(4) AS r LEFT JOIN a ON a.id = r.id
SELECT id FROM range(7, 1, -2)
SELECT n, p, q FROM c LATERAL VIEW json_tuple(to_json(m), 'a', 'b') j AS p, q
SELECT id, mask(k, lowerChar => 'z') AS m, mask(str => k, otherChar => '-') AS n FROM a
SELECT window.start, window.end AS e, count(*) AS n FROM a GROUP BY window(t, '30 seconds')
SELECT window, k, max(x) AS m FROM a GROUP BY k, window(t, '1 hour', '20 minutes', '5 minutes')
SELECT id, decode(x, 10, 'ten', NULL, 'none', 'many') AS w, decode(x, 7, 'seven') AS v FROM a
FROM a |> WHERE x > 5 |> SELECT id, x |> EXTEND x + 1 AS z |> SET x = x + 10, z = x |> DROP id
FROM a |> ORDER BY id |> LIMIT 3 |> OFFSET 1 |> WHERE a.id > 1 |> SELECT a.id, k
FROM a |> AGGREGATE count(*) AS n, sum(x) AS s GROUP BY k AS kk |> WHERE n > 1
FROM a |> SELECT k, x |> AGGREGATE count(*) AS n GROUP BY 2, 1
FROM a |> AGGREGATE count(*) AS n GROUP BY 1 AS one
FROM a |> SELECT k |> AGGREGATE GROUP BY 1
SELECT unix_micros(TIMESTAMP_NTZ '2020-01-01 00:00:00.5') AS u, unix_millis(TIMESTAMP_NTZ '2020-01-01 00:00:00.5') AS m
    FROM a
SELECT TIMESTAMP '2020-01-31 00:00:00' + try_make_interval(1, 1, 1, 1, 5, 6, 7.5) AS t,
    DATE '2020-01-01' + try_make_interval(2147483647, 2) AS d FROM a
FROM a |> WHERE x > 5 |> LEFT JOIN b USING (id) |> SELECT DISTINCT x, y
FROM a |> AS q |> SELECT q.id |> INTERSECT (SELECT id FROM b)
SELECT id FROM a UNION ALL SELECT id FROM b |> WHERE id = 1
VALUES (1, 2), (3, 4) AS v(p, q) |> SELECT p + q AS r
(SELECT id, x FROM a) |> WHERE x > 5 |> AGGREGATE max(x) AS m
SELECT k, x, count(*) AS n FROM a GROUP BY GROUPING SETS ((k), (k), ROLLUP (k, x))
SELECT (k, x) AS p, count(*) AS n FROM a GROUP BY (k, x)
SELECT id, parse_json('{"a": {"b": [1]}}'):a.b[0]::INT AS v FROM a
""".strip()
    .replace("\n    ", " ")
    .split("\n")
)

EXPRESSIONS = (
    """
1
10000000000
1.5
0.05
-1.25
1e3
'x'
NULL
true
1L
1.5D
2BD
X'1F'
x + 1
x + y
x * 1.5
x - d
x / 2
d + e
d - e
d * e
d / e
d % e
d + 1
d + x
d + y
d + f
d * 9 / 5
(d - 32) / 9 * 5
x % 3
x div 2
-d
abs(d)
abs(x)
round(d)
round(d, 1)
round(f, 2)
round(x, -1)
bround(d, 1)
ceil(d)
floor(d)
ceil(f)
floor(f)
ceil(x)
greatest(x, y)
least(d, e)
coalesce(x, y)
coalesce(x, d)
coalesce(d, f)
coalesce(NULL, x)
nullif(x, 1)
ifnull(x, 1)
nvl(x, 1.5)
nvl2(x, 1, 2.5)
if(b, 1, 2L)
if(b, x, d)
CASE WHEN b THEN 1 ELSE 2.5 END
CASE WHEN b THEN x END
CASE WHEN b THEN 'a' ELSE NULL END
CASE k WHEN 'a' THEN x ELSE y END
x = y
x > d
k = 'a'
x IN (1, 2)
x BETWEEN 1 AND 2
k LIKE 'a%'
NOT b
b AND x > 1
x IS NULL
k || 'x'
concat(k, x)
upper(k)
lower(k)
length(k)
trim(k)
ltrim(k)
substring(k, 1, 2)
substr(k, 1)
replace(k, 'a', 'b')
split(k, ',')
split_part(k, ',', 1)
regexp_replace(k, 'a', 'b')
regexp_extract(k, '(a)', 1)
lpad(k, 5, '0')
instr(k, 'a')
locate('a', k)
position('a' IN k)
startswith(k, 'a')
contains(k, 'a')
reverse(k)
repeat(k, 2)
initcap(k)
concat_ws(',', k, k)
format_string('%s', k)
md5(k)
sha2(k, 256)
hex(x)
ascii(k)
levenshtein(k, 'a')
translate(k, 'a', 'b')
left(k, 1)
right(k, 1)
CAST(x AS BIGINT)
CAST(k AS DECIMAL(12, 4))
CAST(d AS INT)
CAST(k AS TIMESTAMP)
CAST(k AS DATE)
CAST(x AS STRING)
TRY_CAST(k AS INT)
CAST(k AS BINARY)
CAST(k AS FLOAT)
CAST(x AS SMALLINT)
CAST(x AS SMALLINT) + CAST(x AS TINYINT)
CAST(x AS FLOAT) + x
CAST(x AS FLOAT) + CAST(x AS FLOAT)
CAST(x AS FLOAT) / 2
CAST(x AS FLOAT) + d
t + INTERVAL 1 HOUR
t - INTERVAL 1 DAY
t - t
day + 1
day + INTERVAL 1 DAY
day + INTERVAL 1 MONTH
day - day
day - INTERVAL 1 HOUR
INTERVAL 1 HOUR
INTERVAL '1' HOUR * 2
INTERVAL 1 HOUR + INTERVAL 1 DAY
date_trunc('HOUR', t)
date_trunc('DAY', day)
trunc(day, 'MM')
to_date(k)
to_timestamp(k)
to_timestamp(k, 'yyyy')
date_add(day, 1)
date_sub(day, 1)
datediff(day, day)
add_months(day, 1)
last_day(day)
next_day(day, 'MON')
months_between(t, t)
dayofweek(day)
dayofyear(day)
weekofyear(day)
weekday(day)
dayofmonth(day)
extract(YEAR FROM t)
extract(SECOND FROM t)
extract(MINUTE FROM t)
date_part('SECOND', t)
unix_timestamp(t)
from_unixtime(y)
date_format(t, 'yyyy')
current_timestamp()
current_date()
timestamp_seconds(x)
timestamp_millis(y)
timestamp_micros(y)
unix_seconds(t)
unix_millis(t)
unix_micros(t)
make_date(2020, 1, 1)
make_timestamp(2020, 1, 1, 0, 0, 0)
timestampdiff(MINUTE, t, t)
timestampadd(MINUTE, 5, t)
sqrt(x)
exp(f)
ln(f)
log(2, f)
log10(f)
pow(x, 2)
sin(f)
sign(f)
sign(d)
pmod(x, 3)
pmod(d, e)
mod(x, 3)
pi()
degrees(f)
cbrt(f)
factorial(x)
hypot(f, f)
isnan(f)
nanvl(f, 0)
x & 1
x | y
~x
shiftleft(x, 1)
bit_count(x)
hash(x)
xxhash64(k)
crc32(k)
array(1, 2)
array(1, 2.5)
array(x, y)
map('a', 1)
struct(x, k)
named_struct('p', x, 'q', k)
tags[0]
m['a']
s.p
s.q.r
os.u
os[0].v
element_at(tags, 1)
size(tags)
array_contains(tags, 'a')
array_distinct(tags)
array_join(tags, ',')
array_max(tags)
array_position(tags, 'a')
array_remove(tags, 'a')
array_union(tags, tags)
array_intersect(tags, tags)
array_append(tags, 'a')
array_repeat(k, 2)
arrays_overlap(tags, tags)
concat(tags, tags)
flatten(array(tags))
slice(tags, 1, 1)
sort_array(tags)
array_sort(tags)
sequence(1, 3)
sequence(1, y)
map_keys(m)
map_values(m)
map_entries(m)
map_concat(m, m)
map_from_arrays(array('a'), array(1))
map_contains_key(m, 'a')
transform(tags, q -> length(q))
filter(tags, q -> q > 'a')
exists(tags, q -> q = 'a')
forall(tags, q -> q = 'a')
aggregate(array(1, 2), 0, (acc, q) -> acc + q)
zip_with(tags, tags, (p, q) -> concat(p, q))
transform_values(m, (p, q) -> q + 1.5)
map_filter(m, (p, q) -> q > 1)
to_json(s)
get_json_object(k, '$.a')
from_json(k, 'a INT')
str_to_map(k)
CAST(from_json(k, 'a INT') AS STRUCT<a: INT>)
x + 'a'
x || 1
'1' + 1
1 / 3
1.0 / 3
1.5 * 2.25
100 * d
d / 3
1 + 1L
-x
decode(k, 'UTF-8')
encode(k, 'UTF-8')
base64(CAST(k AS BINARY))
url_encode(k)
bin(x)
conv(k, 10, 16)
format_number(f, 2)
soundex(k)
find_in_set(k, 'a,b')
substring_index(k, '.', 1)
char_length(k)
octet_length(k)
space(2)
chr(65)
typeof(x)
isnull(x)
isnotnull(x)
weekofyear(t)
dayname(day)
monthname(day)
from_csv('1,x', 'p INT, q STRING')
from_xml('<r><p>1</p></r>', 'p INT')
from_json('{}', schema_of_json('{"b": [1, 2.5], "a": {"c": null, "d": true}, "e": [{"f": 1}, {"g": "x"}]}'))
schema_of_json('{"a": 1}')
json_object_keys('{"a": 1}')
to_number('12', '999')
to_number('$78.12', '$99.99')
try_to_number(a.k, 'S9,999.0')
luhn_check('8112189876')
xpath('<a><b>1</b></a>', 'a/b/text()')
xpath_boolean('<a/>', 'a')
xpath_number('<a>1</a>', 'a')
xpath_int('<a>1</a>', 'a')
xpath_short('<a>1</a>', 'a')
xpath_long('<a>1</a>', 'a')
xpath_float('<a>1</a>', 'a')
xpath_string('<a>1</a>', 'a')
to_xml(struct(x))
to_base32('a')
from_base32('ME======')
hmac('a', 'b')
bitmap_count(X'01')
bitmap_bit_position(x)
validate_utf8(a.k)
convert_timezone('UTC', 'Europe/Berlin', t)
convert_timezone('Europe/Berlin', t)
is_variant_null(parse_json('null'))
schema_of_variant(parse_json('[1]'))
variant_get(parse_json('[1]'), '$[0]', 'int')
try_variant_get(try_parse_json(a.k), '$.p', 'array<string>')
CAST(parse_json('3') AS INT)
to_json(parse_json('{"b":1}'))
parse_json('{"p": {"q": 7}}'):p.q::INT
aes_decrypt(X'00', '0000111122223333')
jaro_winkler_similarity(a.k, 'p')
""".strip()
    .replace("\n    ", " ")
    .split("\n")
)

AGGREGATES = (
    """
count(*)
count(x)
count(DISTINCT x, k)
sum(x)
sum(y)
sum(d)
sum(f)
sum(CAST(x AS FLOAT))
sum(d * e)
sum(DISTINCT x)
avg(x)
avg(d)
avg(f)
avg(d * e)
mean(x)
min(k)
max(t)
min(d)
median(x)
median(d)
percentile(x, 0.5)
percentile(x, array(0.1, 0.9))
percentile_approx(d, 0.5)
percentile_cont(0.5) WITHIN GROUP (ORDER BY x)
approx_percentile(x, array(0.1, 0.2))
stddev(x)
stddev_pop(d)
stddev_samp(x)
variance(d)
var_pop(x)
var_samp(x)
std(x)
skewness(x)
kurtosis(x)
corr(x, f)
covar_pop(x, f)
covar_samp(x, f)
collect_list(d)
collect_set(k)
array_agg(k)
first(d)
last(k)
first(x, true)
any_value(t)
first_value(x)
last_value(x)
max_by(k, x)
min_by(d, t)
mode(k)
count_if(b)
bool_and(b)
bool_or(b)
every(b)
some(b)
bit_and(x)
bit_or(y)
bit_xor(x)
approx_count_distinct(k)
sum(INTERVAL 1 HOUR)
avg(t - t)
regr_slope(f, x)
regr_count(f, x)
string_agg(k, ',')
listagg(k)
try_sum(x)
try_avg(d)
sum('1')
max(x) - min(d)
sum(x) / count(*)
sum(d) / 3
coalesce(sum(d), 0)
row_number() OVER (ORDER BY max(x))
""".strip()
    .replace("\n    ", " ")
    .split("\n")
)
