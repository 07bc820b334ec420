"""`[roles.NAME]` of the project file: what callers with a role may see and do.

In: a table of the file. Out: `RoleSettings`, with names and conditions as written. The compiler checks them against the
script (`belvedere.lang.endpoints.grants`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.errors import Span
from belvedere.project.setting_rules import Requirement

RIGHTS = ("read", "push", "status", "admin")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, str) and n for n in value)


def are_rights(value: Any) -> bool:
    """Return whether a value is a list of rights."""
    return isinstance(value, list) and all(r in RIGHTS for r in value)


def _are_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_names, value.values()))


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


RIGHTS_RULE = Requirement('a list of "read", "push", "status" and "admin"', are_rights)
ROLE_RULES: Mapping[str, Requirement] = {
    "rights": RIGHTS_RULE,
    "views": Requirement(
        'a list of names of views, tables, query templates and subscriptions, such as ["Orders"]', _are_names
    ),
    "pushes": Requirement('a list of names of inputs, such as ["Orders"]', _are_names),
    "hidden": Requirement('a table of lists of columns: Orders = ["price"]', _are_lists),
    "rows": Requirement("a table of conditions: Orders = \"tenant = claim('tenant')\"", _are_texts),
}


@dataclass(frozen=True)
class RoleSettings:
    """A role.

    `places` has the positions of names in the file: by `views`, `pushes`, `hidden` or `rows`, and the names below.
    """

    name: str
    rights: tuple[str, ...] | None = None
    views: tuple[str, ...] = ()
    pushes: tuple[str, ...] = ()
    hidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[tuple[str, ...], Span] = field(default_factory=dict)

    def place(self, *names: str) -> Span | None:
        """Return the position of a name; if it is unknown, that of the role's section."""
        return self.places.get(names) or self.places.get(())
