"""Records that a run stores beside the views: the files it has read and the rows it rejected.

In: files and rejected rows of one epoch. Out: Arrow tables for two stored tables that the epoch's own transaction
appends to, so that they are correct after any crash. They are not relations of the pipeline: no view reads them.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pyarrow as pa

from belvedere.engine.epoch_row.source_spans import SPANS, of_input
from belvedere.errors import BelvedereError, fail
from belvedere.schema import CONTROL, KEY, TIMESTAMP, WEIGHT, Column, Schema
from belvedere.store import identifiers
from belvedere.store.protocol import Reader
from belvedere.store.stored_table import StoredTable
from belvedere.values.rejections import Reason

FILES = StoredTable(
    "_belvedere_files",
    Schema(
        (
            Column("source", pa.string(), nullable=False),
            Column("path", pa.string(), nullable=False),
            Column("length", pa.int64(), nullable=False),
            Column("modified", TIMESTAMP, nullable=False),
            Column("epoch", pa.int64(), nullable=False),
        ),
        ("source", "path", "epoch"),
    ),
    indexes=(("epoch",),),
)

REJECTED = StoredTable(
    "_belvedere_rejected",
    Schema(
        (
            Column("table", pa.string(), nullable=False),
            Column("file", pa.string()),
            Column("line", pa.int64()),
            Column("text", pa.string()),
            Column("reason", pa.string(), nullable=False),
            Column("epoch", pa.int64(), nullable=False),
            Column("rejected_at", TIMESTAMP, nullable=False),
        )
    ),
    indexes=(("table", "epoch"),),
)

RETRIED = StoredTable(
    "_belvedere_retried",
    Schema(
        (
            Column("input", pa.string(), nullable=False),
            Column("epoch", pa.int64(), nullable=False),
            Column("part", pa.int64(), nullable=False),
            Column("rows", pa.string(), nullable=False),
        ),
        ("input", "epoch", "part"),
    ),
)
"""Formerly rejected rows that epochs accepted, as Arrow streams in base64, since their source no longer has them."""
PLACES = b"places"
"""Metadata key of such streams: epoch, file and line at which the rows were rejected."""
PART_ROWS = 1_000
"""Maximum number of rows in one such stream."""

RECORDS = (FILES, REJECTED, SPANS, RETRIED)
assert {r.name for r in RECORDS} == identifiers.RECORDS
MAX_TEXT_LENGTH = 10_000
"""Maximum number of characters stored of a rejected row, and of the reason."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: its local path, its length in bytes and its modification time."""

    path: str
    length: int
    modified: datetime
    name: str = ""
    """Name under which the store records it, if that is not its path."""
    start: int = 0
    """Start of the part that is read; it ends at `length`."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that its table cannot accept, or a whole file (`line` and `text` None), with the reason.

    Its texts are always valid for a store and a terminal.
    """

    table: str
    file: str | None
    line: int | None
    text: str | None
    reason: str

    def __post_init__(self) -> None:
        given = self.reason if isinstance(self.reason, Reason) else Reason(self.reason)
        reason = given.with_text(str(sound(given)))
        for name, value in (("file", path_text(self.file)), ("text", sound(self.text)), ("reason", reason)):
            object.__setattr__(self, name, value)

    @property
    def why(self) -> Reason:
        """Return the reason with its kind; OTHER for a reason given as text."""
        assert isinstance(self.reason, Reason)
        return self.reason


def sound(text: str | None) -> str | None:
    """Return the text with surrogates, which UTF-8 cannot encode, as escapes. Very long texts are truncated."""
    return None if text is None else text[:MAX_TEXT_LENGTH].encode("utf-8", "backslashreplace").decode()


def rejected_value(text: str) -> Any:
    """Return a rejected row as JSON; None if it is not JSON (a CSV record, an invalid or truncated line)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_control(value: Any) -> bool:
    """Return whether a JSON value is not a row, but a bound on the rows after it."""
    return isinstance(value, dict) and set(value) == {CONTROL}


def is_cut(text: str) -> bool:
    """Return whether a rejected row may be longer than its stored text."""
    return len(text) >= MAX_TEXT_LENGTH


def path_text(path: str | None) -> str | None:
    """Return a path as a unique text: a `file:` URI if its bytes are not UTF-8."""
    if path is None or path.isprintable():
        return path
    try:
        os.fsencode(path).decode()
    except UnicodeError:
        return Path(path).absolute().as_uri()
    return path


def path_of(text: str) -> str:
    """Return the path of a text from `path_text`."""
    return os.fsdecode(unquote_to_bytes(urlsplit(text).path)) if text.startswith("file:") else text


def record_files(files: Iterable[tuple[str, SourceFile]], epoch: int) -> pa.Table:
    """Return rows of `FILES` from pairs of a source's name and a file that this epoch reads."""
    names = FILES.arrow.names
    named = ((s, f.name or path_text(f.path), f) for s, f in files)
    rows = [(s, path, f.length, f.modified, epoch, f"{s}\n{path}\n{epoch}") for s, path, f in named]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=FILES.arrow)


def record_rejected(rejected: Iterable[RejectedRow], epoch: int) -> pa.Table:
    """Return rows of `REJECTED`. Their key is random, since the same rejected row may occur twice."""
    at = datetime.now(UTC)
    rows = [
        {
            "table": r.table,
            "file": r.file,
            "line": r.line,
            "text": r.text,
            "reason": r.reason,
            "epoch": epoch,
            "rejected_at": at,
            KEY: uuid.uuid4().hex,
        }
        for r in rejected
    ]
    return pa.Table.from_pylist(rows, schema=REJECTED.arrow)


def record_retried(taken: Iterable[tuple[str, pa.Table]], epoch: int, gone: pa.Table | None = None) -> pa.Table:
    """Return rows of `RETRIED` from pairs of an input's id and the rows that it accepts in this epoch.

    `gone` has their records of `REJECTED`.
    """
    made = []
    places = [] if gone is None else gone.select(["table", "epoch", "file", "line"]).to_pylist()
    for id_, given in taken:
        own = [[p["epoch"], p["file"], p["line"]] for p in places if p["table"] == id_]
        rows = given.replace_schema_metadata({PLACES: json.dumps(own)})
        for part, start in enumerate(range(0, rows.num_rows, PART_ROWS)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.slice(start, PART_ROWS))
            text = base64.b64encode(sink.getvalue().to_pybytes()).decode()
            made.append({"input": id_, "epoch": epoch, "part": part, "rows": text, KEY: f"{id_}\n{epoch}\n{part}"})
    return pa.Table.from_pylist(made, schema=RETRIED.arrow)


def retried_rows(reader: Reader, id_: str) -> dict[tuple[str, int], list[pa.Table]]:
    """Return the rows that `record_retried` has written for an input, by its id and epoch, in order."""
    found: dict[tuple[str, int], list[pa.Table]] = {}
    for row in (
        of_input(reader, RETRIED, "input", id_).sort_by([("epoch", "ascending"), ("part", "ascending")]).to_pylist()
    ):
        with pa.ipc.open_stream(base64.b64decode(row["rows"])) as stream:
            found.setdefault((id_, row["epoch"]), []).append(stream.read_all())
    return found


def places_rejected(
    reader: Reader, id_: str, retried: Iterable[Sequence[pa.Table]]
) -> dict[int, list[tuple[str | None, int | None]]]:
    """Return for each epoch of an input the file and line of each row rejected then, including rows `retried` since."""
    rows = of_input(reader, REJECTED, "table", id_).select(["epoch", "file", "line"])
    found: dict[int, list[tuple[str | None, int | None]]] = {}
    taken = (json.loads((parts[0].schema.metadata or {}).get(PLACES, b"[]")) for parts in retried if parts)
    for epoch, file, line in chain(zip(*rows.to_pydict().values(), strict=True), *taken):
        found.setdefault(epoch, []).append((file, line))
    return found


def lengths_read(reader: Reader) -> dict[str, dict[str, int]]:
    """Return the recorded number of bytes read, by input id and file name."""
    found: dict[str, dict[str, int]] = {}
    for row in reader.rows(FILES).sort_by("epoch").to_pylist():
        found.setdefault(row["source"], {})[row["path"]] = row["length"]
    return found


def files_read(reader: Reader) -> dict[str, set[str]]:
    """Return the recorded names of files, by input id."""
    found: dict[str, set[str]] = {}
    table = reader.rows(FILES)
    for source, path in zip(table["source"].to_pylist(), table["path"].to_pylist(), strict=True):
        found.setdefault(source, set()).add(path)
    return found


def files_by_epoch(reader: Reader, id_: str) -> dict[tuple[str, int], list[SourceFile]]:
    """Return the recorded files of an input by (input id, epoch), each as it was read, in the order of reading."""
    found: dict[tuple[str, int], list[SourceFile]] = {}
    for batch in of_input(reader, FILES, "source", id_).to_batches():
        for row in batch.to_pylist():
            file = SourceFile(path_of(row["path"]), row["length"], row["modified"], row["path"])
            found.setdefault((id_, row["epoch"]), []).append(file)
    return {key: in_order(files) for key, files in found.items()}


def files_of(reader: Reader, id_: str) -> list[SourceFile]:
    """Return the recorded files of an input, by its id, each as it was read."""
    rows = of_input(reader, FILES, "source", id_).sort_by("epoch").to_pylist()
    last = {r["path"]: r for r in rows}  # for a file that was read in parts, the last part
    return [SourceFile(path_of(r["path"]), r["length"], r["modified"], r["path"]) for r in last.values()]


def in_parts(files: dict[tuple[str, int], list[SourceFile]], id_: str, epochs: Iterable[int]) -> None:
    """Convert the files that these epochs read of an input to parts, in order.

    A file that an earlier epoch has read begins at the end of that read.
    """
    ends: dict[str, int] = {}
    for epoch in epochs:
        found = files.get((id_, epoch), ())
        if any(f.name in ends for f in found):
            files[id_, epoch] = [replace(f, start=ends.get(f.name, 0)) for f in found]
        ends |= {f.name: f.length for f in found}


def renamed_files(reader: Reader, id_: str, names: Mapping[str, str]) -> pa.Table:
    """Return changes of `FILES` that rename files of an input; `names` has old names with new ones."""
    rows = [r for r in reader.rows(FILES).to_pylist() if r["source"] == id_ and r["path"] in names]
    after = [{**r, "path": names[r["path"]]} for r in rows]
    after = [{**r, KEY: f"{id_}\n{r['path']}\n{r['epoch']}"} for r in after]
    schema = FILES.arrow.append(pa.field(WEIGHT, pa.int64()))
    return pa.Table.from_pylist([{**r, WEIGHT: -1} for r in rows] + [{**r, WEIGHT: 1} for r in after], schema=schema)


def in_order(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return files in the order in which an epoch reads them: oldest first."""
    return sorted(files, key=lambda f: (f.modified, f.path))


def not_as_it_was(what: str, table: str) -> BelvedereError:
    """Return the diagnostic B7070: an input's past rows cannot be read again."""
    hint = "restore the data (files with their times: `cp -p`), or undo the change of the script: nothing was changed"
    return fail("B7070", f'the rows read so far for "{table}" cannot be re-read: {what}', hint=hint)
