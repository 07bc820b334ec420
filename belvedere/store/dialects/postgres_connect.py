"""Connections to Postgres through ADBC, for writing and for reading alike.

In: a URL, settings. Out: connections. Rows cross as `belvedere.store.dialects.postgres_rows` says.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as manager
import adbc_driver_postgresql.dbapi as adbc

from belvedere.errors import BelvedereError
from belvedere.store.dialects.faults import is_transient

if TYPE_CHECKING:
    from belvedere.store.dialects.dialect import Dialect

CONNECT_SECONDS = 5.0
ERRORS = (manager.Error, OSError)


def connect(dialect: Dialect, url: str, settings: Sequence[str]) -> Any:
    """A connection in autocommit; tries again for some seconds while the server cannot be reached."""
    deadline, pause = time.monotonic() + CONNECT_SECONDS, 0.1
    while True:
        try:
            with dialect.guarded(url, ERRORS):
                return _connect_once(url, settings)
        except BelvedereError as error:
            if not is_transient(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause *= 2


def _connect_once(url: str, settings: Sequence[str]) -> Any:
    connection = adbc.connect(url, autocommit=True)
    try:
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection
