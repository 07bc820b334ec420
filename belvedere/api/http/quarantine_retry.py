"""`POST /quarantine/retry`: an administrator requests a retry of the views in quarantine.

In: a request. Out: 202 with the views in quarantine. The run starts an epoch at once and retries them in it. `/status`
shows the result.
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
    """Return the route. Every server has it, but only the servers of a run accept it."""

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
