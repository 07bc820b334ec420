"""`belvedere init`: a small working project.

In: a directory, maybe a folder of data files. Out: a script, `belvedere.toml` and, without such a folder, sample data in it.
Overwrites nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from belvedere.commands.output import print_json

SCRIPT = "shop.sqrl"


def command(
    directory: Annotated[Path, typer.Argument(help="where the project goes; made if it is not there")] = Path(),
    data: Annotated[Path | None, typer.Option("--from", help="a folder of data files that the project reads")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the files as JSON")] = False,
) -> int:
    """Make a small working project in a directory: a script, belvedere.toml and sample data, or over a folder of data files."""
    if directory.exists() and not directory.is_dir():
        raise typer.BadParameter(f"`{directory}` is no directory")
    script, skipped = SCRIPT, list[str]()
    if data is None:
        contents = dict(_template(files("belvedere.commands") / "template", Path()))
    else:
        from belvedere.commands.init_from import project_from

        if not data.is_dir():
            raise typer.BadParameter(f"`{data}` is no directory")
        contents, skipped = project_from(directory, data)
        script = str(next(iter(contents)))
    existing = [path for path in contents if (directory / path).exists()]
    if existing:
        typer.echo(f"{directory / existing[0]} is there already: nothing was written", err=True)
        return 1
    for path, text in contents.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    for line in skipped:
        typer.echo(line, err=True)
    written = [str(directory / path) for path in contents]
    if json:
        print_json({"files": written, "script": str(directory / script)} | ({"left_out": skipped} if skipped else {}))
    else:
        typer.echo("\n".join(written))
        typer.echo(f"\nnow try: belvedere run {directory / script}")
    return 0


def _template(folder: Traversable, below: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _template(entry, below / entry.name)
        else:
            yield below / entry.name, entry.read_text(encoding="utf-8")
