"""The reference clients of JavaScript: installed once by npm into a folder of the user's cache, then run by node.

In: `tests/api/clients` with its lock file. Out: programs that run. Where node or npm is missing, tests that need them
are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "clients"
INSTALL = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "belvedere-tests"


def install(project: Path = HERE) -> Path:
    """The folder with the programs of a node project and what they need."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: the reference clients are JavaScript")
    files = sorted(f for f in project.iterdir() if f.is_file())
    folder = FOLDER / hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as made:
            for file in files:
                shutil.copy(file, made)
            subprocess.run(INSTALL, cwd=made, check=True, capture_output=True)
            os.chmod(made, 0o755)
            try:
                os.rename(made, folder)
            except OSError:  # another run was first
                assert folder.exists()
    return folder


class NodeClient:
    """A subscription by a reference client, a process of its own."""

    def __init__(self, folder: Path, client: str, url: str, query: str = "", **config: Any):
        given = {"client": client, "url": url, "query": query, **config}
        command = ["node", str(folder / "subscribe.mjs"), json.dumps(given)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def reported(self, seconds: float = 30) -> list[Any]:
        """What the client tells next: what, and its value."""
        found: list[Any] = json.loads(self.lines.get(timeout=seconds))
        return found

    def next(self, seconds: float = 30) -> Any:
        """The next result; connections before it are passed over."""
        while True:
            what, value = self.reported(seconds)
            if what not in ("connected", "again", "pong"):
                assert what == "next", (what, value)
                return value

    def is_quiet(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes within a moment."""
        try:
            self.lines.put(self.lines.get(timeout=seconds))
        except queue.Empty:
            return True
        return False

    def unsubscribe(self) -> None:
        """End the subscription as the client's user does."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
