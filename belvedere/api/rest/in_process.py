"""REST in process, for programs with a reader: the Workbench.

In: a catalog, a reader, the part of a URL after `/rest/`. Out: the body as Python values; for an error, its problem
document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import NOTHING, api_over
from belvedere.api.rest.answers import JSON, body_of, rows_of
from belvedere.api.rest.parameters import pairs_of
from belvedere.api.rest.reads import RestReads
from belvedere.api.rest.requests import Requests
from belvedere.catalog.catalog import Catalog
from belvedere.intake.claims import Claims
from belvedere.intake.ingest_service import problem
from belvedere.store.protocol import Reader
from belvedere.store.stored_table import StoredTable


def execute_rest(
    catalog: Catalog,
    tables: Mapping[str, StoredTable] | None,
    reader: Reader,
    address: str,
    claims: Claims | None = None,
    role: str | None = None,
) -> Any:
    """Answer one request: `machines?name=like.Mill*`, `machines/1075`. `tables` and `role` are as in
    `execute_graphql`."""
    api = api_over(catalog, tables, reader, role)
    path, _, query = address.partition("?")
    name, _, key = unquote(path).partition("/")
    try:
        asked = Requests(api.model, api.limits).read(name, key or None, pairs_of(query.encode(), api.limits))
        prepared = RestReads(api.operations).prepare(asked, claims or NOTHING)
        return json.loads(body_of(asked, rows_of(api.read(prepared).data), JSON))
    except RequestError as error:
        return problem(error.status, error.code, error.message, error.hint)
