"""Costs of a request, estimated before it is read: fields times rows.

In: the parts of a query. Out: `Cost`s, which `belvedere.api.graphql.operations` adds up for the values of a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from belvedere.api.limits import Limits
from belvedere.api.reads.argument_values import ValueSource
from belvedere.store.read.query import Condition, Every, Exists, Negation, Some


@dataclass(frozen=True)
class Cost:
    """The cost of one query: fields for each of its rows."""

    fields: int
    limit: ValueSource | int
    nested: tuple[Cost, ...] = ()


def asked_costs(condition: Condition | None, limits: Limits) -> tuple[Cost, ...]:
    """Return the cost that a filter on related rows adds for each row."""
    return () if condition is None else tuple(_asked(condition, limits))


def _asked(condition: Condition, limits: Limits) -> Iterator[Cost]:
    if isinstance(condition, Exists):
        rows = 1 if condition.query.limit == 1 else limits.assumed_rows
        yield Cost(1, rows, asked_costs(condition.query.where, limits))
    elif isinstance(condition, Negation):
        yield from _asked(condition.part, limits)
    elif isinstance(condition, Every | Some):
        for part in condition.parts:
            yield from _asked(part, limits)
