"""`belvedere fmt`: format scripts.

In: scripts, or `-` for standard input. Out: rewritten files; with `--check` exit code 1 if one would change.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from belvedere.syntax.fmt.script_layout import format_script
from belvedere.syntax.parse import parse_script
from belvedere.terminal.output import has_errors, print_json, read_script, show


def command(
    scripts: Annotated[list[Path], typer.Argument(help="scripts (.sqrl), or - for standard input", metavar="SCRIPT")],
    check: Annotated[bool, typer.Option("--check", help="change no file; exit 1 if a script is not formatted")] = False,
    json: Annotated[bool, typer.Option("--json", help="print the changed files as JSON")] = False,
) -> int:
    """Format scripts. A script with syntax errors is not changed."""
    if [str(path) for path in scripts] == ["-"]:
        return _from_standard_input()
    texts = {path: read_script(path) for path in scripts}
    changed, failed = [], []
    for path, text in texts.items():
        diagnostics = parse_script(text, str(path)).diagnostics
        if has_errors(diagnostics):
            failed.append(path)
            show(diagnostics, {str(path): text}, stream=sys.stderr)
            continue
        formatted = format_script(text)
        if formatted != text:
            changed.append(path)
            if not check:
                path.write_text(formatted, encoding="utf-8")
    if json:
        print_json({"changed": [str(p) for p in changed], "failed": [str(p) for p in failed]})
    else:
        for path in changed:
            typer.echo(f"{path}: {'would change' if check else 'changed'}")
    return 1 if failed or (check and changed) else 0


def _from_standard_input() -> int:
    text = sys.stdin.read()
    diagnostics = parse_script(text, "standard input").diagnostics
    if has_errors(diagnostics):
        show(diagnostics, {"standard input": text}, stream=sys.stderr)
        return 1
    sys.stdout.write(format_script(text))
    return 0
