"""Query templates, and the parameters of templates and relationships."""

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
    """Value if the caller passes none, in the input form of clients; None: the parameter is required."""
    metadata: Metadata | None = None
    """Claim of the caller's token that gives the value; then clients cannot pass it."""


@dataclass(frozen=True)
class RowParameter:
    """A parameter of a relationship that the owner's row gives: the value of `column`."""

    parameter: Parameter
    column: str


@dataclass(frozen=True)
class QueryTemplate:
    """A registered query. `plan` holds `exp.Placeholder`s for its parameters. A SELECT without a name gets a generated
    `name`."""

    name: str
    parameters: tuple[Parameter, ...]
    plan: Node
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    sql: str = ""
    events: bool = False
    """Whether its rows are events of the subscription of the same name."""
    is_named: bool = True
    """Whether the script gives its name."""
    owner: str = ""
    """Id of the relation for each of whose rows it is answered: a relationship with parameters that computes rows."""
    row: tuple[RowParameter, ...] = ()
    """Parameters whose values are in the owner's row."""

    @property
    def title(self) -> str:
        """Return its kind and name, for messages."""
        return f'{"relationship" if self.owner else "query template"} "{self.name}"'

    @property
    def field(self) -> str:
        """Return its name without that of its owner."""
        return self.name.rpartition(".")[2] if self.owner else self.name

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of requests, and those of the owner's row."""
        return (*self.parameters, *(r.parameter for r in self.row))
