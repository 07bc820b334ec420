"""Query templates, and the parameters that they and relationships have."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.catalog.inputs import Metadata
from belvedere.errors import Span
from belvedere.plan.operators.nodes import Node
from belvedere.schema import Schema


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query template or relationship; `:name` in the query is `exp.Placeholder(this=name)`."""

    name: str
    type: pa.DataType
    nullable: bool = False
    default: bool | int | float | str | None = None
    """Value if the caller passes none, in the form in which a client would write it; None: the parameter is required.
    """
    metadata: Metadata | None = None
    """The claim of the caller's token that it is; then no client gives it."""


@dataclass(frozen=True)
class QueryTemplate:
    """A registered query: `plan` holds `exp.Placeholder`s for its parameters. `name` is made up for a nameless SELECT."""

    name: str
    parameters: tuple[Parameter, ...]
    plan: Node
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    sql: str = ""
    events: bool = False
    """Whether its rows are events of the subscription of its name."""
    is_named: bool = True
    """Whether the script gives it its name."""
