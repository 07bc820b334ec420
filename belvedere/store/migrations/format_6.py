"""Format 6: the tables of files that were read and of rejected rows have the names that the docs say.

Before, they had the marked names of relations whose own names the store keeps for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from belvedere.store.migrations.migration import Migration
from belvedere.store.system import TABLE

if TYPE_CHECKING:
    from belvedere.store.dialects.session import Session

NAMES = {
    "._belvedere_files~e6332bf200c4": "_belvedere_files",
    "._belvedere_rejected~e1de4b2681e3": "_belvedere_rejected",
}


def rename_records(session: Session) -> None:
    """Rename the tables that are there."""
    for (name,) in session.execute(f"SELECT name FROM {TABLE} ORDER BY place"):
        if str(name) in NAMES:
            session.execute(f'ALTER TABLE "{name}" RENAME TO {NAMES[str(name)]}')
            session.execute(f"UPDATE {TABLE} SET name = ? WHERE name = ?", (NAMES[str(name)], name))


MIGRATION = Migration(6, "the tables of rejected rows and of files have their documented names", rename_records)
