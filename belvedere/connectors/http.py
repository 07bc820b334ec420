"""The connector `http`: exported events are posted to an address as JSON lines, at least once.

In: events in the order of `_seq`. Out: requests of some events each, with an id by which a receiver discards
duplicates, and a signature if the sink has a secret.

If a receiver is unavailable or busy, the request is sent again later. If it rejects events, or redirects to another
address, the run ends. The store records each request before it is sent. Accepted events are not sent again; events that
may have been accepted are sent again under the same id. A slow receiver gets a longer timeout and smaller requests.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
import pyarrow as pa

from belvedere.connectors.addresses import same_address
from belvedere.connectors.connector import Outgoing
from belvedere.connectors.exporting.event_files import json_lines
from belvedere.connectors.exporting.flow_control import MAX_EVENTS, Pace
from belvedere.connectors.outage_backoff import AwayError
from belvedere.errors import fail
from belvedere.project.settings import Sink
from belvedere.rules.events import SEQUENCE

TIMEOUT_SECONDS = 10.0
"""Default timeout of an answer in seconds."""
BUSY = (408, 425, 429)
"""Statuses, besides those from 500 on, after which the same request is sent again later."""
SLOW = (408, 504)
"""Status codes that report a timeout, possibly of a proxy."""
TOO_LARGE = 413
MAX_PAUSE_SECONDS = 3600.0
"""Maximum seconds to wait before a retry, even if the receiver asks for more."""


class _Stays(HTTPRedirectHandler):
    """Follows no redirect: a GET would carry no events, and another host would receive the sink's headers."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the redirect is handled as an error with its status."""


class HttpOutlet:
    """The writer of one export to an address."""

    def __init__(self, outgoing: Outgoing):
        options = outgoing.sink.options
        self.outgoing, self.sink = outgoing, outgoing.sink.name
        self.url = str(options.get("url", ""))
        if not self.url.startswith(("http://", "https://")):
            hint = 'write `url = "https://example.com/hooks/orders"`'
            raise fail("B6231", f'sink "{self.sink}" has no url', hint=hint)
        self.headers: Mapping[str, Any] = options.get("headers", {})
        self.secret = options.get("secret")
        self._opener = build_opener(_Stays)
        self._note = f"http {outgoing.relation} {self.sink}.{outgoing.name}"
        self._taken, self._until = 0, 0
        """The last accepted event, and the last event of the request in flight."""
        self._pace = Pace(MAX_EVENTS)
        self._limit = options.get("timeout_seconds")
        if self._limit is not None and not (type(self._limit) in (int, float) and 0 < self._limit <= MAX_PAUSE_SECONDS):
            hint = f"write `timeout_seconds = 30`, up to {MAX_PAUSE_SECONDS:g}"
            raise fail("B9104", f'`timeout_seconds` of sink "{self.sink}" is not valid', hint=hint)

    def reached(self) -> int | None:
        """Return the number of the last event that the receiver has accepted, as recorded in the store."""
        text = self.outgoing.notes.document(self._note) if self.outgoing.notes is not None else None
        found = json.loads(text) if text else {}
        self._taken, self._until = max(self._taken, found.get("taken", 0)), max(self._until, found.get("until", 0))
        self._pace = Pace.of_document(found, MAX_EVENTS) if found else self._pace
        return self._taken or None

    def write(self, pieces: Iterable[pa.Table]) -> None:
        """Post the events. Raises B6230 if the receiver is unavailable or busy, B6231 if it rejects them."""
        for events in pieces:
            start = 0
            while start < events.num_rows:
                start += self._post(events.slice(start))

    def _post(self, events: pa.Table) -> int:
        """Post the first of these events, and return the number of accepted ones."""
        # repeat an earlier request unchanged, since the receiver may have accepted it
        before = int(np.searchsorted(events[SEQUENCE].to_numpy(), self._until, side="right"))
        request = events.slice(0, self._pace.size(before, events.num_rows))
        first, last = request[SEQUENCE][0].as_py(), request[SEQUENCE][-1].as_py()
        if last != self._until:
            self._until = last
            self._keep()
        started, seconds = time.monotonic(), self._pace.patience(self._seconds)
        try:
            self._send(request, first, last, seconds)
        except HTTPError as error:
            if error.code == TOO_LARGE and len(request) > 1:
                self._pace.too_large(len(request))
                self._until = self._taken  # nothing was accepted: the request may change
                return 0
            if error.code in SLOW:
                self._was_late(len(request))
            raise self._reported(error) from error
        except TimeoutError as error:
            self._was_late(len(request))
            raise self._away(f"no answer within {seconds:g} seconds") from error
        except (URLError, HTTPException, OSError) as error:
            raise self._away(str(getattr(error, "reason", error))) from error
        self._taken = last
        self._pace.answered((time.monotonic() - started) / self._seconds, MAX_EVENTS)
        return len(request)

    @property
    def _seconds(self) -> float:
        """Return the timeout of the first answer in seconds."""
        return TIMEOUT_SECONDS if self._limit is None else float(self._limit)

    def _was_late(self, events: int) -> None:
        self._pace.came_late(events)
        self._keep()

    def _keep(self) -> None:
        """Record the request in flight and the receiver's pace in the store."""
        if self.outgoing.notes is not None:
            found = {"taken": self._taken, "until": self._until, **self._pace.document()}
            self.outgoing.notes.set_document(self._note, json.dumps(found))

    def _send(self, events: pa.Table, first: int, last: int, seconds: float) -> None:
        body = "".join(f"{line}\n" for line in json_lines(events)).encode()
        headers = {
            "Content-Type": "application/x-ndjson",
            "User-Agent": "belvedere",
            "Belvedere-Target": self.outgoing.target,
            "Belvedere-Id": f"{self.outgoing.store}-{self.outgoing.name.replace(' ', '-')}-{first}-{last}",
            **{str(k): str(v) for k, v in self.headers.items()},
            **self._signature(body),
        }
        request = Request(self.url, body, headers, method="POST")
        with self._opener.open(request, timeout=seconds):
            return

    def _reported(self, error: HTTPError) -> Exception:
        """Return the error for an answer other than success."""
        said = f"{error.code} {error.reason}".strip()
        if error.code < 500 and error.code not in BUSY:
            return self._refused(error, said)
        return self._away(said, pause_of(error.headers.get("Retry-After")))

    def _refused(self, error: HTTPError, said: str) -> Exception:
        hint = "correct the receiver, or the sink's `url` and `headers`, and start again: no event is lost"
        if error.code < 400:
            other = error.headers.get("Location")
            said += f" to {other}" if other else ""
            hint = (
                "redirects are not followed, because events and headers may be confidential: "
                "set `url` to the new address"
            )
        try:
            detail = error.read(200).decode("utf-8", "replace") or None
        except (HTTPException, OSError):
            detail = None
        return fail("B6231", f'sink "{self.sink}" refuses events: {said}', detail=detail, hint=hint)

    def _away(self, said: str, pause: float | None = None) -> Exception:
        hint = "check that the receiver at its `url` is running"
        return AwayError(
            fail("B6230", f'sink "{self.sink}" does not accept events: {said}', hint=hint).diagnostics, pause
        )

    def _signature(self, body: bytes) -> dict[str, str]:
        """Return `t=seconds,v1=hex`: HMAC-SHA256 of the seconds, a dot and the body."""
        if self.secret is None:
            return {}
        now = int(time.time())
        made = hmac.new(str(self.secret).encode(), f"{now}.".encode() + body, hashlib.sha256)
        return {"Belvedere-Signature": f"t={now},v1={made.hexdigest()}"}

    def close(self) -> None:
        """Do nothing: no resource is open."""


def pause_of(text: str | None) -> float | None:
    """Return the seconds in a header `Retry-After`, a number or a time (RFC 9110, 10.2.3); None if it is not valid."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        seconds = float(text)
    else:
        try:
            found = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (found.replace(tzinfo=found.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MAX_PAUSE_SECONDS)


def place(sink: Sink, target: str) -> str:
    """Return the key by which a receiver distinguishes targets."""
    return f"{same_address(str(sink.options.get('url', '')))} {target}"


def open_outlet(outgoing: Outgoing) -> HttpOutlet:
    """Open the writer of one export to an address."""
    return HttpOutlet(outgoing)
