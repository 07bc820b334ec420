"""Rights and visible data of callers by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from belvedere.catalog.templates import Parameter
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import Schema


class Right(StrEnum):
    """Actions that a role may be allowed to perform."""

    READ = "read"
    PUSH = "push"
    STATUS = "status"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True)
class RowCondition:
    """Condition on the rows of a relation that a role may see.

    `condition` is an expression over the columns of `schema`. `parameters` are its parameters; their values are claims
    of the caller's token.
    """

    condition: Expr
    schema: Schema
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class Grant:
    """Rights and visible data of a role (`[roles.NAME]` of the project file); everything else is denied."""

    role: str
    rights: frozenset[Right] = frozenset((Right.READ,))
    relations: frozenset[str] = frozenset()
    """Ids of inputs, views and subscriptions that the role may read."""
    templates: frozenset[str] = frozenset()
    pushes: frozenset[str] = frozenset()
    """Ids of inputs that the role may push to."""
    hidden: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Columns hidden from the role, by id of the relation."""
    row_conditions: Mapping[str, RowCondition] = field(default_factory=dict)
    """Conditions that restrict the visible rows, by relation."""


@dataclass(frozen=True)
class Access:
    """Grants of all roles, or of the one role for which a catalog is restricted."""

    grants: Mapping[str, Grant] = field(default_factory=dict)
    """Grants by the role's name."""
    grant: Grant | None = None
    """Grant of the role to which the catalog is restricted (`belvedere.api.reads.role_view`); None if it is not
    restricted."""
