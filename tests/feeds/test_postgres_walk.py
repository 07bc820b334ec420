"""Random walks over a database: whatever is done to its tables, a run ends with them, or with a hint that leads there.

The model does what applications, migrations and administrators do: rows, DDL, partitions, publications, slots, crashes of runs. After each
run the rows that its feeds have brought are those of the tables by SQL, or the run has ended with a diagnostic of the list; then its hint
is carried out, statement by statement, until they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from belvedere.connectors.postgres.server import Server
from tests.feeds.mirror import Mirror
from tests.postgres.conftest import shop_of

SCRIPT = "IMPORT crm.plain AS Plain;\nIMPORT crm.parted AS Parted;"
COLUMNS = {"Plain": ("id", "n", "a", "b"), "Parted": ("id", "day", "a")}
PLAIN = "CREATE TABLE plain (id bigint PRIMARY KEY, n int NOT NULL UNIQUE, a int, b text)"
PARTED = "CREATE TABLE parted (id bigint, day int, a int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)"
TABLES = st.sampled_from(["plain", "parted"])
NUMBERS = st.integers(1, 12)
DAYS = st.integers(0, 3)
CODES = ("B6223", "B6224", "B6225", "B6226")
MOST_HINTS = 5


class Walk(RuleBasedStateMachine):
    """A database, what is done to it, and a store that follows it."""

    def __init__(self, server: str):
        super().__init__()
        self.open = ExitStack()
        self.shop = self.open.enter_context(shop_of(server))
        folder = self.open.enter_context(TemporaryDirectory())
        self.slot = self.shop.slot
        url = f'[sources.crm]\nconnector = "postgres"\nurl = "{self.shop.url}"\n'
        self.mirror = Mirror(Path(folder), SCRIPT, f'{url}slot = "{self.slot}"\n')
        self.names = {name: {c: c for c in columns} for name, columns in COLUMNS.items()}
        self.others = 0
        self.do(PLAIN, PARTED, *(self.partition(day) for day in (0, 1)))
        self.do(
            "DROP PUBLICATION belvedere",
            "CREATE PUBLICATION belvedere FOR TABLE plain, parted WITH (publish_via_partition_root)",
        )

    def partition(self, day: int) -> str:
        return f"CREATE TABLE IF NOT EXISTS parted_{day} PARTITION OF parted FOR VALUES FROM ({day}) TO ({day + 1})"

    def do(self, *statements: str) -> None:
        """Statements; one that the database refuses does nothing."""
        for statement in statements:
            try:
                self.shop.run(statement)
            except psycopg.Error:
                self.shop.connection.rollback()

    # -- applications -------------------------------------------------------------------------------------------------

    @rule(id_=NUMBERS, n=NUMBERS, a=st.integers(-5, 5))
    def insert(self, id_: int, n: int, a: int) -> None:
        a_, b = self.names["Plain"]["a"], self.names["Plain"]["b"]
        self.do(f"INSERT INTO plain (id, n, {a_}, {b}) VALUES ({id_}, {n}, {a}, repeat('x', {n} * 300))")

    @rule(id_=NUMBERS, day=DAYS, a=st.integers(-5, 5))
    def insert_into_a_partition(self, id_: int, day: int, a: int) -> None:
        self.do(f"INSERT INTO parted VALUES ({id_}, {day}, {a})")

    @rule(id_=NUMBERS, to=NUMBERS)
    def change_a_key(self, id_: int, to: int) -> None:
        self.do(f"UPDATE plain SET id = {to} WHERE id = {id_}", f"UPDATE parted SET day = day + 1 WHERE id = {id_}")

    @rule(id_=NUMBERS)
    def update(self, id_: int) -> None:
        a = self.names["Plain"]["a"]
        self.do(f"UPDATE plain SET {a} = {a} + 1 WHERE id >= {id_}", f"UPDATE parted SET a = a + 1 WHERE id >= {id_}")

    @rule(table=TABLES, id_=NUMBERS)
    def delete(self, table: str, id_: int) -> None:
        self.do(f"DELETE FROM {table} WHERE id = {id_}")

    @rule(id_=NUMBERS, commits=st.booleans())
    def transaction(self, id_: int, commits: bool) -> None:
        end = "COMMIT" if commits else "ROLLBACK"
        a = self.names["Plain"]["a"]
        text = f"DELETE FROM plain WHERE id = {id_}; INSERT INTO plain (id, n, {a}) VALUES ({id_}, {id_ + 100}, 0); DELETE FROM parted"
        self.do(f"BEGIN; {text}; {end}")

    @rule(table=TABLES)
    def truncate(self, table: str) -> None:
        self.do(f"TRUNCATE {table}")

    # -- migrations ---------------------------------------------------------------------------------------------------

    @rule(table=TABLES, default=st.sampled_from(["", " DEFAULT 7"]))
    def add_a_column(self, table: str, default: str) -> None:
        self.others += 1
        self.do(f"ALTER TABLE {table} ADD COLUMN more_{self.others} int{default}")

    @rule(table=TABLES)
    def drop_an_added_column(self, table: str) -> None:
        self.do(f"ALTER TABLE {table} DROP COLUMN more_{self.others}")

    @rule(type_=st.sampled_from(["bigint", "bigint USING {a} * 2", "int USING {a} + 1"]))
    def change_a_type(self, type_: str) -> None:
        a = self.names["Plain"]["a"]
        self.do(f"ALTER TABLE plain ALTER {a} TYPE {type_.format(a=a)}")

    @rule()
    def make_a_column_anew(self) -> None:
        a = self.names["Plain"]["a"]
        self.do(f"ALTER TABLE plain DROP COLUMN {a}, ADD COLUMN {a} int DEFAULT 3")

    @rule()
    def rename_a_column(self) -> None:
        b = self.names["Plain"]["b"]
        self.others += 1
        self.do(f"ALTER TABLE plain RENAME {b} TO other_{self.others}")
        if self.mirror.epochs:
            self.names["Plain"]["b"] = f"other_{self.others}"
        else:
            self.do(f"ALTER TABLE plain RENAME other_{self.others} TO b")

    @precondition(lambda self: self.mirror.epochs)
    @rule()
    def drop_a_column(self) -> None:
        self.do(f"ALTER TABLE plain DROP COLUMN {self.names['Plain']['a']}")

    @rule()
    def make_the_table_anew(self) -> None:
        self.do("DROP TABLE plain", PLAIN, "ALTER PUBLICATION belvedere ADD TABLE plain")
        self.names["Plain"] = {c: c for c in COLUMNS["Plain"]}

    @rule(identity=st.sampled_from(["DEFAULT", "FULL", "USING INDEX plain_n_key", "NOTHING"]))
    def change_the_identity(self, identity: str) -> None:
        self.do(f"ALTER TABLE plain REPLICA IDENTITY {identity}")

    # -- administrators -----------------------------------------------------------------------------------------------

    @rule(table=st.sampled_from(["plain", "parted_0", "parted_1"]))
    def rewrite(self, table: str) -> None:
        self.do(f"VACUUM FULL {table}")

    @rule(day=DAYS)
    def add_a_partition(self, day: int) -> None:
        self.do(self.partition(day))

    @rule(
        day=DAYS,
        what=st.sampled_from(["TRUNCATE parted_{}", "DROP TABLE parted_{}", "ALTER TABLE parted DETACH PARTITION parted_{}"]),
    )
    def take_a_partition_away(self, day: int, what: str) -> None:
        self.do(what.format(day))

    @rule(day=DAYS)
    def attach_a_partition(self, day: int) -> None:
        self.do(f"ALTER TABLE parted ATTACH PARTITION parted_{day} FOR VALUES FROM ({day}) TO ({day + 1})")

    @rule(
        what=st.sampled_from(
            [
                "DROP TABLE plain",
                "DROP TABLE parted",
                "ADD TABLE plain",
                "ADD TABLE parted",
                "SET TABLE plain WHERE (id > 3), parted",
                "SET TABLE plain, parted",
                "SET (publish = 'insert, update')",
                "SET (publish = 'insert, update, delete, truncate')",
                "SET (publish_via_partition_root = false)",
            ]
        )
    )
    def change_the_publication(self, what: str) -> None:
        self.do(f"ALTER PUBLICATION belvedere {what}")

    @rule()
    def make_the_publication_anew(self) -> None:
        self.do(
            "DROP PUBLICATION belvedere",
            "CREATE PUBLICATION belvedere FOR TABLE plain, parted WITH (publish_via_partition_root)",
        )

    @precondition(lambda self: self.mirror.epochs)
    @rule(is_made=st.booleans())
    def drop_the_slot(self, is_made: bool) -> None:
        self.do(f"SELECT pg_drop_replication_slot('{self.slot}')")
        if is_made:
            self.do(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")

    # -- runs ---------------------------------------------------------------------------------------------------------

    @rule()
    def run_is_killed_before_its_commit(self) -> None:
        self.mirror.once(commits=False)

    @rule()
    def run_is_killed_before_the_slot_advances(self) -> None:
        advance: Callable[[Server, int], None] = Server.advance
        Server.advance = lambda self, to: None  # type: ignore[method-assign]
        try:
            self.follow()
        finally:
            Server.advance = advance  # type: ignore[method-assign]

    @rule()
    def follow(self) -> None:
        """A run; where it ends with a diagnostic, its hint is carried out, and there is another run."""
        for _ in range(MOST_HINTS):
            said = self.mirror.once()
            if said is None:
                break
            assert said[:5] in CODES, said
            self.carry_out(said)
        else:
            raise AssertionError(f"{MOST_HINTS} hints have not led on: {said}")
        for name, columns in COLUMNS.items():
            asked = ", ".join(f"{self.names[name][c]}::text" for c in columns)
            seen = sorted(
                (tuple(None if v is None else str(v) for v in row) for row in self.mirror.view(name, *columns)), key=str
            )
            assert seen == sorted(self.shop.ask(f"SELECT {asked} FROM {name.lower()}"), key=str), name

    def carry_out(self, said: str) -> None:
        if found := re.search(r'write `slot = "(\w+)"`.*drop the old slot: (.*)\)$', said):
            self.mirror.project = self.mirror.project.replace(f'slot = "{self.slot}"', f'slot = "{found[1]}"')
            self.slot = found[1]
            self.do(found[2])
        elif found := re.search(r'add it again: (ALTER TABLE "public"."plain" ADD COLUMN "(\w+)") \.\.\.', said):
            self.names["Plain"][found[2]] = found[2]
            self.do(f"{found[1]} {'text' if found[2] == 'b' else 'int'}")
        else:
            statements = said.rpartition("the owner runs: ")[2].removesuffix(")")
            assert statements != said, said
            for statement in statements.split("; "):
                self.shop.run(statement)  # the hint's statement has to work

    def teardown(self) -> None:
        try:
            self.follow()
        finally:
            self.open.close()


def walks(server: str, examples: int, steps: int) -> None:
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # a walk that is made shorter takes as long as a hundred others
        suppress_health_check=health,
    )
    run_state_machine_as_test(lambda: Walk(server), settings=chosen)


@pytest.mark.postgres
def test_a_short_walk(logical_server: str) -> None:
    walks(logical_server, 3, 12)


@pytest.mark.postgres
@pytest.mark.nightly
def test_long_walks(logical_server: str) -> None:
    walks(logical_server, 60, 40)
