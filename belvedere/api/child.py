"""A serving process: `python -m belvedere.api.child`, started by `belvedere.api.processes`.

In: a pickled `Assignment` on standard input, with inherited descriptors of a listening socket and of the shared metrics. Out: HTTP
answers until standard input ends, which it does when the parent is gone, however it ended. It never imports Spark.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import uvicorn

from belvedere.api.metrics import Metrics
from belvedere.api.server import Application, ServerSettings
from belvedere.catalog import Catalog
from belvedere.intake.wire import DeskClient
from belvedere.store import open_reader


@dataclass(frozen=True)
class Assignment:
    """What a serving process needs to know. It comes through a pipe, so that nothing of it shows in a list of processes."""

    catalog: Catalog
    store_url: str
    settings: ServerSettings
    listener: int
    metrics: int
    process: int
    processes: int
    desk: int | None = None
    """The descriptor of a socket to the desk that takes pushes; None where nobody does."""


def serve(assignment: Assignment, pipe: BinaryIO) -> None:
    """Serve until `pipe` ends."""
    metrics = Metrics(assignment.metrics, assignment.process, assignment.processes)
    reader = partial(open_reader, assignment.store_url, assignment.settings.limits.seconds)
    desk = DeskClient(None if assignment.desk is None else socket.socket(fileno=assignment.desk))
    application = Application(assignment.catalog, reader, assignment.settings, metrics, desk)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    config = uvicorn.Config(
        application,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        backlog=2048,
        h11_max_incomplete_event_size=100_000,
        timeout_keep_alive=30,
    )
    uvicorn.Server(config).run([socket.socket(fileno=assignment.listener)])


def _end_with(pipe: BinaryIO) -> None:
    """End this process when the parent's end of the pipe is closed."""
    while pipe.read(1):
        pass
    os._exit(0)


def main() -> None:
    pipe = sys.stdin.buffer
    serve(pickle.load(pipe), pipe)


if __name__ == "__main__":
    # under its own name, so that the parent can pickle it
    from belvedere.api.child import main as run

    run()
