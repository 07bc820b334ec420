"""Python's interface to SQLite, with a library whose parser accepts deeply nested requests.

Before version 3.46, SQLite's parser has a stack of 100 entries, enough for five levels of relationships. If Python has
an older version, the copy in `pysqlite3` is used. In both cases a process has one copy behind this interface.
"""

from __future__ import annotations

import sqlite3
from types import ModuleType

DEEP = (3, 46)
"""First version whose parser's stack grows."""


def _library() -> ModuleType:
    if sqlite3.sqlite_version_info < DEEP:
        try:
            from pysqlite3 import dbapi2  # exists on few machines
        except ImportError:  # no wheel for this machine: deep requests are refused with B7087
            return sqlite3
        if dbapi2.sqlite_version_info >= DEEP:
            return dbapi2  # type: ignore[no-any-return]
    return sqlite3


library = _library()
"""`sqlite3`, or its replacement."""
IS_EXACT = library.sqlite_version_info >= (3, 43)
"""Whether its printf writes the last digits of a double exactly."""
