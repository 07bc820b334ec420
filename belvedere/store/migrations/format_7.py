"""Format 7: a store has an id, by which its folders are found.

Before, the state had an id, the journal and the sinks another one each; the journal's folder had the name of the store's file or script.
All of them stay valid for the store that had them.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from belvedere.store.migrations.migration import Migration
from belvedere.store.system import DOCUMENT, LAST_EPOCH, SET_DOCUMENT

if TYPE_CHECKING:
    from belvedere.store.dialects.session import Session


def name_store(session: Session) -> None:
    """Give the store the id of its state, and note those of its journal and for its sinks."""
    state, sinks = _document(session, "_state"), _document(session, "identity")
    last = session.execute(LAST_EPOCH)
    offsets = json.loads(str(last[0][2])).get("offsets", {}) if last else {}
    journal = (offsets.get("~intake") or {}).get("journal", "")
    id_ = json.loads(state)["id"] if state else uuid.uuid4().hex[:16]
    identity = json.dumps({"id": id_, "journal": journal, "sinks": sinks or id_, "file": ""})
    session.execute(SET_DOCUMENT, ("_identity", session.dialect.escape(identity)))
    session.execute(f"DELETE FROM {DOCUMENT} WHERE name = ?", ("identity",))


def _document(session: Session, name: str) -> str | None:
    rows = session.execute(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (name,))
    return session.dialect.unescape(str(rows[0][0])) if rows else None


MIGRATION = Migration(7, "the store has an id, and its folders are found by it", name_store)
