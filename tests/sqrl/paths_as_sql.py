"""Random views with paths, each beside the plain SQL that a person would write instead."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SCRIPT = """
CREATE TABLE C (id INT, city STRING, factor INT, PRIMARY KEY (id));
CREATE TABLE O (id INT, cust INT, weight INT, PRIMARY KEY (id));
CREATE TABLE L (id INT, ord INT, sku INT, price INT, amount INT, PRIMARY KEY (id));
CREATE TABLE P (sku INT, cost INT, PRIMARY KEY (sku));
L.product := JOIN P p ON p.sku = _.sku;
O.lines := JOIN L l ON l.ord = _.id;
O.customer := JOIN C c ON c.id = _.cust;
C.orders := JOIN O o ON o.cust = _.id;
C.last := JOIN O o ON o.cust = _.id ORDER BY o.id DESC LIMIT 1;
"""
LAST = "(SELECT z.{} FROM O z WHERE z.cust = {}.id ORDER BY z.id DESC LIMIT 1)"


@dataclass(frozen=True)
class Value:
    """A value of a row as a path and as SQL over the aliases c, o, l, p; how many steps to many lead to it."""

    path: str
    sql: str
    depth: int


OF_CUSTOMER = (
    Value("orders.weight", "o.weight", 1),
    Value("orders.id", "o.id", 1),
    Value("orders.lines.price", "l.price", 2),
    Value("orders.lines.amount", "l.amount", 2),
    Value("orders.lines.product.cost", "(SELECT p.cost FROM P p WHERE p.sku = l.sku)", 2),
    Value("factor", "r.factor", 0),
    Value("last.weight", LAST.format("weight", "r"), 0),
)
OF_ORDER = (
    Value("lines.price", "l.price", 1),
    Value("lines.amount", "l.amount", 1),
    Value("lines.product.cost", "(SELECT p.cost FROM P p WHERE p.sku = l.sku)", 1),
    Value("weight", "r.weight", 0),
    Value("customer.factor", "(SELECT c.factor FROM C c WHERE c.id = r.cust)", 0),
)
FROM = {
    ("C", 1): "O o WHERE o.cust = r.id",
    ("C", 2): "O o JOIN L l ON l.ord = o.id WHERE o.cust = r.id",
    ("O", 1): "L l WHERE l.ord = r.id",
}
ROWS = {"C": ("C", "id, city, factor"), "O": ("O", "id, cust, weight")}


def aggregate(random: Random, table: str, alias: str) -> tuple[str, str]:
    """An aggregate over paths from a row of a table, and the scalar subquery that it means for the row `r`."""
    values = OF_CUSTOMER if table == "C" else OF_ORDER
    chosen = [random.choice([v for v in values if v.depth]), *random.sample(values, random.randint(0, 2))]
    depth = max(v.depth for v in chosen)
    if len(chosen) == 1 and "product" in chosen[0].path:  # the rows are those at the end of a lone path
        chosen.append(values[0])
    operators = [random.choice("+-*") for _ in chosen[1:]]
    own = f"{alias}." if alias else ""
    path = " ".join(x for pair in zip([own + v.path for v in chosen], [*operators, ""], strict=True) for x in pair)
    sql = " ".join(x for pair in zip([v.sql for v in chosen], [*operators, ""], strict=True) for x in pair)
    name = random.choice(["sum({})", "max({})", "min({})", "count({})", "count(DISTINCT {})", "coalesce(sum({}), 0)"])
    return name.format(path), f"(SELECT {name.format(sql)} FROM {FROM[table, depth]})"


def nested(random: Random, alias: str) -> tuple[str, str]:
    """An aggregate of an aggregate from a row of C, and what it means for the row `r`."""
    outer, inner = random.choice(["sum", "max", "min", "count"]), random.choice(["sum", "max", "count"])
    own = f"{alias}." if alias else ""
    beside = random.choice([("", ""), (f" + {own}orders.weight", " + o.weight")])
    path = f"{outer}({inner}({own}orders.lines.price * {own}orders.lines.amount){beside[0]})"
    within = f"(SELECT {inner}(l.price * l.amount) FROM L l WHERE l.ord = o.id){beside[1]}"
    return path, f"(SELECT {outer}({within}) FROM O o WHERE o.cust = r.id)"


def value(random: Random, table: str, alias: str) -> tuple[str, str]:
    return nested(random, alias) if table == "C" and random.random() < 0.3 else aggregate(random, table, alias)


def view(random: Random, name: str) -> tuple[str, str, str]:
    """A name, the statement that defines it by paths, and the plain query."""
    table = random.choice("CO")
    path, sql = value(random, table, "r")
    group, column = ("city", "factor") if table == "C" else ("cust", "weight")
    least = random.randint(-2, 20)
    match random.randrange(8):
        case 0:
            return name, f"SELECT r.id, {path} AS x FROM {table} r", f"SELECT r.id, {sql} AS x FROM {table} r"
        case 1:
            where = f"FROM {table} r WHERE {{}} > {least} AND r.{column} IS NOT NULL"
            return name, f"SELECT r.id {where.format(path)}", f"SELECT r.id {where.format(sql)}"
        case 2:
            text = f"SELECT r.{group}, sum({{}}) AS x, count(*) AS n FROM {table} r GROUP BY r.{group}"
            return name, text.format(path), text.format(sql)
        case 3:
            text = f"SELECT q.id, r.id AS other FROM {table} r JOIN {table} q ON q.id = {{}}"
            return name, text.format(path), text.format(sql)
        case 4:
            rows = f"SELECT * FROM {table} WHERE {column} > 1"
            return (
                name,
                f"WITH r AS ({rows}) SELECT r.id, {path} AS x FROM r",
                f"WITH r AS ({rows}) SELECT r.id, {sql} AS x FROM r",
            )
        case 5:
            rows = f"(SELECT {ROWS[table][1]} FROM {table} WHERE {column} < 3) r"
            text = f"SELECT r.id, CASE WHEN {{}} > {least} THEN 1 ELSE 0 END AS x FROM {rows}"
            return name, text.format(path), text.format(sql)
        case 6:
            steps, plain = ("r.orders.lines", "O o JOIN L l ON l.ord = o.id WHERE o.cust = r.id")
            if table == "O":
                steps, plain = "r.lines", "L l WHERE l.ord = r.id"
            word = random.choice(["", "NOT "])
            return (
                name,
                f"SELECT r.id FROM {table} r WHERE {word}EXISTS (SELECT 1 FROM {steps} l WHERE l.price > {least % 4})",
                f"SELECT r.id FROM {table} r WHERE {word}EXISTS (SELECT 1 FROM {plain} AND l.price > {least % 4})",
            )
        case _:
            window = f"PARTITION BY r.{group} ORDER BY {{}} DESC NULLS LAST"
            text = f"SELECT r.id, rank() OVER ({window}) AS x FROM {table} r"
            return (
                name,
                f"SELECT id, rank() OVER (PARTITION BY {group} ORDER BY x DESC NULLS LAST) AS x "
                f"FROM (SELECT r.*, {path} AS x FROM {table} r) r",
                text.format(sql),
            )


def columns(random: Random, count: int) -> list[tuple[str, str, str]]:
    """Columns of C and O that are aggregates over paths: their names, statements and plain queries."""
    made = []
    for n in range(count):
        table = random.choice("CO")
        path, sql = value(random, table, "")
        made.append((table, f"{table}.x{n} := {path};", f"SELECT r.id, {sql} AS x{n} FROM {table} r"))
    return made
