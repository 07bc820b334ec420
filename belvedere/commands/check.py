"""`belvedere check`: a script's diagnostics, without Spark unless its analyzer is asked for.

In: a script's path. Out: diagnostics for people or as JSON; exit code 1 if one is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belvedere.commands.output import diagnostics_json, has_errors, print_json, read_script, show
from belvedere.errors import Diagnostic

if TYPE_CHECKING:
    from belvedere.compiler import Compiled
    from belvedere.settings import ProjectSettings


def command(
    scripts: Annotated[list[Path], typer.Argument(help="scripts (.sqrl)", metavar="SCRIPT")],
    json: Annotated[bool, typer.Option("--json", help="print the diagnostics as JSON")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="start Spark and ask its analyzer about the queries of every stage")
    ] = False,
) -> int:
    """Say what is wrong with a script, in under a second and without Spark; with --spark, what Spark says too."""
    texts = {str(path): read_script(path) for path in scripts}
    found: list[Diagnostic] = []
    for path in scripts:
        found += check(texts[str(path)], path)
    if spark and not has_errors(found):
        found += analyzed(texts)
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
    project, compiled = _compiled(text, path)
    return tuple(dict.fromkeys((*project.diagnostics, *compiled.diagnostics)))


def _compiled(text: str, path: Path) -> tuple[ProjectSettings, Compiled]:
    from belvedere.commands.stores import with_columns_at_hand
    from belvedere.compiler import compile_script
    from belvedere.settings import load_project

    project = with_columns_at_hand(load_project(path.parent), path)
    return project, compile_script(text, path=path, project=project)


def analyzed(texts: Mapping[str, str]) -> list[Diagnostic]:
    """What Spark's analyzer refuses in scripts without errors."""
    from belvedere.rules import maintain
    from belvedere.spark.analysis import analyze
    from belvedere.spark.quiet_session import batch_session

    with batch_session() as session:
        catalogs = [_compiled(text, Path(path))[1].catalog for path, text in texts.items()]
        return [d for catalog in catalogs for d in analyze(session, catalog, maintain(catalog))]
