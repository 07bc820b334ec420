"""The query of a server's catalog for tables.

In: a schema and names of tables. Out: SQL; `tables` converts a row of its answer to a `Table`. A table that is
truncated or rewritten gets another file, and so do partitions. `xmin` is the transaction that wrote a row of the
catalog. The `xmin` of a partition's entry and of its indexes changes if it is detached and attached again, or
temporarily logs other columns. The `xmin` of a table's own type changes if the table moves to another schema.
"""

from __future__ import annotations

_COLUMNS = """
SELECT json_agg(json_build_array(a.attnum, a.attname, a.atttypid::int8, a.atttypmod, a.attgenerated <> '',
    a.attnotnull, t.typname)
                ORDER BY a.attnum)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
"""
_INDEXES = """
SELECT json_agg(json_build_array(i.indisprimary, i.indisreplident, i.indimmediate,
    (i.indkey::int2[])[0:i.indnkeyatts - 1], x.relname)
                ORDER BY NOT i.indisprimary, x.relname)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
"""
_PARTITIONS = """
SELECT md5(string_agg(concat_ws(':', p.relid::oid, h.xmin, coalesce(pg_relation_filenode(p.relid), 0),
    (SELECT string_agg(concat_ws('/', i.indexrelid, i.xmin), '/' ORDER BY i.indexrelid)
     FROM pg_index i WHERE i.indrelid = p.relid AND i.indisunique)), ',' ORDER BY p.relid::oid))
FROM pg_partition_tree(c.oid) p JOIN pg_inherits h ON h.inhrelid = p.relid WHERE p.relid <> c.oid
"""
_MEANINGS = """
WITH RECURSIVE used(type) AS (
    SELECT a.atttypid FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    UNION
    SELECT part.type FROM used JOIN pg_type t ON t.oid = used.type CROSS JOIN LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
        UNION ALL SELECT b.atttypid FROM pg_attribute b
        WHERE b.attrelid = t.typrelid AND b.attnum > 0 AND NOT b.attisdropped
    ) part(type) WHERE part.type >= 16384)
SELECT json_agg(json_build_array(m.number, m.meaning) ORDER BY m.number) FROM (
    SELECT e.oid::int8, e.enumlabel::text FROM pg_enum e WHERE e.enumtypid IN (SELECT type FROM used)
    UNION ALL
    SELECT t.oid::int8, string_agg(b.attnum || ':' || b.atttypid, ',' ORDER BY b.attnum)
    FROM pg_type t JOIN pg_attribute b ON b.attrelid = t.typrelid AND b.attnum > 0 AND NOT b.attisdropped
    WHERE t.oid IN (SELECT type FROM used) GROUP BY t.oid) AS m(number, meaning)
"""
"""Query for user-defined types (numbers from 16384 on): a value's text can change with them without a logged row."""
_LOGGED = """
SELECT json_agg(json_build_array(q.nspname, l.relname, l.relreplident::text, l.relpersistence = 'p',
    (SELECT json_agg(b.attname)
     FROM pg_index i JOIN pg_attribute b
       ON b.attrelid = i.indrelid AND b.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
     WHERE i.indrelid = l.oid AND i.indimmediate AND i.indisvalid
       AND CASE l.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END)))
FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid JOIN pg_namespace q ON q.oid = l.relnamespace
WHERE p.isleaf AND p.relid <> c.oid AND (l.relreplident <> 'f' OR l.relpersistence <> 'p')
"""
STATES = f"""
SELECT c.relname, c.oid::int8, c.relkind::text, c.relreplident::text, coalesce(pg_relation_filenode(c.oid), 0)::int8,
    ({_COLUMNS}), ({_INDEXES}), ({_PARTITIONS}), row_security_active(c.oid), ({_MEANINGS}),
    (SELECT y.xmin::text FROM pg_type y WHERE y.oid = c.reltype), c.relpersistence::text, ({_LOGGED})
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind IN ('r', 'p')
"""
