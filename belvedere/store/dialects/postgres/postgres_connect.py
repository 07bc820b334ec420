"""Connections to Postgres through ADBC, for writing and for reading alike.

In: a URL, settings. Out: connections. Rows cross as `belvedere.store.dialects.postgres.postgres_rows` says.
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
    """A connection in autocommit; tries again for some seconds while the server cannot be reached."""

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
