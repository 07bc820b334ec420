"""Random catalogs: inputs of every kind and views of random operators over them, as plans without the language."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
from sqlglot import exp, parse_one

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.views import View
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
    Window,
)
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, Column, Schema

INT, TEXT, DOUBLE, MONEY, LONG = pa.int32(), pa.string(), pa.float64(), pa.decimal128(10, 2), pa.int64()
SHAPE = (("k", INT), ("a", INT), ("b", INT), ("s", TEXT), ("d", DOUBLE), ("m", MONEY), ("t", TIMESTAMP))
HIDDEN = (Column(UID, LONG, False, True), Column(INGEST_TIME, TIMESTAMP, False, True))


def inputs() -> dict[str, Input]:
    """A table with a key, a stream, a bag; all with columns of SHAPE."""
    plain = tuple(Column(n, t) for n, t in SHAPE)
    keyed = (Column("k", INT, nullable=False), *plain[1:])
    return {
        "Keyed": Input("Keyed", "Keyed", InputKind.TABLE, Schema(keyed + HIDDEN, ("k",)), ("k",)),
        "Stream": Input("Stream", "Stream", InputKind.STREAM, Schema(plain + HIDDEN, (UID,))),
        "Bag": Input("Bag", "Bag", InputKind.TABLE, Schema(plain + HIDDEN, (UID,))),
    }


def catalog_of(seed: int, views: int, public_stream: bool) -> Catalog:
    """A catalog with `views` random views; later ones may build on earlier ones."""
    maker = PlanMaker(Random(seed))
    made: dict[str, View] = {}
    tables = inputs()
    schemas = {i: t.schema for i, t in tables.items()}
    for n in range(views):
        plan = carry_keys(maker.plan(schemas, depth=maker.random.randint(1, 3)))
        name = f"V{n}"
        made[name] = View(name, name, plan, plan.schema)
        if maker.random.random() < 0.4:
            schemas[name] = plan.schema
    private = set() if public_stream else {"Stream"}
    return Catalog(tables, made, public=frozenset({*tables, *made} - private))


class PlanMaker:
    """Makes random plans whose columns have fresh names everywhere, so that joins never clash."""

    def __init__(self, random: Random):
        self.random = random
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"c{self.count}"

    def plan(self, schemas: dict[str, Schema], depth: int) -> Node:
        if depth == 0:
            return self.leaf(schemas)
        makers: list[Callable[[dict[str, Schema], int], Node]] = [
            self.filter,
            self.project,
            self.join,
            self.join,
            self.aggregate,
            self.aggregate,
            self.distinct,
            self.union,
            self.set_operation,
            self.window,
            self.top,
            self.time_window,
            self.clock,
        ]
        return self.random.choice(makers)(schemas, depth - 1)

    def leaf(self, schemas: dict[str, Schema]) -> Node:
        """A scan whose visible columns get fresh names."""
        id_ = self.random.choice(sorted(schemas))
        scan = Scan(id_, schemas[id_])
        items = tuple(Item(self.fresh(), column(c.name), c.type, c.nullable) for c in schemas[id_].visible)
        return Project(scan, items)

    def pick(self, node: Node, *types: pa.DataType) -> Column | None:
        found = [c for c in node.schema.visible if not types or c.type in types]
        return self.random.choice(found) if found else None

    def condition(self, node: Node) -> exp.Expr:
        c = self.pick(node, INT, LONG)
        if c is None:
            c = self.pick(node)
            assert c is not None
            return sql(f"x IS {self.random.choice(['', 'NOT '])}NULL", x=c.name)
        text = self.random.choice(
            ["x > 2", "x <= 4", "x % 2 = 0", "x IS NULL", "x IN (1, 3, 5)", "x <> 3 OR x IS NULL"]
        )
        return sql(text, x=c.name)

    def filter(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        return Filter(below, self.condition(below))

    def project(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        chosen = self.random.sample(below.schema.visible, self.random.randint(1, len(below.schema.visible)))
        items = [Item(self.fresh(), column(c.name), c.type, c.nullable) for c in chosen]
        number = self.pick(below, INT)
        if number is not None:
            items.append(Item(self.fresh(), sql("coalesce(x, 0) + 1", x=number.name), INT))
        return Project(below, tuple(items))

    def join(self, schemas: dict[str, Schema], depth: int) -> Node:
        left, right = self.plan(schemas, depth), self.plan(schemas, max(0, depth - 1))
        kind = self.random.choice([JoinKind.INNER, JoinKind.INNER, *JoinKind])
        a, b = self.pick(left, INT), self.pick(right, INT)
        if a is None or b is None:
            a, b = self.pick(left, TEXT), self.pick(right, TEXT)
        if a is None or b is None:
            return left
        form = self.random.choice(["x = y", "x = y", "x = y", "x <=> y", "x = y AND y <> 2", "x < y AND y < 3"])
        return self.narrow(Join(left, right, kind, sql(form, x=a.name, y=b.name)))

    def narrow(self, node: Node) -> Node:
        """Few columns: joins of joins stay small."""
        columns = node.schema.visible
        if len(columns) <= 6:
            return node
        chosen = self.random.sample(columns, 6)
        return Project(node, tuple(Item(self.fresh(), column(c.name), c.type, c.nullable) for c in chosen))

    def aggregate(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        keys = self.random.sample(below.schema.visible, self.random.randint(0, min(2, len(below.schema.visible))))
        items = tuple(Item(self.fresh(), column(c.name), c.type, c.nullable) for c in keys)
        return Aggregate(below, items, tuple(self.calls(below)))

    def calls(self, below: Node) -> list[Item]:
        calls = [Item(self.fresh(), sql("count(*)"), LONG, False)]
        number = self.pick(below, INT)
        if number is not None:
            more = {
                "sum(x)": LONG,
                "avg(x)": DOUBLE,
                "min(x)": INT,
                "max(x)": INT,
                "count(DISTINCT x)": LONG,
                "median(x)": DOUBLE,
            }
            more["sum(x) FILTER (WHERE x > 2)"] = LONG
            for text in self.random.sample(sorted(more), 2):
                calls.append(Item(self.fresh(), sql(text, x=number.name), more[text]))
        money, double = self.pick(below, MONEY), self.pick(below, DOUBLE)
        if money is not None and self.random.random() < 0.5:
            calls.append(Item(self.fresh(), sql("sum(x)", x=money.name), pa.decimal128(20, 2)))
            calls.append(Item(self.fresh(), sql("avg(x)", x=money.name), pa.decimal128(14, 6)))
        if double is not None and self.random.random() < 0.5:
            calls.append(
                Item(self.fresh(), sql(self.random.choice(["sum(x)", "stddev(x)", "max(x)"]), x=double.name), DOUBLE)
            )
        return calls

    def distinct(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        chosen = self.random.sample(below.schema.visible, min(2, len(below.schema.visible)))
        return Distinct(Project(below, tuple(Item(self.fresh(), column(c.name), c.type, c.nullable) for c in chosen)))

    def pair(self, schemas: dict[str, Schema], depth: int) -> tuple[Node, Node]:
        """Two relations of one column of the same type."""
        sides = []
        for _ in range(2):
            below = self.plan(schemas, depth)
            c = self.pick(below, INT)
            expr, nullable = (column(c.name), c.nullable) if c else (sql("CAST(1 AS INT)"), False)
            sides.append(Project(below, (Item(self.fresh(), expr, INT, nullable),)))
        return sides[0], sides[1]

    def union(self, schemas: dict[str, Schema], depth: int) -> Node:
        return Union(self.pair(schemas, depth))

    def set_operation(self, schemas: dict[str, Schema], depth: int) -> Node:
        left, right = self.pair(schemas, depth)
        return SetOperation(left, right, self.random.choice(list(SetKind)))

    def window(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        c = self.pick(below, INT)
        if c is None:
            return below
        by = self.pick(below)
        assert by is not None
        partition = f"PARTITION BY `{by.name}` " if self.random.random() < 0.8 else ""
        call, type_ = self.random.choice([("sum(x)", LONG), ("rank()", INT), ("max(x)", INT), ("count(*)", LONG)])
        text = f"{call} OVER ({partition}ORDER BY x NULLS FIRST)"
        return Window(below, (Item(self.fresh(), sql(text, x=c.name), type_),))

    def top(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        c, by = self.pick(below), self.pick(below)
        assert c is not None
        assert by is not None
        partition = (by.name,) if self.random.random() < 0.7 else ()
        order = (Order(column(c.name), self.random.random() < 0.5),)
        return TopK(
            below,
            order,
            self.random.choice([1, 2, 3]),
            self.random.choice([0, 0, 1]) if not partition else 0,
            partition,
        )

    def time_window(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        c = self.pick(below, TIMESTAMP)
        if c is None:
            return below
        minute = 60_000_000
        kind = self.random.choice(
            [TimeWindowKind.TUMBLE, TimeWindowKind.HOP, TimeWindowKind.CUMULATE, TimeWindowKind.SESSION]
        )
        step = {TimeWindowKind.HOP: 2 * minute, TimeWindowKind.CUMULATE: minute}.get(kind, 0)
        return TimeWindow(below, kind, c.name, 4 * minute, step, start=self.fresh(), end=self.fresh())

    def clock(self, schemas: dict[str, Schema], depth: int) -> Node:
        below = self.plan(schemas, depth)
        c = self.pick(below, TIMESTAMP)
        if c is None:
            return below
        forms = [
            "x + INTERVAL '5' MINUTE >= now()",
            "x <= now()",
            "x > now() - INTERVAL '3' MINUTE AND x < now()",
            "now() - INTERVAL '1' HOUR < x OR x IS NULL",
        ]
        return Filter(below, sql(self.random.choice(forms), x=c.name))


def sql(text: str, **names: str) -> exp.Expr:
    """A Spark expression with placeholders replaced by columns."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name == "now":
            return exp.CurrentTimestamp()
        if isinstance(node, exp.Column):
            return column(names.get(node.name, node.name))
        return node

    return parse_one(text, dialect="spark").transform(change)
