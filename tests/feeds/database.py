"""A database that a store follows, with the changes of its users: the model of the random walks.

In: a folder. Out: a server of its own with two tables, what applications and administrators do to them, runs of a
store, and whether the store's rows are those of the tables. A run that ends with a diagnostic of the list has its hint
carried out, statement by statement.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from belvedere.connectors.connector import Feed
from belvedere.connectors.postgres.server import Server
from tests.feeds.mirror import Mirror
from tests.postgres.servers import OwnServer

SCRIPT = "IMPORT crm.plain AS Plain;\nIMPORT crm.parted AS Parted;"
COLUMNS = {"Plain": ("id", "n", "a", "b", "m"), "Parted": ("id", "day", "a", "t")}
PLAIN = (
    "CREATE TABLE plain (id bigint PRIMARY KEY, n int NOT NULL UNIQUE, a int, b text, m mood)",
    "ALTER TABLE plain ALTER b SET STORAGE EXTERNAL",
)
PARTED = (
    "CREATE TABLE parted (id bigint, day int, a int, u uuid NOT NULL DEFAULT gen_random_uuid(), t text, PRIMARY KEY "
    "(id, day)) PARTITION BY RANGE (day)",
    "ALTER TABLE parted ALTER t SET STORAGE EXTERNAL",
)
PUBLICATIONS = (
    "FOR TABLE plain, parted",
    "FOR TABLES IN SCHEMA public",
    "FOR ALL TABLES",
    "FOR TABLE plain, TABLES IN SCHEMA public",
)
CODES = ("B6101", "B6220", "B6222", "B6223", "B6224", "B6225", "B6226", "B6227")
MAX_HINTS = 12


class Database:
    """A server, what is done to it, and a store that follows it."""

    def __init__(self, folder: Path):
        folder.chmod(0o755)
        self.folder, self.server = folder, OwnServer(folder / "server")
        self.server.make()
        self.server.start()
        self.slot = "feed"
        project = f'[sources.crm]\nconnector = "postgres"\nurl = "{self.server.url}"\nslot = "{self.slot}"\n'
        (folder / "store").mkdir()
        self.mirror = Mirror(folder / "store", SCRIPT, project)
        self.names = {name: {c: c for c in columns} for name, columns in COLUMNS.items()}
        self.others = 0
        self.labels = ["sad", "ok"]
        self.feeds: dict[str, Feed] | None = None
        self.open: psycopg.Connection[Any] | None = None
        self.kept: dict[str, Any] = {}
        self.reported: list[str] = []
        self.connect()
        self.do("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE SCHEMA attic", *PLAIN, *PARTED)
        for day in (0, 1):
            self.do(*self.partition(day))
        self.publish(PUBLICATIONS[0])

    # -- the server ---------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.connection = psycopg.connect(self.server.url, autocommit=True)

    def do(self, *statements: str) -> bool:
        """Statements; one that the database refuses does nothing. Whether it has refused none."""
        refused = 0
        for statement in statements:
            try:
                self.connection.execute("SET lock_timeout = '100ms'")
                self.connection.execute(statement)  # type: ignore[arg-type]
            except psycopg.Error:
                self.connection.rollback()
                refused += 1
        return not refused

    def partition(self, day: int) -> tuple[str, ...]:
        made = f"CREATE TABLE IF NOT EXISTS parted_{day} PARTITION OF parted FOR VALUES FROM ({day}) TO ({day + 1})"
        return made, f"CREATE UNIQUE INDEX IF NOT EXISTS parted_{day}_u ON parted_{day} (u)"

    def publish(self, what: str) -> None:
        self.do("DROP PUBLICATION belvedere", f"CREATE PUBLICATION belvedere {what} WITH (publish_via_partition_root)")

    def stop(self, how: str) -> None:
        self.end_open("crash")
        self.connection.close()
        self.server.stop(how)

    def start(self) -> None:
        self.server.start()
        self.connect()

    def keep_a_copy(self) -> None:
        """A copy of the server's disk, which may be put back later."""
        self.stop("fast")
        self.server.copy_to(self.folder / "copy")
        self.kept["copy"] = self._known()
        self.start()

    def put_the_copy_back(self) -> None:
        if "copy" in self.kept:
            self.stop("immediate")
            copied = OwnServer(self.folder / "server")
            copied.data = self.folder / "copy"
            copied.copy_to(self.server.data)
            self._known(self.kept["copy"])
            self.start()

    def keep_a_dump(self) -> None:
        self.kept["dump"] = (self._known(), self.server.dump())

    def restore_the_dump(self) -> None:
        if "dump" in self.kept:
            self.end_open("ROLLBACK")
            known, text = self.kept["dump"]
            self.do(
                "DROP SCHEMA public CASCADE",
                "DROP SCHEMA attic CASCADE",
                "DROP PUBLICATION belvedere",
                "CREATE SCHEMA public",
            )
            self.server.restore(text)
            self._known(known)

    def _known(self, known: Any = None) -> Any:
        """What the model knows of the tables, to be taken back with them."""
        if known is not None:
            self.names, self.labels = ({n: dict(c) for n, c in known[0].items()}, list(known[1]))
        return {n: dict(c) for n, c in self.names.items()}, list(self.labels)

    def begin(self, *statements: str) -> None:
        """A transaction that stays open."""
        self.end_open("ROLLBACK")
        self.open = psycopg.connect(self.server.url)
        try:
            self.open.execute("SET lock_timeout = '1s'")
            for statement in statements:
                self.open.execute(statement)  # type: ignore[arg-type]
        except psycopg.Error:
            self.end_open("ROLLBACK")

    def end_open(self, how: str) -> None:
        if self.open is not None:
            try:
                if how != "crash":
                    self.open.execute(how)  # type: ignore[arg-type]
            except psycopg.Error:
                pass
            self.open.close()
            self.open = None

    # -- the store ----------------------------------------------------------------------------------------------------

    def once(self) -> str | None:
        """A run, or what a run that goes on does next: None, or what has ended it."""
        return self.mirror.once() if self.feeds is None else self.mirror.go_on(self.feeds)

    def keep_running(self) -> None:
        """From now on one run follows all that is done."""
        self.end_run()
        self.feeds = self.mirror.opened()

    def end_run(self) -> None:
        for feed in (self.feeds or {}).values():
            feed.close()
        self.feeds = None

    def follow(self) -> None:
        """A run; where it ends with a diagnostic, its hint is carried out, and there is another run."""
        said: str | None = None
        for _ in range(MAX_HINTS):
            said = self.once()
            if said is None:
                break
            self.reported.append(said)
            assert said[:5] in CODES, said
            if said[:5] not in ("B6220", "B6227"):
                self.end_run()
            self.carry_out(said)
        else:
            raise AssertionError(f"{MAX_HINTS} hints have not led on: {self.reported[-MAX_HINTS:]}")
        for name, columns in COLUMNS.items():
            asked = ", ".join(f"{self.names[name][c]}::text" for c in columns)
            seen = [tuple(None if v is None else str(v) for v in row) for row in self.mirror.view(name, *columns)]
            there = self.connection.execute(f"SELECT {asked} FROM {name.lower()}").fetchall()  # type: ignore[call-overload]
            assert sorted(seen, key=str) == sorted(there, key=str), name

    def carry_out(self, said: str) -> None:
        """What a hint says; locks of others are over when an owner does it."""
        if said.startswith("B6220") or "(hint: None)" in said:
            return  # it is asked again
        if not said.startswith("B6227"):
            self.end_open("ROLLBACK")
        if found := re.search(r'write `slot = "(\w+)"`.*drop the old slot: (.*)\)$', said):
            self.mirror.project = self.mirror.project.replace(f'slot = "{self.slot}"', f'slot = "{found[1]}"')
            self.slot = found[1]
            self.do(found[2])
        elif found := re.search(r'write `slot = "(\w+)"`', said):
            self.mirror.project = self.mirror.project.replace(f'slot = "{self.slot}"', f'slot = "{found[1]}"')
            self.slot = found[1]
        elif found := re.search(r'add it again: (ALTER TABLE "public"."(\w+)" ADD COLUMN "(\w+)") \.\.\.', said):
            table = found[2].capitalize()
            self.names[table][found[3]] = found[3]
            self.do(f"{found[1]} {'text' if found[3] in 'bt' else 'mood' if found[3] == 'm' else 'int'}")
        elif found := re.search(r"to end it: (SELECT .*)\)$", said):
            self.do(found[1])
            self.end_open("crash")
        else:
            statements = said.rpartition("the owner runs: ")[2].removesuffix(")")
            assert statements != said, said
            for statement in statements.split("; "):
                self.connection.execute(statement)  # type: ignore[arg-type]  # the hint's statement has to work

    def close(self) -> None:
        self.end_run()
        self.end_open("crash")
        self.connection.close()
        self.server.stop("immediate")
        shutil.rmtree(self.server.folder, ignore_errors=True)


@contextmanager
def slot_that_does_not_advance() -> Iterator[None]:
    """As of runs that are killed between the store's commit and the slot's advance."""
    advance: Callable[[Server, int], None] = Server.advance
    Server.advance = lambda self, to: None  # type: ignore[method-assign,assignment,misc]
    try:
        yield
    finally:
        Server.advance = advance  # type: ignore[method-assign,assignment]


def in_one(statements: Sequence[str]) -> str:
    """Statements as one transaction."""
    return f"BEGIN; {'; '.join(statements)}; COMMIT"
