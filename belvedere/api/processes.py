"""Serve from processes of their own: they hold the port, and end when this process does, however it ends.

In: a catalog, a store's URL, host and port. Out: a `Serving` with the URL. The children start at once and answer `/healthz`;
`/readyz` answers 200 from the store's first committed epoch on. Nothing is printed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from belvedere.api.child import Assignment
from belvedere.api.limits import limits_of
from belvedere.api.metrics import shared_file
from belvedere.api.server import LOCAL_HOSTS, ServerSettings
from belvedere.catalog import Catalog
from belvedere.errors import fail
from belvedere.intake.wire import DeskServer

DEFAULT_PORT = 8080


@dataclass
class Serving:
    """Running API processes."""

    url: str
    host: str
    port: int
    children: tuple[subprocess.Popen[bytes], ...]

    def alive(self) -> bool:
        """Whether all processes run."""
        return all(c.poll() is None for c in self.children)

    def wait_until_listening(self, seconds: float = 30.0) -> None:
        """Return when the API answers; raises B8011 where it does not within `seconds`."""
        opener = build_opener(ProxyHandler({}))
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive():
            try:
                with opener.open(f"{self.url}/healthz", timeout=2):
                    return
            except (URLError, OSError):
                time.sleep(0.02)
        raise fail("B8011", "the API's processes did not start", hint="look at their messages above")

    def close(self) -> None:
        """End the processes."""
        for child in self.children:
            if child.stdin is not None:
                child.stdin.close()
        for child in self.children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_api(
    catalog: Catalog,
    store_url: str,
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    processes: int | None = None,
    settings: Mapping[str, Any] | None = None,
    desk: DeskServer | None = None,
) -> Serving:
    """Start serving a catalog's public views out of a store, which may not be there yet.

    `desk` takes what clients push; without one they are told that nobody does.
    `port` 0 takes a free one. `settings` is the project file's `[api]`. Raises B8010 for a public address without a token,
    B8012 where the port is taken.
    """
    made = server_settings(host, settings or {})
    listener = _listen(host, port)
    count = processes or max(1, min(4, os.cpu_count() or 1))
    counts = shared_file(count)
    try:
        children = tuple(
            _start(Assignment(catalog, store_url, made, listener.fileno(), counts, i, count), desk) for i in range(count)
        )
        bound = listener.getsockname()[1]
    finally:
        listener.close()
        os.close(counts)
    shown = f"[{host}]" if ":" in host else host
    return Serving(f"http://{shown}:{bound}", host, bound, children)


def server_settings(host: str, settings: Mapping[str, Any]) -> ServerSettings:
    """The settings of a project file's `[api]` for an address; B8010 for a public one that anybody could read."""
    token = settings.get("token") or None
    local = is_loopback(host)
    if not local and token is None:
        raise fail(
            "B8010",
            f"the address {host} is public, and the API has no authentication",
            hint='write `token = "${env:BELVEDERE_TOKEN}"` under `[api]` in belvedere.toml, or serve on 127.0.0.1',
        )
    origins = settings.get("cors_origins", ())
    origins = (origins,) if isinstance(origins, str) else tuple(origins)
    return ServerSettings(limits_of(settings), token, origins, LOCAL_HOSTS | {host} if local else None)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        hint = "give another --port, or 0 for a free one"
        raise fail("B8012", f"the API cannot listen on {host}:{port}: {error}", hint=hint) from error
    listener.setblocking(False)
    return listener


def _start(assignment: Assignment, desk: DeskServer | None) -> subprocess.Popen[bytes]:
    inherited = [assignment.listener, assignment.metrics]
    with contextlib.ExitStack() as ends:
        if desk is not None:
            end = ends.enter_context(desk.connect())
            assignment = replace(assignment, desk=end.fileno())
            inherited.append(end.fileno())
        child = subprocess.Popen(
            [sys.executable, "-m", "belvedere.api.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=inherited,
            process_group=0,  # Ctrl-C in a terminal is for the parent, which closes the pipe
        )
    assert child.stdin is not None
    pickle.dump(assignment, child.stdin)
    child.stdin.flush()
    return child
