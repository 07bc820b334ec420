"""The values of a statement: markers in its text while it is printed, then the values to bind in the driver's form.

In: `BoundValue`s. Out: a `ParameterizedSql`. It does not interpret the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.store.dialects.dialect import Dialect
from belvedere.store.read.query import BoundValue, Role
from belvedere.store.read.stored_values import Convert, converter

_MARKER = re.compile("\0(\\d+)\0")


@dataclass(frozen=True)
class ParameterizedSql:
    """SQL and its parameters: one per placeholder, in order."""

    sql: str
    parameters: tuple[BoundValue, ...]
    converters: tuple[tuple[int, Convert], ...]

    def bind(self, values: Sequence[Any]) -> list[Any]:
        """Return the stored forms of a request's values.

        A `ValueError` has the number of the value as its second argument.
        """
        bound = []
        for number, convert in self.converters:
            try:
                bound.append(convert(values[number]))
            except ValueError as error:
                raise ValueError(str(error), number) from None
        return bound


@dataclass
class Parameters:
    """The values that a text contains so far."""

    dialect: Dialect
    parameters: dict[BoundValue, int] = field(default_factory=dict)

    def finish(self, text: str) -> ParameterizedSql:
        """Replace the markers by placeholders in the driver's form."""
        parameters, order = list(self.parameters), list[BoundValue]()

        def place(found: re.Match[str]) -> str:
            order.append(parameters[int(found[1])])
            return self.dialect.marker(len(order))

        sql = _MARKER.sub(place, text)
        converters = tuple((p.number, converter(p, self.dialect)) for p in order)
        return ParameterizedSql(sql, tuple(order), converters)

    def marker(self, parameter: BoundValue) -> str:
        return f"\0{self.parameters.setdefault(parameter, len(self.parameters))}\0"

    def value(self, parameter: BoundValue) -> str:
        """Return a parameter in the form that compares with a column of its type."""
        form = self.dialect.from_stored_text if parameter.role is Role.CURSOR else self.dialect.bound
        return form(self.marker(parameter), pa.string() if parameter.role is Role.MEMBER else parameter.type)
