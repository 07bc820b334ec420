"""`belvedere backup`: a copy of a store as of one epoch, also while it is in use.

In: a script, its store, a folder. Out: the database, the operators' state and the journal of pushes in the folder. It
starts no Spark.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import print_json, read_script
from belvedere.terminal.stores import sound_project, store_url


def command(
    script: Annotated[Path, typer.Argument(help="the script of the store (.sqrl)", metavar="SCRIPT")],
    folder: Annotated[Path, typer.Argument(help="the backup folder: new or empty", metavar="FOLDER")],
    store: StoreOption = None,
    json: Annotated[bool, typer.Option("--json", help="print a JSON summary of the backup")] = False,
) -> int:
    """Back up a store as of one epoch, also while it is in use."""
    read_script(script)
    from belvedere.backups import take_backup  # imported when the command runs, not for its help
    from belvedere.engine.store_folders import JOURNAL_ENDING, folder_of, state_root

    started = time.perf_counter()
    project = sound_project(script)
    url = store_url(store, project, script)
    root = state_root(url, script, project.state)
    contents = take_backup(url, folder_of(url, script, JOURNAL_ENDING), folder, root)
    seconds = round(time.perf_counter() - started, 3)
    if json:
        print_json({"folder": str(folder), "bytes": contents.bytes, "seconds": seconds, **asdict(contents)})
    else:
        typer.echo(f"epoch {contents.epoch:,} is in {folder}: {contents.bytes:,} bytes in {seconds:.1f} s")
    return 0
