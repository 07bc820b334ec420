"""`belvedere check`: a script's diagnostics, without Spark.

In: a script's path. Out: diagnostics for people or as JSON; exit code 1 if one is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from belvedere.commands.output import diagnostics_json, has_errors, print_json, read_script, show
from belvedere.errors import Diagnostic


def command(
    scripts: Annotated[list[Path], typer.Argument(help="scripts (.sqrl)", metavar="SCRIPT")],
    json: Annotated[bool, typer.Option("--json", help="print the diagnostics as JSON")] = False,
) -> int:
    """Say what is wrong with a script, in under a second and without Spark."""
    texts = {str(path): read_script(path) for path in scripts}
    found: list[Diagnostic] = []
    for path in scripts:
        found += check(texts[str(path)], path)
    found = list(dict.fromkeys(found))
    failed = has_errors(found)
    if json:
        print_json({"ok": not failed, "diagnostics": diagnostics_json(found, texts)})
    elif found:
        show(found, texts)
    else:
        typer.echo(f"{', '.join(texts)}: fine")
    return 1 if failed else 0


def check(text: str, path: Path) -> tuple[Diagnostic, ...]:
    """The diagnostics of a script and of its project file."""
    from belvedere.commands.stores import with_columns_at_hand
    from belvedere.compiler import compile_script
    from belvedere.settings import load_project

    project = with_columns_at_hand(load_project(path.parent), path)
    compiled = compile_script(text, path=path, project=project)
    return tuple(dict.fromkeys((*project.diagnostics, *compiled.diagnostics)))
