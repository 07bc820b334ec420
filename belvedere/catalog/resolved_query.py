"""A definition as written, with the resolved meaning of its names.

In: the tree of a statement, and the relations and relationships that its names mean. Out: the same tree with this
information on its identifiers. So the tree can be printed in another dialect, and names are resolved only once.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from belvedere.catalog.relationships import Relationship
from belvedere.plan.operators.nodes import Expr

PATH = "path"
"""Key in the meta of an identifier: the `ResolvedPath` of the dotted name that ends with it."""
PACKED = "packed"
ROW_NUMBER = "row_no"
"""Name of the row-number column in standard SQL."""


@dataclass(frozen=True)
class ResolvedPath:
    """A dotted name that refers to a table, directly or along relationships."""

    start: str
    """Alias of the FROM item at which the path begins, or the name of the relation."""
    relation: str | None = None
    """Id of the relation at which the path begins, if it begins at one."""
    steps: tuple[Relationship, ...] = ()
    """Relationships along the path, each with the target and order that the query saw."""

    def renamed(self, ids: Mapping[str, str]) -> ResolvedPath:
        """Return a copy with other ids."""
        relation = None if self.relation is None else ids.get(self.relation, self.relation)
        steps = (replace(s, owner=ids.get(s.owner, s.owner), target=ids.get(s.target, s.target)) for s in self.steps)
        return replace(self, relation=relation, steps=tuple(steps))


@dataclass(frozen=True)
class ResolvedQuery:
    """Query of a view, or value of a column that a definition adds. It is pickled in compressed form and unpacked on
    first use, because few processes use it."""

    tree: Expr
    paths: Mapping[int, ResolvedPath]
    """Paths by the offset in the script of the last identifier of the name."""
    column: str
    """Name of the column that the tree defines, over the rows of the preceding version."""
    owner: str | None
    """Id of the enclosing table, for a query that has its own rows for each row (`_`) of that table."""

    def __getstate__(self) -> dict[str, Any]:
        return {PACKED: vars(self).get(PACKED) or pickle.dumps(vars(self))}

    def __getattr__(self, name: str) -> Any:
        packed = vars(self).get(PACKED)
        if packed is not None:
            vars(self).update(pickle.loads(packed))
            vars(self).pop(PACKED, None)  # deleted last: another thread may unpack it at the same time
        if name not in vars(self):
            raise AttributeError(name)
        return vars(self)[name]

    def renamed(self, ids: Mapping[str, str]) -> ResolvedQuery:
        """Return a copy with other ids."""
        owner = None if self.owner is None else ids.get(self.owner, self.owner)
        return replace(self, paths={place: path.renamed(ids) for place, path in self.paths.items()}, owner=owner)

    def annotated(self) -> Expr:
        """Return a copy of the tree in which the last identifier of each dotted name has its path in `meta[PATH]`."""
        tree = self.tree.copy()
        for identifier in tree.find_all(exp.Identifier):
            path = self.paths.get(identifier.meta.get("start", -1))
            if path is not None:
                identifier.meta[PATH] = path
        return tree
