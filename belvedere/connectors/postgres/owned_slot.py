"""The slot of one store: only this store creates and reads it.

In: a server, the store's notes. Out: the confirmed position of the slot. A slot that exists before the store's first
epoch, and that the store has not recorded, belongs to another client. Reading it would take changes from that client.
"""

from __future__ import annotations

import json

from belvedere.connectors.connector import NoteStore
from belvedere.connectors.postgres.server import Server, drop_statement, next_slot
from belvedere.connectors.postgres.slot_making import SlotMaking
from belvedere.errors import BelvedereError, fail

SLOTS = "postgres_slots"
"""Name of the store's document with the slots that it has created: sources by server and slot."""


class OwnedSlot:
    """A slot, and whether the store owns it."""

    def __init__(self, server: Server, notes: NoteStore | None):
        self.server, self.notes = server, notes
        self._making: SlotMaking | None = None
        self._made: set[str] = set()

    def confirmed(self, is_known: bool) -> int:
        """Return the confirmed position. Create a missing slot, unless the store has a position in it (`is_known`).

        Raises B6222 if another client owns it, B6225 if it is lost, B6227 while its creation waits.
        """
        if self._making is not None:
            return self._finish()
        found = self.server.confirmed()
        if is_known:
            if found is None:
                raise self.server.slot_lost(f'the slot "{self.server.slot}" no longer exists')
            return found
        if found is None:
            self._note()
            self._making = SlotMaking(self.server)
            return self._finish()
        if not self._is_own():
            name = self.server.slot
            hint = (
                f'write `slot = "{next_slot(name)}"` for source "{self.server.source}"; '
                "or, if it is no longer used, drop it: "
                f"{drop_statement(name)}"
            )
            raise fail("B6222", f'the slot "{name}" exists already, and was not created by this store', hint=hint)
        return found

    def _finish(self) -> int:
        assert self._making is not None
        try:
            return self._making.position()
        except BelvedereError:
            if self._making.is_done:
                self._note(is_made=False)
            raise
        finally:
            if self._making.is_done:
                self._making = None

    def _name(self) -> str:
        return f"{self.server.system()[0]}/{self.server.slot}"

    def _note(self, is_made: bool = True) -> None:
        """Record the slot before it is created, so the next start recognizes it if the process is killed."""
        name = self._name()
        self._made = {name} if is_made else set()
        if self.notes is not None:
            known = {n: s for n, s in json.loads(self.notes.document(SLOTS) or "{}").items() if n != name}
            self.notes.set_document(SLOTS, json.dumps(known | ({name: self.server.source} if is_made else {})))

    def _is_own(self) -> bool:
        name = self._name()
        if name in self._made:
            return True
        known = json.loads(self.notes.document(SLOTS) or "{}") if self.notes is not None else {}
        return bool(known.get(name) == self.server.source)

    def close(self) -> None:
        """Stop waiting for the slot."""
        if self._making is not None:
            self._making.cancel()
            self._making = None
