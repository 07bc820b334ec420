"""Cross-origin requests of web pages (CORS): the headers that clients of GraphQL, PostgREST and MCP send by themselves.

In: an ASGI application, origins, further headers. Out: the application with answers to preflights; a rejected one says
why. `belvedere.api.access.gate` decides which origins are allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from belvedere.api.failures import NOT_ALLOWED, RequestError
from belvedere.api.http.pushes import problem_answer

METHODS = ("GET", "HEAD", "POST")
SENT = (
    *("authorization", "cache-control", "content-type", "idempotency-key", "if-none-match", "last-event-id"),
    *("prefer", "range", "range-unit", "x-request-id", "x-requested-with"),
    *("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"),
    # clients of Apollo, urql and Relay, graphql-sse
    *(
        "apollographql-client-name",
        "apollographql-client-version",
        "apollographql-library-name",
        "apollographql-library-version",
    ),
    *("apollo-require-preflight", "x-apollo-operation-name", "x-apollo-operation-id", "x-apollo-operation-type"),
    *("graphql-client-name", "graphql-client-version", "graphql-preflight", "x-graphql-event-stream-token"),
    # of PostgREST and supabase
    *("accept-profile", "content-profile", "apikey", "x-client-info", "x-supabase-api-version", "x-retry-count"),
    # tracing: OpenTelemetry (W3C and B3), Sentry, Datadog, New Relic, Elastic, AWS
    *(
        "traceparent",
        "tracestate",
        "baggage",
        "sentry-trace",
        "b3",
        "newrelic",
        "elastic-apm-traceparent",
        "x-amzn-trace-id",
    ),
    *("x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
    *("x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-origin", "x-datadog-sampling-priority", "x-datadog-tags"),
)
"""Headers that a page may send: those that Belvedere reads, and those that client libraries add, which are ignored."""
SHOWN = (
    *("retry-after", "etag", "link", "www-authenticate", "content-range", "preference-applied"),
    *("belvedere-epoch", "belvedere-quarantined", "content-location", "mcp-session-id"),
)


class CrossOrigin(CORSMiddleware):
    """The application for pages of these origins. `headers` are further headers that they may send; `*` allows all."""

    def __init__(self, app: ASGIApp, origins: Collection[str], headers: Iterable[str] = ()):
        sent = (*SENT, *(h.lower() for h in headers))
        super().__init__(app, origins, METHODS, sent, expose_headers=SHOWN)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the answer to a preflight request. A rejection has a reason as text, which a browser's console
        shows."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        refused = problem_answer(self._refusal(request_headers))
        refused.headers.update({n: v for n, v in answer.headers.items() if not n.startswith("content-")})
        return refused

    def _refusal(self, asked: Headers) -> RequestError:
        origin, method = asked["origin"], asked["access-control-request-method"]
        if not self.is_allowed_origin(origin):
            hint = "add it to `cors_origins` under `[api]`"
            return RequestError(NOT_ALLOWED, f"pages of {origin[:200]} are not allowed to send requests", hint)
        if method not in self.allow_methods:
            return RequestError(
                NOT_ALLOWED, f"pages are not allowed to send {method[:20]}", f"use {', '.join(METHODS)}"
            )
        requested = [h.strip() for h in asked.get("access-control-request-headers", "").split(",")]
        unknown = [h for h in requested if h and h.lower() not in self.allow_headers]
        if unknown:
            hint = "add it to `cors_headers` under `[api]`, or do not send it"
            return RequestError(NOT_ALLOWED, f"pages are not allowed to send the header `{unknown[0][:100]}`", hint)
        return RequestError(NOT_ALLOWED, "a page of a public network is not allowed to send requests to a private one")
