"""The resolved definitions of a script: inputs, views, relationships, templates, subscriptions, exports.

In: nothing below the plan. Out: immutable values that the compiler creates once and all other packages read.

**Ids and names.** A script may redefine a name, so every definition has its own `id`. The last definition of a name has
the name itself as its id; earlier ones have `Name~1`, `Name~2` ... A plan's `Scan` refers to ids. Names are shown as
written; look-ups ignore case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.catalog.access import Access
from belvedere.catalog.hints import Hints
from belvedere.catalog.inputs import Input
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.subscriptions import Export, Subscription
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.view_placement import ViewPlacement
from belvedere.catalog.views import View
from belvedere.functions.project_functions import OwnFunction
from belvedere.schema import Schema


@dataclass(frozen=True)
class Catalog:
    """All definitions of a script. Mappings keep the order of definition; their keys are ids (names for templates)."""

    inputs: Mapping[str, Input] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    relationships: tuple[Relationship, ...] = ()
    templates: Mapping[str, QueryTemplate] = field(default_factory=dict)
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    exports: tuple[Export, ...] = ()
    public: frozenset[str] = frozenset()
    """Ids of relations that the API shows and the store therefore holds: the last definition of every public name."""
    unlisted: frozenset[str] = frozenset()
    """Ids of relations without their own endpoint. They are served through templates and relationships that
    read them."""
    histories: Mapping[str, int | None] = field(default_factory=dict)
    """Retention of former versions (WITH HISTORY) by id, in microseconds; None = no limit."""
    functions: tuple[OwnFunction, ...] = ()
    """Functions of the project, which queries may call."""
    database: str | None = None
    """Kind of database of the store (`sqlite`, `postgres`): the compiler rejects what it cannot compute. None if
    unknown; then any database is possible."""
    hints: Hints = field(default_factory=Hints)
    """Hints on single relations."""
    placement: ViewPlacement = field(default_factory=ViewPlacement)
    """Views that the store computes at read time."""
    access: Access = field(default_factory=Access)
    """Grants of roles."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the names of the API's endpoints: public relations and query templates, in a fixed order."""
        return tuple(sorted({*self.public, *(t.name for t in self.templates.values())}))

    def schema_of(self, relation: str) -> Schema:
        """Return the schema of an input, view or subscription by its id."""
        found = self.inputs.get(relation) or self.views.get(relation) or self.subscriptions[relation]
        return found.schema

    def name_of(self, relation: str) -> str:
        """Return the name of an input, view or subscription as spelled in the script."""
        found = self.inputs.get(relation) or self.views.get(relation) or self.subscriptions[relation]
        return found.name

    def late_of(self, table: str) -> Input | None:
        """Return the input that holds the late rows of an input; None if there is none."""
        return next((t for t in self.inputs.values() if t.late_of == table), None)

    def find(self, name: str) -> str | None:
        """Return the id of the last definition of a name, ignoring case; None if it is not defined."""
        ids = (*self.inputs, *self.views, *self.subscriptions)
        return next((i for i in ids if i == name), None) or next(
            (i for i in ids if i.casefold() == name.casefold()), None
        )


def pushed_inputs(catalog: Catalog) -> dict[str, Input]:
    """Return the inputs without a source, by id. Clients push rows to them."""
    pushes = catalog.inputs.keys() if catalog.access.grant is None else catalog.access.grant.pushes
    return {i: t for i, t in catalog.inputs.items() if t.source is None and t.late_of is None and i in pushes}
