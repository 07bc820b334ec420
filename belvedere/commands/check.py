"""`belvedere check`: a script's diagnostics. Only its options for Spark's analyzer and for data start Spark.

In: a script's path. Out: diagnostics as text or JSON, with `--data` also for rows of the sources. The exit code is 1 on
an error, if a source cannot be read, or if none of its rows is valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from belvedere.errors import Diagnostic, Severity
from belvedere.terminal.output import diagnostics_json, has_errors, print_json, read_script, show

if TYPE_CHECKING:
    from belvedere.compiler import Compiled
    from belvedere.project.settings import ProjectSettings
    from belvedere.terminal.data_checks import Looked


ROWS = 1_000


def command(
    scripts: Annotated[list[Path], typer.Argument(help="scripts (.sqrl)", metavar="SCRIPT")],
    json: Annotated[bool, typer.Option("--json", help="print the diagnostics as JSON")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="start Spark and analyze every generated query with it")
    ] = False,
    data: Annotated[
        bool,
        typer.Option(
            "--data", help="sample rows from each source and report those that do not fit; sources are only read"
        ),
    ] = False,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="the number of rows of each table that --data samples")
    ] = ROWS,
) -> int:
    """Check a script for errors, in under a second and without Spark; --spark adds Spark's analyzer, --data checks rows
    of the sources."""
    texts = {str(path): read_script(path) for path in scripts}
    found: list[Diagnostic] = []
    looked: list[Looked] = []
    wrong: list[Path] = []
    for path in scripts:
        project, compiled = _compiled(texts[str(path)], path)
        own = (*project.diagnostics, *compiled.diagnostics)
        found += own
        if _is_wrong(own):
            wrong.append(path)
        elif data:
            looked += _looked(project, compiled, rows)
    if spark and not has_errors(found):
        found += analyzed(texts)
    found = list(dict.fromkeys(found))
    failed = has_errors(found) or any(one.failed for one in looked)
    if json:
        answer = {"ok": not failed, "diagnostics": diagnostics_json(found, texts)}
        print_json(answer | _data_json(looked, wrong, len(scripts)) if data else answer)
        return 1 if failed else 0
    if found:
        show(found, texts)
    else:
        typer.echo(f"{', '.join(texts)}: fine")
    if data:
        _show_data(looked, wrong, len(scripts))
    return 1 if failed else 0


def _is_wrong(found: Sequence[Diagnostic]) -> bool:
    """Return whether there are errors, and no error of a source, which may cause the others."""
    errors = [d for d in found if d.severity is Severity.ERROR]
    return bool(errors) and not any(d.code.startswith("B6") for d in errors)


def _show_data(looked: list[Looked], wrong: Sequence[Path], scripts: int) -> None:
    from belvedere.terminal.data_checks import show_data  # imported when the command runs, not for its help

    typer.echo("")
    if len(wrong) < scripts:
        show_data(looked)
    if wrong:
        typer.echo(f"{', '.join(map(str, wrong))}: correct these errors before the data can be checked")


def _data_json(looked: list[Looked], wrong: Sequence[Path], scripts: int) -> dict[str, Any]:
    """Return the findings of `--data` as JSON; None if every script has errors."""
    from belvedere.terminal.data_checks import as_json  # imported when the command runs, not for its help

    return {"data": as_json(looked) if len(wrong) < scripts else None}


def _looked(project: ProjectSettings, compiled: Compiled, rows: int) -> list[Looked]:
    """Return the check of each imported table that the script knows, including those of unavailable sources."""
    from belvedere.connectors.registry import SourceTables  # imported when the command runs, not for its help
    from belvedere.terminal.data_checks import look_at

    assert isinstance(project.finder, SourceTables)
    return look_at(compiled.catalog, project, project.finder, rows)


def _compiled(text: str, path: Path) -> tuple[ProjectSettings, Compiled]:
    from belvedere.compiler import compile_script  # imported when the command runs, not for its help
    from belvedere.connectors.project_file import load_project
    from belvedere.connectors.registry import SourceTables
    from belvedere.terminal.stores import with_columns_at_hand

    project = replace(with_columns_at_hand(load_project(path.parent), path), finder=SourceTables())
    return project, compile_script(text, path=path, project=project)


def analyzed(texts: Mapping[str, str]) -> list[Diagnostic]:
    """Return the errors of Spark's analyzer for scripts without errors of their own."""
    from belvedere.pipeline.choose import maintain  # imports PySpark, which takes a second
    from belvedere.spark.analysis import analyze
    from belvedere.spark.jvm.quiet_session import batch_session

    with batch_session() as session:
        catalogs = [_compiled(text, Path(path))[1].catalog for path, text in texts.items()]
        return [d for catalog in catalogs for d in analyze(session, catalog, maintain(catalog))]
