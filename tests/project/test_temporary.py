"""Temporary folders: gone with their process, swept where it was killed, and nobody else's touched."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from belvedere.errors import BelvedereError
from belvedere.process.temporary_folders import MARK, full_folder, sweep, temporary_folder

HOLDS = """
import sys
from belvedere.process.temporary_folders import temporary_folder
print(temporary_folder("read-"), flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a temporary folder in `folder`; and that of the process."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", HOLDS]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    made = Path(process.stdout.readline().strip())
    assert made.is_dir()
    return process, made.parent


def test_folders_of_killed_processes_are_swept_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (living, alive), (killed, left) = holder(tmp_path), holder(tmp_path)
    (ended, gone), (elsewhere, far) = holder(tmp_path), holder(tmp_path)
    ended.communicate("")
    for process in (killed, elsewhere):
        process.kill()
        process.communicate()
    (far / MARK).write_text("another-machine")
    unmarked, linked = tmp_path / "belvedere-warehouse", tmp_path / "belvedere-link"
    unmarked.mkdir()
    linked.symlink_to(left)
    assert left.is_dir()
    assert not gone.exists(), "a process that ends takes its folder along"
    sweep()
    assert sorted(p for p in tmp_path.iterdir()) == sorted([alive, far, unmarked, linked])
    living.kill()
    living.communicate()
    sweep()
    assert not alive.exists()


def test_a_full_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/full").exists():
        with pytest.raises(OSError, match="No space left") as full:  # as Arrow reports it
            pq.write_table(pa.table({"a": list(range(100_000))}), "/dev/full")
        assert full_folder(full.value) is not None
    wrapped = RuntimeError("a job failed: java.io.IOException: No space left on device")
    for error in (
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EFBIG, "too large"),
        wrapped,
        PermissionError(errno.EACCES, "denied"),
    ):
        found = full_folder(error)
        assert (found is None) == isinstance(error, PermissionError)
        if found is not None:
            assert found.diagnostics[0].code == "B7032"
            assert "TMPDIR" in (found.diagnostics[0].hint or "")
    monkeypatch.setattr("belvedere.process.temporary_folders._own", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(BelvedereError, match="B7032"):
        temporary_folder("read-")
