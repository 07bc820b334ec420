"""A serving process: `python -m belvedere.api.serving.child`, started by `belvedere.api.serving.processes`.

In: a pickled `Assignment` on standard input, with inherited descriptors of a listening socket and of the shared
metrics. Out: HTTP answers until standard input ends, which also happens if the parent is killed. Running requests are
answered first. It never imports Spark.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import socket
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import uvicorn

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.http.connections import IDLE_SECONDS, Connection
from belvedere.api.http.garbage_collection import collect_when_idle, shorten_collections
from belvedere.api.http.metrics import Metrics
from belvedere.api.http.proxies import behind_proxy
from belvedere.catalog.catalog import Catalog
from belvedere.intake.wire import IngestClient
from belvedere.store import open_reader, open_served_reader

END_SECONDS = 4.0
"""Maximum seconds for running requests when the parent stops; the parent waits a little longer."""


@dataclass(frozen=True)
class Assignment:
    """Parameters of a serving process. They come through a pipe, because command lines are visible to other users."""

    catalog: Catalog
    store_url: str
    settings: ServerSettings
    listener: int
    metrics: int
    process: int
    processes: int
    ingest_service: int | None = None
    """Descriptor of a socket to the ingest service that accepts pushes; None if there is none."""
    heals: bool = False
    """Whether the process that starts this one runs epochs."""


def serve(assignment: Assignment, pipe: BinaryIO) -> None:
    """Serve until `pipe` ends."""
    made = assignment.settings
    metrics = Metrics(assignment.metrics, assignment.process, assignment.processes, assignment.catalog.endpoints)
    reader = partial(open_served_reader, assignment.store_url, made.limits.seconds, made.connections)
    ingest_service = IngestClient(
        None if assignment.ingest_service is None else socket.socket(fileno=assignment.ingest_service)
    )
    whole = partial(open_reader, assignment.store_url, made.limits.seconds)
    application = Application(assignment.catalog, reader, made, metrics, ingest_service, whole, assignment.heals)
    _allow_descriptors()
    shorten_collections()
    config = uvicorn.Config(
        behind_proxy(application),
        http=Connection,
        ws="websockets-sansio",
        ws_max_size=200_000,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=2048,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=_end_with, args=(pipe, loop, ended), daemon=True).start()
        serving = loop.create_task(server.serve([socket.socket(fileno=assignment.listener)]))
        ending = loop.create_task(ended.wait())
        collecting = loop.create_task(collect_when_idle(lambda: application.is_idle))
        await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
        await application.end(END_SECONDS)
        server.should_exit = True
        await serving
        collecting.cancel()

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())
    os._exit(0)  # do not wait for a thread that reads the store


def _end_with(pipe: BinaryIO, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Set the event when the parent's end of the pipe is closed."""
    while pipe.read(1):
        pass
    loop.call_soon_threadsafe(ended.set)
    time.sleep(END_SECONDS + 3)
    os._exit(0)


def _allow_descriptors() -> None:
    """Raise the limit of open files to the system's maximum: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    pipe = sys.stdin.buffer
    serve(pickle.load(pipe), pipe)


if __name__ == "__main__":
    # under its own name, so that the parent can pickle it
    from belvedere.api.serving.child import main as run

    run()
