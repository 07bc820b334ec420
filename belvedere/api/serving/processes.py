"""Serving from separate processes, which end with this process in every case, and are restarted if they die.

In: a catalog, a store's URL, host and port. Out: a `Serving` with the URL. The child processes start at once and answer
`/healthz`; `/readyz` answers 200 after the store's first committed epoch. Nothing is printed.
"""

from __future__ import annotations

import ipaddress
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from belvedere.api.access.gate import CONNECTIONS, FixedToken, ServerSettings
from belvedere.api.access.tokens import TokenVerifier, token_rules
from belvedere.api.http.metrics import AllCounts, shared_file
from belvedere.api.limits import limits_of
from belvedere.api.serving.child import Assignment
from belvedere.api.serving.orphans import has_orphans
from belvedere.api.serving.supervisor import Supervisor
from belvedere.catalog.access import ALL_RIGHTS, Right
from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError, fail
from belvedere.intake.wire import IngestServer

DEFAULT_PORT = 8080
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
ORPHANS_SECONDS = 15.0
"""Maximum seconds that a start waits for the port while processes of a killed run exist."""
PUBLIC_RATE = 200
"""Default maximum of requests per second from one address to a process of an API on a public address."""


@dataclass
class Serving:
    """Running API processes; a process that dies is restarted."""

    url: str
    host: str
    port: int
    supervisors: tuple[Supervisor, ...]
    descriptors: ExitStack = field(default_factory=ExitStack)
    """Descriptors that a restarted process inherits: the listening socket and the counters."""
    requests: Callable[[], Mapping[str, tuple[int, float]]] = dict
    """Function that returns, per relation and query template, the number of requests so far and their total seconds."""
    heals: Callable[[], int] = int
    """Function that returns the number of requests so far to retry views in quarantine."""
    set_standby: Callable[[bool], None] = lambda waits: None
    """Function that sets whether the run waits for another run to end; `/readyz` is 503 meanwhile."""

    def alive(self) -> bool:
        """Return whether all processes are running."""
        return all(k.alive() for k in self.supervisors)

    def wait_until_listening(self, seconds: float = 30.0) -> None:
        """Return when the API answers. Raises B8011 after `seconds`."""
        opener = build_opener(ProxyHandler({}))
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive():
            try:
                with opener.open(f"{self.url}/healthz", timeout=2):
                    return
            except (URLError, OSError):
                time.sleep(0.02)
        raise fail("B8011", "the API processes did not start", hint="see their messages above")

    def close(self) -> None:
        """End the processes."""
        for supervisor in self.supervisors:
            supervisor.close()
        for supervisor in self.supervisors:
            supervisor.wait()
        self.descriptors.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_api(
    catalog: Catalog,
    store_url: str,
    port: int | None = 0,
    host: str = "127.0.0.1",
    *,
    processes: int | None = None,
    settings: Mapping[str, Any] | None = None,
    ingest_service: IngestServer | None = None,
    heals: bool = False,
    standby: bool = False,
    notify: Callable[[str], None] = lambda text: None,
) -> Serving:
    """Start serving a catalog's public views from a store, which may not exist yet.

    `ingest_service` accepts rows that clients push; without it pushes are rejected. `heals`: the caller polls
    `Serving.heals`. `standby`: the run waits for another one, until `Serving.set_standby` changes that. `port` 0 takes
    a free one, None takes 8080 if it is free. `settings` is the project file's `[api]`. `notify` is called, in another
    thread, for each process that died and was restarted.

    Raises B8010 for a public address without a token, B8012 if the port is in use.
    """
    made = server_settings(host, settings or {})
    count = processes or max(1, min(4, os.cpu_count() or 1))
    with ExitStack() as held:
        listener = held.enter_context(_listen_by_default(host) if port is None else _listen_soon(host, port))
        counts = shared_file(count, len(catalog.endpoints))
        held.callback(os.close, counts)
        known = AllCounts(counts, count, catalog.endpoints)
        known.set_standby(standby)

        def again(how: str) -> None:
            known.restarted()
            notify(f"an API process ended ({how}) and was restarted")

        assignments = [
            Assignment(catalog, store_url, made, listener.fileno(), counts, i, count, heals=heals) for i in range(count)
        ]
        supervisors = []
        for assignment in assignments:
            supervisors.append(Supervisor(partial(_start, assignment, ingest_service), again))
            held.callback(supervisors[-1].close)
        shown, bound = f"[{host}]" if ":" in host else host, listener.getsockname()[1]
        heard = (known.requests, known.heals, known.set_standby)
        return Serving(f"http://{shown}:{bound}", host, bound, tuple(supervisors), held.pop_all(), *heard)


def server_settings(host: str, settings: Mapping[str, Any]) -> ServerSettings:
    """Return the settings of a project file's `[api]` for an address.

    Raises B8010 for a public address without a token, B8014 for an invalid key.
    """
    token = settings.get("token") or None
    rules = token_rules(settings["jwt"]) if "jwt" in settings else None
    fixed = tuple(_fixed_token(t) for t in settings.get("tokens", {}).values())
    anonymous = settings.get("anonymous_role")
    if rules is not None:
        TokenVerifier(rules)
    local = is_loopback(host)
    if not local and token is None and rules is None and not fixed and anonymous is None:
        raise fail(
            "B8010",
            f"the address {host} is public, and the API has no authentication",
            hint='write `token = "${env:BELVEDERE_TOKEN}"` under `[api]` in belvedere.toml, or serve on 127.0.0.1',
        )
    origins = settings.get("cors_origins", ())
    origins = (origins,) if isinstance(origins, str) else tuple(origins)
    return ServerSettings(
        limits_of(settings),
        token,
        origins,
        tuple(settings.get("cors_headers", ())),
        LOCAL_HOSTS | {host.lower()} if local else None,
        tokens=rules,
        per_address=settings.get("max_requests_per_address", None if local else PUBLIC_RATE),
        per_token=settings.get("max_requests_per_token"),
        connections=settings.get("store_connections", CONNECTIONS),
        fixed=fixed,
        anonymous=anonymous,
        longs=settings.get("longs") == "text",
    )


def _fixed_token(settings: Mapping[str, Any]) -> FixedToken:
    rights = frozenset(map(Right, settings["rights"])) if "rights" in settings else ALL_RIGHTS
    return FixedToken(settings["token"], settings.get("role"), rights)


def is_loopback(host: str) -> bool:
    """Return whether an address is only reachable from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen_by_default(host: str) -> socket.socket:
    try:
        return _listen(host, DEFAULT_PORT)
    except BelvedereError:
        return _listen(host, 0)


def _listen_soon(host: str, port: int) -> socket.socket:
    """Listen as soon as the processes of a killed run release the port. Raises B8012."""
    end = time.monotonic() + ORPHANS_SECONDS
    while True:
        try:
            return _listen(host, port)
        except BelvedereError:
            if time.monotonic() > end or not has_orphans():
                raise
        time.sleep(0.05)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        hint = "choose another --port, or 0 for a free one"
        raise fail("B8012", f"the API cannot listen on {host}:{port}: {error}", hint=hint) from error
    listener.setblocking(False)
    return listener


def _start(assignment: Assignment, ingest_service: IngestServer | None) -> subprocess.Popen[bytes]:
    inherited = [assignment.listener, assignment.metrics]
    with ExitStack() as ends:
        if ingest_service is not None:
            end = ends.enter_context(ingest_service.connect())
            assignment = replace(assignment, ingest_service=end.fileno())
            inherited.append(end.fileno())
        child = subprocess.Popen(
            [sys.executable, "-m", "belvedere.api.serving.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=inherited,
            process_group=0,  # Ctrl-C in a terminal is for the parent, which closes the pipe
        )
    assert child.stdin is not None
    try:
        pickle.dump(assignment, child.stdin)
        child.stdin.flush()
    except BrokenPipeError:  # it died at once: its supervisor reports that
        pass
    return child
