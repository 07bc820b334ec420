"""Schema registries as Confluent's: messages that name their schema by a number, and what the registry says of it.

In: messages, a registry's address. Out: numbers, the registry's answers. A message begins with a zero byte and the number in four bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from belvedere.errors import fail

PREFIX = 5
SECONDS = 10.0
NOT_FRAMED = "does not begin with the number of a schema"


def number_of(value: bytes) -> int | None:
    """The number of the schema that a message names; None where it names none."""
    return int.from_bytes(value[1:PREFIX], "big") if len(value) >= PREFIX and value[0] == 0 else None


def newest_framed(table: str, values: Sequence[bytes]) -> bytes:
    """The last message that names its schema. Raises B6103 where none does."""
    framed = [v for v in values if number_of(v) is not None]
    if not framed:
        hint = f"send some, or declare its columns under [sources.<name>.tables.{table}]"
        raise fail("B6103", f'table "{table}" has no messages that would name their schema', hint=hint)
    return framed[-1]


def format_of(address: str, number: int) -> str:
    """The format of the messages of a schema: "avro", "protobuf" or "json". Raises B6205."""
    return str(asked(address, f"/schemas/ids/{number}", f"schema {number}").get("schemaType") or "avro").lower()


def asked(address: str, path: str, what: str) -> Mapping[str, Any]:
    """A registry's answer; a name and a password may be in its address. Raises B6205, which says `what` it does not give."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    path, _, query = path.partition("?")
    url = urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}{path}", query, ""))
    headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        told = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {told}"
    try:
        with urlopen(Request(url, headers=headers), timeout=SECONDS) as answer:
            found = json.load(answer)
            if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
                raise ValueError("the answer has no schema")
            return found
    except (URLError, OSError, ValueError) as error:
        message = f"the schema registry at {parts.scheme}://{host} does not give {what}"
        raise fail("B6205", message, detail=str(error), hint="see that it runs, and that `registry` names it") from error
