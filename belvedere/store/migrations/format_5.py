"""Format 5: the definition of every table says its order and its query.

Before, those of versions that knew neither lacked them, and readers took what was missing for none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from belvedere.store.migrations.migration import Migration
from belvedere.store.system import TABLE

if TYPE_CHECKING:
    from belvedere.store.dialects.session import Session


def complete_definitions(session: Session) -> None:
    """Add what is missing to the definitions that lack it."""
    dialect = session.dialect
    for name, text in session.execute(f"SELECT name, definition FROM {TABLE} ORDER BY place"):
        definition = json.loads(dialect.unescape(str(text)))
        complete = {"order": [], "query": "", **definition}
        if complete != definition:
            changed = dialect.escape(json.dumps(complete, ensure_ascii=True))
            session.execute(f"UPDATE {TABLE} SET definition = ? WHERE name = ?", (changed, name))


MIGRATION = Migration(5, "definitions of tables are complete", complete_definitions)
