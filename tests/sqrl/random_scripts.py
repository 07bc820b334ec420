"""Random scripts of the language, and random rows for their inputs.

In: a random generator. Out: a script's text with relationships, paths, local queries, nested tables, first rows,
overrides and names defined anew; and per epoch what is inserted and deleted. All values are exact, so that sums do not
depend on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

INPUTS = """
CREATE TABLE T (k INT, a INT, b DOUBLE, t TIMESTAMP, PRIMARY KEY (k));
CREATE TABLE U (k INT, a INT, b DOUBLE, t TIMESTAMP, PRIMARY KEY (k));
CREATE STREAM S (k INT, a INT, b DOUBLE, t TIMESTAMP);
CREATE TABLE B (k INT, a INT, b DOUBLE, t TIMESTAMP);
CREATE TABLE N (k INT, a INT, b DOUBLE, t TIMESTAMP,
  items ARRAY<STRUCT<a: INT, b: DOUBLE, subs: ARRAY<STRUCT<a: INT, b: DOUBLE>>>>, PRIMARY KEY (k));
"""
AGGREGATES = ("sum", "max", "min", "avg", "count", "median")


@dataclass
class Table:
    """A relation that statements may name: its whole numbers, its other columns, its relationships by name."""

    name: str
    whole: list[str]
    numbers: list[str]
    times: list[str]
    paths: dict[str, Table] = field(default_factory=dict)


class Script:
    """A script that grows by random statements."""

    def __init__(self, random: Random):
        self.random = random
        self.tables = [Table(name, ["k", "a"], ["b"], ["t"]) for name in "TUSBN"]
        items, subs = Table("N.items", ["a"], ["b"], []), Table("N.items.subs", ["a"], ["b"], [])
        self.tables[-1].paths["items"] = items
        items.paths |= {"subs": subs, "parent": self.tables[-1]}
        subs.paths["parent"] = items
        self.tables += [items, subs]
        self.statements: list[str] = []
        self.number = 0

    @property
    def text(self) -> str:
        return INPUTS + "\n".join(self.statements)

    def name(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    def pick(self, of: Any) -> Any:
        return self.random.choice(list(of))

    def table(self, *, flat: bool = False) -> Table:
        found: Table = self.pick(t for t in self.tables if not flat or "." not in t.name)
        return found

    def add(self, statement: str) -> None:
        self.statements.append(statement + ";")

    # -- statements

    def grow(self) -> None:
        """Add one statement."""
        forms = [self.relationship] * 3 + [self.path_aggregate] * 3 + [self.nested] * 2 + [self.joined] * 2
        forms += [self.column, self.override, self.local, self.distinct_on, self.distinct, self.grouped, self.again]
        self.pick(forms)()

    def relationship(self) -> None:
        owner, target, name = self.table(), self.table(flat=True), self.name("r")
        on = f"y.{self.pick(target.whole)} = _.{self.pick(owner.whole)}"
        limited = self.random.random() < 0.5
        if not limited and self.random.random() < 0.3:
            on += f" AND y.{self.pick(target.numbers)} > _.{self.pick(owner.numbers)}"
        end = ""
        if limited:
            keys = ", ".join(f"y.{c}{self.pick(['', ' DESC'])}" for c in (*target.times, *target.numbers[:1]))
            end = f" ORDER BY {keys or 'y.a'} LIMIT {self.random.randint(1, 2)}"
        self.add(f"{owner.name}.{name} := JOIN {target.name} y ON {on}{end}")
        owner.paths[name] = target

    def path(self, owner: Table) -> tuple[str, Table] | None:
        steps, here = [], owner
        while here.paths and len(steps) < 3 and (not steps or self.random.random() < 0.5):
            name = self.pick(here.paths)
            steps.append(name)
            here = here.paths[name]
        return (".".join(steps), here) if steps else None

    def path_aggregate(self) -> None:
        owner = self.pick(t for t in self.tables if t.paths)
        found = self.path(owner)
        assert found is not None
        name, function = self.name("c"), self.pick(AGGREGATES)
        inner = found[0] if function == "count" else f"{found[0]}.{self.pick(found[1].numbers)}"
        self.add(f"{owner.name}.{name} := {function}({inner})")
        if function != "count":
            owner.numbers.append(name)

    def local(self) -> None:
        owner, target, name = self.table(), self.table(flat=True), self.name("c")
        function, column = self.pick(AGGREGATES), self.pick(target.numbers)
        condition = f"x.{self.pick(target.whole)} = _.{self.pick(owner.whole)}"
        self.add(f"{owner.name}.{name} := SELECT {function}(x.{column}) FROM {target.name} x WHERE {condition}")

    def nested(self) -> None:
        owner = self.pick(t for t in self.tables if t.paths)
        found = self.path(owner)
        assert found is not None
        name, target = self.name("n"), found[1]
        key, number = self.pick(target.whole), self.pick(target.numbers)
        limit = f" WHERE {number} > {self.random.randint(-1, 2)}" if self.random.random() < 0.4 else ""
        self.add(
            f"{owner.name}.{name} := SELECT {key} AS a, {self.pick(AGGREGATES[:4])}({number}) AS b, count(*) AS k "
            f"FROM _.{found[0]}{limit} GROUP BY {key}"
        )
        made = Table(f"{owner.name}.{name}", ["a"], ["b"], [], {"parent": owner})
        owner.paths[name] = made
        self.tables.append(made)

    def joined(self) -> None:
        owner = self.pick(t for t in self.tables if t.paths)
        found = self.path(owner)
        assert found is not None
        name, join = self.name("V"), self.pick(["JOIN", "LEFT JOIN"])
        self.add(
            f"{name} := SELECT x.{self.pick(owner.whole)} AS k, y.{self.pick(found[1].whole)} AS a, "
            f"y.{self.pick(found[1].numbers)} AS b FROM {owner.name} x {join} x.{found[0]} y"
        )
        self.tables.append(Table(name, ["k", "a"], ["b"], []))

    def column(self) -> None:
        owner, name = self.table(), self.name("c")
        self.add(f"{owner.name}.{name} := coalesce({self.pick(owner.numbers)}, {self.pick(owner.whole)}) * 2 + 1")
        owner.numbers.append(name)

    def override(self) -> None:
        owner = self.table()
        if self.random.random() < 0.5:
            column = self.pick(owner.numbers)
            self.add(f"{owner.name}.{column} := coalesce({column}, 0) - 1")
        else:
            column = self.pick(owner.whole)
            self.add(f"{owner.name}.{column} := {column} + 1")

    def distinct_on(self) -> None:
        source, name = self.pick(t for t in self.tables if t.times), self.name("V")
        key = self.pick(source.whole)
        self.add(f"{name} := DISTINCT {source.name} ON {key} ORDER BY t{self.pick(['', ' DESC'])}")
        self.tables.append(Table(name, list(source.whole), list(source.numbers), ["t"]))

    def distinct(self) -> None:
        source, name = self.table(), self.name("V")
        self.add(
            f"{name} := SELECT DISTINCT {self.pick(source.whole)} AS a, {self.pick(source.numbers)} AS b FROM "
            f"{source.name}"
        )
        self.tables.append(Table(name, ["a"], ["b"], []))

    def grouped(self) -> None:
        source, name = self.table(), self.name("V")
        key, number = self.pick(source.whole), self.pick(source.numbers)
        having = " HAVING count(*) > 1" if self.random.random() < 0.3 else ""
        self.add(
            f"{name} := SELECT {key} AS a, {self.pick(AGGREGATES[:4])}({number}) AS b FROM {source.name} GROUP BY "
            f"{key}{having}"
        )
        self.tables.append(Table(name, ["a"], ["b"], []))

    def again(self) -> None:
        views = [t for t in self.tables if t.name.startswith("V")]
        if views:
            old = self.pick(views)
            self.add(
                f"{old.name} := SELECT * FROM {old.name} WHERE {self.pick(old.whole)} > {self.random.randint(-1, 3)}"
            )
            self.tables[self.tables.index(old)] = Table(old.name, list(old.whole), list(old.numbers), list(old.times))


def random_script(random: Random, statements: int = 12) -> str:
    """A script with the five inputs and that many statements."""
    script = Script(random)
    for _ in range(statements):
        script.grow()
    return script.text


@dataclass
class Data:
    """Random rows, remembering what is there so that deletions hit."""

    random: Random
    there: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def inserts(self, table: str) -> list[dict[str, Any]]:
        """Some rows for a table; each key once in a batch."""
        rows = [self.row(table) for _ in range(self.random.randint(0, 4))]
        if table in "TUN":
            rows = list({row["k"]: row for row in rows}.values())
        self.there.setdefault(table, []).extend(rows)
        return rows

    def deletes(self, table: str) -> list[dict[str, Any]]:
        """Some rows that are there, of those that were inserted before this epoch."""
        found = self.there.get(table, [])
        if not found or table == "S" or self.random.random() < 0.4:
            return []
        row = found.pop(self.random.randrange(len(found)))
        if table != "B":
            self.there[table] = [r for r in found if r["k"] != row["k"]]
        return [row]

    def row(self, table: str) -> dict[str, Any]:
        pick = self.random
        row: dict[str, Any] = {"k": pick.randint(0, 4)} | self.values()
        row["t"] = None if pick.random() < 0.1 else f"2024-05-01 10:0{pick.randint(0, 5)}:00"
        if table == "N":
            row["items"] = None if pick.random() < 0.2 else [self.item() for _ in range(pick.randint(0, 3))]
        return row

    def item(self) -> dict[str, Any]:
        return self.values() | {"subs": [self.values() for _ in range(self.random.randint(0, 2))]}

    def values(self) -> dict[str, Any]:
        pick = self.random
        return {
            "a": None if pick.random() < 0.1 else pick.randint(0, 4),
            "b": None if pick.random() < 0.15 else pick.randint(-4, 12) / 4,
        }
