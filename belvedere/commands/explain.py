"""`belvedere explain`: the long text of a diagnostic's code, or how a script's views are maintained.

In: a code (`B1003`) or a script. Out: text. `belvedere.terminal.explained_script` explains scripts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from belvedere.codes import CODES
from belvedere.syntax.wording import did_you_mean
from belvedere.terminal.output import print_json


def command(
    subject: Annotated[str, typer.Argument(help="a code such as B1003, or a script", metavar="CODE|SCRIPT")],
    view: Annotated[str | None, typer.Argument(help="only this view of the script", metavar="[VIEW]")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="print this view as standard SQL", metavar="VIEW")] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="show the operator state in this store", metavar="STORE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Explain an error code, or how a script's views are maintained."""
    if re.fullmatch(r"[Bb]\d{4}", subject):
        return explain_code(subject.upper(), json=json)
    from belvedere.terminal.explained_script import explain_script  # imported when the command runs, not for its help

    return explain_script(Path(subject), view=view, sql=sql, json=json, state=state)


def explain_code(code: str, *, json: bool) -> int:
    """Print the long text of a code."""
    entry = CODES.get(code)
    if entry is None:
        raise typer.BadParameter(f"there is no code {code}: {did_you_mean(code, CODES)}")
    if json:
        print_json({"code": entry.code, "title": entry.title, "text": entry.text})
    else:
        typer.echo(f"{entry.code}: {entry.title}\n\n{entry.text}")
    return 0
