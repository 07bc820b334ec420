"""Random expressions of Spark SQL, most of them of a requested kind, some wrong on purpose.

In: a seed's random numbers and a scope, the names that an expression may use with their kinds. Out: texts. What is of
no fixed answer (ties, an order of rows that nothing says) is told by `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from belvedere.functions.function_table import ARITY
from tests.spark_grammar import samples as given

Scope = Sequence[tuple[str, str]]
NAMES = sorted(ARITY)
WINDOW_ONLY = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
BOUNDS = (
    "UNBOUNDED PRECEDING",
    "2 PRECEDING",
    "1 PRECEDING",
    "CURRENT ROW",
    "1 FOLLOWING",
    "2 FOLLOWING",
    "UNBOUNDED FOLLOWING",
)


class Expressions:
    """Texts of expressions; `wrong` is the share of those that break a rule of types, names or counts."""

    wrong = 0.02

    def __init__(self, random: Random):
        self.random = random
        self.exact = True
        self.count = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- values

    def value(self, kind: str, scope: Scope, depth: int = 2) -> str:
        """An expression of a kind."""
        if self.chance(self.wrong):
            return self.broken(scope)
        fitting = [name for name, k in scope if k == kind]
        if fitting and self.chance(0.62 if depth else 0.85):
            return self.pick(*fitting)
        if depth <= 0:
            return self.pick(*given.LITERALS[kind])
        forms: list[Callable[[str, Scope, int], str]] = [
            self.literal,
            self.call,
            self.call,
            self.call,
            self.conditional,
            self.cast,
        ]
        if kind in ("int", "long", "dec", "dbl", "date", "ts", "iv", "ym", "ntz", "bool", "str", "bin"):
            forms += [self.operator] * 4
        if kind in ("xs", "ss", "m"):
            forms += [self.lambda_]
        forms += [self.part] * (2 if kind in ("int", "str") else 0)
        if self.chance(0.05):
            return self.subquery(kind, scope, depth)
        return self.random.choice(forms)(kind, scope, depth - 1)

    def literal(self, kind: str, scope: Scope, depth: int) -> str:
        return self.pick(*given.LITERALS[kind])

    def call(self, kind: str, scope: Scope, depth: int) -> str:
        options = given.FUNCTIONS.get(kind) or (given.FUNCTIONS["dbl"] if kind in given.NUMBERS else [])
        if not options:
            return self.conditional(kind, scope, depth)
        name, arguments = self.random.choice(options)
        if name in given.ROUNDED:
            self.exact = False
        parts = [self.argument(a, scope, depth) for a in arguments]
        if name == "div":
            return f"({parts[0]} div {parts[1]})"
        return f"{self.pick(name, name, name, name.upper())}({', '.join(parts)})"

    def argument(self, kind: str, scope: Scope, depth: int) -> str:
        if kind in given.CONSTANTS:
            return self.pick(*given.CONSTANTS[kind])
        return self.value(self.kind_of(kind), scope, depth)

    def kind_of(self, kind: str) -> str:
        if kind == "num":
            return self.pick(*given.NUMBERS)
        if kind == "ord":
            return self.pick(*given.ORDERED)
        return self.pick(*given.KINDS) if kind == "any" else kind

    def conditional(self, kind: str, scope: Scope, depth: int) -> str:
        one, two = self.value(kind, scope, depth), self.value(kind, scope, depth)
        form = self.pick("case", "case", "simple", "if", "coalesce", "nullif", "paren")
        if form == "case":
            other = (
                f" WHEN {self.condition(scope, depth)} THEN {self.value(kind, scope, 0)}" if self.chance(0.3) else ""
            )
            return f"CASE WHEN {self.condition(scope, depth)} THEN {one}{other}{self.pick(f' ELSE {two}', '')} END"
        if form == "simple":
            of = self.pick("int", "str", "date")
            return f"CASE {self.value(of, scope, 0)} WHEN {self.value(of, scope, 0)} THEN {one} ELSE {two} END"
        if form == "if":
            return f"if({self.condition(scope, depth)}, {one}, {two})"
        return (
            f"coalesce({one}, {two})"
            if form == "coalesce"
            else f"nullif({one}, {two})"
            if form == "nullif"
            else f"({one})"
        )

    def cast(self, kind: str, scope: Scope, depth: int) -> str:
        inner = self.value(self.pick(*given.CASTS[kind].split()), scope, depth)
        type_ = self.pick(*given.TYPES[kind])
        return self.pick(f"CAST({inner} AS {type_})", f"TRY_CAST({inner} AS {type_})", f"({inner})::{type_}")

    def operator(self, kind: str, scope: Scope, depth: int) -> str:
        def v(k: str) -> str:
            return self.value(k, scope, depth)

        if kind in given.NUMBERS:
            number = "int" if kind == "int" else self.pick(kind, kind, "int")
            operators = ("+", "-", "*", "%", *(("/",) if kind != "int" else ("&", "|", "^", "DIV")))
            minus = f"(- {v(kind)})" if kind != "int" else f"~ {v('int')}"
            return self.pick(
                *[f"({v(kind)} {o} {v(number)})" for o in operators[:4]],
                f"{v(kind)} {self.pick(*operators)} {v(number)}",
                minus,
            )
        if kind == "date":
            return self.pick(
                f"{v('date')} + {v('int')}",
                f"({v('date')} - {v('int')})",
                f"{v('date')} + INTERVAL '1' MONTH",
                f"({v('date')} - INTERVAL 3 DAYS)",
            )
        if kind in ("ts", "ntz"):
            return f"({v(kind)} {self.pick('+', '-')} {self.pick(v('iv'), v('iv'), v('ym'))})"
        if kind == "iv":
            return self.pick(
                f"({v('ts')} - {v('ts')})",
                f"({v('iv')} + {v('iv')})",
                f"{v('iv')} * {v('int')}",
                f"({v('iv')} / 2)",
                f"- {v('iv')}",
                f"({v('date')} - {v('date')})",
            )
        if kind == "ym":
            return self.pick(f"({v('ym')} + {v('ym')})", f"{v('ym')} * 2")
        if kind == "str":
            return self.pick(f"{v('str')} || {v('str')}", f"({v('str')} || {v('int')})", self.special(scope, depth))
        if kind == "bin":
            return f"({v('bin')} || {v('bin')})"
        condition = self.condition(scope, depth)
        self.exact = self.exact and " IN (SELECT" not in condition  # as a value it may be NULL, and Spark says FALSE
        return f"({condition})"

    def special(self, scope: Scope, depth: int) -> str:
        """Calls with a grammar of their own."""
        s = self.value("str", scope, depth)
        return self.pick(
            f"trim({self.pick('BOTH', 'LEADING', 'TRAILING')} 'a' FROM {s})",
            f"trim(BOTH FROM {s})",
            f"substring({s} FROM 2)",
            f"substr({s} FROM 1 FOR 2)",
            f"overlay({s} PLACING 'x' FROM 2)",
            f"overlay({s} PLACING 'x' FROM 2 FOR 1)",
            f"nvl2({s}, {s}, 'n')",
            f"decode({self.value('int', scope, 0)}, 1, 'one', 2, 'two', 'many')",
        )

    def part(self, kind: str, scope: Scope, depth: int) -> str:
        """A field, an element, a part of a time."""
        if kind == "str":
            return self.pick(
                f"{self.value('ss', scope, 0)}[{self.pick('0', '1 - 1')}]",
                f"({self.value('r', scope, 0)}).b",
                f"get({self.value('ss', scope, 0)}, 5)",
            )
        unit = self.pick(
            "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "QUARTER", "WEEK", "DOW", "DOY", "DAYOFWEEK", "YEAROFWEEK"
        )
        return self.pick(
            f"extract({unit} FROM {self.value('ts', scope, 0)})",
            f"EXTRACT({self.pick('DAY', 'HOUR', 'MINUTE')} FROM {self.value('iv', scope, 0)})",
            f"{self.value('m', scope, 0)}['a']",
            f"({self.value('r', scope, 0)}).a",
            f"position('a' IN {self.value('str', scope, 0)})",
            f"get({self.value('xs', scope, 0)}, {self.value('int', scope, 0)})",
            "(SELECT max(i) FROM U)",
            f"aggregate({self.value('xs', scope, 0)}, 0, (a, x) -> a + coalesce(x, 0))",
            f"reduce({self.value('xs', scope, 0)}, 0, (a, x) -> a + coalesce(x, 0), a -> a * 2)",
        )

    def lambda_(self, kind: str, scope: Scope, depth: int) -> str:
        array = self.value(kind, scope, 0)
        if kind == "m":
            return self.pick(
                f"map_filter({array}, (k, v) -> v > 1)",
                f"transform_values({array}, (k, v) -> v + 1)",
                f"transform_keys({array}, (k, v) -> upper(k))",
                f"map_zip_with({array}, {array}, (k, v, w) -> coalesce(v, 0) + w)",
            )
        element, plus = ("e -> e + 1", "x + y") if kind == "xs" else ("e -> upper(e)", "concat(x, y)")
        return self.pick(
            f"transform({array}, {element})",
            f"filter({array}, e -> e IS NOT NULL)",
            f"zip_with({array}, {array}, (x, y) -> {plus})",
            f"transform({array}, (e, n) -> {'e + n' if kind == 'xs' else 'e || n'})",
            f"array_sort({array}, (x, y) -> CASE WHEN x < y THEN 1 WHEN x > y THEN -1 ELSE 0 END)",
        )

    # --- conditions

    def condition(self, scope: Scope, depth: int = 1) -> str:
        if depth > 0 and self.chance(0.3):
            one, two = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return self.pick(
                f"{one} AND {two}", f"({one} OR {two})", f"NOT ({one})", f"({one}) AND NOT {two}", f"! ({one})"
            )
        if depth > 0 and self.chance(0.12):
            return self.quantified(scope, depth - 1)
        names = [(n, k) for n, k in scope if k in given.ORDERED]
        name, kind = self.random.choice(names) if names else (self.value("int", scope, 0), "int")
        left = name if self.chance(0.8) else self.value(kind, scope, depth - 1)
        right, low = self.value(kind, scope, depth - 1), self.value(kind, scope, 0)
        if kind in given.NUMBERS and self.chance(0.15):
            right = self.value(self.pick(*given.NUMBERS, "str"), scope, 0)
        forms = [f"{left} {self.pick('=', '<>', '<', '>=', '<=>', '==', '!=', '>')} {right}"] * 4
        forms += [f"{left} IS {self.pick('', 'NOT ')}NULL", f"{left} {self.pick('', 'NOT ')}BETWEEN {low} AND {right}"]
        forms += [
            f"{left} {self.pick('', 'NOT ')}IN ({low}, {right})",
            f"{left} IS {self.pick('', 'NOT ')}DISTINCT FROM {right}",
        ]
        if kind == "str":
            pattern = self.pick("'a%'", "'_'", right)
            forms += [f"{left} {self.pick('LIKE', 'NOT LIKE', 'ILIKE', 'RLIKE', 'REGEXP')} {pattern}"]
            forms += [
                f"{left} {self.pick('LIKE', 'NOT LIKE', 'ILIKE')} {self.pick('ANY', 'ALL', 'SOME')} ('a%', {low})",
                f"{left} LIKE 'a!%' ESCAPE '!'",
            ]
        if kind == "bool":
            forms = [
                name,
                f"NOT {name}",
                f"{name} IS {self.pick('', 'NOT ')}{self.pick('TRUE', 'FALSE', 'UNKNOWN')}",
                *forms[:2],
            ]
        if self.chance(0.1):
            forms = [
                f"exists({self.value('xs', scope, 0)}, e -> e > 1)",
                f"forall({self.value('xs', scope, 0)}, e -> e IS NOT NULL)",
                f"array_contains({self.value('xs', scope, 0)}, 1)",
                f"({left}, 1) = ({right}, 1)",
                f"struct({left}, 1) IN (struct({low}, 1))",
            ]
        return self.random.choice(forms)

    def quantified(self, scope: Scope, depth: int) -> str:
        """A subquery in a condition."""
        table, alias = self.pick("U", "U", "T", "E"), self.fresh("z")
        inner = [(f"{alias}.{c}", k) for c, k in given.TABLES[table].items()]
        links = [(x, y) for x, k in scope for y, other in inner if k == other and k in given.ORDERED and "." in x]
        where = f" WHERE {self.condition(inner, 0)}" if self.chance(0.4) else ""
        if links and self.chance(0.5):
            x, y = self.random.choice(links)
            where += f"{' AND' if where else ' WHERE'} {y} {self.pick('=', '=', '=', '<', '<=>')} {x}"
        kind = self.pick("int", "str")
        operand, output = self.value(kind, scope, 0), self.value(kind, inner, 0)
        more = self.pick(
            "", "", "", f" GROUP BY {output}" if "." in output else "", " LIMIT 1" if self.chance(0.1) else ""
        )
        if "LIMIT" in more:
            self.exact = False
        return self.pick(
            f"{self.pick('', 'NOT ')}EXISTS (SELECT {self.pick('1', '*', output)} FROM {table} {alias}{where})",
            f"{operand} {self.pick('IN', 'NOT IN')} (SELECT {output} FROM {table} {alias}{where}{more})",
            f"{operand} {self.pick('=', '>', '<')} (SELECT max({output}) FROM {table} {alias}{where})",
            f"({operand}, {operand}) IN (SELECT {output}, {output} FROM {table} {alias}{where})",
        )

    def subquery(self, kind: str, scope: Scope, depth: int) -> str:
        """A scalar subquery."""
        table, alias = self.pick("U", "U", "T", "E"), self.fresh("z")
        inner = [(f"{alias}.{c}", k) for c, k in given.TABLES[table].items()]
        links = [(x, y) for x, k in scope for y, other in inner if k == other and k in given.ORDERED and "." in x]
        where = ""
        if links and self.chance(0.6):
            x, y = self.random.choice(links)
            where = f" WHERE {y} {self.pick('=', '=', '=', '<')} {x}"
        if self.chance(0.15):
            self.exact = False
            return f"(SELECT {self.value(kind, inner, 0)} FROM {table} {alias}{where} LIMIT 1)"
        if kind in ("m", "xs", "ss", "r"):
            return f"(SELECT max({self.value('int', inner, 0)}) FROM {table} {alias}{where})"
        return f"(SELECT {self.pick('max', 'min')}({self.value(kind, inner, 0)}) FROM {table} {alias}{where})"

    # --- aggregates and windows

    def aggregate(self, kind: str, scope: Scope, depth: int = 1) -> str:
        options = given.AGGREGATES.get(kind, []) + (given.AGGREGATES["ord"] if kind in given.ORDERED else [])
        if not options or self.chance(0.04):
            return f"{self.pick('max', 'min')}({self.value(kind if kind != 'm' else 'int', scope, depth)})"
        name, arguments = self.random.choice(options)
        if name in given.UNORDERED:
            self.exact = False
        only = f" FILTER (WHERE {self.condition(scope, 0)})" if self.chance(0.12) else ""
        if name == "count(*)":
            return f"{name}{only}"
        parts = [self.argument(kind if a == "ord" else a, scope, depth) for a in arguments]
        if name.startswith("~"):
            word = {"~cont": "percentile_cont", "~disc": "percentile_disc", "~mode": "mode", "~listagg": "listagg"}[
                name
            ]
            order = parts[0] if word != "listagg" else self.value("str", scope, 0)
            inside = {"~listagg": f"{parts[0]}, ','"}.get(name, "" if name == "~mode" else parts[-1])
            return f"{word}({inside}) WITHIN GROUP (ORDER BY {order}{self.pick('', ' DESC')}){only}"
        distinct = self.pick("DISTINCT ", "ALL ") if self.chance(0.12) else ""
        nulls = (
            self.pick(" IGNORE NULLS", " RESPECT NULLS")
            if name in ("first", "last", "first_value", "last_value", "any_value") and self.chance(0.3)
            else ""
        )
        return f"{name}({distinct}{', '.join(parts)}){only or nulls}"

    def window(self, kind: str, scope: Scope, named: Sequence[str] = ()) -> str:
        ordered = [n for n, k in scope if k in given.ORDERED]
        if named and self.chance(0.5):
            over = self.pick(*named)
            self.exact = False
        else:
            over = f"({self.window_spec(scope)})"
        if ordered and kind in ("int", "long", "dbl") and self.chance(0.4):
            name = self.pick(*WINDOW_ONLY, "ntile")
            if name in ("row_number", "ntile"):
                self.exact = False
            if not over.startswith("(") or "ROWS" in over or "RANGE" in over or "ORDER" not in over:
                over = f"({self.pick('', f'PARTITION BY {self.pick(*ordered)} ')}ORDER BY {self.order(scope)})"
            return f"{name}({'2' if name == 'ntile' else ''}) OVER {over}"
        if kind in given.ORDERED and self.chance(0.25):
            self.exact = False
            more = self.pick("", ", 1", ", 2")
            name = self.pick("lag", "lead", "first_value", "last_value", "nth_value")
            over = (
                f"({self.pick('', f'PARTITION BY {self.pick(*ordered)} ') if ordered else ''}ORDER BY "
                f"{self.order(scope)})"
            )
            more = ", 2" if name == "nth_value" else more if name in ("lag", "lead") else ""
            return f"{name}({self.value(kind, scope, 0)}{more}){self.pick('', '', ' IGNORE NULLS')} OVER {over}"
        return f"{self.aggregate(kind, scope, 0)} OVER {over}"

    def window_spec(self, scope: Scope) -> str:
        names = [n for n, k in scope if k in given.ORDERED] or ["1"]
        partition = (
            f"PARTITION BY {self.pick(*names)}{self.pick('', '', f', {self.pick(*names)}')} "
            if self.chance(0.7)
            else ""
        )
        if self.chance(0.25):
            return partition.strip()
        form = self.random.random()
        if form < 0.4:
            return f"{partition}ORDER BY {self.order(scope)}"
        if form < 0.75:
            self.exact = False
            start = self.random.randrange(5)
            end = self.random.randrange(max(start, 1), len(BOUNDS))
            frame = (
                f"ROWS BETWEEN {BOUNDS[start]} AND {BOUNDS[end]}" if self.chance(0.8) else f"ROWS {BOUNDS[start % 4]}"
            )
            return f"{partition}ORDER BY {self.order(scope)} {frame}"
        key = self.pick(*[n for n, k in scope if k in ("int", "dec", "long")] or names)
        start, end = (
            self.pick("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"),
            self.pick("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"),
        )
        return f"{partition}ORDER BY {key}{self.pick('', ' DESC')} RANGE BETWEEN {start} AND {end}"

    def order(self, scope: Scope) -> str:
        names = [n for n, k in scope if k in given.ORDERED] or ["1"]
        return ", ".join(
            f"{self.pick(*names)}{self.pick('', '', ' ASC', ' DESC', ' DESC NULLS FIRST', ' NULLS LAST')}"
            for _ in range(self.random.randint(1, 2))
        )

    # --- what is wrong, or may be

    def any_value(self, scope: Scope) -> str:
        return self.value(self.pick(*given.KINDS), scope, 0)

    def broken(self, scope: Scope) -> str:
        """Any function with any arguments, a name that there is not, a wrong word."""
        form = self.random.random()
        if form < 0.75:
            name = self.pick(*NAMES)
            least, most = ARITY[name]
            number = self.random.randint(least, min(most, least + 2)) if self.chance(0.8) else self.random.randint(0, 4)
            parts = [self.value(self.pick(*given.KINDS, "ym"), scope, 0) for _ in range(number)]
            self.exact = False
            return f"{name}({', '.join(parts)})"
        return self.pick(
            "nosuch",
            "T.nosuch",
            f"nosuch({self.value('int', scope, 0)})",
            f"CAST({self.any_value(scope)} AS "
            f"{self.pick('INT', 'DATE', 'BOOLEAN', 'BINARY', 'NOSUCH', 'VOID', 'VARIANT')})",
            f"{self.any_value(scope)} {self.pick('+', '<', '||', '&', '/')} {self.any_value(scope)}",
            f"sum({self.value('int', scope, 0)})",
            f"{self.value('int', scope, 0)}.a",
            f"{self.value('str', scope, 0)}[1]",
            "DATE '2024-13-01'",
            "row_number()",
            f"max(max({self.value('int', scope, 0)}))",
            "INTERVAL 'x' DAY",
        )
