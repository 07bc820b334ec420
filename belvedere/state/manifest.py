"""The manifest: which runs count after an epoch, as a piece of the epoch's file; the epoch's row says where it lies.

In: arrangements. Out: a record batch with one JSON text, and the arrangements again. What no manifest names does not count.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.state.files import Files
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.sorted_run import Arranged, Fence, FileRange, Run

_TEXT = "manifest"


@dataclass(frozen=True)
class ManifestEntry:
    """A run by its place, the positions that are dead in it, how many rows count, and how many there are (-1: not known).

    `fences` are the least and the greatest number of each index of `Arranged.fenced`, `depth` how many leading bits of the first hash all
    rows share.
    """

    place: FileRange
    dead: tuple[FileRange, ...]
    alive: int
    size: int
    depth: int = 0
    fences: tuple[Fence, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The relations with their runs; `retired` are files that are not named any more, and since when (microseconds since 1970)."""

    relations: Mapping[str, tuple[Arranged, tuple[ManifestEntry, ...]]] = field(default_factory=dict)
    retired: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> list[FileRange]:
        """All pieces."""
        return [p for _, entries in self.relations.values() for e in entries for p in (e.place, *e.dead)]

    @property
    def files(self) -> frozenset[str]:
        """The files that it names."""
        return frozenset(p.file for p in self.places)

    def batch(self) -> pa.RecordBatch:
        """It as a piece of a file."""
        relations = {
            name: {
                **_definition(arranged),
                "runs": [[astuple(e.place), [astuple(d) for d in e.dead], e.alive, e.size, e.depth, e.fences] for e in entries],
            }
            for name, (arranged, entries) in self.relations.items()
        }
        text = json.dumps({"relations": relations, "retired": dict(self.retired)})
        return pa.record_batch([pa.array([text])], [_TEXT])


def read_manifest(batch: pa.RecordBatch) -> Manifest:
    """The inverse of `Manifest.batch`."""
    content = json.loads(batch.column(0)[0].as_py())
    relations = {
        name: (_arranged(name, found), tuple(_entry(*e) for e in found["runs"])) for name, found in content["relations"].items()
    }
    return Manifest(relations, content["retired"])


def runs_of(arranged: Arranged, entries: Iterable[ManifestEntry], files: Files) -> list[Run]:
    """The runs, which are read when they are first used."""
    return [_run_of(arranged, e, files) for e in entries]


def _run_of(arranged: Arranged, entry: ManifestEntry, files: Files) -> Run:
    fences = dict(zip(arranged.fenced, entry.fences, strict=False))
    return Run(
        None,
        arranged,
        entry.place,
        dead_places=entry.dead,
        unread=entry.dead,
        alive=entry.alive,
        read=files.read,
        size=entry.size,
        depth=entry.depth,
        fences=fences,
    )


def _entry(
    place: list[Any], dead: list[list[Any]], alive: int, size: int = -1, depth: int = 0, fences: Iterable[list[int]] = ()
) -> ManifestEntry:
    found = tuple((low, high) for low, high in fences)
    return ManifestEntry(FileRange(*place), tuple(FileRange(*d) for d in dead), alive, size, depth, found)


def _definition(a: Arranged) -> dict[str, Any]:
    schema = base64.b64encode(a.schema.serialize().to_pybytes()).decode()
    parts = {"paths": a.paths, "ranges": a.ranges, "spans": a.spans, "silent": sorted(a.internal)}
    return {"schema": schema, **parts, "append_only": a.append_only, "meaning": a.fingerprint.text}


def _arranged(name: str, found: Mapping[str, Any]) -> Arranged:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"])))
    spans = tuple((path, column) for path, column in found["spans"])
    parts = tuple(found["paths"]), tuple(found["ranges"]), spans, frozenset(found["silent"])
    return Arranged(name, schema, *parts, found["append_only"], Fingerprint.of_text(found["meaning"]))
