"""The manifest: the list of the valid runs after an epoch, as a piece of the epoch's file.

The epoch's row holds its place.

In: arrangements. Out: a record batch with one JSON text, complete or a difference; and the arrangements read back. A
run is valid only if a manifest names it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from belvedere.state.files import Files
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.sorted_run import Arranged, Fence, FileRange, Run

_TEXT = "manifest"


@dataclass(frozen=True)
class ManifestEntry:
    """A run: its place, the places of its dead positions, its number of live rows, and of all rows (-1: not known).

    `fences` are the least and the greatest number of each index of `Arranged.fenced`. `depth` is the number of leading
    bits of the first hash that all rows share.
    """

    place: FileRange
    dead: tuple[FileRange, ...]
    alive: int
    size: int
    depth: int = 0
    fences: tuple[Fence, ...] = ()


Relation: TypeAlias = tuple[Arranged, tuple[ManifestEntry, ...]]


@dataclass(frozen=True)
class RelationFigures:
    """The files that the entries of a relation name, its rows, its bytes, and its runs."""

    files: frozenset[str] = frozenset()
    rows: int = 0
    bytes: int = 0
    runs: int = 0

    @staticmethod
    def of(entries: Sequence[ManifestEntry]) -> RelationFigures:
        """Count what some entries name."""
        places = [p for e in entries for p in (e.place, *e.dead)]
        size = sum(p.length for p in places)
        return RelationFigures(frozenset(p.file for p in places), sum(e.alive for e in entries), size, len(entries))


@dataclass(frozen=True)
class Manifest:
    """The relations with their runs, and the files that are no longer named, each with a time in microseconds since
    1970.

    `chain` are the places of the manifests, starting with a complete one, from which this one differs.
    """

    relations: Mapping[str, Relation] = field(default_factory=dict)
    retired: Mapping[str, int] = field(default_factory=dict)
    chain: tuple[FileRange, ...] = ()
    before: Manifest | None = field(default=None, compare=False, repr=False)
    """The manifest of the epoch before, until the figures of relations that did not change are taken from it."""

    @cached_property
    def figures(self) -> Mapping[str, RelationFigures]:
        """Figures by relation; those of a relation that did not change are not counted again."""
        old = self.before
        found = {
            n: old.figures[n]
            if old is not None and n in old.relations and old.relations[n][1] is now[1]
            else RelationFigures.of(now[1])
            for n, now in self.relations.items()
        }
        object.__setattr__(self, "before", None)  # else all manifests would stay in memory
        return found

    def names(self, file: str) -> bool:
        """Whether it names a file."""
        return any(file in f.files for f in self.figures.values()) or any(p.file == file for p in self.chain)

    def left_from(self, before: Manifest) -> set[str]:
        """The files that the manifest `before` names and this one does not."""
        now, found = self.figures, {p.file for p in before.chain}
        for name, old in before.figures.items():
            if name not in now or now[name] is not old:
                found |= old.files - (now[name].files if name in now else frozenset())
        return {f for f in found if not self.names(f)}

    @property
    def places(self) -> list[FileRange]:
        """Return all pieces except the manifest's own."""
        entries = [e for _, found in self.relations.values() for e in found]
        return [*self.chain, *(p for e in entries for p in (e.place, *e.dead))]

    @cached_property
    def files(self) -> frozenset[str]:
        """Return the files that the manifest names."""
        return frozenset().union((p.file for p in self.chain), *(f.files for f in self.figures.values()))

    def whole(self) -> pa.RecordBatch:
        """Return the complete manifest as a piece of a file."""
        relations = {
            name: {**_definition(arranged), "new": list(map(_listed, entries))}
            for name, (arranged, entries) in self.relations.items()
        }
        return _piece({"relations": relations, "retired": dict(self.retired)})

    def difference(self, before: Manifest) -> pa.RecordBatch:
        """Return the difference to the manifest `before`, which is at the last place of the chain."""
        relations = {
            name: _change(before.relations.get(name), now)
            for name, now in self.relations.items()
            if before.relations.get(name) != now
        }
        dropped = [n for n in before.relations if n not in self.relations]
        retired = {f: t for f, t in self.retired.items() if f not in before.retired}
        deleted = [f for f in before.retired if f not in self.retired]
        content = {"relations": relations, "dropped": dropped, "retired": retired, "deleted": deleted}
        return _piece({"before": _numbers(self.chain[-1]), **content})


def read_manifest(at: FileRange, read: Callable[[FileRange], pa.RecordBatch]) -> Manifest:
    """Read the manifest at a place, with those from which it differs."""
    contents, places = [_content(read(at))], [at]
    while (before := contents[-1].get("before")) is not None:
        places.append(FileRange(*before))
        contents.append(_content(read(places[-1])))
    relations: dict[str, Relation] = {}
    retired: dict[str, int] = {}
    for content in reversed(contents):
        retired.update(content["retired"])
        for file in content.get("deleted", ()):
            del retired[file]
        for name in content.get("dropped", ()):
            del relations[name]
        for name, found in content["relations"].items():
            relations[name] = _changed(name, relations.get(name), found)
    return Manifest(relations, retired, tuple(reversed(places[1:])))


def _piece(content: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([json.dumps(content)])], [_TEXT])


def _content(batch: pa.RecordBatch) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(batch.column(0)[0].as_py())
    return found


def _change(before: Relation | None, now: Relation) -> dict[str, Any]:
    """Return the difference between two states of a relation. Kept runs retain their order; new runs follow."""
    arranged, entries = now
    old = before[1] if before else ()
    gone: list[int] = []
    changed: list[list[Any]] = []
    new: Sequence[ManifestEntry] = ()
    place = 0
    for number, entry in enumerate(entries):
        first = place
        while place < len(old) and old[place].place is not entry.place and old[place].place != entry.place:
            place += 1
        gone += range(first, place)
        if place == len(old):
            new = entries[number:]
            break
        if old[place] is not entry and old[place] != entry:
            changed.append([place, _listed(entry)])
        place += 1
    else:
        gone += range(place, len(old))
    definition = {} if before and before[0] == arranged else _definition(arranged)
    return {**definition, "gone": gone, "changed": changed, "new": list(map(_listed, new))}


def _changed(name: str, before: Relation | None, found: Mapping[str, Any]) -> Relation:
    """Apply a change to a relation."""
    arranged = _arranged(name, found) if "schema" in found or before is None else before[0]
    gone, changed = set(found.get("gone", ())), dict(found.get("changed", ()))
    old = enumerate(before[1] if before else ())
    kept = (_entry(*changed[n]) if n in changed else e for n, e in old if n not in gone)
    return arranged, (*kept, *(_entry(*e) for e in found["new"]))


def _listed(e: ManifestEntry) -> list[Any]:
    return [_numbers(e.place), [_numbers(d) for d in e.dead], e.alive, e.size, e.depth, e.fences]


def _numbers(place: FileRange) -> list[Any]:
    return [place.file, place.offset, place.length, place.checksum]  # `astuple` takes ten times as long


def runs_of(arranged: Arranged, stored: Relation, files: Files) -> list[Run]:
    """Return the runs of a stored relation as it is `arranged` now. They are read on first use."""
    known, entries = stored
    has_depth = known.hashed == arranged.hashed
    return [_run_of(arranged, e, known.fenced, has_depth, files) for e in entries]


def _run_of(arranged: Arranged, entry: ManifestEntry, fenced: Sequence[str], has_depth: bool, files: Files) -> Run:
    fences = dict(zip(fenced, entry.fences, strict=False))  # a manifest of an earlier version has none
    return Run(
        None,
        arranged,
        entry.place,
        dead_places=entry.dead,
        unread=entry.dead,
        alive=entry.alive,
        read=files.read,
        blocks=files.blocks if files.remote is not None else None,
        size=entry.size,
        depth=entry.depth if has_depth else 0,
        fences=fences,
    )


def _entry(
    place: list[Any],
    dead: list[list[Any]],
    alive: int,
    size: int = -1,
    depth: int = 0,
    fences: Iterable[list[int]] = (),
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
