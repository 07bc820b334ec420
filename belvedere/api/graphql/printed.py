"""The GraphQL schema of a script as text, for generators of clients, checks of queries, and plugins of editors.

In: a catalog, the project, a role. Out: SDL, as a server of the script answers to introspection. Reads no store.
"""

from __future__ import annotations

from graphql import print_schema

from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import limits_of
from belvedere.api.reads.entities import model_of
from belvedere.api.reads.seen_catalog import seen_catalog
from belvedere.catalog import Catalog
from belvedere.settings import ProjectSettings


def printed_schema(catalog: Catalog, project: ProjectSettings, role: str | None = None) -> str:
    """The schema, or what a role sees of it. Raises KeyError for a role that the project does not have."""
    seen = catalog if role is None else seen_catalog(catalog, catalog.grants[role])
    return print_schema(schema_of(model_of(seen), limits_of(project.api)))
