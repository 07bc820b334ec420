"""Shared input and output of commands: reading the script that an argument names, printing diagnostics.

In: paths and diagnostics. Out: text on a stream. It decides no exit code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from belvedere.errors import Diagnostic, Severity
from belvedere.terminal.diagnostics import as_json, render, summary

if TYPE_CHECKING:
    from rich.table import Table


ENDLESS = 10_000
"""Number of columns of a line that is never wrapped."""


def read_script(path: Path) -> str:
    """Return the text of a script. A wrong path is a usage error."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise typer.BadParameter(f"there is no file `{path}`") from error
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"`{path}` cannot be read: {error}") from error


def in_quotes(text: str) -> str:
    """Quote a text for JSON and belvedere.toml."""
    return json.dumps(text, ensure_ascii=False)


def coloured(stream: IO[str]) -> bool:
    """Return whether to use colours: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def show(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], *, stream: IO[str] | None = None) -> None:
    """Print diagnostics for people."""
    out = stream or sys.stdout
    found = list(diagnostics)
    known = with_texts(found, texts)
    text = render(found, known, colour=coloured(out))
    if text:
        out.write(text + "\n" + summary(found) + "\n")
        out.flush()


def quarantine_notice(held: Mapping[str, int | None]) -> str:
    """Return the views in quarantine, with their last good epochs, one per line."""
    rows = (
        (name, "no epoch has filled it yet" if epoch is None else f"its rows are those of epoch {epoch}")
        for name, epoch in held.items()
    )
    return "".join(f"warning: `{name}` is in quarantine: {said}\n" for name, said in rows)


def with_texts(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts, and those of other files to which diagnostics refer."""
    known = dict(texts)
    for diagnostic in diagnostics:
        for span in (diagnostic.span, *(label.span for label in diagnostic.labels)):
            if span is not None and span.file not in known:
                try:
                    known[span.file] = Path(span.file).read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError, ValueError):
                    continue
    return known


def print_table(table: Table, stream: IO[str] | None = None) -> None:
    """Print a table as wide as the terminal. Without a terminal, print it as wide as its rows."""
    out = stream or sys.stdout
    from rich.console import Console  # takes long, and only a terminal needs it

    console = Console(file=out)
    if not out.isatty():
        console.width = console.measure(table, options=console.options.update(width=ENDLESS)).maximum
    console.print(table)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented for people."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def diagnostics_json(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return diagnostics as plain values."""
    found = list(diagnostics)
    known = with_texts(found, texts)
    return [as_json(d, known) for d in found]


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether one of the diagnostics is an error."""
    return any(d.severity is Severity.ERROR for d in diagnostics)
