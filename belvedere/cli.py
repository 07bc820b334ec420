"""The command line: `belvedere COMMAND ...`.

In: arguments. Out: an exit code: 0 success, 1 an error in the script or the data, 2 an error in the command line. Each
command is a module of `belvedere.commands` and is imported when it is called, so `check` starts without the imports of
`run`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from belvedere.errors import BelvedereError
from belvedere.terminal.profile_option import with_profile

# Depending on its version, typer contains click or uses the installed one: take the exceptions from its BadParameter.
CommandLineError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

COMMANDS = {
    "init": "create a small working project in a directory",
    "check": "check a script for errors, in under a second and without Spark",
    "fmt": "format scripts",
    "explain": "explain an error code, or how a script's views are maintained",
    "schema": "print the columns of imported tables, accept new ones, or print the GraphQL schema",
    "plan": "show what starting the script would change in a store",
    "sources": "show the progress of sources and the backlog of sinks",
    "run": "maintain a script's views and serve them",
    "rejected": "list rejected rows, or retry them",
    "quarantine": "list views in quarantine, or retry them in a run",
    "resend": "make the next run send all rows of an export again",
    "serve": "serve the views of an existing store",
    "backup": "back up a store as of one epoch, also while it is in use",
    "restore": "restore a store from a backup",
    "advise": "choose which views to maintain and which to compute at read time",
    "calibrate": "measure the costs of epochs and requests on this machine, for `advise`",
    "query": "run queries over files or a store",
    "why": "trace a row of a view back to the input rows it was computed from",
    "why-not": "explain why a view has no such row",
    "test": "run a script's tests",
    "lsp": "run the language server for an editor",
}

OLD_NAMES = {"optimize": "advise"}
"""Former names of commands, which still work but are not in the help."""

WITHOUT_PROJECT = {"init", "fmt", "calibrate"}
"""Commands that read no belvedere.toml, so there is no profile to choose."""


class LazyGroup(TyperGroup):
    """Group of commands that has their names and first lines, and imports a command's module when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if self._module(name) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        cmd_name = OLD_NAMES.get(cmd_name, cmd_name)
        module = self._module(cmd_name) if cmd_name in COMMANDS else None
        if module is None:
            return None
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        command = module.command if cmd_name in WITHOUT_PROJECT else with_profile(module.command)
        single.command(name=cmd_name, help=COMMANDS[cmd_name] if not command.__doc__ else None)(command)
        return get_command(single)

    def _module(self, name: str) -> Any:
        module = f"belvedere.commands.{name.replace('-', '_')}"
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name == module:
                return None
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=LazyGroup, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"belvedere {version('belvedere')}")
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version and exit"
    ),
) -> None:
    """Belvedere maintains views over streams on Apache Spark and serves them by GraphQL."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code. A user's mistake never ends in a traceback."""
    try:
        result = get_command(app)(args=arguments, prog_name="belvedere", standalone_mode=False)
    except CommandLineError as error:
        error.show()
        return 2
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BelvedereError as error:
        from belvedere.terminal.output import show  # commands that succeed do not need it

        show(error.diagnostics, {}, stream=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
