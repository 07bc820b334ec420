"""Output of a run: a live table in a terminal, plain lines elsewhere, JSON lines on request.

In: the API's address, then an `EpochProgress` per epoch. Out: text on stdout, whose first line is the address. It
decides nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO, Any, Protocol

from belvedere.engine.relation import name_in_script
from belvedere.errors import counted
from belvedere.process.activity import NOW
from belvedere.spark.run.run_loop import EpochProgress
from belvedere.terminal.progress_line import stamped
from belvedere.time.event_time import time_text
from belvedere.time.stream_status import StreamStatus

SHOWN_VIEWS = 20


class Display(Protocol):
    """The display of a run."""

    def start(self, address: str, store: str) -> None: ...

    def phase(self, text: str) -> None:
        """Show the present activity before the first epoch."""

    def progress(self, progress: EpochProgress) -> None: ...

    def notice(self, text: str) -> None: ...

    def end(self) -> None: ...


def display_for(as_json: bool, stream: IO[str] | None = None) -> Display:
    """Return JSON lines if requested, a live table on a terminal, else plain lines."""
    out = stream or sys.stdout
    if as_json:
        return JsonLines(out)
    return LiveTable(out) if out.isatty() else PlainLines(out)


class PlainLines:
    """Display with one line per epoch, and up to three lines of rejected rows per epoch, each with time and level."""

    def __init__(self, stream: IO[str]):
        self.stream = stream

    def start(self, address: str, store: str) -> None:
        self._write(address)

    def phase(self, text: str) -> None:
        self._write(stamped(text))

    def progress(self, progress: EpochProgress) -> None:
        self._write(stamped(epoch_line(progress), "WARNING" if progress.rejected or progress.quarantined else "INFO"))
        for text in (*progress.notices, *rejected_lines(progress)):
            self._write(stamped(text, "WARNING"))

    def notice(self, text: str) -> None:
        self._write(stamped(text, "WARNING"))

    def end(self) -> None:
        return

    def _write(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()


class JsonLines(PlainLines):
    """One object per line: the address, then the epochs."""

    def start(self, address: str, store: str) -> None:
        self._object({"event": "api", "url": address})

    def phase(self, text: str) -> None:
        self._object({"event": "phase", "text": text})

    def progress(self, progress: EpochProgress) -> None:
        rejected = [
            {"table": r.table, "file": r.file, "line": r.line, "text": r.text, "reason": r.reason}
            for r in progress.examples
        ]
        self._object(
            {
                "event": "epoch",
                "epoch": progress.epoch,
                "clock": progress.clock,
                "rows_in": dict(progress.rows_in),
                "changes": dict(progress.changes),
                "rejected": dict(progress.rejected),
                "rejected_examples": rejected,
                "notices": list(progress.notices),
                "quarantined": dict(progress.quarantined),
                "streams": [_stream(s) for s in progress.streams],
                "seconds": round(progress.seconds, 4),
            }
        )

    def notice(self, text: str) -> None:
        self._object({"event": "notice", "text": text})

    def end(self) -> None:
        self._object({"event": "end"})

    def _object(self, value: Mapping[str, Any]) -> None:
        self._write(json.dumps(value, ensure_ascii=False, default=_json_value))


class LiveTable:
    """A table that is redrawn: the epoch, rows per second, and per view the last change and its age."""

    def __init__(self, stream: IO[str]):
        from rich.console import Console  # takes long, and only a terminal needs it
        from rich.live import Live

        self.last: EpochProgress | None = None
        self.under_way = "starting"
        self.rows = 0
        self.rejected = 0
        self.changed: dict[str, tuple[int, float]] = {}
        self.rate = 0.0
        self.console = Console(file=stream)
        self.live = Live(console=self.console, get_renderable=self.table, refresh_per_second=2, transient=False)

    def start(self, address: str, store: str) -> None:
        self.console.print(address, highlight=False)
        self.console.print(f"store {store}; Ctrl-C ends", style="dim", highlight=False)
        self.live.start()

    def phase(self, text: str) -> None:
        self.under_way = text

    def progress(self, progress: EpochProgress) -> None:
        now = time.monotonic()
        count = sum(progress.rows_in.values())
        if count:
            self.rate = rows_a_second(progress)
        self.rows += count
        self.rejected += sum(progress.rejected.values())
        self.last = progress
        for name, changes in by_name(progress.changes).items():
            self.changed[name] = (changes, now)
        for text in (*progress.notices, *rejected_lines(progress)):
            self.live.console.print(text, style="yellow", highlight=False, markup=False)

    def notice(self, text: str) -> None:
        self.live.console.print(text, style="yellow", highlight=False, markup=False)

    def end(self) -> None:
        self.live.stop()

    def table(self) -> Any:
        """Return the present content of the terminal."""
        from rich.console import Group  # takes long, and only a terminal needs it
        from rich.table import Table
        from rich.text import Text

        if self.last is None:
            return f"{NOW.line() if NOW.text else self.under_way}; the first epochs take longest"
        summary = (
            f"epoch {self.last.epoch}   {counted(self.rows, 'row')}   {self.rate:,.0f} rows/s   "
            f"{self.last.seconds:.2f} s per epoch"
        )
        summary += f"   {NOW.line()}" if NOW.text and NOW.seconds >= 1 else ""
        summary += f"   {self.rejected:,} rejected" if self.rejected else ""
        table = Table()
        table.add_column("view")
        table.add_column("last changes", justify="right")
        table.add_column("changed", justify="right")
        newest = sorted(self.changed.items(), key=lambda item: -item[1][1])
        for name, (changes, at) in newest[:SHOWN_VIEWS]:
            table.add_row(name, f"{changes:,}", f"{time.monotonic() - at:.0f} s ago")
        held = (
            [Text(f"in quarantine: {', '.join(sorted(self.last.quarantined))}", style="yellow")]
            if self.last.quarantined
            else []
        )
        return Group(Text(summary), *held, table, *([_streams_table(self.last.streams)] if self.last.streams else []))


def _streams_table(streams: Sequence[StreamStatus]) -> Any:
    from rich.table import Table  # takes long, and only a terminal needs it

    table = Table()
    for name in ("stream", "watermark", "held back by"):
        table.add_column(name)
    table.add_column("late", justify="right")
    for stream in streams[:SHOWN_VIEWS]:
        bound = (
            "none yet" if stream.bound is None else time_text(stream.bound) + (" (assumed)" if stream.assumed else "")
        )
        table.add_row(f"{stream.stream}.{stream.column}", bound, _names(stream), f"{stream.late:,}")
    return table


def _names(stream: StreamStatus) -> str:
    return ", ".join("the default producer" if p is None else p for p in stream.held_back_by)


def _stream(stream: StreamStatus) -> dict[str, Any]:
    return {
        "name": stream.stream,
        "column": stream.column,
        "bound": None if stream.bound is None else time_text(stream.bound),
        "assumed": stream.assumed,
        "held_back_by": list(stream.held_back_by),
        "late": stream.late,
    }


def epoch_line(progress: EpochProgress) -> str:
    """Return an epoch in one line."""
    rows = ", ".join(f"{name} {count:,}" for name, count in by_name(progress.rows_in).items()) or "no rows"
    changed = sum(1 for count in by_name(progress.changes).values() if count)
    line = (
        f"epoch {progress.epoch}: {rows}; {changed} {'view' if changed == 1 else 'views'} changed; "
        f"{progress.seconds:.2f} s"
    )
    line += f", {rows_a_second(progress):,.0f} rows/s" if progress.rows_in else ""
    refused = sum(progress.rejected.values())
    line += f"; {refused:,} rejected" if refused else ""
    line += f"; in quarantine: {', '.join(sorted(progress.quarantined))}" if progress.quarantined else ""
    return line + "".join(f"; {s.stream} waits for {_names(s)}" for s in progress.streams if s.held_back_by)


def rows_a_second(progress: EpochProgress) -> float:
    """Return the rows that an epoch has read, divided by its seconds."""
    return sum(progress.rows_in.values()) / max(progress.seconds, 1e-3)


def by_name(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts under the names of the script.

    Operators' own state (`Hot$1`) is left out; earlier definitions (`Hot~1`) count under their names.
    """
    shown: dict[str, int] = {}
    for id_, count in counts.items():
        if "$" not in id_:
            name = name_in_script(id_)
            shown[name] = shown.get(name, 0) + count
    return shown


def rejected_lines(progress: EpochProgress) -> list[str]:
    """Return up to three rejected rows, and the number of the others."""
    lines = []
    for row in progress.examples:
        place = f"{row.file}:{row.line}" if row.line else row.file or ""
        text = "" if row.text is None else f": {row.text[:120]}"
        lines.append(f'rejected for "{name_in_script(row.table)}": {place}: {row.reason}{text}')
    more = sum(progress.rejected.values()) - len(lines)
    return lines + ([f"... and {more:,} more rejected"] if more > 0 else [])


def _json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
