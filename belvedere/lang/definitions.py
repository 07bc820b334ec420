"""What the script has defined so far: relations by name and version, and their relationships.

In: definitions, one after another. Out: look-ups for the next statement, and at the end ids as the catalog has them (the last
definition of a name has the name itself as id, earlier ones `Name~1`, `Name~2`). While compiling, every id is `Name~n`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlglot import exp

from belvedere.catalog import Input, Subscription, View
from belvedere.errors import BelvedereError, Span, fail
from belvedere.lang.names import did_you_mean
from belvedere.plan.nodes import Expr, Order
from belvedere.schema import Schema

OWNER = "_"
TARGET = "target"


@dataclass(frozen=True)
class RelationshipDefinition:
    """A named join. Conditions and order name columns `_.column` (the owner's) and `target.column`."""

    name: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    residual: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    span: Span | None = None
    doc: str | None = None
    alias: str = ""


@dataclass(frozen=True)
class NamedRelation:
    """One version of a named relation, with the relationships that start from it (by folded name)."""

    id: str
    name: str
    schema: Schema
    relationships: dict[str, RelationshipDefinition] = field(default_factory=dict)
    parent: str | None = None
    """The name of the table under which this one is nested."""
    parent_key: tuple[tuple[str, str], ...] = ()
    query: exp.Expr | None = None
    """Its definition in standard SQL, for `explain --sql`; None for inputs."""
    span: Span | None = None

    def relationship(self, name: str) -> RelationshipDefinition | None:
        """The relationship of that name, whatever its case."""
        return self.relationships.get(name.casefold())


class Definitions:
    """Grows statement by statement."""

    def __init__(self) -> None:
        self.relations: dict[str, NamedRelation] = {}
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.versions: dict[str, list[str]] = {}
        self.histories: dict[str, int | None] = {}
        """Which relations keep their history, and for how many microseconds (None: always)."""
        self.broken: set[str] = set()
        self.origins: dict[str, tuple[Path, str]] = {}
        """Where imported relations were defined: the script and the id there."""
        self.foreign: set[str] = set()
        """Names that another script defined: it alone may show them, not this one, unless they were imported by name."""

    def __iter__(self) -> Iterator[NamedRelation]:
        """The current version of every relation."""
        return (self.relations[ids[-1]] for ids in self.versions.values())

    @property
    def names(self) -> list[str]:
        """The names that a FROM clause may use."""
        return [r.name for r in self]

    def new_id(self, name: str) -> str:
        """The id of the next version of a name."""
        return f"{name}~{len(self.versions.get(name.casefold(), ())) + 1}"

    def add(self, relation: NamedRelation) -> None:
        """Make this version the current one."""
        self.relations[relation.id] = relation
        self.versions.setdefault(relation.name.casefold(), []).append(relation.id)
        self.broken.discard(relation.name.casefold())

    def relate(self, owner: NamedRelation, relationship: RelationshipDefinition) -> None:
        """Add a relationship to the current version of a relation."""
        relations = {**owner.relationships, relationship.name.casefold(): relationship}
        self.relations[owner.id] = replace(owner, relationships=relations)

    def find(self, name: str) -> NamedRelation | None:
        """The current version of a name (nested tables have dotted names), whatever its case."""
        ids = self.versions.get(name.casefold())
        return self.relations[ids[-1]] if ids else None

    def latest(self, relation: NamedRelation) -> NamedRelation:
        """What the name of a relation means now."""
        return self.find(relation.name) or relation

    def get(self, name: str, span: Span | None = None) -> NamedRelation:
        """The current version, or a name error with the nearest name. Silent where the name's own definition was refused."""
        found = self.find(name)
        if found is not None:
            return found
        if name.casefold() in self.broken:
            raise BelvedereError(())
        raise fail("B2001", f"table `{name}` is not defined", span=span, hint=did_you_mean(name, self.names))

    def final_ids(self) -> dict[str, str]:
        """Compile-time id -> the catalog's id."""
        result = {}
        for ids in self.versions.values():
            name = self.relations[ids[-1]].name
            for n, id_ in enumerate(ids, 1):
                result[id_] = name if n == len(ids) else f"{name}~{n}"
        return result
