"""REST in PostgREST's dialect: `GET /rest/<view>?column=op.value`, over the model, the planner and the statements of GraphQL.

In: HTTP requests. Out: rows as JSON or CSV, and errors as RFC 9457 has them. The path of a request through these modules:

    grammar    text -> names, tests, lists: syntax alone
    requests   query string and model -> a `Selection` with its values
    reads      selection -> plan, remembered by its shape -> statement and values
    answers    what the statement gave -> body and headers
    endpoint   the ASGI application;  openapi  the description of it all
"""
