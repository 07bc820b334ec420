"""The connector `http`: exported events are posted to an address as JSON lines, at least once.

In: events in the order of `_seq`. Out: requests of some events each, with an id by which a receiver discards what comes twice, and a
signature where the sink has a secret. A receiver that is away, or busy, gets them later; one that refuses them ends the run.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pyarrow as pa

from belvedere.connectors.connector import Outgoing
from belvedere.connectors.writing import json_lines
from belvedere.errors import fail
from belvedere.rules.events import SEQUENCE

MOST_EVENTS = 1_000
"""So many are in one request."""
SECONDS = 10.0
BUSY = (408, 425, 429)
"""Statuses, beside those from 500 on, after which the same request is sent again later."""


class HttpOutlet:
    """One export on its way to an address."""

    def __init__(self, outgoing: Outgoing):
        options = outgoing.sink.options
        self.outgoing, self.sink = outgoing, outgoing.sink.name
        self.url = str(options.get("url", ""))
        if not self.url.startswith(("http://", "https://")):
            hint = 'write `url = "https://example.com/hooks/orders"`'
            raise fail("B6231", f'sink "{self.sink}" has no url', hint=hint)
        self.headers: Mapping[str, Any] = options.get("headers", {})
        self.secret = options.get("secret")

    def reached(self) -> int | None:
        """Not known: the receiver discards what it has."""
        return None

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Post the events. Raises B6230 where the receiver is away or busy, B6231 where it refuses them."""
        for events in pieces:
            for start in range(0, events.num_rows, MOST_EVENTS):
                self._post(events.slice(start, MOST_EVENTS))

    def _post(self, events: pa.Table) -> None:
        first, last = events[SEQUENCE][0].as_py(), events[SEQUENCE][-1].as_py()
        body = "".join(f"{line}\n" for line in json_lines(events)).encode()
        headers = {
            "Content-Type": "application/x-ndjson",
            "User-Agent": "belvedere",
            "Belvedere-Target": self.outgoing.target,
            "Belvedere-Id": f"{self.outgoing.store}-{self.outgoing.target}-{first}-{last}",
            **{str(k): str(v) for k, v in self.headers.items()},
            **self._signature(body),
        }
        try:
            with urlopen(Request(self.url, body, headers, method="POST"), timeout=SECONDS):
                return
        except HTTPError as error:
            said = f"{error.code} {error.reason}"
            if error.code < 500 and error.code not in BUSY:
                detail = error.read(200).decode("utf-8", "replace") or None
                hint = "mend the receiver, or the sink's `url` and `headers`, and start again: nothing is lost"
                raise fail("B6231", f'sink "{self.sink}" refuses events: {said}', detail=detail, hint=hint) from error
            raise self._away(said) from error
        except (URLError, HTTPException, OSError) as error:
            raise self._away(str(getattr(error, "reason", error))) from error

    def _away(self, said: str) -> Exception:
        return fail("B6230", f'sink "{self.sink}" does not take events: {said}', hint="see that what listens at its `url` runs")

    def _signature(self, body: bytes) -> dict[str, str]:
        """`t=seconds,v1=hex`: HMAC-SHA256 of the seconds, a dot and the body."""
        if self.secret is None:
            return {}
        now = int(time.time())
        made = hmac.new(str(self.secret).encode(), f"{now}.".encode() + body, hashlib.sha256)
        return {"Belvedere-Signature": f"t={now},v1={made.hexdigest()}"}

    def close(self) -> None:
        """Nothing is open."""


def open_outlet(outgoing: Outgoing) -> HttpOutlet:
    """An export on its way to an address."""
    return HttpOutlet(outgoing)
