"""Filter for one line of the JVM: its warning about incubator modules, which Spark requests and users cannot change.

In: the start of the JVM. Out: nothing; all other lines of the JVM's stderr are passed on.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DROPPED = b"WARNING: Using incubator modules"


@contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Open a context in which a started process writes its stderr through a filter for its whole life."""
    sys.stderr.flush()
    terminal = os.dup(2)
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading, terminal), name="jvm-stderr", daemon=True).start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)


def _pass_on(reading: int, target: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(DROPPED):
                os.write(target, line)
