"""Shared parts of one application's routes: its catalog and settings, the store, the model of each role, streams,
counters.

In: the parts, created by the application. Out: the same under one name. It answers no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.metrics import Metrics
from belvedere.api.http.pushes import CLAIMS
from belvedere.api.http.status import role_status, status_of
from belvedere.api.http.store_reads import StoreReads
from belvedere.api.live.event_streams import EventStreams
from belvedere.api.reads.int64_as_text import longs_asked
from belvedere.api.reads.provenance import Provenance
from belvedere.api.reads.role_view import RoleView, RoleViews
from belvedere.api.serving.served_store import ServedStore
from belvedere.catalog.catalog import Catalog
from belvedere.intake.wire import IngestClient
from belvedere.store.protocol import EpochRow


@dataclass(frozen=True)
class ServedApi:
    """The parts of one application. `heals`: the process that started this one retries views in quarantine on
    request."""

    catalog: Catalog
    settings: ServerSettings
    metrics: Metrics
    ingest_service: IngestClient
    store: ServedStore
    roles: RoleViews
    reads: StoreReads
    streams: EventStreams
    provenance: Provenance
    heals: bool = False

    async def role_view(self, request: Request) -> RoleView:
        """Return the part of the model that the caller of a request sees."""
        return await self.roles.view_of(request.scope.get(CLAIMS) or {})

    def longs(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a request needs 64-bit integers as strings."""
        return longs_asked(headers.get(b"prefer", b"").decode("latin-1"), self.settings.longs)

    def status(self, row: EpochRow | None, seen: Catalog) -> dict[str, Any]:
        """Return the part of the status after an epoch that a caller with that catalog may see."""
        waits = self.metrics.is_standby
        found = status_of(self.catalog, row, self.ingest_service.is_open and not waits)
        found["store"] = "away" if self.store.reader.is_away else "here"
        return role_status(found | ({"standby": True} if waits else {}), seen)
