"""Values that a read binds when it runs: the source and the use of each.

In: arguments of a request (`Given`), with their columns or parameters. Out: numbered `BoundValue`s, and the source of
each number. It does not depend on entities, and reads no values of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.api.failures import BAD_VALUE, RequestError
from belvedere.api.limits import Limits
from belvedere.api.reads.argument_values import Fixed, Given, Scalar, ValueSource
from belvedere.catalog.access import Grant
from belvedere.catalog.inputs import Metadata
from belvedere.catalog.templates import Parameter
from belvedere.schema import Column
from belvedere.store.read.cursors import order_mark
from belvedere.store.read.query import BoundRowCondition, BoundValue, Role, StoreQuery
from belvedere.store.read.sources import ordered


@dataclass(frozen=True)
class CursorToDecode:
    """A cursor to decode: its source, its number of values, the mark of its order, and its argument."""

    source: ValueSource
    width: int
    mark: str
    name: str


@dataclass
class BoundValues:
    """The values of one read."""

    limits: Limits
    sources: list[ValueSource] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    cursors: list[CursorToDecode] = field(default_factory=list)
    bounded: list[int] = field(default_factory=list)

    def register(self, source: ValueSource, name: str) -> int:
        """Return the number of a new value with this source."""
        self.sources.append(source)
        self.names.append(name)
        return len(self.sources) - 1

    def parameter(self, given: Given, column: Column, role: Role, name: str) -> BoundValue:
        """Return a scalar argument as a parameter of a column's type."""
        if isinstance(given, Scalar):
            return BoundValue(self.register(given.source, name), column.type, role)
        if isinstance(given, Fixed):
            nullable = role is Role.ARGUMENT
            if given.value is None and not nullable:
                raise RequestError(
                    BAD_VALUE, f"`{name}` must not be null", "write `isNull: true` to find missing values"
                )
            return BoundValue(self.register(("constant", given.value), name), column.type, role, nullable)
        raise RequestError(BAD_VALUE, f"`{name}` takes one value, not a list")

    def limit(self, given: Given | None, name: str) -> tuple[BoundValue | int, ValueSource | int]:
        """Return a list's limit, and its source for the cost estimate: a list without a limit is assumed to be
        short."""
        if isinstance(given, Scalar):
            number = self.register(given.source, name)
            self.bounded.append(number)
            return BoundValue(number, pa.int64(), Role.LIMIT), given.source
        return self.limits.rows, self.limits.assumed_rows

    def offset(self, given: Given | None) -> BoundValue | None:
        if isinstance(given, Scalar):
            return BoundValue(self.register(given.source, "offset"), pa.int64(), Role.OFFSET)
        return None

    def cursor(self, query: StoreQuery, given: Given | None, name: str) -> tuple[BoundValue, ...] | None:
        """Return the values of a cursor; they are decoded when the plan is bound."""
        if not isinstance(given, Scalar):
            return None
        sorts = ordered(query)
        self.cursors.append(CursorToDecode(given.source, len(sorts), order_mark(query, sorts), name))
        which = len(self.cursors) - 1
        columns = [query.schema.find(s.column) for s in sorts]
        numbers = [self.register(("cursor", which, n), name) for n in range(len(sorts))]
        types = [pa.string() if c is None else c.type for c in columns]
        return tuple(BoundValue(n, t, Role.CURSOR, nullable=True) for n, t in zip(numbers, types, strict=True))

    def arguments(
        self, of: str, parameters: Mapping[str, Parameter], arguments: Mapping[str, Given]
    ) -> tuple[tuple[str, BoundValue], ...]:
        """Return the values of the parameters of a template or relationship."""
        given = {n: _given_or_default(arguments, n, p) for n, p in parameters.items() if p.metadata is None}
        return tuple((p.name, self._argument(of, p, given.get(n), n)) for n, p in parameters.items())

    def row_conditions(self, grant: Grant | None) -> dict[str, BoundRowCondition | None] | None:
        """Return the row conditions of a role by relation: its claims are further values of the read."""
        if grant is None:
            return None
        known: dict[tuple[Metadata | None, pa.DataType], BoundValue] = {}
        row_conditions: dict[str, BoundRowCondition | None] = dict.fromkeys(grant.relations)
        for relation, rows in grant.row_conditions.items():
            for p in rows.parameters:
                if (p.metadata, p.type) not in known:
                    number = self.register(("claimed", p), p.name)
                    known[p.metadata, p.type] = BoundValue(number, p.type, Role.ARGUMENT, nullable=True)
            arguments = tuple((p.name, known[p.metadata, p.type]) for p in rows.parameters)
            row_conditions[relation] = BoundRowCondition(rows.condition, rows.schema, arguments)
        return row_conditions

    def _argument(self, of: str, parameter: Parameter, given: Given | None, name: str) -> BoundValue:
        """Return the value of a parameter, from the caller's arguments or from the caller's token."""
        if given is None:
            return BoundValue(self.register(("claim", of, parameter), name), parameter.type, Role.ARGUMENT)
        return self.parameter(given, Column(parameter.name, parameter.type, parameter.nullable), Role.ARGUMENT, name)


def _given_or_default(arguments: Mapping[str, Given], name: str, parameter: Parameter) -> Given:
    """Return a template's argument. Rejects null for a parameter with a default, as the GraphQL specification
    requires."""
    given = arguments.get(name, Fixed(parameter.default))
    if isinstance(given, Fixed) and given.value is None and parameter.default is not None:
        raise RequestError(BAD_VALUE, f"`{name}` must not be null", "omit it to use its default")
    return given
