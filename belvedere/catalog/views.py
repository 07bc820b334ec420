"""A view as it is defined: its query as a plan, and where it is nested."""

from __future__ import annotations

from dataclasses import dataclass, field

from belvedere.catalog.resolved_query import ResolvedQuery
from belvedere.errors import Span
from belvedere.plan.operators.nodes import Node, Order
from belvedere.schema import Schema


@dataclass(frozen=True)
class View:
    """A maintained query. `plan` carries its key (`belvedere.plan.rewrites.keys.carry_keys`); `schema` is the plan's.

    `parent` is the id of the table under which it is nested (then `parent_key` pairs its columns with the parent's).
    `sql` is the definition as written, for people; `query` is the same with what its names mean.
    """

    id: str
    name: str
    plan: Node
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    parent: str | None = None
    parent_key: tuple[tuple[str, str], ...] = ()
    sql: str = ""
    order: tuple[Order, ...] = ()
    """The order of its rows where a reader says no other: by its columns, hidden ones too."""
    query: ResolvedQuery | None = field(default=None, compare=False, repr=False)
