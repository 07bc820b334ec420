"""The log as data: one JSON object per line on stderr, for log collectors (`--log json`).

In: reports of a command, and records of Python's logging. Out: lines with `time` (UTC), `level`, `message` and further
fields. Output of Spark's JVM is not changed.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any

import typer

from belvedere.errors import BelvedereError, Diagnostic, Severity
from belvedere.terminal.diagnostics import as_json
from belvedere.terminal.output import show, with_texts

if TYPE_CHECKING:
    from belvedere.spark.run.run_loop import EpochProgress

LEVELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTICE: "INFO"}


class LogFormat(StrEnum):
    """Format of the log."""

    TEXT = "text"
    JSON = "json"


def log_line(message: str, level: str = "INFO", now: datetime | None = None, **fields: Any) -> str:
    """Return one object in one line: `time` as RFC 3339, `level`, `message`, then the fields."""
    time = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "message": message, **fields}, ensure_ascii=False, default=str)


def write_log(message: str, level: str = "INFO", **fields: Any) -> None:
    """Write one line of the log."""
    sys.stderr.write(log_line(message, level, **fields) + "\n")
    sys.stderr.flush()


def report(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], log: LogFormat) -> None:
    """Print diagnostics on stderr: as text for people, or as lines of the log."""
    found = list(diagnostics)
    if log is LogFormat.TEXT:
        show(found, texts, stream=sys.stderr)
        return
    known = with_texts(found, texts)
    for one in found:
        write_log(one.message, LEVELS[one.severity], diagnostic=as_json(one, known))


class _Records(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        write_log(record.getMessage(), record.levelname, logger=record.name)


@contextmanager
def logged(log: LogFormat) -> Iterator[None]:
    """Open a context in which records of logging, and the error that ends it, are also lines of the log.

    Raises `typer.Exit` 1 after an error.
    """
    if log is LogFormat.TEXT:
        yield
        return
    handler, root = _Records(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    except BelvedereError as error:
        report(error.diagnostics, {}, log)
        raise typer.Exit(1) from error
    finally:
        root.removeHandler(handler)


class LogLines:
    """A run's display as log lines.

    The address is printed on stdout, as an object with `as_json`; each epoch, and each view that it changed, is logged.
    """

    def __init__(self, as_json: bool, stream: IO[str] | None = None):
        self._out, self._as_json = stream or sys.stdout, as_json

    def start(self, address: str, store: str) -> None:
        self._out.write((json.dumps({"event": "api", "url": address}) if self._as_json else address) + "\n")
        self._out.flush()
        write_log("the API listens", url=address)

    def phase(self, text: str) -> None:
        write_log(text)

    def progress(self, progress: EpochProgress) -> None:
        from belvedere.terminal.run_display import (
            by_name,
            epoch_line,
            rejected_lines,
        )  # loads PySpark, which takes a second

        rejected = sum(progress.rejected.values())
        figures = {"rows": sum(progress.rows_in.values()), "seconds": round(progress.seconds, 4), "rejected": rejected}
        level = "WARNING" if rejected or progress.quarantined else "INFO"
        write_log(
            epoch_line(progress), level, epoch=progress.epoch, **figures, quarantined=sorted(progress.quarantined)
        )
        for view, rows in by_name(progress.changes).items():
            if rows:
                write_log(f"{view} changed", epoch=progress.epoch, view=view, rows=rows)
        for text in (*progress.notices, *rejected_lines(progress)):
            write_log(text, "WARNING", epoch=progress.epoch)

    def notice(self, text: str) -> None:
        write_log(text, "WARNING")

    def end(self) -> None:
        write_log("the run ends")
