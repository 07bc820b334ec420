"""Random queries of Spark SQL: every clause, in every place, most of them right.

In: a seed. Out: a `Query`: its text and whether its rows have one answer. `TABLES` of `samples` are what they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.spark_grammar import samples as given
from tests.spark_grammar.expressions import Expressions, Scope

JOINS = (
    *("JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL OUTER JOIN", "FULL JOIN"),
    *("LEFT SEMI JOIN", "SEMI JOIN", "LEFT ANTI JOIN", "ANTI JOIN", "CROSS JOIN"),
)
SETS = ("UNION", "UNION ALL", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "MINUS", "INTERSECT", "INTERSECT ALL")
Columns = list[tuple[str, str]]


@dataclass(frozen=True)
class Query:
    """A query, and whether it has one answer: no ties that a limit cuts, no order of rows that nothing says."""

    text: str
    exact: bool


def random_query(seed: int) -> Query:
    """The query of a seed."""
    made = _Queries(Random(seed))
    return Query(made.statement(), made.exact)


class _Queries(Expressions):
    def __init__(self, random: Random):
        super().__init__(random)
        self.shared: list[tuple[str, Columns]] = []

    def statement(self) -> str:
        columns = self.columns(self.random.randint(1, 3))
        form = self.random.random()
        if form < 0.08:
            return self.piped()
        if form < 0.11:
            return self.pick(
                "TABLE U",
                f"VALUES {self.rows(['int', 'str'])}",
                f"FROM U SELECT {self.value('int', list(given.TABLES['U'].items()))} AS a",
                f"SELECT * FROM (VALUES {self.rows(['int', 'str', 'date'])}) AS v(a, b, c)",
                "(TABLE U) UNION ALL (TABLE U)",
                "SELECT U.* FROM U, E WHERE U.i = E.i",
                "SELECT * EXCEPT (s, n) FROM U",
            )
        return self.with_(columns, 2) if self.chance(0.18) else self.query(columns, 2)

    def columns(self, number: int) -> Columns:
        return [(self.fresh("c"), self.pick(*given.KINDS)) for _ in range(number)]

    def rows(self, kinds: list[str]) -> str:
        return ", ".join(
            "(" + ", ".join(self.pick(*given.LITERALS[k][:4]) for k in kinds) + ")"
            for _ in range(self.random.randint(1, 3))
        )

    def with_(self, columns: Columns, depth: int) -> str:
        before, parts = len(self.shared), []
        for _ in range(self.random.randint(1, 2)):
            name, inner = self.fresh("w"), self.columns(2)
            if self.chance(0.2):
                renamed = [(self.fresh("p"), k) for _, k in inner]
                parts.append(f"{name} ({', '.join(c for c, _ in renamed)}) AS ({self.query(inner, depth - 1)})")
                inner = renamed
            else:
                parts.append(f"{name} AS ({self.query(inner, depth - 1)})")
            self.shared.append((name, inner))
        text = f"WITH {', '.join(parts)} {self.query(columns, depth)}"
        del self.shared[before:]
        return text

    def query(self, columns: Columns, depth: int) -> str:
        if depth and self.chance(0.12):
            one, two = self.query(columns, depth - 1), self.query(columns, depth - 1)
            return (
                f"({one}) {self.pick(*SETS)} ({two})"
                if self.chance(0.8)
                else f"{self.select(columns, 0)} {self.pick(*SETS)} {self.select(columns, 0)}"
            )
        return self.select(columns, depth) + self.tail(columns)

    def tail(self, columns: Columns) -> str:
        if self.chance(0.78):
            return ""
        names = [c for c, k in columns if k in given.ORDERED]
        every = len(names) == len(columns)
        order = ", ".join(f"{c}{self.pick('', ' DESC', ' DESC NULLS FIRST', ' ASC NULLS LAST')}" for c in names)
        if self.chance(0.15):
            order = self.pick("1", "ALL", "1 DESC", f"{columns[0][0]}")
        clause = f" ORDER BY {order}" if order else ""
        form = self.random.random()
        if form < 0.06:
            return self.pick(
                f" SORT BY {columns[0][0]}", f" DISTRIBUTE BY {columns[0][0]}", f" CLUSTER BY {columns[0][0]}"
            )
        if form < 0.4:
            return clause
        if not every or "1" in order or order == columns[0][0]:
            self.exact = False
        limit = self.pick(" LIMIT 3", " LIMIT 2 OFFSET 1", " OFFSET 1", " LIMIT ALL", " LIMIT 1 + 1")
        return clause + limit

    # --- SELECT

    def select(self, columns: Columns, depth: int) -> str:
        source, scope = self.source(depth)
        where = f" WHERE {self.condition(scope, depth)}" if self.chance(0.45) else ""
        form = self.pick("plain", "plain", "plain", "distinct", "group", "group", "group", "total", "window", "window")
        hint = self.pick("", "", "", "", "", "", "", "/*+ BROADCAST(a) */ ")
        if form in ("plain", "distinct"):
            word = "DISTINCT " if form == "distinct" else self.pick("", "", "", "ALL ")
            return (
                f"SELECT {hint}{word}{', '.join(self.item(self.value(k, scope, depth), c) for c, k in columns)} "
                f"FROM {source}{where}"
            )
        if form == "window":
            return self.windowed(columns, f"FROM {source}{where}", scope)
        return self.grouped(form, columns, f"FROM {source}{where}", scope)

    def item(self, text: str, name: str) -> str:
        return f"{text} {self.pick('AS ', 'AS ', '')}{name}"

    def grouped(self, form: str, columns: Columns, rest: str, scope: Scope) -> str:
        sortable = [(n, k) for n, k in scope if k in (*given.ORDERED, "iv", "bin", "xs")] or [("1", "int")]
        keys = [] if form == "total" else [self.random.choice(sortable) for _ in range(self.random.randint(1, 2))]
        keys = list(dict.fromkeys(keys))
        if keys and self.chance(0.3):
            kind = self.pick("int", "str", "date", "bool")
            keys.append((self.value(kind, scope, 1), kind))
        items = []
        for name, kind in columns:
            fitting = [t for t, k in keys if k == kind]
            text = self.pick(*fitting) if fitting and self.chance(0.6) else self.over_aggregates(kind, scope)
            items.append(self.item(text, name))
        clause = self.group_clause([k for k, _ in keys], items)
        if keys and "SETS" in clause + "".join(self.pick("", "") for _ in "x") and self.chance(0.4):
            items.append(self.item(self.pick("grouping_id()", f"grouping({keys[0][0]})"), self.fresh("g")))
        having = f" HAVING {self.having(scope)}" if self.chance(0.2) else ""
        return f"SELECT {', '.join(items)} {rest}{clause}{having}"

    def over_aggregates(self, kind: str, scope: Scope) -> str:
        one = self.aggregate(kind, scope)
        if self.chance(0.75):
            return one
        if kind in given.NUMBERS:
            return f"{one} {self.pick('+', '*', '-')} {self.pick('1', self.aggregate('long', scope))}"
        return f"coalesce({one}, {self.pick(*given.LITERALS[kind])})"

    def having(self, scope: Scope) -> str:
        kind = self.pick("int", "long", "str", "dec")
        return self.pick(
            f"count(*) {self.pick('>', '<>', '>=')} 1",
            f"{self.aggregate(kind, scope, 0)} {self.pick('>', '<=', '<>')} {self.pick(*given.LITERALS[kind])}",
            f"{self.aggregate(kind, scope, 0)} IS NOT NULL",
        )

    def group_clause(self, keys: list[str], items: list[str]) -> str:
        if not keys:
            return self.pick("", "", "", " GROUP BY ()")
        listed, first = ", ".join(keys), keys[0]
        ordinals = [str(n + 1) for n, i in enumerate(items) if any(i.startswith(f"{k} ") for k in keys)]
        return self.pick(
            *[f" GROUP BY {listed}"] * 6,
            f" GROUP BY ROLLUP ({listed})",
            f" GROUP BY CUBE ({listed})",
            f" GROUP BY {listed} WITH {self.pick('ROLLUP', 'CUBE')}",
            f" GROUP BY GROUPING SETS (({listed}), ({first}), ())",
            f" GROUP BY {listed} GROUPING SETS (({first}), ())",
            f" GROUP BY {first}, ROLLUP ({keys[-1]})",
            " GROUP BY ALL",
            f" GROUP BY {', '.join(ordinals)}" if ordinals else f" GROUP BY {listed}",
            f" GROUP BY GROUPING SETS (CUBE ({listed}), ({first}))" if self.chance(0.3) else f" GROUP BY {listed}",
        )

    def windowed(self, columns: Columns, rest: str, scope: Scope) -> str:
        named = ["w1"] if self.chance(0.2) else []
        items = []
        for name, kind in columns:
            text = self.window(kind, scope, named) if self.chance(0.7) else self.value(kind, scope, 1)
            items.append(self.item(text, name))
        clause = f" WINDOW w1 AS ({self.window_spec(scope)})" if named else ""
        qualify = f" QUALIFY {self.window('int', scope)} {self.pick('=', '<=', '>')} 1" if self.chance(0.15) else ""
        return f"SELECT {', '.join(items)} {rest}" + (clause + qualify if self.chance(0.5) else qualify + clause)

    # --- FROM

    def source(self, depth: int) -> tuple[str, Scope]:
        form = self.random.random()
        if form < 0.3 and depth:
            return self.join(depth)
        if form < 0.36:
            return self.generated()
        if form < 0.40:
            return self.pivoted()
        return self.relation(depth)

    def relation(self, depth: int) -> tuple[str, Scope]:
        alias = self.fresh("q")
        if depth and self.chance(0.28):
            columns = self.columns(2)
            inner = self.with_(columns, depth - 1) if self.chance(0.1) else self.query(columns, depth - 1)
            if self.chance(0.12):
                names = [(self.fresh("n"), k) for _, k in columns]
                return f"({inner}) AS {alias}({', '.join(n for n, _ in names)})", [(n, k) for n, k in names]
            return f"({inner}) {self.pick('', 'AS ')}{alias}", self.named(alias, columns)
        if self.shared and self.chance(0.7):
            name, columns = self.random.choice(self.shared)
            return f"{name} {alias}", self.named(alias, columns)
        if self.chance(0.07):
            kinds = [self.pick("int", "str", "dec", "date") for _ in range(2)]
            names = [self.fresh("v") for _ in kinds]
            return f"(VALUES {self.rows(kinds)}) {alias}({', '.join(names)})", list(zip(names, kinds, strict=True))
        if self.chance(0.04):
            return f"range({self.pick('3', '1, 4', '0, 6, 2')}) {alias}", [(f"{alias}.id", "long")]
        name = self.pick("T", "T", "T", "U", "U", "E")
        if self.chance(0.12):
            return name, self.named(self.pick(name, ""), list(given.TABLES[name].items()))
        return f"{name} {self.pick('', 'AS ')}{alias}", self.named(alias, list(given.TABLES[name].items()))

    def named(self, alias: str, columns: Columns) -> Scope:
        return [(f"{alias}.{c}" if alias else c, k) for c, k in columns]

    def join(self, depth: int) -> tuple[str, Scope]:
        left, lefts = self.relation(depth - 1)
        form = self.random.random()
        if form < 0.1:
            return self.lateral(left, lefts)
        if form < 0.2:
            one, two = self.pick("T", "U"), self.pick("U", "E")
            kind, column = (
                self.pick("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN"),
                self.pick("i", "s", "i, s", "t"),
            )
            both = [(c.strip(), given.TABLES[one][c.strip()]) for c in column.split(",")]
            if self.chance(0.15):
                return f"{one} a NATURAL {self.pick('JOIN', 'LEFT JOIN')} {two} b", [("s", "str"), ("i", "int")]
            more = [] if "SEMI" in kind else self.named("b", list(given.TABLES[two].items()))
            return f"{one} a {kind} {two} b USING ({column})", [
                *both,
                *self.named("a", list(given.TABLES[one].items())),
                *more,
            ]
        right, rights = self.relation(depth - 1)
        kind = self.pick(*JOINS)
        both = [*lefts, *rights]
        if kind == "CROSS JOIN":
            return self.pick(f"{left} CROSS JOIN {right}", f"{left}, {right}"), both
        pairs = [(x, y) for x, k in lefts for y, other in rights if k == other and k in given.ORDERED]
        if not pairs:
            return f"{left} CROSS JOIN {right}", both
        x, y = self.random.choice(pairs)
        on = f"{x} {self.pick('=', '=', '=', '<=>', '==')} {y}"
        if self.chance(0.3):
            on += f" AND {self.condition(both, self.pick('0', '0', '1') == '1')}"
        elif self.chance(0.15):
            on = self.condition(both, 0)
        scope = lefts if "SEMI" in kind or "ANTI" in kind else both
        if self.chance(0.12) and scope is both:
            third, thirds = self.relation(0)
            pairs = [(x, y) for x, k in both for y, other in thirds if k == other and k in given.ORDERED]
            if pairs:
                x, y = self.random.choice(pairs)
                return f"{left} {kind} {right} ON {on} LEFT JOIN {third} ON {x} = {y}", [*both, *thirds]
        return f"{left} {kind} {right} ON {on}", scope

    def lateral(self, left: str, lefts: Scope) -> tuple[str, Scope]:
        table, alias, inner = self.pick("U", "T", "E"), self.fresh("q"), self.fresh("z")
        inside = self.named(inner, list(given.TABLES[table].items()))
        pairs = [(x, y) for x, k in lefts for y, other in inside if k == other and k in given.ORDERED] or [("1", "1")]
        x, y = self.random.choice(pairs)
        columns = [(self.fresh("c"), self.pick("int", "str", "dec")) for _ in range(2)]
        make = (
            (lambda k: self.aggregate(k, inside, 0))
            if self.chance(0.4)
            else (lambda k: self.value(k, [*inside, *lefts], 0))
        )
        items = ", ".join(f"{make(k)} AS {c}" for c, k in columns)
        query = f"(SELECT {items} FROM {table} {inner} WHERE {y} {self.pick('=', '=', '<')} {x})"
        form = self.pick(
            f"JOIN LATERAL {query} {alias}",
            f"JOIN LATERAL {query} {alias} ON TRUE",
            f"LEFT JOIN LATERAL {query} {alias} ON TRUE",
            f"CROSS JOIN LATERAL {query} {alias}",
            f", LATERAL {query} {alias}",
        )
        return f"{left}{'' if form.startswith(',') else ' '}{form}", [*lefts, *self.named(alias, columns)]

    def generated(self) -> tuple[str, Scope]:
        """Rows from arrays and maps."""
        one, two = self.fresh("q"), self.fresh("x")
        table = self.pick("T", "T", "E")
        scope = self.named(one, list(given.TABLES[table].items()))
        xs = self.value("xs", scope, 1)
        outer = self.pick("", "", "OUTER ")
        forms: list[tuple[str, Columns]] = [
            (f"{table} {one} LATERAL VIEW {outer}explode({xs}) {two} AS e", [(f"{two}.e", "int")]),
            (f"{table} {one} LATERAL VIEW {outer}posexplode({xs}) {two} AS p, e", [("p", "int"), ("e", "int")]),
            (f"{table} {one} LATERAL VIEW explode(map('a', 1)) {two} AS k, v", [("k", "str"), ("v", "int")]),
            (f"{table} {one}, LATERAL explode({xs}) AS {two}(e)", [("e", "int")]),
            (f"{table} {one} JOIN LATERAL explode({xs}) AS {two}(e) ON e > 1", [("e", "int")]),
            (
                f"{table} {one} LATERAL VIEW inline(array(struct(1 AS a, 'b' AS b))) {two}",
                [(f"{two}.a", "int"), (f"{two}.b", "str")],
            ),
            (f"{table} {one} LATERAL VIEW stack(2, 1, 'a', 2, 'b') {two} AS a, b", [("a", "int"), ("b", "str")]),
            (f"{table} {one} LATERAL VIEW json_tuple('{{}}', 'a') {two} AS a", [("a", "str")]),
        ]
        if self.chance(0.2):
            return f"explode(array(1, 2, 3)) AS {two}(e)", [("e", "int")]
        text, more = self.random.choice(forms)
        return text, [*scope, *more]

    def pivoted(self) -> tuple[str, Scope]:
        alias = self.fresh("q")
        if self.chance(0.5):
            values = self.pick("1, 2, 3", "1 AS one, 2 AS two")
            names = ["one", "two"] if "AS" in values else ["`1`", "`2`"]
            return (
                f"(SELECT id, i, s FROM U) PIVOT ({self.pick('sum(id)', 'max(id)', 'count(*)', 'count(id)')} FOR i IN "
                f"({values})) {alias}",
                [(f"{alias}.s", "str"), *[(f"{alias}.{n}", "long") for n in names]],
            )
        nulls = self.pick("", "INCLUDE NULLS ", "EXCLUDE NULLS ")
        return (
            f"(SELECT id, i, s FROM U) UNPIVOT {nulls}(v FOR name IN ({self.pick('id, i', 'id AS one, i AS two')})) "
            f"AS {alias}",
            [(f"{alias}.v", "int"), (f"{alias}.name", "str"), (f"{alias}.s", "str")],
        )

    # --- pipes

    def piped(self) -> str:
        name = self.pick("T", "U", "E")
        scope: Scope = list(given.TABLES[name].items())
        text = self.pick(f"FROM {name}", f"TABLE {name}", f"SELECT * FROM {name}", f"(SELECT * FROM {name})")
        for _ in range(self.random.randint(1, 3)):
            form = self.pick(
                "where",
                "select",
                "extend",
                "set",
                "drop",
                "aggregate",
                "aggregate",
                "order",
                "limit",
                "as",
                "union",
                "join",
            )
            if form == "where":
                text += f" |> WHERE {self.condition(scope)}"
            elif form == "select":
                columns = self.columns(2)
                text += f" |> SELECT {', '.join(f'{self.value(k, scope, 1)} AS {c}' for c, k in columns)}"
                scope = columns
            elif form == "extend":
                column, kind = self.fresh("c"), self.pick("int", "str", "dec")
                text += f" |> EXTEND {self.value(kind, scope, 1)} AS {column}"
                scope = [*scope, (column, kind)]
            elif form == "set" and any(n == "i" for n, _ in scope):
                text += f" |> SET i = {self.value('int', scope, 1)}"
            elif form == "drop" and len(scope) > 3:
                text += f" |> DROP {scope[-1][0]}"
                scope = scope[:-1]
            elif form == "aggregate":
                keys = [(n, k) for n, k in scope if k in given.ORDERED][:2]
                column, kind = self.fresh("c"), self.pick("int", "long", "dec")
                text += f" |> AGGREGATE {self.aggregate(kind, scope, 0)} AS {column}"
                text += f" GROUP BY {', '.join(n for n, _ in keys)}" if keys else ""
                scope = [*keys, (column, kind)]
            elif form == "order":
                text += f" |> ORDER BY {self.order(scope)}"
            elif form == "limit":
                self.exact = False
                text += " |> LIMIT 3"
            elif form == "as":
                alias = self.fresh("p")
                text += f" |> AS {alias}"
                if self.chance(0.3):
                    text += f" |> WHERE {alias}.{scope[0][0]} IS NOT NULL"
            elif form == "union":
                text += (
                    f" |> {self.pick('UNION ALL', 'EXCEPT', 'INTERSECT')} "
                    f"({self.pick('TABLE U', 'SELECT * FROM ' + name)})"
                )
            elif form == "join" and any(n == "i" for n, _ in scope):
                text += " |> LEFT JOIN (SELECT i AS ui, max(id) AS uid FROM U GROUP BY i) ON i = ui"
                scope = [*scope, ("ui", "int"), ("uid", "int")]
        return text
