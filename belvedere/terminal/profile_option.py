"""`--profile` and `--var`, options of every command that reads belvedere.toml.

In: a command's function. Out: the function with these options. They set BELVEDERE_PROFILE and BELVEDERE_VAR_name during
the command, so that all code that reads the project, and child processes, use that profile.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from belvedere.project.profiles import PROFILE_VARIABLE, VARIABLE_PREFIX

ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", help=f"the profile of belvedere.toml; default: {PROFILE_VARIABLE}", metavar="NAME"),
]
VariableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--var",
        help="the value of {{name}} in scripts, before that of belvedere.toml; may be repeated",
        metavar="NAME=VALUE",
    ),
]


def with_profile(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options `--profile` and `--var` after its own."""

    @wraps(command)
    def profiled(*args: Any, profile: str | None = None, var: list[str] | None = None, **named: Any) -> Any:
        with ExitStack() as changed:
            changed.enter_context(_environment(PROFILE_VARIABLE, profile))
            for given in var or ():
                name, equals, value = given.partition("=")
                if not equals or not name.strip():
                    raise typer.BadParameter(f"`{given}` is no variable: write --var name=value")
                changed.enter_context(_environment(VARIABLE_PREFIX + name.strip(), value))
            return command(*args, **named)

    hints = {**get_type_hints(command, include_extras=True), "profile": ProfileOption, "var": VariableOption}
    added = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in ("profile", "var")]
    own = inspect.signature(command)
    parameters = [p.replace(annotation=hints[p.name]) for p in (*own.parameters.values(), *added)]
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
