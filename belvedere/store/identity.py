"""Who a store is: an id that it gets when it is made, and that no other store has.

In: a store, or a reader of one. Out: its `Identity`. Folders that belong to a store have its id as their name, so neither the name of its
file nor that of its script decides which folder is taken. A copy that `belvedere restore` makes gets an id of its own.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Protocol

IDENTITY = "_identity"
"""The document with the store's identity."""


class DocumentStore(Protocol):
    """What has a store's documents: a store, a reader, a snapshot."""

    def document(self, name: str) -> str | None: ...


@dataclass(frozen=True)
class Identity:
    """The ids of a store: its own, and those by which its journal and its sinks know it."""

    id: str
    journal: str
    """The id in the headers of its journal."""
    sinks: str
    """The name under which sinks have what they were sent."""
    file: str = ""
    """The name of the file in which a run has found the store last; empty for a store on a server."""

    @property
    def text(self) -> str:
        """It as the store's document."""
        return json.dumps(asdict(self))

    def in_file(self, name: str) -> Identity:
        """The same store, in a file of this name."""
        return replace(self, file=name)


def new_identity() -> Identity:
    """The identity of a store that is being made."""
    id_ = uuid.uuid4().hex[:16]
    return Identity(id_, id_, id_)


def identity_of(documents: DocumentStore) -> Identity:
    """The identity of a store of the present format."""
    text = documents.document(IDENTITY)
    assert text is not None, "a store gets its identity with its format"
    return Identity(**json.loads(text))
