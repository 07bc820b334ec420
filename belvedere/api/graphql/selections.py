"""Selections of a request, field by field, independent of the request's syntax.

In: selection sets of a validated GraphQL operation, its fragments and values. Out: `Selection`s, which other front ends
can create as well: fragments are expanded, `@skip` and `@include` applied, arguments read. It does not use the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    SelectionNode,
    SelectionSetNode,
)

from belvedere.api.reads.argument_values import ArgumentValues, Given


@dataclass(frozen=True)
class Selection:
    """A selected field of the model: its name, its `alias` in the answer, its arguments and its own selections."""

    alias: str
    name: str
    arguments: Mapping[str, Given] = field(default_factory=dict)
    fields: tuple[Selection, ...] = ()
    node: Any = None
    """Node of the GraphQL text, for messages."""


@dataclass
class SelectionReader:
    """Reads the selections of one operation."""

    values: ArgumentValues
    fragments: Mapping[str, FragmentDefinitionNode]

    def read(self, sets: Iterable[SelectionSetNode | None]) -> tuple[Selection, ...]:
        """Return the selections of selection sets."""
        return tuple(self._selection(alias, nodes) for alias, nodes in self.collect(sets).items())

    def _selection(self, alias: str, nodes: list[FieldNode]) -> Selection:
        fields = self.read(n.selection_set for n in nodes)
        return Selection(alias, nodes[0].name.value, self.arguments(nodes[0]), fields, nodes[0])

    def collect(self, sets: Iterable[SelectionSetNode | None]) -> dict[str, list[FieldNode]]:
        """Return the fields of selection sets by response key."""
        result: dict[str, list[FieldNode]] = {}
        for selections in sets:
            seen: set[str] = set()
            for node in self._spread(selections, seen):
                result.setdefault((node.alias or node.name).value, []).append(node)
        return result

    def _spread(self, selections: SelectionSetNode | None, seen: set[str]) -> Iterator[FieldNode]:
        for node in () if selections is None else selections.selections:
            if not self._is_included(node):
                continue
            if isinstance(node, FieldNode):
                yield node
            elif isinstance(node, InlineFragmentNode):
                yield from self._spread(node.selection_set, seen)
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                seen.add(node.name.value)
                yield from self._spread(self.fragments[node.name.value].selection_set, seen)

    def _is_included(self, node: SelectionNode) -> bool:
        said = ((d.name.value, self.values.boolean(a.value)) for d in node.directives or () for a in d.arguments or ())
        return all(value is not (name == "skip") for name, value in said)

    def arguments(self, node: FieldNode) -> dict[str, Given]:
        """Return the arguments of a field that the request gives."""
        read = ((a.name.value, self.values.read(a.value)) for a in node.arguments or ())
        return {name: value for name, value in read if value is not None}
