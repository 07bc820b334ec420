"""Reads of requests, run where they hold up no others, and counted.

In: a prepared read. Out: its answer. Who may ask is decided before; nothing is planned here.
"""

from __future__ import annotations

import time

from belvedere.api.graphql.api import QUICK, Answer, Api
from belvedere.api.graphql.operations import Prepared
from belvedere.api.http.metrics import Metrics
from belvedere.api.serving.served_store import ServedStore
from belvedere.store.dialects import DIALECTS


class StoreReads:
    """Reads for all callers by the one `api` that sees everything."""

    def __init__(self, store: ServedStore, api: Api, metrics: Metrics):
        self._store, self._api, self._metrics = store, api, metrics

    async def run(self, prepared: Prepared) -> Answer:
        """The answer: on the event loop where the store can, or is near and answers this at once; else in a thread."""
        plan, started, reader = prepared.plan, time.perf_counter(), self._store.reader
        if reader.is_on_loop:
            answer = await self._api.fetch(prepared, reader.fetch)
        elif plan.calls and plan.last < QUICK and DIALECTS[reader.dialect].near:
            answer = self._api.read(prepared)
        else:
            answer = await self._store.in_thread(lambda: self._api.read(prepared))
        self._metrics.read(plan.endpoints, time.perf_counter() - started)
        return answer

    async def body(self, prepared: Prepared) -> bytes:
        """The answer's bytes."""
        return (await self.run(prepared)).body
