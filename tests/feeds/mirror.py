"""A follower of a source without Spark: it opens feeds like a run, and keeps their rows.

In: a script's imports, a project's text. Out: per input its rows by key, as after each epoch. Offsets go through JSON,
as in its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.compiler import compile_script
from belvedere.connectors.connector import Arrived, Feed
from belvedere.connectors.feeds import open_feed
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.schema import WEIGHT

Row = tuple[Any, ...]


class Notebook:
    """Texts that a store keeps."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def document(self, name: str) -> str | None:
        """A text."""
        return self.texts.get(name)

    def set_document(self, name: str, text: str) -> None:
        """Keep a text."""
        self.texts[name] = text


def _compared(key: Iterable[Any]) -> Row:
    """A key that equals itself, as NaN does not."""
    return tuple("NaN" if value != value else value for value in key)


def _reported(error: BelvedereError) -> str:
    said = error.diagnostics[0]
    return f"{said.code}: {said.message} (hint: {said.hint})"


class Mirror:
    """What a store would have. `pin` keeps the columns of the first start, as stores do."""

    def __init__(self, folder: Path, script: str, project: str):
        self.folder, self.script, self.project = folder, script, project
        self.notes, self.offsets = Notebook(), dict[str, Any]()
        self.rows: dict[str, dict[Row, dict[str, Any]]] = {}
        self.rejected: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self.epochs = 0
        self._columns: dict[str, dict[str, pa.Schema]] = {}
        self._now = datetime.now(UTC)

    def compiled(self) -> tuple[Catalog, Any]:
        """The script as a start has it; raises what it refuses."""
        (self.folder / "belvedere.toml").write_text(self.project)
        project = load_project(self.folder).with_columns(self._columns)
        compiled = compile_script(self.script, path=self.folder / "s.sqrl", project=project)
        if not compiled.ok:
            raise BelvedereError(compiled.diagnostics)
        for table in compiled.catalog.inputs.values():
            if table.source is not None and table.source.columns is not None:
                self._columns.setdefault(table.source.source, {})[table.source.table] = table.source.columns
        return compiled.catalog, project

    def forget_columns(self) -> None:
        """The next start has the columns that the source has then."""
        self._columns.clear()

    def open(self) -> dict[str, Feed]:
        """The feeds, from the offsets on."""
        catalog, project = self.compiled()
        self.inputs = catalog.inputs
        found: dict[str, Feed] = {}
        try:
            for id_, table in catalog.inputs.items():
                offset = json.loads(json.dumps(self.offsets.get(id_, {})))
                found[id_] = open_feed(
                    table, project, offset, former=lambda keys, i=table: self._former(i, keys), notes=self.notes
                )
        except BelvedereError:
            for feed in found.values():
                feed.close()
            raise
        return found

    def epoch(self, feeds: Mapping[str, Feed], once: bool = True, commits: bool = True) -> bool:
        """An epoch of what is new; whether there was anything. One that does not commit has crashed before."""
        self._now += timedelta(seconds=1)
        spans = {i: s for i, f in feeds.items() if (s := f.look(self._now, once)) is not None}
        arrived = {i: feeds[i].read(None, span) for i, span in spans.items()}  # type: ignore[arg-type]
        if not commits or not spans:
            return False
        for id_, found in arrived.items():
            self._apply(self.inputs[id_], found)
            self.offsets[id_] = dict(spans[id_].end)
        self.epochs += 1
        for id_, span in spans.items():
            feeds[id_].committed(span)
        return True

    def once(self, commits: bool = True) -> str | None:
        """A run with `--once`: None, or the code and the message of what has ended it."""
        feeds: dict[str, Feed] = {}
        try:
            feeds = self.open()
            while self.epoch(feeds, commits=commits):
                pass
        except BelvedereError as error:
            return _reported(error)
        finally:
            for feed in feeds.values():
                feed.close()
        return None

    def opened(self) -> dict[str, Feed] | None:
        """The feeds of a run that goes on; None where a start is refused."""
        try:
            return self.open()
        except BelvedereError:
            return None

    def go_on(self, feeds: Mapping[str, Feed]) -> str | None:
        """All epochs of such a run until there is nothing new: None, or what has ended it."""
        try:
            while self.epoch(feeds, once=False):
                pass
        except BelvedereError as error:
            return _reported(error)
        return None

    def view(self, name: str, *columns: str) -> list[Row]:
        """The rows of an input."""
        return sorted((tuple(r[c] for c in columns) for r in self.rows.get(name, {}).values()), key=str)

    def _apply(self, table: Input, found: Arrived) -> None:
        kept = self.rows.setdefault(table.id, {})
        if found.is_emptied:
            kept.clear()
        rows = found.rows if isinstance(found.rows, pa.Table) else found.rows.table  # type: ignore[union-attr]
        for row in rows.to_pylist():
            key = _compared(row[k] for k in table.primary_key)
            if row.pop(WEIGHT) > 0:
                kept[key] = row
            else:
                kept.pop(key, None)
        self.rejected += [(r.file or "", r.reason) for r in found.rejected]
        self.notices += found.notices

    def _former(self, table: Input, keys: pa.Table) -> pa.Table:
        kept = self.rows.get(table.id, {})
        asked = map(_compared, zip(*(c.to_pylist() for c in keys.columns), strict=True))
        rows = [kept[k] for k in asked if k in kept]
        return pa.Table.from_pylist(rows) if rows else keys.slice(0, 0)
