"""`belvedere serve`: the API alone, over an existing store.

In: a script, a store's URL, an address. Out: the API's URL on the first line, then nothing until it is stopped. It
starts no Spark.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from functools import partial
from json import dumps
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from belvedere.connectors.project_file import load_project
from belvedere.errors import Diagnostic, Severity
from belvedere.terminal.addresses import StoreOption, host_of, port_of
from belvedere.terminal.logs import LogFormat, logged, report, write_log
from belvedere.terminal.output import has_errors, read_script
from belvedere.terminal.stores import compile_over_store


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    port: Annotated[int | None, typer.Option("--port", help="the port; 0 takes a free one", min=0, max=65535)] = None,
    host: Annotated[str | None, typer.Option("--host", help="the host; a public one needs a token")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the URL as one JSON object on a line")] = False,
    log: Annotated[
        LogFormat, typer.Option("--log", help="json: log one JSON object per line to stderr")
    ] = LogFormat.TEXT,
) -> int:
    """Serve the views of an existing store."""
    with logged(log):
        return _served(script, store, port, host, json=json, log=log)


def _served(script: Path, store: str | None, port: int | None, host: str | None, *, json: bool, log: LogFormat) -> int:
    text = read_script(script)
    project = load_project(script.parent)

    over = compile_over_store(script, text, store, project)
    if has_errors(over.diagnostics):
        report(over.diagnostics, {str(script): text}, log)
        return 1
    url, project, catalog = over.url, over.project, over.catalog
    from belvedere.api.reads.entities import model_of  # imported when the command runs, not for its help
    from belvedere.api.serving.processes import DEFAULT_PORT, start_api
    from belvedere.store import open_reader

    address, asked = host_of(host, project), port_of(port, project)
    open_reader(url).close()  # a store that is missing or damaged is reported at once
    _report_omitted(model_of(catalog).omitted, script, text, log)
    stopped = Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    hear = _print if log is LogFormat.TEXT else partial(write_log, level="WARNING")
    with start_api(
        catalog, url, DEFAULT_PORT if asked is None else asked, address, settings=project.api, notify=hear
    ) as api:
        api.wait_until_listening()
        if log is LogFormat.JSON:
            write_log("the API listens", url=api.url)
        typer.echo(dumps({"url": api.url}) if json else api.url)
        sys.stdout.flush()
        stopped.wait()
    return 0


def _print(text: str) -> None:
    typer.echo(text, err=True)


def _report_omitted(omitted: tuple[Diagnostic, ...], script: Path, text: str, log: LogFormat) -> None:
    """Report relationships and templates that the API cannot show as warnings; everything else is served."""
    if omitted:
        report([replace(d, severity=Severity.WARNING) for d in omitted], {str(script): text}, log)
