"""The interface of migrations: a step from one format of the store to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belvedere.store.dialects.session import Session


@dataclass(frozen=True)
class Migration:
    """`apply` changes a store of the format before into one of `format`, in the transaction that is open on the session.

    It must not use what later versions may change (`table_from_text`, `StoredTable`): it is about stores as they were then. Files of state
    and journals are never changed in place: a migration that needs others writes new ones, and names them in this transaction.
    """

    format: int
    what: str
    """Description for the user, which follows "the store was upgraded to format N: "."""
    apply: Callable[[Session], None]
