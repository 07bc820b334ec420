"""Rights and visible data of callers by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from belvedere.catalog.templates import Parameter
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import Schema


class Right(StrEnum):
    """The rights of callers."""

    READ = "read"
    PUSH = "push"
    STATUS = "status"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True)
class RowCondition:
    """Which rows of a relation a role may see. `condition` is over its columns, which `schema` has; `parameters` are the claims of the
    caller's token in it.
    """

    condition: Expr
    schema: Schema
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class Grant:
    """The rights of a role and the data that it sees (`[roles.NAME]` of the project file); everything else is denied."""

    role: str
    rights: frozenset[Right] = frozenset((Right.READ,))
    relations: frozenset[str] = frozenset()
    """The ids of inputs, views and subscriptions that they may read."""
    templates: frozenset[str] = frozenset()
    pushes: frozenset[str] = frozenset()
    """The ids of inputs that they may push to."""
    hidden: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns of these relations that are not there for them, by id."""
    row_conditions: Mapping[str, RowCondition] = field(default_factory=dict)
    """Conditions that restrict the visible rows, by relation."""


@dataclass(frozen=True)
class Access:
    """The grants of all roles, or the one that a catalog is seen by."""

    grants: Mapping[str, Grant] = field(default_factory=dict)
    """Grants by the role's name."""
    grant: Grant | None = None
    """The role for which this is all that there is (`belvedere.api.reads.role_view`); None: for everybody."""
