"""Connections to Postgres through ADBC, for writing and reading.

In: a URL, settings. Out: connections. `belvedere.store.dialects.postgres.postgres_rows` converts rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adbc_driver_manager as manager
import adbc_driver_postgresql.dbapi as adbc

from belvedere.store.dialects.connection_retry import keep_trying
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.dialects.postgres.postgres_settings import OWN_SCHEMA, UNHURRIED

ERRORS = (manager.Error, OSError)


def connect(dialect: Dialect, url: str, settings: Sequence[str]) -> Any:
    """Return a connection in autocommit. While the server cannot be reached, retry for some seconds."""

    def once() -> Any:
        with dialect.guarded(url, ERRORS):
            return _connect_once(url, settings)

    return keep_trying(once)


def _connect_once(url: str, settings: Sequence[str]) -> Any:
    connection = adbc.connect(url, autocommit=True)
    try:
        with connection.cursor() as cursor:
            for setting in (OWN_SCHEMA, UNHURRIED, *settings):
                cursor.execute(setting)
                if cursor.description:
                    cursor.fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
