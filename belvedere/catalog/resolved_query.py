"""A definition as it was written, with what lowering resolved its names to.

In: the tree of a statement, and the relations and relationships behind the names in it. Out: the same tree whose identifiers carry them, so
that it can be printed in other words and no name is resolved twice.
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
"""In the meta of an identifier: the `ResolvedPath` of the dotted name that ends with it."""
PACKED = "packed"
ROW_NUMBER = "row_no"
"""The column that numbers rows, in standard SQL."""


@dataclass(frozen=True)
class ResolvedPath:
    """A dotted name that is a table, or leads along relationships to one."""

    start: str
    """The alias of the FROM item at which it begins, or the name of the relation."""
    relation: str | None = None
    """The id of the relation, where it begins at one."""
    steps: tuple[Relationship, ...] = ()
    """The relationships that it follows, each with the target and the order that the query saw."""

    def renamed(self, ids: Mapping[str, str]) -> ResolvedPath:
        """The same with other ids."""
        relation = None if self.relation is None else ids.get(self.relation, self.relation)
        steps = (replace(s, owner=ids.get(s.owner, s.owner), target=ids.get(s.target, s.target)) for s in self.steps)
        return replace(self, relation=relation, steps=tuple(steps))


@dataclass(frozen=True)
class ResolvedQuery:
    """The query of a view, or the value of a column that a definition adds. Pickled, it is packed until it is read: few processes do."""

    tree: Expr
    paths: Mapping[int, ResolvedPath]
    """By the place in the script where the last identifier of the name begins."""
    column: str
    """The column that the tree is the value of, over the rows of the version before."""
    owner: str | None
    """The id of the table around, for each of whose rows (`_`) the query has rows of its own."""

    def __getstate__(self) -> dict[str, Any]:
        return {PACKED: vars(self).get(PACKED) or pickle.dumps(vars(self))}

    def __getattr__(self, name: str) -> Any:
        packed = vars(self).get(PACKED)
        if packed is not None:
            vars(self).update(pickle.loads(packed))
            vars(self).pop(PACKED, None)  # last: another thread may unpack it, too
        if name not in vars(self):
            raise AttributeError(name)
        return vars(self)[name]

    def renamed(self, ids: Mapping[str, str]) -> ResolvedQuery:
        """The same with other ids."""
        owner = None if self.owner is None else ids.get(self.owner, self.owner)
        return replace(self, paths={place: path.renamed(ids) for place, path in self.paths.items()}, owner=owner)

    def annotated(self) -> Expr:
        """A copy of the tree in which the last identifier of each dotted name has its path in `meta[PATH]`."""
        tree = self.tree.copy()
        for identifier in tree.find_all(exp.Identifier):
            path = self.paths.get(identifier.meta.get("start", -1))
            if path is not None:
                identifier.meta[PATH] = path
        return tree
