"""UNION ALL."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.expressions import column
from belvedere.plan.operators.node import Item, Node, shared_grouping_columns
from belvedere.plan.operators.project import Project, item_of, pruned_inside
from belvedere.plan.unused_names import unused_name
from belvedere.schema import Column, Schema

BRANCH = "_branch"


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL: columns by position, names of the first. `branch` is an optional hidden column with the number of the
    branch.

    `key` are optional columns that are unique over the rows of all branches.
    """

    branches: tuple[Node, ...]
    branch: str | None = None
    key: tuple[str, ...] | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, branches=inputs)

    @cached_property
    def schema(self) -> Schema:
        first = self.branches[0].schema
        columns = tuple(
            replace(c, nullable=any(b.schema.columns[i].nullable for b in self.branches), hidden=c.hidden)
            for i, c in enumerate(first.columns)
        )
        if self.branch is None:
            return Schema(columns, self.key)
        key = self._key_positions()
        columns += (Column(self.branch, pa.int32(), nullable=False, hidden=True),)
        return Schema(columns, None if key is None else (*(first.columns[i].name for i in key), self.branch))

    def _key_positions(self) -> tuple[int, ...] | None:
        if any(b.schema.key is None for b in self.branches):
            return None
        return tuple(sorted({b.schema.names.index(k) for b in self.branches for k in b.schema.key or ()}))

    @property
    def text(self) -> str:
        return "union all" + (f" numbered ({self.branch})" if self.branch else "")

    @property
    def is_linear(self) -> bool:
        return True

    def pruned(self, requested: frozenset[str]) -> Node:
        return replace(self, branches=tuple(map(pruned_inside, self.branches)))

    def with_key_columns(self) -> Node:
        """Return each branch with columns for the key columns of all branches (NULL for the others'), and the branches
        numbered."""
        width = len(self.branches[0].schema.columns)
        branches = tuple(b.with_key_columns() for b in self.branches)
        if self.branch is not None or self.key is not None:
            return replace(self, branches=branches)
        taken = set(branches[0].schema.names[:width])
        slots: list[tuple[str, int, str, pa.DataType]] = []  # name, branch, the branch's column, type
        for n, branch in enumerate(branches):
            own = set(branch.schema.names[:width])
            for k in branch.schema.key or ():
                if k not in own:
                    slots.append((unused_name(f"_key{len(slots)}", taken), n, k, branch.schema[k].type))
                    taken.add(slots[-1][0])
        padded = []
        for n, branch in enumerate(branches):
            items = [item_of(c) for c in branch.schema.columns[:width]]
            for slot, owner, name, type_ in slots:
                items.append(Item(slot, column(name) if owner == n else exp.Null(), type_, hidden=True))
            padded.append(Project(branch, tuple(items)))
        return Union(tuple(padded), branch=unused_name(BRANCH, taken))

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        """Return the least bound of the branches, by position."""
        below = [(b.schema.names, b.bounds(known)) for b in self.branches]
        found = {}
        for position, column_ in enumerate(self.branches[0].schema.columns):
            bounds = [b.get(names[position]) for names, b in below]
            if all(b is not None for b in bounds):
                found[column_.name] = min(b for b in bounds if b is not None)
        return (found,)

    def grouping_columns(self, known: Known) -> frozenset[str]:
        return shared_grouping_columns(self, known)
