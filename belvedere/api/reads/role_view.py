"""The API of a role, over the catalog that the role sees.

In: a catalog (`belvedere.api.reads.role_catalog`), the store, the claims of a caller. Out: `RoleView`, with a
fingerprint that distinguishes its answers from those for others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from graphql import print_schema

from belvedere.api.access.callers import grant_of
from belvedere.api.graphql.api import Api
from belvedere.api.graphql.mutations import Ask, Mutations
from belvedere.api.graphql.operations import CLAIM_SOURCES, Prepared
from belvedere.api.limits import Limits
from belvedere.api.reads.role_catalog import role_catalog
from belvedere.api.rest.openapi import openapi_of
from belvedere.api.rest.reads import RestReads
from belvedere.api.rest.requests import Requests
from belvedere.api.serving.served_store import ServedStore
from belvedere.catalog.access import Grant
from belvedere.catalog.catalog import Catalog
from belvedere.intake.claims import Claims


@dataclass
class RoleView:
    """The part of the API that a role sees: the catalog, its API, and the inputs for pushes."""

    catalog: Catalog
    api: Api
    mutations: Mutations
    closed: bool
    """Whether callers need a token."""
    longs: bool = False
    """Whether 64-bit integers are strings in answers to requests that do not choose a form."""

    @cached_property
    def requests(self) -> Requests:
        """Return the REST requests of this API."""
        return Requests(self.api.model, self.api.limits)

    @cached_property
    def reads(self) -> RestReads:
        """Return the plans of REST."""
        return RestReads(self.api.operations)

    @cached_property
    def schema_text(self) -> str:
        """Return the schema in GraphQL's schema language (SDL)."""
        return print_schema(self.api.schema) + "\n"

    @cached_property
    def openapi_text(self) -> bytes:
        """Return the OpenAPI document of REST."""
        return json.dumps(
            openapi_of(self.api.model, self.api.limits, self.closed, self.longs), ensure_ascii=False
        ).encode()

    @cached_property
    def fingerprint(self) -> str:
        """Return a fingerprint that distinguishes this API from others over the same epoch."""
        role = "" if self.catalog.access.grant is None else self.catalog.access.grant.role
        return hashlib.sha256(f"{role}\n{self.schema_text}".encode()).hexdigest()[:8]

    def mark(self, prepared: Prepared) -> str:
        """Return the fingerprint, with the claims of the caller on which the answer depends."""
        plan, values = prepared.plan, prepared.parameters
        sources = (plan.draft.sources[number][0] for number, _ in plan.statement.converters)
        print_ = f"{self.fingerprint}-t" if prepared.longs else self.fingerprint
        said = [repr(v) for source, v in zip(sources, values, strict=True) if source in CLAIM_SOURCES]
        if not said:
            return print_
        return f"{print_}-{hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"


class RoleViews:
    """The views of all roles of one catalog, each created at its first request.

    `ask` sends rows to the run; `closed`: callers need a token; `longs`: 64-bit integers are strings by default.
    """

    def __init__(self, catalog: Catalog, store: ServedStore, limits: Limits, ask: Ask, closed: bool, longs: bool):
        self._catalog, self._store, self._limits, self._ask = catalog, store, limits, ask
        self._closed, self._longs = closed, longs
        self._seen: dict[str | None, RoleView] = {}
        self.all = self._made(None)
        """The view of callers who see everything."""

    async def view_of(self, claims: Claims) -> RoleView:
        """Return the part of the API that a caller sees."""
        grant = grant_of(self._catalog, claims)
        found = self._seen.get(None if grant is None else grant.role)
        return await self._store.in_planner(lambda: self._made(grant)) if found is None else found

    def _made(self, grant: Grant | None) -> RoleView:
        catalog = self._catalog if grant is None else role_catalog(self._catalog, grant)
        api = Api(catalog, self._store.reader, self._limits)
        mutations = Mutations(api.lenient, api.model.pushes, self._ask, self._store.last_epoch)
        seen = RoleView(catalog, api, mutations, self._closed, self._longs)
        return self._seen.setdefault(None if grant is None else grant.role, seen)
