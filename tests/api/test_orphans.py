"""A start waits for the port that the API processes of a killed run still hold, and for nobody else's."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from belvedere.api.serving import processes
from belvedere.api.serving.orphans import CHILD, has_orphans
from belvedere.errors import BelvedereError


def process(root: Path, number: int, parent: int, *words: str) -> None:
    folder = root / str(number)
    folder.mkdir()
    (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (folder / "stat").write_text(f"{number} (a) b) S {parent} 1 1")


def test_an_api_process_without_its_run_is_an_orphan(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "/sbin/init")
    process(tmp_path, 7, 1, "python", "-m", "belvedere.cli", "run")
    process(tmp_path, 8, 7, "python", "-m", CHILD)
    (tmp_path / "self").mkdir()
    assert not has_orphans(tmp_path)
    process(tmp_path, 9, 1, "python", "-m", CHILD)
    assert has_orphans(tmp_path)
    assert not has_orphans(tmp_path / "nothing")


def test_a_start_waits_for_its_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        monkeypatch.setattr(processes, "has_orphans", lambda: False)
        with pytest.raises(BelvedereError, match="B8012"):
            processes._listen_soon("127.0.0.1", port)
        asked = threading.Event()
        monkeypatch.setattr(processes, "has_orphans", lambda: asked.set() or True)
        threading.Thread(target=lambda: (asked.wait(10), held.close())).start()
        processes._listen_soon("127.0.0.1", port).close()
