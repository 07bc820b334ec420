"""REST in PostgREST's dialect: `GET /rest/<view>?column=op.value`, with GraphQL's model, planner and statements.

In: HTTP requests. Out: rows as JSON or CSV, and problem documents (RFC 9457). The path of a request through the
modules:

    grammar    text -> names, tests, lists: syntax only
    requests   query string and model -> a `Selection` with its values
    reads      selection -> plan, cached by its shape -> statement and values
    answers    result of the statement -> body and headers
    endpoint   the ASGI application;  openapi  the description of the API
"""
