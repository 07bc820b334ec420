"""`belvedere run`: maintain a script's views and serve them.

In: a script, a store, a port. Out: the API's URL as the first line, then a line per epoch or a live table. The exit
code is 0 after a stop or `--once`, and 1 on errors in script, data or store. Separate processes run the API; this one
runs Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError, Severity
from belvedere.optimize.costs import known_coefficients
from belvedere.process.activity import NOW
from belvedere.process.tracing import traced_by_environment
from belvedere.project.settings import ProjectSettings
from belvedere.spark.jvm.java import use_java
from belvedere.spark.run.stop_flag import StopFlag, stop_on_signals
from belvedere.terminal.addresses import StoreOption, host_of, port_of
from belvedere.terminal.logs import LogFormat, LogLines, log_line, logged, report, write_log
from belvedere.terminal.output import has_errors, read_script
from belvedere.terminal.progress_line import UnderWay, stamped
from belvedere.terminal.stores import compile_over_store, store_url


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    port: Annotated[
        int | None, typer.Option("--port", help="the API's port; 0 takes a free one", min=0, max=65535)
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="the API's host; a public one needs a token")] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="where Spark runs: spark://host:7077, yarn, k8s://..., local[4]")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="process the available input, commit, and exit")] = False,
    accept_clock: Annotated[
        bool,
        typer.Option("--accept-clock", help="accept this machine's clock though it jumped or is behind the store's"),
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="while another run has the store, wait, and take over when it ends")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="continue even if the start drops served data (`belvedere plan`)")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
    log: Annotated[
        LogFormat, typer.Option("--log", help="json: log one JSON object per line to stderr")
    ] = LogFormat.TEXT,
) -> int:
    """Maintain a script's views and serve them."""
    with logged(log):
        code: int | None = None
        while code is None:
            code = _maintained(
                script,
                store,
                port,
                host,
                master,
                once=once,
                accept_clock=accept_clock,
                standby=standby,
                yes=yes,
                json=json,
                log=log,
            )
        return code


def _maintained(
    script: Path,
    store: str | None,
    port: int | None,
    host: str | None,
    master: str | None,
    *,
    once: bool,
    accept_clock: bool,
    standby: bool,
    yes: bool,
    json: bool,
    log: LogFormat,
) -> int | None:
    """Return the exit code; None if a run on standby has found that the script must be compiled again."""
    text = read_script(script)
    project = load_project(script.parent)
    if master is not None:
        project = replace(project, spark={**project.spark, "master": master})
    from belvedere.commands.plan import (
        confirm_deployment,
        deployment_of,
    )  # imported when the command runs, not for its help
    from belvedere.engine.store_folders import state_root
    from belvedere.store.dialects.connection_retry import keep_trying

    if not has_errors(project.diagnostics):  # otherwise its store may be wrong
        waits = standby or project.standby
        keep_trying(lambda: bring_up_to_date(store_url(store, project, script), log, waits))
    over = keep_trying(lambda: compile_over_store(script, text, store, project, starting=True))
    if has_errors(over.diagnostics):
        report(over.diagnostics, {str(script): text}, log)
        return 1
    url, project, catalog = over.url, over.project, over.catalog
    report([d for d in over.diagnostics if d.severity is Severity.WARNING], {str(script): text}, log)
    state = state_root(url, script, project.state)
    deployment = keep_trying(lambda: deployment_of(catalog, url, project, state))
    if not yes and not confirm_deployment(deployment, None if log is LogFormat.TEXT else _log_plan):
        return 1
    if deployment.refusals:  # before the API and Spark start
        raise deployment.refusals[0]
    address = (host_of(host, project), port_of(port, project))

    def unchanged() -> bool:
        return compile_over_store(script, text, store, load_project(script.parent), starting=True).catalog == catalog

    with stop_on_signals() as stopped, traced_by_environment():
        is_done = run(
            script,
            catalog,
            project,
            url,
            address,
            once=once,
            json=json,
            stopped=stopped,
            accept_clock=accept_clock,
            unchanged=unchanged if standby or project.standby else None,
            log=log,
        )
        return 0 if is_done else None
    return 0


def bring_up_to_date(url: str, log: LogFormat, waits: bool = False) -> None:
    """Migrate a store of an earlier version to this version before it is read, and report that.

    `waits`: if a run of that version holds the store, wait for its end.
    """
    from belvedere.store import migrate_store  # imported when the command runs, not for its help
    from belvedere.store.system import FORMAT

    while True:
        try:
            steps = migrate_store(url)
            break
        except BelvedereError as error:
            if not waits or error.diagnostics[0].code != "B7006":
                raise
        time.sleep(0.5)
    if steps:
        message = f"the store was upgraded to format {FORMAT}: {', '.join(step.what for step in steps)}"
        if log is LogFormat.TEXT:
            typer.echo(message, err=True)
        else:
            write_log(message)


def _log_plan(text: str) -> None:
    write_log("the start changes views", plan=text.splitlines())


def run(
    script: Path,
    catalog: Catalog,
    project: ProjectSettings,
    url: str,
    address: tuple[str, int | None],
    *,
    once: bool,
    json: bool,
    stopped: StopFlag,
    accept_clock: bool = False,
    unchanged: Callable[[], bool] | None = None,
    log: LogFormat = LogFormat.TEXT,
) -> bool:
    """Open the store, start the API, then Spark, and run epochs until `stopped` is set or `once` is done.

    With `unchanged`, wait while another run has the store. Return False if the script must be compiled again.
    """
    from belvedere.api.serving.processes import server_settings, start_api  # imports PySpark, which takes a second
    from belvedere.commands.calibrate import costs_path
    from belvedere.spark.run.runner import Runner
    from belvedere.terminal.run_display import display_for

    host, port = address
    server_settings(host, project.api)  # reports an invalid address before anything starts
    use_java()
    display = display_for(json) if log is LogFormat.TEXT else LogLines(json)

    def phase(text: str) -> None:
        NOW.begin(text)
        display.phase(text)

    costs = known_coefficients(costs_path()) if project.optimize.get("at_start") else None
    with (
        Runner(
            script,
            catalog,
            project,
            url,
            once=once,
            accept_clock=accept_clock,
            costs=costs,
            standby=unchanged is not None,
        ) as runner,
        start_api(
            catalog,
            runner.store_url,
            port,
            host,
            settings=project.api,
            ingest_service=runner.server,
            heals=True,
            standby=runner.is_standby,
            notify=display.notice,
        ) as api,
    ):
        runner.unchanged = unchanged or runner.unchanged
        runner.took_over = partial(api.set_standby, False)
        runner.requests, runner.heals = api.requests, api.heals
        display.start(api.url, runner.store_url)
        try:
            with UnderWay(quiet=json, draws=False, line_of=stamped if log is LogFormat.TEXT else log_line):
                runner.run(display.progress, stopped, display.notice, phase)
        finally:
            display.end()
        return not runner.is_outdated
