"""`belvedere quarantine`: views that are paused after a failure. `list` shows them, `retry` makes a run retry them at
once.

In: a script, its store; for `retry` the URL of the run. Out: the views and why they failed. This command changes
nothing itself: `retry` calls the run's API (`POST /quarantine/retry`).
"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import typer

from belvedere.engine.errors.failed_stages import Failed, failures_of
from belvedere.engine.errors.quarantine import failure_text
from belvedere.errors import fail
from belvedere.project.settings import ProjectSettings
from belvedere.store import open_reader
from belvedere.terminal.addresses import StoreOption, host_of, port_of
from belvedere.terminal.output import print_json
from belvedere.terminal.stores import sound_project, store_url

PATH = "/quarantine/retry"
DEFAULT_PORT = 8080
TIMEOUT_SECONDS = 30


def command(
    what: Annotated[str, typer.Argument(help="`list`, or `retry`", metavar="list|retry")],
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    url: Annotated[
        str | None, typer.Option("--url", help="for `retry`: the run's address, as `belvedere run` prints it")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="for `retry`: the token, instead of the project file's `token`")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """List the views in quarantine and why they failed, or make a run retry them at once."""
    if what not in ("list", "retry"):
        raise typer.BadParameter("write `belvedere quarantine list SCRIPT` or `belvedere quarantine retry SCRIPT`")
    project = sound_project(script)
    return _list(store_url(store, project, script), json) if what == "list" else _retry(project, url, token, json)


def _list(url: str, json: bool) -> int:
    failed = _failed(url)
    if json:
        print_json({"quarantined": [f.as_document() for f in failed]})
    else:
        typer.echo("\n".join(map(failure_text, failed)) or "no view is in quarantine")
    return 0


def _failed(url: str) -> tuple[Failed, ...]:
    """Return the failed views of the store's last epoch. Raises B7014 if there is no store."""
    reader = open_reader(url)
    try:
        last = reader.last_epoch()
    finally:
        reader.close()
    return () if last is None else failures_of(last.extra)


def _retry(project: ProjectSettings, url: str | None, token: str | None, json: bool) -> int:
    found = _asked(
        url or f"http://{host_of(None, project)}:{port_of(None, project) or DEFAULT_PORT}",
        token or project.api.get("token"),
    )
    if json:
        print_json(found)
    else:
        names = ", ".join(held["view"] for held in found["quarantined"])
        typer.echo(
            f"retrying: {names}; see the result in `belvedere quarantine list`" if names else "no view is in quarantine"
        )
    return 0


def _asked(url: str, token: str | None) -> Any:
    """Return the run's answer. Raises B9128 if there is none."""
    request = Request(f"{url.rstrip('/')}{PATH}", b"", {"authorization": f"Bearer {token}"} if token else {})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_SECONDS) as answer:
            return json_module.loads(answer.read())
    except HTTPError as error:
        reported = _problem(error)
        hint = reported.get("hint") or 'pass a token with `rights = ["admin"]`: `--token`'
        raise fail("B9128", f"{url} refuses: {reported.get('title', error.reason)}", hint=hint) from error
    except (URLError, OSError, ValueError) as error:
        hint = "`belvedere run` prints its address when it starts: write `--url http://127.0.0.1:PORT`"
        raise fail("B9128", f"no server answers at {url}", hint=hint, detail=str(error)) from error


def _problem(error: HTTPError) -> dict[str, Any]:
    try:
        found = json_module.loads(error.read())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
