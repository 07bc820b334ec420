"""What a database driver reports, as a diagnostic that says what to do.

In: a driver's exception and the store's URL. Out: a `BelvedereError` with a code B7xxx. It knows the texts of SQLite and
the states of Postgres; it imports no driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from belvedere.errors import BelvedereError, fail

_RULES: tuple[tuple[str, str, str, str | None], ...] = (
    (r"disk is full|disk full|no space left|SQLSTATE: 53100", "B7003", "the store's disk is full",
     "free some space; the store is at its last committed epoch"),
    (r"not a database|malformed|SQLITE_CORRUPT|file is encrypted", "B7002", "the store's file is damaged or no SQLite file",
     "restore it from a backup; another --store is built again from files, without the rows that clients pushed"),
    (r"database (table )?is locked|SQLITE_BUSY|deadlock detected|lock timeout", "B7004", "another process has locked the store",
     "end the process that has the store open, or give another --store"),
    (r"readonly database|read-only|permission denied|SQLSTATE: 42501|SQLSTATE: 25006", "B7001", "the store cannot be written",
     "allow this user to write the store's file and its folder, or give another --store"),
    (r"unable to open database", "B7001", "the store's file cannot be opened",
     "see that the folder exists and that this user may write in it"),
    (r"disk I/O error", "B7003", "the store's disk fails to read or write", "check the disk and the space that is left on it"),
    (r"password authentication|no pg_hba|role .* does not exist|SQLSTATE: 28", "B7020", "the Postgres server refuses the login",
     "check user and password in the store's URL"),
    (r'database ".*" does not exist|SQLSTATE: 3D000', "B7020", "the Postgres database does not exist",
     "create it with createdb, or correct the store's URL"),
    (r"could not connect|connection refused|could not translate|connection to server|server closed|no connection|"
     r"terminating connection|could not receive|could not send|SQLSTATE: 57P|SQLSTATE: 08|connection is closed|not open",
     "B7005", "the Postgres server cannot be reached", "see that the server runs and that the store's URL names its host and port"),
    (r"UNIQUE constraint failed|duplicate key value", "B7010", "a row with the same key is already stored", None),
    (r"NOT NULL constraint failed|violates not-null", "B7011", "a row has no key", None),
    (r"index row (size|requires)|index row exceeds", "B7025", "an indexed value is too long for Postgres, which takes 2700 bytes",
     "drop indexes on stored tables that Belvedere has not made; its own give way to long values"),
    (r"too many (columns|SQL variables)|at most 1600 columns", "B7012", "a view has more columns than the store can hold",
     "select fewer columns"),
    (r"^interrupted|statement timeout|SQLSTATE: 57014", "B7086", "the read took too long", "ask for less"),
    (r"parser stack overflow|Expression tree is too large|at most 64 tables", "B7087", "the read is nested too deeply for this SQLite",
     "nest less; SQLite 3.46 and Postgres have no such bound"),
    (r"no such table|relation .* does not exist", "B7014", "a table is missing in the store",
     "run the script again to build it, or give another --store"),
)  # fmt: skip


def fault(error: Exception, url: str, doing: str = "") -> BelvedereError:
    """The diagnostic for a driver's error; B7099 where the text is unknown."""
    text = " ".join(str(error).split())
    shown = without_password(url)
    for pattern, code, message, hint in _RULES:
        if re.search(pattern, text, re.IGNORECASE):
            return fail(code, f"{message}: {shown}{doing}", hint=hint, detail=text)
    return fail("B7099", f"the store failed: {shown}{doing}", detail=text)


def is_transient(error: BelvedereError) -> bool:
    """Whether trying again a little later may help."""
    return all(d.code in ("B7004", "B7005") for d in error.diagnostics)


def without_password(url: str) -> str:
    """A URL that may be shown."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", re.sub(r"(password=)[^&\s]*", r"\1***", url))


@contextmanager
def guarded(url: str, errors: tuple[type[Exception], ...], doing: str = "") -> Iterator[None]:
    """Turn a driver's `errors` into diagnostics."""
    try:
        yield
    except errors as error:
        raise fault(error, url, doing) from error
