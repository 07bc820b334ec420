"""Where a store is, and at which address the API of `belvedere run` and `belvedere serve` listens.

In: what the command line gave, and the project file. Out: a host, a port. Whether the address may be used is for the API to say.
"""

from __future__ import annotations

from typing import Annotated

import typer

from belvedere.project.settings import ProjectSettings

LOOPBACK = "127.0.0.1"

StoreOption = Annotated[
    str | None, typer.Option("--store", help="where views are stored: sqlite:///file.db, postgresql://...")
]
"""The option of commands that work on a store."""


def host_of(given: str | None, project: ProjectSettings) -> str:
    """The address that was asked for, else the project file's, else the loopback address."""
    return given or str(project.api.get("host", LOOPBACK))


def port_of(given: int | None, project: ProjectSettings) -> int | None:
    """Return the requested port, or None."""
    return given if given is not None else project.api.get("port")
