"""Definitions of the script so far: relations by name and version, and their relationships.

In: definitions, one after another. Out: look-ups for the next statement, and at the end ids as in the catalog. The last
definition of a name has the name itself as id, earlier ones `Name~1`, `Name~2`. While compiling, every id is `Name~n`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from belvedere.catalog.inputs import Input
from belvedere.catalog.relationships import TARGET, Relationship, relationship_column
from belvedere.catalog.subscriptions import Subscription
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions.project_functions import OwnFunction
from belvedere.schema import OWN_TABLES, Schema
from belvedere.syntax.wording import did_you_mean


@dataclass(frozen=True)
class NamedRelation:
    """One version of a named relation, with the relationships that start from it (by folded name)."""

    id: str
    name: str
    schema: Schema
    relationships: dict[str, Relationship] = field(default_factory=dict)
    parent: str | None = None
    """Name of the table under which this one is nested."""
    parent_key: tuple[tuple[str, str], ...] = ()
    span: Span | None = None
    sealed: frozenset[str] = frozenset()
    """Private columns from another script: they exist, but queries here may not name them."""
    grows: str | None = None
    """Id of the version on which this one is based: with an added column, a redefined one, or made distinct."""
    overrides: str | None = None
    """Column of that version that this one redefines."""

    def relationship(self, name: str) -> Relationship | None:
        """Return the relationship of that name, ignoring case."""
        return self.relationships.get(name.casefold())


class BrokenNames(set[str]):
    """Folded names whose definitions were rejected. `all`: any name may be one of them, since `IMPORT x.*` found
    nothing."""

    all = False

    def __contains__(self, name: object) -> bool:
        return self.all or super().__contains__(name)


class Definitions:
    """All definitions, extended by each statement."""

    def __init__(self) -> None:
        self.relations: dict[str, NamedRelation] = {}
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.versions: dict[str, list[str]] = {}
        self.histories: dict[str, int | None] = {}
        """Retention of the history of relations by id, in microseconds (None: no limit)."""
        self.broken = BrokenNames()
        self.lines: dict[str, int] = {}
        """Line of the script in which a folded name is first defined, including later definitions."""
        self.origins: dict[str, tuple[Path, str]] = {}
        """Origin of imported relations: the script and the id there."""
        self.namespaces: dict[str, str] = {}
        """Names under which other scripts and sources were imported, by folded name."""
        self.templates: dict[str, QueryTemplate] = {}
        """Query templates of a script that others import, by name, once the script is lowered."""
        self.computed: dict[str, QueryTemplate] = {}
        """Relationships with parameters that compute rows, by folded name with the owner's."""
        self.functions: Mapping[str, OwnFunction] = {}
        """Functions of the project, by folded name."""

    def copy(self) -> Definitions:
        """Return an independent copy."""
        made = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(made, name, dict(value))
        made.versions = {name: list(ids) for name, ids in self.versions.items()}
        made.broken = BrokenNames(self.broken)
        made.broken.all = self.broken.all
        return made

    def __iter__(self) -> Iterator[NamedRelation]:
        """Yield the current version of every relation."""
        return (self.relations[ids[-1]] for ids in self.versions.values())

    @property
    def names(self) -> list[str]:
        """Return the names that a FROM clause may use."""
        return [r.name for r in self]

    def new_id(self, name: str) -> str:
        """Return the id of the next version of a name."""
        return f"{name}~{len(self.versions.get(name.casefold(), ())) + 1}"

    def define(
        self,
        made: Input | View | Subscription,
        relationships: Mapping[str, Relationship] | None = None,
        sealed: frozenset[str] = frozenset(),
        grows: str | None = None,
        overrides: str | None = None,
    ) -> NamedRelation:
        """Add a new version of a name: an input, a view or a subscription. Names of the store's own tables are
        rejected."""
        if made.span is not None and made.name.casefold().startswith(OWN_TABLES):
            hint = f"names that begin with `{OWN_TABLES}` are reserved for the store"
            raise fail("B2012", f"a relation cannot be called `{made.name}`", span=made.span, hint=hint)
        if made.name.casefold() in self.namespaces:
            message = f"`{made.name}` is the name of an import's namespace"
            raise fail("B2013", message, span=made.span, hint="give one of them another name")
        parent: str | None = None
        pairs: tuple[tuple[str, str], ...] = ()
        if isinstance(made, Input):
            self.inputs[made.id] = made
        elif isinstance(made, Subscription):
            self.subscriptions[made.id] = made
        else:
            self.views[made.id] = made
            parent = self.relations[made.parent].name if made.parent is not None else None
            pairs = made.parent_key
        relation = NamedRelation(
            made.id,
            made.name,
            made.schema,
            dict(relationships or {}),
            parent,
            pairs,
            made.span,
            sealed,
            grows,
            overrides,
        )
        self.relations[made.id] = relation
        self.versions.setdefault(made.name.casefold(), []).append(made.id)
        self.broken.discard(made.name.casefold())
        return relation

    def relate(self, relationship: Relationship) -> None:
        """Add a relationship to its owner."""
        owner = self.relations[relationship.owner]
        relations = {**owner.relationships, relationship.name.casefold(): relationship}
        self.relations[owner.id] = replace(owner, relationships=relations)

    def computed_of(self, relation: NamedRelation, name: str) -> QueryTemplate | None:
        """Return the relationship of that name that computes rows for parameters, if it is of this definition."""
        found = self.computed.get(f"{relation.name}.{name}".casefold())
        return found if found is not None and self.is_computed_for(found, relation) else None

    def is_computed_for(self, template: QueryTemplate, relation: NamedRelation) -> bool:
        """Return whether a relationship that computes rows belongs to this definition of its owner's name."""
        owner = self.relations.get(template.owner or "")
        return owner is not None and self.with_columns_of(owner).id == self.with_columns_of(relation).id

    def target_of(self, relationship: Relationship) -> NamedRelation:
        """Return the target of a relationship: the definition that it saw, with the columns added since."""
        then = self.relations[relationship.target]
        return self.with_columns_of(then, relationship.columns_of(TARGET) | {t for _, t in relationship.pairs})

    def with_columns_of(self, relation: NamedRelation, fixed: Container[str] = ()) -> NamedRelation:
        """Return a version of a name with the columns added later, up to a version that redefines a `fixed` column.

        A later definition of the name is another table.
        """
        for id_ in self.versions.get(relation.name.casefold(), ()):
            version = self.relations[id_]
            if version.grows == relation.id and version.overrides not in fixed:
                relation = version
        return relation

    def as_seen(self, relationship: Relationship) -> Relationship:
        """Return the relationship with its present target, and the target's order if it has none."""
        target = self.target_of(relationship).id
        view, order = self.views.get(target), relationship.order
        if not order and view is not None:
            order = tuple(replace(o, expr=relationship_column(TARGET, o.expr.name)) for o in view.order)
        return replace(relationship, target=target, order=order)

    def steps(self, relation: NamedRelation, names: Iterable[str]) -> list[Relationship]:
        """Return the relationships that names follow from a relation, up to the first name that is not one."""
        found: list[Relationship] = []
        for name in names:
            step = self.relations[relation.id].relationship(name)
            if step is None:
                break
            found.append(self.as_seen(step))
            relation = self.relations[found[-1].target]
        return found

    def find(self, name: str) -> NamedRelation | None:
        """Return the current version of a name (nested tables have dotted names), ignoring case."""
        ids = self.versions.get(name.casefold())
        return self.relations[ids[-1]] if ids else None

    def missing(self, name: str, candidates: Iterable[str]) -> str | None:
        """Return a hint for a name that is not defined here."""
        line = self.lines.get(name.casefold())
        if line is not None:
            return f"`{name}` is defined later, in line {line}: a definition can only use earlier ones"
        return did_you_mean(name, candidates)

    def get(self, name: str, span: Span | None = None) -> NamedRelation:
        """Return the current version. Raises a name error with the nearest name, without a message if the name's own
        definition was rejected."""
        found = self.find(name)
        if found is not None:
            return found
        if name.casefold() in self.broken:
            raise BelvedereError(())
        raise fail("B2001", f"table `{name}` is not defined", span=span, hint=self.missing(name, self.names))

    def final_ids(self) -> dict[str, str]:
        """Return compile-time id -> the catalog's id."""
        result = {}
        for ids in self.versions.values():
            name = self.relations[ids[-1]].name
            for n, id_ in enumerate(ids, 1):
                result[id_] = name if n == len(ids) else f"{name}~{n}"
        return result
