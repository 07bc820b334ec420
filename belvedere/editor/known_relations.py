"""Known relations of a script: by name and position, with columns and relationships.

In: the catalog of the last compile, and the relations of earlier ones for names that it could not resolve. Out:
`KnownRelation`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.subscriptions import Subscription
from belvedere.catalog.views import View
from belvedere.errors import Span
from belvedere.schema import Column, Schema, find_named


@dataclass(frozen=True)
class KnownRelation:
    """A relation. `kind` is for display; `home` is the file and the name under which it is defined; `id` is the
    catalog's."""

    id: str
    name: str
    kind: str
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    home: tuple[str, str] = ("", "")
    links: Mapping[str, tuple[Relationship, str]] = field(default_factory=dict)
    """Relationships by folded name, each with the name of its target."""

    def link(self, name: str) -> tuple[Relationship, str] | None:
        """Return the relationship of that name, ignoring case."""
        return self.links.get(name.casefold())

    def column(self, name: str) -> Column | None:
        """Return the column of that name, ignoring case."""
        return find_named(self.schema.columns, name)


class Known:
    """Relations by folded name, each with all its definitions in the order of the script."""

    def __init__(
        self,
        catalog: Catalog,
        file: str,
        earlier: Known | None = None,
        kept: Iterable[str] = (),
        imported: Mapping[str, str] | None = None,
    ):
        """Collect the relations of a catalog and of earlier compiles.

        `kept` are folded names that the text defines. `imported` gives the names of imported relations in the script
        that defines them.
        """
        self.catalog, self.file = catalog, file
        self.functions = {f.name.casefold(): f for f in catalog.functions}
        self.versions: dict[str, list[KnownRelation]] = {}
        links: dict[str, dict[str, tuple[Relationship, str]]] = {}
        for r in catalog.relationships:
            links.setdefault(r.owner, {})[r.name.casefold()] = (r, catalog.name_of(r.target))
        all_made: tuple[Input | View | Subscription, ...] = tuple(catalog.inputs.values())
        all_made += (*catalog.views.values(), *catalog.subscriptions.values())
        for made in all_made:
            if "~imported" not in made.name:
                own = links.get(made.id) or links.get(
                    made.name, {}
                )  # an earlier version has the relationships of its name
                relation = _known(made, file, own, imported or {})
                self.versions.setdefault(made.name.casefold(), []).append(relation)
        for name in kept:  # defined by broken statements: use their last definition
            if earlier is not None and name not in self.versions and name in earlier.versions:
                self.versions[name] = [replace(r, span=None) for r in earlier.versions[name]]

    def __iter__(self) -> Iterator[KnownRelation]:
        """Yield the last definition of each name."""
        return (found[-1] for found in self.versions.values())

    def find(self, name: str, before: int | None = None) -> KnownRelation | None:
        """Return a relation by its name, ignoring case: the last definition, or the last one in this file before an
        offset."""
        found = self.versions.get(name.casefold(), [])
        if before is not None and len(found) > 1:
            above = [r for r in found if r.span is None or r.span.file != self.file or r.span.end <= before]
            found = above or found
        return found[-1] if found else None

    def target(self, relation: KnownRelation, step: str) -> KnownRelation | None:
        """Return the target of a relationship."""
        link = relation.link(step)
        return self.find(link[1]) if link is not None else None


def _known(
    made: Input | View | Subscription,
    file: str,
    links: Mapping[str, tuple[Relationship, str]],
    imported: Mapping[str, str],
) -> KnownRelation:
    return KnownRelation(
        made.id, made.name, _kind(made), made.schema, made.span, made.doc, _home(made, file, imported), links
    )


def _kind(made: Input | View | Subscription) -> str:
    if isinstance(made, Subscription):
        return f"subscription on {made.on.value}"
    if isinstance(made, View):
        return "nested table" if made.parent is not None else "view"
    if made.late_of is not None:
        return "late rows"
    if made.kind is InputKind.IMPORT:
        return "imported table" if made.primary_key else "imported stream"
    return made.kind.value


def _home(made: Input | View | Subscription, file: str, imported: Mapping[str, str]) -> tuple[str, str]:
    """Return the file and name under which a relation is defined. An imported relation is defined in another script,
    perhaps under another name."""
    if made.span is None or made.span.file == file:
        return file, made.name
    return made.span.file, imported.get(made.name.casefold(), made.name.rpartition(".")[2])
