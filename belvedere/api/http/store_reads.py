"""Reads of the store for requests: run where they do not block others, and counted.

In: a prepared read. Out: its answer. Rights are checked and requests planned elsewhere.
"""

from __future__ import annotations

import time

from belvedere.api.graphql.api import QUICK, Answer, Api
from belvedere.api.graphql.operations import Prepared
from belvedere.api.http.metrics import Metrics
from belvedere.api.serving.served_store import ServedStore
from belvedere.store.dialects import DIALECTS


class StoreReads:
    """Reads for all callers, by one `api` without restrictions."""

    def __init__(self, store: ServedStore, api: Api, metrics: Metrics):
        self._store, self._api, self._metrics = store, api, metrics

    async def run(self, prepared: Prepared) -> Answer:
        """Return the answer.

        The read runs on the event loop if the reader supports that, or if the store is local and the plan is quick.
        Otherwise it runs in a thread.
        """
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
        """Return the answer's bytes."""
        return (await self.run(prepared)).body
