"""Location of a store, and the address at which the API of `belvedere run` and `belvedere serve` listens.

In: the command line's options, and the project file. Out: a host, a port. The API decides whether the address is
allowed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from belvedere.project.settings import ProjectSettings

LOOPBACK = "127.0.0.1"

StoreOption = Annotated[
    str | None, typer.Option("--store", help="where views are stored: sqlite:///file.db, postgresql://...")
]
"""Option of commands that use a store."""


def host_of(given: str | None, project: ProjectSettings) -> str:
    """Return the requested address, else the project file's, else the loopback address."""
    return given or str(project.api.get("host", LOOPBACK))


def port_of(given: int | None, project: ProjectSettings) -> int | None:
    """Return the requested port, or None."""
    return given if given is not None else project.api.get("port")
