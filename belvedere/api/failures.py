"""Errors of requests: a code, a message and a hint, in the form of GraphQL errors.

In: any exception. Out: `RequestError`s and their JSON form. A client never sees a traceback or the database's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLError

SYNTAX = "B8001"
VALIDATION = "B8002"
BAD_VALUE = "B8003"
LIMIT_EXCEEDED = "B8004"
NOT_READY = "B8005"
TIME_OUT = "B8006"
BAD_REQUEST = "B8007"
NOT_ALLOWED = "B8008"
INTERNAL = "B8009"
STORE_AWAY = "B8013"
ENDING = "B8015"
UNREADABLE = "B8016"
NOT_FOUND = "B8017"
KEYS_AWAY = "B8018"

AGAIN = {"retry-after": "1"}
"""Header of answers with status 503: seconds until the client should retry."""


class RequestError(Exception):
    """A request that cannot be answered.

    `status` is the HTTP status if the answer's media type allows one; `headers` are added to the answer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        status: int = 400,
        node: Any = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.headers = dict(headers or (AGAIN if status == 503 else {}))
        self.code, self.message, self.hint, self.status = code, message, hint, status
        self.locations: list[dict[str, int]] = []
        if node is not None and getattr(node, "loc", None) is not None:
            token = node.loc.start_token
            self.locations = [{"line": token.line, "column": token.column}]

    def formatted(self) -> list[dict[str, Any]]:
        """Return the `errors` of a GraphQL answer."""
        extensions = {"code": self.code} | ({"hint": self.hint} if self.hint else {})
        located = {"locations": self.locations} if self.locations else {}
        return [{"message": self.message, **located, "extensions": extensions}]


def no_cursor(name: str) -> RequestError:
    """Return the error of an invalid cursor, or of one for another order. `name` is its argument."""
    end = "startCursor" if name == "before" else "endCursor"
    return RequestError(
        BAD_VALUE, f"`{name}` is not a cursor of this list", f"pass the value of `{end}`, with the same order"
    )


class InvalidDocument(RequestError):
    """A document in which graphql-core found several errors."""

    def __init__(self, code: str, errors: list[GraphQLError]):
        super().__init__(code, errors[0].message, _hint(errors[0].message))
        self.errors = errors

    def formatted(self) -> list[dict[str, Any]]:
        result = []
        for error in self.errors:
            hint = _hint(error.message)
            extensions = {"code": self.code} | ({"hint": hint} if hint else {})
            located = {"locations": [{"line": at.line, "column": at.column} for at in error.locations or ()]}
            result.append(
                {"message": error.message, **(located if located["locations"] else {}), "extensions": extensions}
            )
        return result


def _hint(message: str) -> str | None:
    """Return the correct form for the most common mistakes, or None."""
    if "Expected ':', found '='" in message:
        return "write `:` between a name and its value: `filter: {groupid: {eq: 501}}`"
    if message.startswith("Syntax Error: Unexpected Name"):
        return "put the whole query into braces: `{ ... }`"
    if "Expected Name, found '}'" in message or "Expected Name, found <EOF>" in message:
        return "name at least one field between the braces"
    if "must have a selection of subfields" in message:
        return "select its fields: write `{ ... }` after the name"
    if "Did you mean" in message:
        return "d" + message[message.index("Did you mean") + 1 :]
    if message.startswith("Unknown argument"):
        return "the console at `/` lists each field's arguments"
    return None
