"""Definition of a view: its query as a plan, and the table under which it is nested."""

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
    `sql` is the definition as written, for display; `query` is its tree with resolved names.
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
    """Default order of its rows for readers that request none; it may use hidden columns."""
    query: ResolvedQuery | None = field(default=None, compare=False, repr=False)
