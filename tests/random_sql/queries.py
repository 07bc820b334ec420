"""Random SQL text over a small catalog, and the same query for DuckDB.

In: a seed. Out: `Query`s whose text the compiler takes or refuses with a diagnostic. Rows that tie are never told
apart: what depends on an order of rows orders by all columns there are, so that two engines must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

import sqlglot
from sqlglot import exp

SCRIPT = """
CREATE TABLE Keyed (k INT, a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10,2), t TIMESTAMP, PRIMARY KEY (k));
CREATE TABLE Bag (a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10,2), t TIMESTAMP);
CREATE STREAM Log (a INT, b INT, s STRING, d DOUBLE, m DECIMAL(10,2), t TIMESTAMP, xs ARRAY<INT>);
CREATE TABLE Orders (k INT, b INT, lines ARRAY<STRUCT<a: INT, s: STRING, d: DOUBLE>>, PRIMARY KEY (k));
Keyed.equals := JOIN Bag o ON o.a = _.a;
Keyed.latest := JOIN Log l ON l.b = _.b ORDER BY l.a DESC, l.b, l.s, l.d, l.m, l.t LIMIT 2;
Bag.keyed := JOIN Keyed o ON o.k = _.b;
"""
PLAIN = {"a": "int", "b": "int", "s": "text", "d": "double", "m": "decimal", "t": "time"}
TABLES = {
    "Keyed": {"k": "int", **PLAIN},
    "Bag": PLAIN,
    "Log": PLAIN,
    "Orders": {"k": "int", "b": "int"},
}
LATEST = "(SELECT a, b, s, d, m, t FROM Log WHERE Log.b = {0}.b ORDER BY a DESC, b, s, d, m, t LIMIT 2)"
TYPES = ("int", "int", "int", "text", "double", "decimal", "time", "bool")
LITERALS = {
    "int": ("0", "1", "2", "-3", "NULL"),
    "text": ("''", "'a'", "'é'", "'a|b'", "'~'"),
    "double": ("CAST(1.5 AS DOUBLE)", "CAST(0 AS DOUBLE)", "CAST(-7 AS DOUBLE)"),
    "decimal": ("CAST(0.10 AS DECIMAL(10, 2))", "CAST(12.30 AS DECIMAL(10, 2))"),
    "time": ("TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '2024-02-29 12:05:00'"),
    "bool": ("TRUE", "FALSE"),
}
CHOSEN = (
    "SELECT k.k AS c1, x.c AS c2 FROM Keyed k JOIN LATERAL (SELECT k.b + l.b AS c FROM Log l WHERE l.a = k.a) x ON "
    "TRUE",
    "SELECT k.k AS c1, x.c AS c2, x.n AS c3 FROM Keyed k JOIN LATERAL "
    "(SELECT max(l.b + k.k) AS c, count(*) AS n FROM Log l WHERE l.a = k.a) x ON TRUE",
    "SELECT k.k AS c1, x.c AS c2, x.n AS c3 FROM Keyed k LEFT JOIN LATERAL "
    "(SELECT max(l.b) AS c, count(*) AS n FROM Log l WHERE l.a < k.a) x ON TRUE",
    "SELECT k.k AS c1, (SELECT max(l.b + k.b) FROM Log l WHERE l.a = k.a) AS c2 FROM Keyed k",
    "SELECT k.k AS c1, k.b IN (SELECT l.b + k.b - 1 FROM Log l WHERE l.a = k.a) AS c2 FROM Keyed k",
    "SELECT k.k AS c1 FROM Keyed k WHERE k.b NOT IN (SELECT l.b * k.b FROM Log l WHERE l.a = k.a)",
    "SELECT k.k AS c1 FROM Keyed k WHERE EXISTS (SELECT max(l.a) AS x, min(l.b) AS y FROM Log l WHERE l.a = k.a)",
    "SELECT k.k AS c1 FROM Keyed k WHERE (k.b IS NULL OR k.k > 3) AND k.b <> k.a",
    "SELECT x.c * 2 AS c1 FROM (SELECT a + 1 AS c, a IS NULL OR b > 1 AS f FROM Bag) x WHERE x.f AND x.c * 2 < 8 AND "
    "NOT x.f = TRUE OR x.c - 1 = 2",
    "SELECT x.a AS c1, x.s AS c2 FROM Keyed k JOIN LATERAL "
    "(SELECT l.a, l.s FROM Log l WHERE l.b = k.b ORDER BY l.a, l.s, l.b LIMIT 3) x ON TRUE",
)
"""Queries that a random one once found wrong, made small."""
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
MARK = re.compile("⟦(.*?)¦(.*?)⟧", re.DOTALL)

Columns = list[tuple[str, str]]


@dataclass(frozen=True)
class Query:
    """One query in two texts; `theirs` is None where DuckDB cannot say it."""

    ours: str
    theirs: str | None


def chosen_queries() -> list[Query]:
    """The queries of `CHOSEN`."""
    return [Query(text, _for_duckdb(text)) for text in CHOSEN]


def random_query(seed: int) -> Query:
    """The query of a seed."""
    text = _Maker(Random(seed)).query()
    return Query(MARK.sub(r"\1", text), _for_duckdb(MARK.sub(r"\2", text)))


def _for_duckdb(text: str) -> str:
    tree = sqlglot.parse_one(text, read="spark")
    for literal in tree.find_all(exp.Cast):
        if literal.to.this in (exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMP):
            literal.set("to", exp.DataType.build("timestamptz"))
    return tree.sql("duckdb")


class _Maker:
    def __init__(self, random: Random):
        self.random = random
        self.count = 0
        self.shared: list[tuple[str, Columns]] = []

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- queries

    def query(self) -> str:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(1, 3))]
        head = ""
        if self.chance(0.25):
            inner = [self.random.choice(TYPES) for _ in range(2)]
            columns = [(self.fresh("c"), t) for t in inner]
            name = self.fresh("w")
            head = f"WITH {name} AS ({self.body(columns, 1)}) "
            self.shared.append((name, columns))
        return head + self.body([(self.fresh("c"), t) for t in types], 2)

    def body(self, columns: Columns, depth: int, outer: Columns | None = None) -> str:
        if depth and outer is None and self.chance(0.2):
            word = self.pick("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
            return f"({self.select(columns, depth - 1)}) {word} ({self.select(columns, depth - 1)})"
        text = self.select(columns, depth, outer)
        if self.chance(0.15) and outer is None:
            order = ", ".join(f"{c}{self.pick('', ' DESC', ' DESC NULLS FIRST', ' NULLS LAST')}" for c, _ in columns)
            text += f" ORDER BY {order} LIMIT {self.random.randint(1, 5)}" + self.pick("", "", " OFFSET 2")
        return text

    def select(self, columns: Columns, depth: int, outer: Columns | None = None) -> str:
        source, inside = self.source(depth, outer or [])
        condition = self.condition(inside, depth, outer) if self.chance(0.6) or outer else ""
        where = f" WHERE {condition}" if condition else ""
        form = self.pick("plain", "plain", "distinct", "group", "group", "total", "sets", "window", "window")
        if outer is not None:
            form = self.pick("plain", "distinct")
        if form in ("plain", "distinct"):
            items = [f"{self.value(t, inside, depth)} AS {c}" for c, t in columns]
            return f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{', '.join(items)} FROM {source}{where}"
        if form == "window":
            return self.windowed(columns, f"FROM {source}{where}", inside)
        return self.grouped(form, columns, f"FROM {source}{where}", inside)

    def grouped(self, form: str, columns: Columns, rest: str, inside: Columns) -> str:
        keys = [] if form == "total" else self.random.sample(inside, min(len(inside), self.random.randint(1, 2)))
        if form == "group" and self.chance(0.3):
            keys.append((self.value("int", inside, 0), "int"))
        texts = list(dict.fromkeys(k for k, _ in keys if not re.fullmatch(r"-?\d+|NULL", k)))
        keys = [(k, t) for k, t in keys if k in texts]
        items = []
        for name, type_ in columns:
            fitting = [k for k, t in keys if t == type_]
            use_key = fitting and self.chance(0.5)
            items.append(f"{self.random.choice(fitting) if use_key else self.aggregate(type_, inside)} AS {name}")
        clause = ""
        if texts:
            listed = ", ".join(texts)
            sets = self.pick("ROLLUP", "CUBE", "GROUPING SETS")
            if form == "sets" and sets == "GROUPING SETS":
                one = f", ({texts[0]})" if len(texts) > 1 else ""
                clause = f" GROUP BY GROUPING SETS (({listed}){one}, ())"
            else:
                clause = f" GROUP BY {sets} ({listed})" if form == "sets" else f" GROUP BY {listed}"
        if form == "sets" and texts:
            clause += "⟦¦ HAVING count(*) > 0⟧"  # the empty set has no row over no input in Spark, one in DuckDB
        elif self.chance(0.25):
            clause += f" HAVING {self.aggregate('int', inside)} {self.pick('>', '<', '<>')} {self.random.randint(0, 3)}"
        return f"SELECT {', '.join(items)} {rest}{clause}"

    def windowed(self, columns: Columns, rest: str, inside: Columns) -> str:
        items = []
        for name, type_ in columns:
            is_plain = type_ in ("bool", "text", "time") or self.chance(0.3)
            items.append(f"{self.value(type_, inside, 0) if is_plain else self.window(type_, inside)} AS {name}")
        qualify = ""
        if self.chance(0.4):
            qualify = f" QUALIFY {self.window('int', inside)} {self.pick('=', '<=', '>')} {self.random.randint(1, 2)}"
        return f"SELECT {', '.join(items)} {rest}{qualify}"

    def window(self, type_: str, inside: Columns) -> str:
        partition = f"PARTITION BY {self.random.choice(inside)[0]} " if self.chance(0.7) else ""
        direction = self.pick("", " DESC", " DESC NULLS FIRST", " NULLS LAST")
        total = ", ".join(f"{c}{direction}" for c, t in inside)
        some = f"{self.random.choice(inside)[0]}{direction}"
        frame = self.pick(
            "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        )
        if type_ == "int" and self.chance(0.5):
            return self.pick(
                f"rank() OVER ({partition}ORDER BY {some})",
                f"dense_rank() OVER ({partition}ORDER BY {some})",
                f"row_number() OVER ({partition}ORDER BY {total})",
                f"count(*) OVER ({partition}ORDER BY {some})",
                f"ntile(2) OVER ({partition}ORDER BY {total})",
            )
        of = self.value(type_, inside, 0)
        return self.pick(
            f"{self.pick('sum', 'min', 'max')}({of}) OVER ({partition}ORDER BY {total} {frame})",
            f"{self.pick('sum', 'min', 'max')}({of}) OVER ({partition}ORDER BY {some})",
            f"{self.pick('sum', 'min', 'max')}({of}) OVER ({partition.strip()})",
            f"{self.pick('lag', 'lead')}({of}) OVER ({partition}ORDER BY {total})",
            f"first_value({of}) OVER ({partition}ORDER BY {total})",
            f"last_value({of}) OVER ({partition}ORDER BY {total} {frame})",
        )

    # --- FROM

    def source(self, depth: int, outer: Columns) -> tuple[str, Columns]:
        form = self.random.random()
        if depth and form < 0.45:
            return self.join(depth, outer)
        if form < 0.53 and not outer:
            return self.path()
        if form < 0.6 and not outer:
            return self.exploded()
        return self.relation(depth)

    def relation(self, depth: int) -> tuple[str, Columns]:
        alias = self.fresh("q")
        if depth and self.chance(0.3):
            columns = [(self.fresh("c"), self.random.choice(TYPES)) for _ in range(2)]
            return f"({self.body(columns, depth - 1)}) {alias}", [(f"{alias}.{c}", t) for c, t in columns]
        if self.shared and self.chance(0.5):
            name, columns = self.random.choice(self.shared)
            return f"{name} {alias}", [(f"{alias}.{c}", t) for c, t in columns]
        name = self.pick(*TABLES)
        return f"{name} {alias}", [(f"{alias}.{c}", t) for c, t in TABLES[name].items()]

    def join(self, depth: int, outer: Columns) -> tuple[str, Columns]:
        left, lefts = self.relation(depth)
        if not outer and self.chance(0.15):
            columns = [(self.fresh("c"), self.random.choice(TYPES)) for _ in range(2)]
            alias = self.fresh("q")
            inner = self.lateral(columns, lefts)
            word = self.pick("JOIN", "LEFT JOIN")
            return f"{left} {word} LATERAL ({inner}) {alias} ON TRUE", lefts + [(f"{alias}.{c}", t) for c, t in columns]
        right, rights = self.relation(depth)
        kind = self.pick(*JOINS)
        pairs = [(x, y) for x, t in lefts for y, u in rights if t == u]
        if not pairs:
            return f"{left} CROSS JOIN {right}", lefts + rights
        x, y = self.random.choice(pairs)
        on = f"{x} {self.pick('=', '=', '=', '<=>')} {y}"
        if self.chance(0.25):
            on += f" AND {self.condition(lefts + rights, 0)}"
        elif self.chance(0.1) and kind == "JOIN":
            on = self.condition(lefts + rights, 0)
        return f"{left} {kind} {right} ON {on}", lefts if "SEMI" in kind or "ANTI" in kind else lefts + rights

    def lateral(self, columns: Columns, lefts: Columns) -> str:
        alias, table = self.fresh("q"), self.pick("Keyed", "Bag", "Log")
        inside = [(f"{alias}.{c}", t) for c, t in TABLES[table].items()]
        x, y = self.random.choice([(x, y) for x, t in lefts for y, u in inside if t == u] or [("1", f"{alias}.a")])
        if self.chance(0.3):
            items = ", ".join(f"{self.aggregate(t, inside)} AS {c}" for c, t in columns)
            return f"SELECT {items} FROM {table} {alias} WHERE {y} = {x}"
        items = ", ".join(f"{self.value(t, inside + lefts, 0)} AS {c}" for c, t in columns)
        last = ", ".join(c for c, _ in columns)
        return f"SELECT {items} FROM {table} {alias} WHERE {y} = {x}" + self.pick("", f" ORDER BY {last} LIMIT 2")

    def path(self) -> tuple[str, Columns]:
        one, two = self.fresh("q"), self.fresh("q")
        word = self.pick("JOIN", "LEFT JOIN")

        def of(table: str, alias: str) -> Columns:
            return [(f"{alias}.{c}", t) for c, t in TABLES[table].items()]

        form = self.pick("equals", "latest", "keyed", "lines", "far")
        if form == "equals":
            return f"Keyed {one} {word} ⟦{one}.equals {two}¦Bag {two} ON {two}.a = {one}.a⟧", of("Keyed", one) + of(
                "Bag", two
            )
        if form == "keyed":
            return f"Bag {one} {word} ⟦{one}.keyed {two}¦Keyed {two} ON {two}.k = {one}.b⟧", of("Bag", one) + of(
                "Keyed", two
            )
        if form == "latest":
            theirs = f"LATERAL {LATEST.format(one)} {two} ON TRUE"
            return f"Keyed {one} {word} ⟦{one}.latest {two}¦{theirs}⟧", of("Keyed", one) + of("Log", two)
        if form == "far":
            return (
                f"⟦Bag.keyed.equals {two}¦Bag {one} JOIN Keyed {one}k ON {one}k.k = {one}.b JOIN Bag {two} ON {two}.a "
                f"= {one}k.a⟧",
                of("Bag", two),
            )
        lines = [(f"{two}.a", "int"), (f"{two}.s", "text"), (f"{two}.d", "double")]
        return f"Orders {one} {word} ⟦{one}.lines {two}¦Lines {two} ON {two}.k = {one}.k⟧", of("Orders", one) + lines

    def exploded(self) -> tuple[str, Columns]:
        one, two = self.fresh("q"), self.fresh("q")
        columns = [(f"{one}.{c}", t) for c, t in PLAIN.items()] + [(f"{two}.x", "int")]
        return f"Log {one} LATERAL VIEW explode({one}.xs) {two} AS x", columns

    # --- expressions

    def value(self, type_: str, inside: Columns, depth: int) -> str:
        fitting = [c for c, t in inside if t == type_]
        if fitting and self.chance(0.6):
            return self.random.choice(fitting)
        if type_ == "bool":
            return f"({self.condition(inside, 0)})"
        if depth and self.chance(0.15) and inside:
            return self.scalar(type_, inside)
        plain = self.random.choice(fitting) if fitting else self.pick(*LITERALS[type_])
        if type_ == "int":
            forms = (
                f"({plain} + 1)",
                f"coalesce({plain}, 7)",
                f"({plain} * 2)",
                f"CASE WHEN {plain} > 1 THEN 1 ELSE {plain} END",
            )
        elif type_ == "text":
            forms = (f"upper({plain})", f"concat({plain}, 'z')", f"coalesce({plain}, '?')")
        elif type_ == "double":
            forms = (f"({plain} * 2)", f"coalesce({plain}, CAST(1.5 AS DOUBLE))", f"abs({plain})")
        else:
            forms = (f"coalesce({plain}, {self.pick(*LITERALS[type_])})", plain)
        written = self.pick(*forms)
        return f"CAST({written} AS INT)" if type_ == "int" and plain == "NULL" else written

    def scalar(self, type_: str, inside: Columns) -> str:
        alias, table = self.fresh("q"), self.pick(*TABLES)
        there = [(f"{alias}.{c}", t) for c, t in TABLES[table].items()]
        pairs = [(x, y) for x, t in inside for y, u in there if t == u]
        link = ""
        if pairs and self.chance(0.8):
            x, y = self.random.choice(pairs)
            link = f" WHERE {x} = {y}"
        return f"(SELECT {self.aggregate(type_, there)} FROM {table} {alias}{link})"

    def aggregate(self, type_: str, inside: Columns) -> str:
        if type_ == "bool":
            return f"{self.pick('bool_and', 'bool_or')}({self.condition(inside, 0)})"
        only = f" FILTER (WHERE {self.condition(inside, 0)})" if self.chance(0.15) else ""
        of = self.value(type_, inside, 0)
        if type_ == "int":
            some = self.random.choice(inside)[0]
            return (
                self.pick(
                    "count(*)", f"count({some})", f"count(DISTINCT {some})", f"sum({of})", f"max({of})", f"min({of})"
                )
                + only
            )
        if type_ == "double":
            number = self.value("int", inside, 0)
            return self.pick(f"sum({of})", f"max({of})", f"min({of})", f"avg({number})", f"median({number})") + only
        if type_ == "decimal":
            return self.pick(f"sum({of})", f"max({of})", f"sum(DISTINCT {of})") + only
        return f"{self.pick('min', 'max')}({of}){only}"

    def condition(self, inside: Columns, depth: int, outer: Columns | None = None) -> str:
        if depth and self.chance(0.3):
            form = self.pick("({} AND {})", "({} OR {})", "(NOT ({}) OR {})")
            return form.format(self.condition(inside, depth - 1, outer), self.condition(inside, depth - 1))
        if depth and self.chance(0.45):
            return self.subquery(inside)
        ref, type_ = self.random.choice((outer or []) + inside)
        other = self.value(type_, inside, 0)
        compare = f"{ref} {self.pick('=', '<>', '<', '>=', '<=>')} {other}"
        forms = [compare, compare, f"{ref} IS {self.pick('', 'NOT ')}NULL"]
        if type_ == "int":
            forms += [f"{ref} IN (1, 2, 5)", f"{ref} NOT IN (0, {other})", f"{ref} BETWEEN 1 AND 3"]
        if type_ == "text":
            forms += [f"{ref} LIKE 'a%'", f"{ref} IN ('a', 'é')"]
        return self.pick(*forms)

    def subquery(self, inside: Columns) -> str:
        alias, table = self.fresh("q"), self.pick(*TABLES)
        there = [(f"{alias}.{c}", t) for c, t in TABLES[table].items()]
        pairs = [(x, y) for x, t in inside for y, u in there if t == u]
        if not pairs:
            return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {table} {alias} WHERE {self.condition(there, 0)})"
        (x, y), (v, w) = self.random.choice(pairs), self.random.choice(pairs)
        extra = f" AND {self.condition(there, 0)}" if self.chance(0.4) else ""
        if self.chance(0.4):
            return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {table} {alias} WHERE {x} = {y}{extra})"
        if self.chance(0.6):
            where = f" WHERE {v} = {w}{extra}" if self.chance(0.3) else f" WHERE {extra[5:]}" if extra else ""
            return f"{x} {self.pick('IN', 'NOT IN')} (SELECT {y} FROM {table} {alias}{where})"
        return f"{self.scalar('int', inside)} {self.pick('=', '<', '>')} {self.value('int', inside, 0)}"
