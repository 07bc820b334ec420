"""Retries of a connection to a server that may be starting or restarting.

In: a function that connects or raises a diagnostic. Out: its connection, or its last diagnostic.
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
    """Return the connection. While the server cannot be reached, retry for some seconds."""
    deadline, pause = time.monotonic() + CONNECT_SECONDS, 0.1
    while True:
        try:
            return connect()
        except BelvedereError as error:
            if not is_transient(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause *= 2
