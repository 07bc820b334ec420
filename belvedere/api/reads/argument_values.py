"""Argument values of an operation, with the source of each scalar in place of the scalar.

In: value nodes of a parsed operation and the request's variables. Out: trees of `Given` values. The source of a literal
is its number in the text, that of a variable its path. So the plan made from a tree serves all requests of the same
shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    BooleanValueNode,
    EnumValueNode,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    ValueNode,
    VariableNode,
)

from belvedere.api.limits import Limits, too_many_values

ValueSource = tuple[Any, ...]
"""Source of a scalar: ("literal", number), ("variable", name, step, step ...) or ("claim", template, parameter)."""


@dataclass(frozen=True)
class Scalar:
    """A scalar that is bound when the plan runs."""

    source: ValueSource


@dataclass(frozen=True)
class Fixed:
    """A value that is part of the plan: a boolean, an enum's name, a default of the script, or None for null."""

    value: bool | int | float | str | None


Given = Scalar | Fixed | dict[str, Any] | list[Any]


class ArgumentValues:
    """Reads the argument values of one operation, at most `limits.values`, since a variable may be used many times.

    `literals` maps a literal's offset in the text to its number.
    """

    def __init__(
        self,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
        literals: Mapping[int, int],
        limits: Limits,
    ):
        self._limits = limits
        self._read = 0
        self._defaults = {d.variable.name.value: d.default_value for d in operation.variable_definitions or ()}
        self._variables = variables
        self._literals = literals

    def read(self, node: ValueNode) -> Given | None:
        """Return the value of a node; None for an absent variable without default, as if the argument were not
        written."""
        self._count()
        if isinstance(node, VariableNode):
            return self._variable(node.name.value)
        if isinstance(node, NullValueNode):
            return Fixed(None)
        if isinstance(node, BooleanValueNode | EnumValueNode):
            return Fixed(node.value)
        if isinstance(node, ListValueNode):
            return [v for v in map(self.read, node.values) if v is not None]
        if isinstance(node, ObjectValueNode):
            given = ((f.name.value, self.read(f.value)) for f in node.fields)
            return {name: value for name, value in given if value is not None}
        assert node.loc is not None
        return Scalar(("literal", self._literals[node.loc.start]))

    def _variable(self, name: str) -> Given | None:
        if name in self._variables:
            return self._given(self._variables[name], ("variable", name))
        default = self._defaults.get(name)
        return None if default is None else self.read(default)

    def _given(self, value: Any, path: ValueSource) -> Given:
        self._count()
        if value is None or isinstance(value, bool):
            return Fixed(value)
        if isinstance(value, dict):
            return {k: self._given(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._given(v, (*path, i)) for i, v in enumerate(value)]
        return Scalar(path)

    def _count(self) -> None:
        self._read += 1
        if self._read > self._limits.values:
            raise too_many_values(self._limits)

    def scalar(self, given: Scalar) -> Any:
        """Return the value of a scalar in a variable."""
        return look_up(given.source, [], self._variables)

    def boolean(self, node: ValueNode) -> bool:
        """Return the value of a directive's condition, which is part of the plan."""
        found = self.read(node)
        return isinstance(found, Fixed) and found.value is True


def look_up(source: ValueSource, literals: list[Any], variables: Mapping[str, Any]) -> Any:
    """Return the scalar of a source in one request."""
    if source[0] == "literal":
        return literals[source[1]]
    if source[0] == "constant":
        return source[1]
    value: Any = variables
    for step in source[1:]:
        value = value[step]
    return value


def shape(value: Any, whole: bool = False) -> Any:
    """Return the part of a variable's value that decides the plan: its structure, nulls and booleans; with `whole` also
    its strings (enums).
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return ("enum", value) if whole else "string"
    if isinstance(value, dict):
        return ("object", *((k, shape(v, whole)) for k, v in value.items()))
    if isinstance(value, list):
        return ("list", *(shape(v, whole) for v in value))
    return type(value).__name__


def leaves(given: Given | None) -> Iterator[Scalar]:
    """Return all scalars in a value."""
    if isinstance(given, Scalar):
        yield given
    elif isinstance(given, dict):
        for value in given.values():
            yield from leaves(value)
    elif isinstance(given, list):
        for value in given:
            yield from leaves(value)
