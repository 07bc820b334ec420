"""`belvedere init`: create a small working project.

In: a folder, and optionally a folder of data files or the URL of a source. Out: a script, `belvedere.toml` and, without
a source, sample data in the folder. It overwrites nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from belvedere.project.settings import FILE_NAME
from belvedere.terminal.init_from import NewProject, project_from
from belvedere.terminal.init_from_address import SCHEMES, project_from_address
from belvedere.terminal.output import print_json

SCRIPT = "shop.sqrl"
ON_ERROR = (
    'on_error = "quarantine"     # a view that fails on a row is paused, the others continue; or "null", or "stop"'
)
"""Line of project files that are created for a source; the template has its own."""
ADDRESSES = "write a folder, kafka://host:port or postgres://user@host/database"


def command(
    directory: Annotated[Path, typer.Argument(help="the project's directory; created if it does not exist")] = Path(),
    data: Annotated[
        str | None,
        typer.Option("--from", help="the project's data: a folder of files, kafka://host:port, postgres://..."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry", help="the schema registry of the messages: http://host:port, with a kafka:// address"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the files as JSON")] = False,
) -> int:
    """Create a small working project: a script, belvedere.toml and sample data, or over files, Kafka or Postgres."""
    if directory.exists() and not directory.is_dir():
        raise typer.BadParameter(f"`{directory}` is not a directory")
    if registry is not None and not (data or "").startswith("kafka://"):
        raise typer.BadParameter("`--registry` goes with `--from kafka://host:port`")
    made = (
        NewProject(dict(_template(files("belvedere.commands") / "template", Path())))
        if data is None
        else _saying_more(_over(directory, data, registry))
    )
    contents, script = made.contents, SCRIPT if data is None else str(next(iter(made.contents)))
    existing = [path for path in contents if (directory / path).exists()]
    if existing:
        typer.echo(f"{directory / existing[0]} exists already: nothing was written", err=True)
        return 1
    for path, text in contents.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    for line in made.left_out:
        typer.echo(line, err=True)
    written = [str(directory / path) for path in contents]
    if json:
        more = {"left_out": list(made.left_out), "to_do": list(made.to_do)}
        print_json({"files": written, "script": str(directory / script)} | {k: v for k, v in more.items() if v})
    else:
        typer.echo("\n".join(written))
        for line in ("", *made.to_do) if made.to_do else ():
            typer.echo(line)
        typer.echo(f"\nnow try: belvedere run {shlex.quote(str(directory / script))}")
    return 0


def _saying_more(made: NewProject) -> NewProject:
    """Return the project with comments that explain its settings."""
    file = Path(FILE_NAME)
    return replace(made, contents={**made.contents, file: f"{ON_ERROR}\n\n{made.contents[file]}"})


def _over(directory: Path, data: str, registry: str | None) -> NewProject:
    """Return a project for the source of `--from`."""
    if "://" in data:
        if data.partition("://")[0] not in SCHEMES:
            raise typer.BadParameter(ADDRESSES)
        return project_from_address(data, registry)
    if not Path(data).is_dir():
        raise typer.BadParameter(f"`{data}` is not a directory: {ADDRESSES}")
    return project_from(directory, Path(data))


def _template(folder: Traversable, below: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _template(entry, below / entry.name)
        else:
            yield below / entry.name, entry.read_text(encoding="utf-8")
