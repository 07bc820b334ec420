"""`--profile`, which every command that reads belvedere.toml has.

In: a command's function. Out: the same with the option: BELVEDERE_PROFILE for the time of the command, so that whatever reads the project
reads that profile.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from belvedere.project.profiles import PROFILE_VARIABLE

ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", help=f"the profile of belvedere.toml; else that of {PROFILE_VARIABLE}", metavar="NAME"),
]


def with_profile(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the option `--profile` after its own."""

    @wraps(command)
    def profiled(*args: Any, profile: str | None = None, **named: Any) -> Any:
        with _environment(PROFILE_VARIABLE, profile):
            return command(*args, **named)

    hints = {**get_type_hints(command, include_extras=True), "profile": ProfileOption}
    added = inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None)
    own = inspect.signature(command)
    parameters = [p.replace(annotation=hints[p.name]) for p in (*own.parameters.values(), added)]
    profiled.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    profiled.__annotations__ = hints
    return profiled


@contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    before = os.environ.get(name)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif value is not None:
            del os.environ[name]
