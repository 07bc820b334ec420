"""Generated queries that combine the choices of each clause of SQL++, SPL and SQRL.

Out: lists of queries over small tables; whether one is accepted is what the test compares, so that wrong ones are among
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from tests.compatibility.verdicts import Queries
from tests.window_by.random_expressions import Expressions

SEQUENCE = """CREATE TABLE R (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, o BIGINT NOT NULL, v BIGINT, x DOUBLE,
    s STRING, t TIMESTAMP);
CREATE STREAM L (id BIGINT, k BIGINT, o TIMESTAMP NOT NULL, v BIGINT, x DOUBLE, s STRING, WATERMARK FOR o);
"""
STARTS = (
    "START AS s AT sat",
    "START AS s AT sat WHEN s.v > 2",
    "START AS s AT sat PREV AS p WHEN s.v <> p.v OR p IS MISSING",
    "START AS s AT sat NEXT AS n WHEN n.v > s.v",
    "START UNBOUNDED",
)
ENDS = (
    "END",
    "END AS e AT eat WHEN eat - sat = 2",
    "END AS e WHEN e.v > s.v",
    "END AS e WHEN e.o - s.o > 5",
    "END NEXT AS m WHEN m.v = s.v OR m IS MISSING",
    "ONLY END AS e PREV AS q WHEN e.v + q.v > s.v",
    "ONLY END AS e WHEN e.v IN (SELECT VALUE y.v FROM R AS y)",
    "END UNBOUNDED",
)
RESULTS = (
    "SELECT s.id AS id, LEN(w) AS n",
    "SELECT w[*].v AS vs, ARRAY_SUM(w[*].v) AS total, w[-1].x AS last",
    "SELECT ARRAY_MEDIAN(w[*].x) AS m, ARRAY_COUNT(ARRAY_DISTINCT(w[*].s)) AS kinds",
    "SELECT ARRAY_COUNT((SELECT VALUE t.v FROM w AS t WHERE t.v > 2)) AS big, EXISTS (FROM w AS t SELECT t.v) AS some",
    "SELECT VALUE {'k': s.k, 'vs': (FROM w AS t SELECT VALUE t.v ORDER BY t.v LIMIT 2)}",
)
LABELS = (
    "LABEL AS l AT lat START AT sat WHEN lat - sat <= 2 END AT eat WHEN eat - lat = 1",
    "LABEL AS l WHEN l.v > 1 START AS s WHEN l.o - s.o < 3",
    "LABEL AS l START UNBOUNDED END AS e WHEN e.v > l.v",
)


def window_by() -> Iterator[str]:
    """Windows by conditions: kinds, boundaries, results."""
    head = "WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE"
    for (n, start), end in product(enumerate(STARTS), ENDS):
        kind, source = (("SLIDING", "R"), ("TUMBLING", "R"), ("SLIDING", "L"))[(n + len(end)) % 3]
        result = RESULTS[(n * len(ENDS) + ENDS.index(end)) % len(RESULTS)]
        yield f"FROM {source} AS r {head} {kind} {start} {end} {result}"
    for label, result in product(LABELS, RESULTS[1:4]):
        yield f"FROM R AS r {head} SLIDING {label} {result}"
    for order in ("r.o DESC", "r.o, r.id", "r.v", "r.x + 1", "r.s, r.o DESC"):
        yield f"FROM R AS r WINDOW BY w ORDER BY {order} TYPE TUMBLING START AS s END AS e WHEN e.v < s.v SELECT s.id"


def around_windows() -> Iterator[str]:
    """What may be written beside WINDOW BY, and queries within expressions."""
    over = (
        "WINDOW BY w PARTITION BY r.k ORDER BY r.o, r.id TYPE SLIDING START AS s WHEN s.v < 3 END NEXT AS n WHEN "
        "n.v >= 3"
    )
    for before in (
        "",
        "LET z = r.v + 1",
        "WHERE r.v > 1",
        "WHERE r.id IN (SELECT VALUE y.id FROM R AS y WHERE y.v = 2)",
        "LIMIT 3",
    ):
        yield f"FROM R AS r {before} {over} SELECT s.id AS id, LEN(w) AS n"
    for after in ("ORDER BY s.id", "ORDER BY s.id LIMIT 3", "LIMIT 2 OFFSET 1", "GROUP BY s.k AS k", "HAVING s.k > 1"):
        yield f"FROM R AS r {over} SELECT s.id AS id, s.k AS k {after}"
    for select in (
        "SELECT *",
        "SELECT VALUE w",
        "SELECT VALUE s",
        "SELECT DISTINCT s.k",
        "SELECT s.*",
        "SELECT s, n.v AS nv",
    ):
        yield f"FROM R AS r {over} {select}"
    inner = f"(FROM R AS r {over} SELECT s.id AS id, s.k AS k, w[*].v AS vs) AS y"
    for rest in ("SELECT y.id", "WHERE LEN(y.vs) > 1 SELECT y.id, y.vs[0] AS f", ", y.vs AS v SELECT v",
                 "UNNEST y.vs AS v AT i SELECT v, i",
                 "GROUP BY y.k AS k SELECT k, COUNT(*) AS n", "JOIN R AS q ON q.id = y.id SELECT q.v, y.id",
                 "LEFT JOIN R AS q ON q.id = y.id SELECT q.v, y.id"):  # fmt: skip
        yield f"FROM {inner} {rest}"
    for query in ("(SELECT VALUE MAX(q.v) FROM R AS q)[0]", "ARRAY_SUM((FROM w AS a, w AS b WHERE a.v < b.v SELECT "
                                                            "VALUE a.v))",
                  "(FROM w AS a GROUP BY a.v AS g GROUP AS h SELECT VALUE LEN(h))", "(FROM R AS q WHERE q.k = s.k "
                                                                                    "SELECT VALUE q.v)",
                  "EXISTS (FROM w AS a WHERE a.v IN (FROM w AS b SELECT VALUE b.v + 1) SELECT a)"):  # fmt: skip
        yield f"FROM R AS r {over} SELECT s.id AS id, {query} AS q"


EXPRESSION_TABLE = """CREATE TABLE E (id BIGINT PRIMARY KEY, i BIGINT, j BIGINT, x DOUBLE, y DOUBLE, s STRING,
    p STRING, b BOOLEAN, d DATE,
  t TIMESTAMP, n DECIMAL(10, 2), a ARRAY<BIGINT>, c ARRAY<DOUBLE>, o ARRAY<STRUCT<k: BIGINT, v: DOUBLE, s: STRING>>,
  q STRUCT<k: BIGINT, v: DOUBLE, s: STRING>, w ARRAY<STRING>, z ARRAY<ARRAY<BIGINT>>);
"""


def expressions() -> Iterator[str]:
    """Random expressions of SQL++, queries among them, over the tuples at which windows begin."""
    made = Expressions(Random(50))
    names = "i j x y s p b d t n a c o q w z".split()
    lets = ", ".join(f"{n} = r.{n}" for n in names)
    below = "(FROM E AS e WINDOW BY win ORDER BY e.id TYPE TUMBLING START AS st END SELECT VALUE st) AS r"
    for _ in range(30):
        yield f"FROM {below} LET {lets}, u = {{'id': r.id, 's': r.s}}, g = r.i SELECT {made.any(2)} AS e"


OVER = "WINDOW BY v ORDER BY y.o TYPE TUMBLING START AS a END AS b WHEN b.v > 2 SELECT VALUE LEN(v)"
ALWAYS = "LEN((FROM R AS z WINDOW BY v ORDER BY z.o TYPE TUMBLING START END SELECT VALUE LEN(v)))"
WITHIN = (
    "(FROM R AS y WHERE y.v = {t}.i SELECT VALUE y.v)",
    "(FROM {t}.a AS y WHERE y > {t}.i SELECT VALUE y)",
    f"(FROM R AS y {OVER})",
    f"(FROM R AS y WHERE y.v = {{t}}.i {OVER})",
    "(FROM {t}.a AS y AT p WINDOW BY v ORDER BY p TYPE SLIDING START AS a END AS b WHEN b.p > a.p + {t}.i SELECT "
    "VALUE LEN(v))",
    f"(FROM {{t}}.a AS y GROUP BY {ALWAYS} + y AS g SELECT VALUE g)",
    f"(FROM {{t}}.a AS y SELECT VALUE y ORDER BY {ALWAYS}, y)",
)
ROUND = "WINDOW BY w PARTITION BY r.i ORDER BY r.id TYPE SLIDING START AS s WHEN s.i > 1 END AS e WHEN e.i > 2"
PLACES = (
    ("s", f"FROM E AS r {ROUND} SELECT s.id AS id, {{q}} AS q"), ("r", "FROM E AS r SELECT r.id AS id, {q} AS q"),
    ("r", f"FROM E AS r LET z = {{q}} {ROUND.replace('s.i', 's.r.i').replace('e.i', 'e.r.i')} SELECT LEN(w) AS n"),
    ("r", f"FROM E AS r WHERE 3 IN {{q}} {ROUND} SELECT LEN(w) AS n"), ("s", f"FROM E AS r {ROUND} LET z = {{q}} "
                                                                             "SELECT z"),
    ("s", f"FROM E AS r {ROUND} HAVING 3 IN {{q}} SELECT LEN(w) AS n"),
    ("r", "FROM E AS r WINDOW BY w PARTITION BY LEN({q}) ORDER BY r.id TYPE SLIDING START AS s END SELECT LEN(w) AS n"),
    ("r", "FROM E AS r WINDOW BY w ORDER BY LEN({q}), r.id TYPE SLIDING START AS s END SELECT LEN(w) AS n"),
    ("s", "FROM E AS r WINDOW BY w ORDER BY r.id TYPE SLIDING START AS s WHEN LEN({q}) > 1 END SELECT LEN(w) AS n"),
    ("e", "FROM E AS r WINDOW BY w ORDER BY r.id TYPE SLIDING START AS s END AS e WHEN s.i IN {q} SELECT LEN(w) AS n"),
    ("r", "FROM E AS r GROUP BY LEN({q}) AS k SELECT k, COUNT(*) AS n"),
    ("r", "FROM E AS r GROUP BY r.i AS k SELECT k, SUM(LEN({q})) AS n"),
    ("r", "FROM E AS r JOIN R AS x ON x.v IN {q} AND x.id = r.id SELECT x.id"),
    ("r", "FROM E AS r LEFT JOIN R AS x ON x.v IN {q} SELECT x.id"),
    ("r", "FROM E AS r UNNEST {q} AS x SELECT x"), ("r", "FROM E AS r, {q} AS x SELECT x"),
    ("r", "FROM E AS r SELECT r.id AS id ORDER BY LEN({q}) LIMIT 2"),
    ("r", "FROM E AS r SELECT {q} AS q UNION ALL FROM E AS r SELECT [1] AS q"),
)  # fmt: skip


def queries_within() -> Iterator[str]:
    """Queries within expressions, of tables and arrays, with windows and without: at each place of a query."""
    for (variable, text), query in product(PLACES, WITHIN):
        if "WINDOW BY" in text + query:
            yield text.replace("{q}", query.replace("{t}", variable))


TRADES = """CREATE STREAM trades (sym STRING, price DOUBLE, qty INT, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts);
CREATE STREAM quotes (sym STRING, bid DOUBLE, ts TIMESTAMP, WATERMARK FOR ts);
CREATE TABLE prices (sym STRING PRIMARY KEY, price DOUBLE);
"""
EVICTIONS = ("count(4)", "time(10)", "delta(v, 5)", "delta(ts, 1.5)", "punct()")
TRIGGERS = ("", ", count(2)", ", time(5)", ", delta(v, 3)")
PARTITIONS = (
    "",
    ", partitioned BY sym",
    ", partitioned BY sym, partitionAge(5)",
    ", partitioned BY sym, tupleCount(3)",
)
OPTIONS = ("", ", aggregateIncompleteWindows", ", aggregateEvictedPartitions", ", flushOnFinal")
AGGREGATED = (
    "SELECT sum(qty) AS q, firing() AS f",
    "SELECT STREAM count(*) AS n, last(price) AS p, firingTime() AS at",
    "SELECT Average(qty) AS a, CollectDistinct(v) AS c, CountGroups() AS g",
    "SELECT ArgMax(price, qty) AS q, MaxCount(price) AS n",
)


def spl_windows() -> Iterator[str]:
    """SPL's window clause: its policies, partitions and options in turn, and joins of windows."""
    clauses = [f"tumbling, {e}" for e in EVICTIONS] + [f"sliding, {e}{t}" for e, t in product(EVICTIONS, TRIGGERS)]
    for n, clause in enumerate(clauses):
        for partition in PARTITIONS[n % 2 :: 2]:
            grouped = " GROUP BY sym" if "partitioned" in partition else ""
            yield f"{AGGREGATED[n % 4]} FROM trades WINDOW ({clause}{partition}{OPTIONS[(n // 6) % 4]}) AS t{grouped}"
    for more in (
        "",
        ", creationPeriod(10)",
        ", creationPeriod(10), discardAge(60)",
        ", intervalOffset(5), partitioned BY sym",
    ):
        yield (
            "SELECT intervalStart() AS s, paneIndex() AS i, sum(qty) AS q FROM trades WINDOW (timeInterval, "
            f"intervalDuration(60){more})"
        )
    for kind, left, right in product(
        ("JOIN", "LEFT JOIN", "FULL JOIN"), ("count(3)", "time(10)"), ("count(0)", "delta(bid, 2)")
    ):
        yield (
            f"SELECT STREAM a.sym, a.price, b.bid FROM trades WINDOW (sliding, {left}) AS a {kind} quotes WINDOW "
            f"(sliding, {right}) AS b ON a.sym = b.sym"
        )


SHOP = """CREATE TABLE Orders (id INT PRIMARY KEY, customer INT, total DECIMAL(10, 2), t TIMESTAMP,
  items ARRAY<STRUCT<product: INT, n: INT, tags: ARRAY<STRING>>>);
CREATE TABLE Customers (id INT PRIMARY KEY, name STRING, country STRING);
CREATE STREAM Visits (customer INT, page STRING, t TIMESTAMP, WATERMARK FOR t AS t - INTERVAL 5 SECONDS);
Orders.buyer := JOIN Customers c ON c.id = _.customer;
Customers.orders := JOIN Orders o ON o.customer = _.id ORDER BY o.t DESC;
Customers.last := JOIN Orders o ON o.customer = _.id ORDER BY o.t DESC LIMIT 1;
"""
SOURCES = (
    "Orders o", "Customers c JOIN c.orders o", "Orders o LEFT JOIN o.buyer b", "Orders o JOIN o.items i",
    "Orders o LEFT JOIN o.items i",
    "Visits v JOIN Customers c ON c.id = v.customer", "TUMBLE(Visits, DESCRIPTOR(t), INTERVAL '1' MINUTE) v",
    "HOP(Visits, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '1' MINUTE) v", "Visits v",
    "Visits v JOIN Visits u ON v.customer = u.customer AND u.t BETWEEN v.t - INTERVAL 1 MINUTE AND v.t",
    "Customers c FULL JOIN Orders o ON o.customer = c.id", "Customers c LEFT SEMI JOIN Orders o ON o.customer = c.id",
    "(SELECT * FROM Customers UNION ALL SELECT * FROM Customers) c", "Orders.items i",
)  # fmt: skip
SHAPES = (
    "SELECT * FROM {}",
    "SELECT count(*) AS n FROM {}",
    "SELECT {a}.*, row_number() OVER (PARTITION BY {a}.{k} ORDER BY {a}.{o} DESC) AS r FROM {} QUALIFY r <= 2",
    "SELECT {a}.{k} AS k, count(*) AS n, max({a}.{o}) AS m FROM {} GROUP BY {a}.{k} HAVING count(*) > 1",
    "SELECT {a}.{k} AS k FROM {} WHERE {a}.{o} > (SELECT min(z.{o}) FROM {z} z) ORDER BY {a}.{o} DESC LIMIT 3",
    "SELECT DISTINCT {a}.{k} AS k FROM {} EXCEPT SELECT id FROM Customers",
    "SELECT STREAM {a}.{k} AS k, {a}.{o} AS o FROM {} ",
    "SELECT {a}.{k} AS k, count(*) AS n FROM {} GROUP BY {a}.{k} EMIT STREAM AFTER WATERMARK",
    "SELECT {a}.{k} AS k, sum(count(*)) OVER (ORDER BY {a}.{k}) AS n FROM {} GROUP BY ROLLUP ({a}.{k})",
)


def views() -> Iterator[str]:
    """Views of SQRL: sources, paths, time windows, and what is asked of them."""
    for source, shape in product(SOURCES, SHAPES):
        alias = source.split(" JOIN ")[0].split(" ")[-1] if " ON " not in source else source.split(" ")[1]
        alias = alias if alias in "ocvi" else "o"
        key, order, table = {
            "o": ("customer", "t", "Orders"), "c": ("id", "name", "Customers"), "v": ("customer", "t", "Visits"),
            "i": ("product", "n", "Orders.items"),
        }[alias]  # fmt: skip
        yield shape.replace("{}", source).format(a=alias, k=key, o=order, z=table)


def form_lists() -> tuple[Queries, ...]:
    """All of them, as lists."""
    return (
        Queries("forms_window_by", SEQUENCE, (*window_by(), *around_windows())),
        Queries("forms_expressions", EXPRESSION_TABLE, tuple(expressions())),
        Queries("forms_within", SEQUENCE + EXPRESSION_TABLE, tuple(queries_within())),
        Queries("forms_spl", TRADES, tuple(spl_windows())),
        Queries("forms_views", SHOP, tuple(views())),
    )
