"""`belvedere restore`: restore a store from a backup.

In: a script, a backup's folder, the store to create. Out: the store as of the backup's epoch; the next start continues
from there.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from belvedere.terminal.output import print_json, read_script
from belvedere.terminal.stores import sound_project, store_url


def command(
    script: Annotated[Path, typer.Argument(help="the script of the store (.sqrl)", metavar="SCRIPT")],
    folder: Annotated[Path, typer.Argument(help="what `belvedere backup` has written", metavar="FOLDER")],
    store: Annotated[
        str | None, typer.Option("--store", help="the store to create: sqlite:///file.db, postgresql://...")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print a JSON summary of the restored store")] = False,
) -> int:
    """Restore a store from a backup. The store must not exist yet."""
    read_script(script)
    from belvedere.backups import restore_backup  # imported when the command runs, not for its help
    from belvedere.engine.store_folders import JOURNAL_ENDING, folder_of, state_root

    project = sound_project(script)
    url = store_url(store, project, script)
    intake = folder_of(url, script, JOURNAL_ENDING)
    contents, more = restore_backup(folder, url, intake, state_root(url, script, project.state))
    if more:
        typer.echo(f"pushes since the backup were copied from {intake / contents.store}: {more:,}", err=True)
    if json:
        print_json(asdict(contents))
    else:
        typer.echo(
            f"the store is at epoch {contents.epoch:,} of {contents.clock}; `belvedere run {script}` continues from "
            "there"
        )
    return 0
