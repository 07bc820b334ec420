"""Client of schema registries with Confluent's protocol, whose messages name their schema by an id.

In: messages, a registry's address. Out: ids, the registry's answers. A message begins with a zero byte and the id in
four bytes.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from belvedere.connectors.kafka.formats.payload_values import RefusedMessage
from belvedere.connectors.outage_backoff import AwayError, is_away
from belvedere.errors import BelvedereError, fail
from belvedere.values.rejections import Reason, RejectionKind

PREFIX = 5
TIMEOUT_SECONDS = 10.0
NOT_THERE = (404, 422)
"""Statuses of a registry that does not have the requested object."""
ASK_AGAIN = 10.0
"""Seconds after which a missing schema is requested again."""
_unknown: dict[tuple[str, int], tuple[Reason, float]] = {}
Schema = TypeVar("Schema")
NOT_FRAMED = Reason("does not begin with a schema id", RejectionKind.SCHEMA)


def number_of(value: bytes) -> int | None:
    """Return the schema id in a message; None if it has none."""
    return int.from_bytes(value[1:PREFIX], "big") if len(value) >= PREFIX and value[0] == 0 else None


def newest_known(table: str, values: Sequence[bytes], get: Callable[[bytes], Schema]) -> Schema:
    """Return the schema of the last message with a schema that the registry has.

    Raises B6103 if there is none, B6205.
    """
    framed = list({number_of(v): v for v in values if number_of(v) is not None}.values())
    if not framed:
        hint = f"send messages, or declare its columns under [sources.<name>.tables.{table}]"
        raise fail("B6103", f'table "{table}" has no messages to read a schema id from', hint=hint)
    for value in reversed(framed):
        try:
            return get(value)
        except RefusedMessage as error:
            refused = str(error)
    raise fail("B6205", f'no message of table "{table}" has a schema that can be read: the first one {refused}')


def format_of(address: str, number: int) -> str:
    """Return the format of a schema's messages: "avro", "protobuf" or "json". Raises B6205."""
    return str(
        registry_answer(address, f"/schemas/ids/{number}", f"schema {number}").get("schemaType") or "avro"
    ).lower()


def registry_answer(address: str, path: str, what: str) -> Mapping[str, Any]:
    """Return a registry's answer.

    The address may contain a name and a password. Raises B6205, which names the missing `what`.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    path, _, query = path.partition("?")
    url = urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}{path}", query, ""))
    headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        credentials = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            found = json.load(answer)
            if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
                raise ValueError("the answer has no schema")
            return found
    except HTTPError as error:
        if error.code in NOT_THERE:
            raise _refused(parts.scheme, host, what, error) from error
        raise _away(parts.scheme, host, what, error) from error
    except ValueError as error:
        raise _refused(parts.scheme, host, what, error) from error
    except OSError as error:
        raise _away(parts.scheme, host, what, error) from error


def _refused(scheme: str, host: str, what: str, error: Exception) -> BelvedereError:
    message = f"the schema registry at {scheme}://{host} does not return {what}"
    return fail("B6205", message, detail=str(error), hint="check the address in `registry`")


def _away(scheme: str, host: str, what: str, error: Exception) -> BelvedereError:
    message = f"the schema registry at {scheme}://{host} does not return {what}"
    hint = "check that it runs, and that `registry` has its address, user and password"
    return AwayError(fail("B6205", message, detail=str(error), hint=hint).diagnostics)


def of_message(number: int, address: str, get: Callable[[str, int], Schema]) -> Schema:
    """Return the schema that a message names.

    Raises Refusal if the registry has no valid schema of that id, an `AwayError` if it is unavailable. A missing schema
    is requested again after `ASK_AGAIN` seconds, since it may be registered later.
    """
    refused, when = _unknown.get((address, number), (Reason(""), -ASK_AGAIN))
    if time.monotonic() - when < ASK_AGAIN:
        raise RefusedMessage(refused)
    try:
        return get(address, number)
    except BelvedereError as error:
        if is_away(error):
            raise
        named = f"names schema {number}"
        reason = Reason(f"{named}: {error.diagnostics[0].message}", RejectionKind.SCHEMA, named)
        _unknown[address, number] = (reason, time.monotonic())
        raise RefusedMessage(_unknown[address, number][0]) from error
