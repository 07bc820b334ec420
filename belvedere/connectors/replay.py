"""Inputs of a script that can be read from their sources again, and the reason if a rereadable one cannot.

In: a catalog, the store's last epoch and its records. Out: by input id the epochs that have read it, each with its
range of the source. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, MetadataKind
from belvedere.connectors.connector import RereadableFeed
from belvedere.connectors.feeds import open_feed
from belvedere.connectors.registry import reads_again
from belvedere.connectors.run_records import (
    REJECTED,
    RETRIED,
    SourceFile,
    files_by_epoch,
    in_parts,
    places_rejected,
    retried_rows,
)
from belvedere.connectors.source_readings import OFFSET as READINGS
from belvedere.connectors.source_readings import Reading
from belvedere.engine.epoch_row.source_spans import SPANS, PastSpans, past_spans
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings
from belvedere.store.protocol import Reader, Store

EXCLUDED = "~excluded"
"""Key among the offsets in an epoch's row: by input id and epoch, the indexes of valid rows that the epoch excluded."""


@dataclass(frozen=True)
class Past:
    """Past input of epochs for inputs that can be re-read: ranges by input id, and the files of (input, epoch)."""

    spans: Mapping[str, PastSpans] = field(default_factory=dict)
    files: Mapping[tuple[str, int], list[SourceFile]] = field(default_factory=dict)
    retried: Mapping[tuple[str, int], list[pa.Table]] = field(default_factory=dict)
    """Formerly rejected rows that epochs accepted."""
    readings: Mapping[str, Sequence[Reading]] = field(default_factory=dict)
    """By input id: how its source was read, each with its first epoch."""
    left: Mapping[tuple[str, int], Mapping[str, frozenset[int] | None]] = field(default_factory=dict)
    """Rejected rows of files by (input, epoch), if recorded: by file its lines, None for the whole file."""
    excluded: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """By input id and epoch: indexes of valid rows that the epoch excluded."""

    def rows(self, id_: str) -> int:
        """Return the number of rows of an input that epochs have used."""
        return self.spans[id_].used if id_ in self.spans else 0


def rereadable_inputs(catalog: Catalog) -> frozenset[str]:
    """Return the ids of the inputs that can be read again if each of their epochs is known."""
    return frozenset(i for i, t in catalog.inputs.items() if is_rereadable(t))


def past_of(catalog: Catalog, store: Store, ids: Collection[str]) -> Past:
    """Return the past ranges of these inputs, from the start to the last epoch.

    Reads the input records of all epochs.
    """
    last = store.last_epoch()
    requested = sorted(rereadable_inputs(catalog) & set(ids))
    if last is None or not requested or not any(t.name == SPANS.name for t in store.tables()):
        return Past()
    reader = store.reader()
    try:
        spans = past_spans(reader, requested, last.offsets)
        has_retried = any(s.retried for s in spans.values()) and any(t.name == RETRIED.name for t in store.tables())
        retried = {k: rows for i in spans for k, rows in retried_rows(reader, i).items()} if has_retried else {}
        spans = {i: s for i, s in spans.items() if all((i, epoch) in retried for epoch in s.retried)}
        files = {k: files for i in spans for k, files in files_by_epoch(reader, i).items()}
        for id_, found in spans.items():
            in_parts(files, id_, (s.epoch for s in found))
        excluded = last.offsets.get(EXCLUDED, {})
        left = {k: lines for s in spans.values() for k, lines in _left_out(reader, s, retried, excluded, store)}
        return Past(spans, files, retried, last.offsets.get(READINGS, {}), left, excluded)
    finally:
        reader.close()


def _left_out(
    reader: Reader,
    spans: PastSpans,
    retried: Mapping[tuple[str, int], list[pa.Table]],
    excluded: Mapping[str, Mapping[str, Sequence[int]]],
    store: Store,
) -> Iterator[tuple[tuple[str, int], dict[str, frozenset[int] | None]]]:
    """Yield the rejected rows of epochs, if all of them are recorded with their file."""
    refusing = [s for s in spans if s.span.refused and s.span.end is not None]
    if not refusing or not any(t.name == REJECTED.name for t in store.tables()):
        return
    id_ = refusing[0].span.input
    noted = places_rejected(reader, id_, [rows for (of, _), rows in retried.items() if of == id_])
    for past in refusing:
        places = [(file, line) for file, line in noted.get(past.epoch, ()) if file is not None]
        if len(places) + len(excluded.get(id_, {}).get(str(past.epoch), ())) == past.span.refused:
            lines = {f: [n for file, n in places if file == f] for f, _ in places}
            yield (
                (id_, past.epoch),
                {f: None if None in ns else frozenset(n for n in ns if n) for f, ns in lines.items()},
            )


def is_rereadable(table: Input) -> bool:
    """Return whether an input's rows can be reproduced: its source still has them, and no column is random."""
    made = any(found.kind is MetadataKind.UUID for found in table.metadata.values())
    return table.append_only and not made and table.source is not None and reads_again(table.source.connector)


def broken_inputs(
    catalog: Catalog, project: ProjectSettings, past: Past, ids: Iterable[str]
) -> dict[str, BelvedereError]:
    """Return the inputs whose past rows have changed or are missing, each with its B7070."""
    found: dict[str, BelvedereError] = {}
    for id_ in ids:
        try:
            feed = cast(RereadableFeed, open_feed(catalog.inputs[id_], project, {}))
            for span in (s for s in past.spans[id_] if s.span.end is not None):
                for _ in feed.past(span, past.files.get((id_, span.epoch), [])):
                    pass
            feed.close()
        except BelvedereError as error:
            found[id_] = error
    return found
