"""Identity of a store: an id assigned at its creation, which no other store has.

In: a store, or a reader of one. Out: its `Identity`. Folders of a store have its id as their name, so they depend
neither on the name of its file nor on its script. A copy created by `belvedere restore` gets a new id.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Protocol

IDENTITY = "_identity"
"""Name of the document with the store's identity."""


class DocumentStore(Protocol):
    """An object with a store's documents: a store, a reader, a snapshot."""

    def document(self, name: str) -> str | None: ...


@dataclass(frozen=True)
class Identity:
    """The ids of a store: its own id, the id of its journal, and the name that its sinks use."""

    id: str
    journal: str
    """The id in the headers of its journal."""
    sinks: str
    """The name under which sinks have recorded what they received."""
    file: str = ""
    """Name of the file in which a run last found the store; empty for a store on a server."""

    @property
    def text(self) -> str:
        """Return the identity as the store's document."""
        return json.dumps(asdict(self))

    def in_file(self, name: str) -> Identity:
        """Return the identity of the same store in a file with this name."""
        return replace(self, file=name)


def new_identity() -> Identity:
    """Return an identity for a new store."""
    id_ = uuid.uuid4().hex[:16]
    return Identity(id_, id_, id_)


def identity_of(documents: DocumentStore) -> Identity:
    """Return the identity of a store of the present format."""
    text = documents.document(IDENTITY)
    assert text is not None, "a store gets its identity with its format"
    return Identity(**json.loads(text))
