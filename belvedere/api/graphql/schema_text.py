"""The GraphQL schema of a script as text, for code generators, query checks and editor plugins.

In: a catalog, the project, a role. Out: SDL, equal to what a server of the script returns to introspection. It reads no
store.
"""

from __future__ import annotations

import json

from graphql import print_schema

from belvedere.api.graphql.type_policies import type_policies
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import limits_of
from belvedere.api.reads.entities import Model, model_of
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.catalog.catalog import Catalog
from belvedere.project.settings import ProjectSettings


def printed_schema(catalog: Catalog, project: ProjectSettings, role: str | None = None) -> str:
    """Return the schema, or the part that a role sees. Raises KeyError for a role that the project lacks."""
    return print_schema(schema_of(_model(catalog, role), limits_of(project.api)))


def printed_policies(catalog: Catalog, project: ProjectSettings, role: str | None = None) -> str:
    """Return the key fields of each type as JSON. Raises KeyError like `printed_schema`."""
    model = _model(catalog, role)
    return json.dumps(type_policies(model, schema_of(model, limits_of(project.api))), indent=2)


def _model(catalog: Catalog, role: str | None) -> Model:
    return model_of(catalog if role is None else role_catalog(catalog, catalog.access.grants[role]))
