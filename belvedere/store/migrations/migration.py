"""The interface of migrations: a step from one format of the store to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belvedere.store.dialects.session import Session


@dataclass(frozen=True)
class Migration:
    """A migration step. `apply` changes a store of the previous format to `format`, in the session's open transaction.

    It must not use code that later versions may change (`table_from_text`, `StoredTable`), since it handles stores of
    its own time. Files of state and journals are never changed in place: a migration writes new files and records their
    names in this transaction.
    """

    format: int
    what: str
    """Description for the user, which follows "the store was upgraded to format N: "."""
    apply: Callable[[Session], None]
