"""`POST /quarantine/retry`: an administrator has the views in quarantine tried again at once.

In: a request. Out: 202 with the views that are in quarantine; the run tries them in its next epoch, which begins at once. Whether they
heal, `/status` says.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from belvedere.api.failures import RequestError
from belvedere.api.http.route_rights import Route
from belvedere.api.http.served_api import ServedApi
from belvedere.catalog.access import Right
from belvedere.engine.errors.failed_stages import failures_of, quarantined

PATH = "/quarantine/retry"


def healing_routes(served: ServedApi) -> list[Route]:
    """The route, which is there in every server; only one of a run has somebody who hears it."""

    async def retry(request: Request) -> Response:
        if not served.heals:
            hint = "start `belvedere run`: `belvedere serve` only reads"
            raise RequestError("B8030", "no run processes epochs here", hint, status=503)
        row = await served.store.last_epoch()
        held = quarantined(failures_of(row.extra)) if row is not None else {}
        names = sorted(n for n in held if n in served.catalog.public)
        served.metrics.asks_to_heal()
        return JSONResponse({"quarantined": [{"view": n, "epoch": held[n]} for n in names]}, 202)

    return [Route(PATH, retry, right=Right.ADMIN, methods=["POST"])]
