"""Try to reach a server for some seconds: it may be starting, or starting again.

In: what connects, or raises a diagnostic. Out: its connection, or its last diagnostic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from belvedere.errors import BelvedereError
from belvedere.store.dialects.faults import is_transient

CONNECT_SECONDS = 5.0

Connection = TypeVar("Connection")


def keep_trying(connect: Callable[[], Connection]) -> Connection:
    """The connection; tries again for some seconds while the server cannot be reached."""
    deadline, pause = time.monotonic() + CONNECT_SECONDS, 0.1
    while True:
        try:
            return connect()
        except BelvedereError as error:
            if not is_transient(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause *= 2
