"""The connector `console`: exported events on stdout, one JSON object per line.

In: events of an epoch. Out: lines. Delivery is at least once, since a printed line cannot be undone. It is not a
source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pyarrow as pa

from belvedere.connectors.exporting.event_files import json_lines
from belvedere.project.settings import Sink


def place(sink: Sink, target: str) -> None:
    """Return None: exports may share a name, since each line is one event."""


def write(sink: Sink, target: str, epoch: int, pieces: Iterable[pa.Table]) -> None:
    """Print the events after the name of their target."""
    for events in pieces:
        sys.stdout.write("".join(f"{target} {line}\n" for line in json_lines(events)))
        sys.stdout.flush()
