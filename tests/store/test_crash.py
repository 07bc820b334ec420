"""A process that is killed at any moment leaves the last committed epoch, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from belvedere.store import open_reader, open_store
from tests.store.samples import COUNTS


@pytest.mark.parametrize(("after", "pause"), [(3, 0.0), (5, 0.001), (7, 0.004), (9, 0.01), (11, 0.02)])
def test_kill_leaves_the_last_epoch(url: str, after: int, pause: float) -> None:
    command = [sys.executable, "-m", "tests.store.child", "write", url]
    said = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().isdigit():
                said = int(line)
            elif said >= after:
                time.sleep(pause)
                os.kill(process.pid, signal.SIGKILL)
                break
        rest = process.stdout.read().split()
        said = max([said, *(int(w) for w in rest if w.isdigit())])
    store = open_store(url)
    last = store.last_epoch()
    assert last is not None
    assert last.epoch in (said, said + 1)
    reader = store.reader()
    found = reader.rows(COUNTS)
    assert found["number"].to_pylist() == [last.epoch] * (last.epoch * 50)
    reader.close()
    store.close()
    outside = open_reader(url)
    assert outside.last_epoch() == last
    outside.close()
