"""Sets of values in which several statements of one answer look columns up.

Each is computed once, for their transaction.

In: the SQL of sets, while statements are printed. Out: the statements, with the names of the sets that several of them
read, and these sets in the order of their creation. A set that is read once stays a part of its statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from belvedere.store.identifiers import SYSTEM, quoted


@dataclass(frozen=True)
class SharedSet:
    """A set: its name as SQL, its columns with their types, and the SELECT of its rows, which can contain duplicates.

    No row with NULL is a member: it equals no value.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    query: str


class Sets:
    """The sets of printed statements. A set comes before the sets that read it."""

    def __init__(self) -> None:
        self._found: dict[str, SharedSet] = {}

    def named(self, query: str, types: Iterable[str]) -> str:
        """Return a name for the rows of a SELECT after IN."""
        name = quoted(f"{SYSTEM}set_{hashlib.sha256(query.encode()).hexdigest()[:24]}")
        self._found[name] = SharedSet(name, tuple((f"c{n}", t) for n, t in enumerate(types)), query)
        return name

    def shared(self, statements: Iterable[str]) -> tuple[list[str], list[SharedSet]]:
        """Return the statements as they are run, and the sets to create before.

        A name contains a hash, so it is unique.
        """
        texts, kept = list(statements), list[SharedSet]()
        for one in reversed(self._found.values()):
            if sum(t.count(one.name) for t in (*texts, *(k.query for k in kept))) > 1:
                kept.append(one)
                continue
            texts = [t.replace(one.name, f"({one.query})") for t in texts]
            kept = [replace(k, query=k.query.replace(one.name, f"({one.query})")) for k in kept]
        return texts, kept[::-1]
