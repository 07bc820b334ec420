"""Changes that stages in quarantine have missed.

They are kept until these stages process them, if the rows themselves are not kept.

In: the changes of the relations that such stages read, epoch by epoch. Out: the changes since an epoch as those of one
epoch. They are stored in arrangements beside the state, so the epoch's transaction includes them.
`belvedere.engine.errors.healing` decides which stage misses which changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from belvedere.engine.change.schema_evolution import evolved_rows
from belvedere.engine.compute import Compute
from belvedere.engine.relation import Relation, delta_schema
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows
from belvedere.engine.sql.row_identity import identity_columns
from belvedere.functions.spark_types import quote
from belvedere.schema import KEY, WEIGHT
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State

SUFFIX = "~missed"
EPOCH = "_missed_epoch"
MAX_MISSED_ROWS = 10_000_000
"""Default maximum number of changed rows of one relation that are kept for stages in quarantine."""
_NUMBERS = itertools.count()


@dataclass
class Missed:
    """Changes that stages of one engine have missed, by their relation."""

    state: State
    compute: Compute
    relations: Mapping[str, Relation]
    most: int = MAX_MISSED_ROWS
    names: set[str] = field(default_factory=set)
    """The relations whose changes are kept."""

    def open(self, requested: Iterable[str]) -> frozenset[str]:
        """Open the changes that earlier runs have kept of these relations.

        Return the relations without kept changes.
        """
        requested = frozenset(requested)
        known = {n for n in requested if n + SUFFIX in self.state.manifest.relations}
        arranged = [self.state.manifest.relations[n + SUFFIX][0] for n in known]
        self.state.arrange(arranged, frozenset(a.name for a in arranged))
        self.names |= known
        return requested - known

    def note(self, name: str, rows: Rows | None, epoch: int) -> bool:
        """Keep the changes of a relation in an epoch. If they would be too many, keep none and return False."""
        if name not in self.names:
            self.state.arrange([self._arranged(name)], frozenset())
            self.names.add(name)
        if rows is None or rows.is_empty:
            return True
        found = self.state.arrangements[name + SUFFIX]
        if found.count + rows.num_rows > self.most:
            self._drop(name)
            return False
        schema = found.arranged.schema
        columns = [n for n in schema.names if n != EPOCH]
        found.append(_numbered(batch, schema, epoch) for batch in rows.batches(columns))
        return True

    def since(self, name: str, epoch: int, now: Rows | None) -> Rows | None:
        """Return the changes of a relation since an epoch, including those of `now`, as changes of one epoch."""
        relation, found = self.relations[name], self.state.arrangements[name + SUFFIX]
        schema = self._arranged(name).schema
        columns = [n for n in schema.names if n != EPOCH]
        kept = evolved_rows(_reader(found.arranged.schema, found.look_up_range(EPOCH, epoch - 1, None)), schema)
        new = () if now is None or now.is_empty else (_numbered(b, schema, _LAST) for b in now.batches(columns))
        rows = self.compute.keep(_reader(schema, itertools.chain(kept, new)))
        if not rows.num_rows:
            return None
        view = f"missed_{next(_NUMBERS)}"
        self.compute.put(view, rows)
        items = [*map(quote, relation.schema.names), identity_columns(relation), quote(WEIGHT), quote(EPOCH)]
        text = f"SELECT {', '.join(items)} FROM {quote(self.compute.view_name(view))}"
        requested = delta_schema(relation).append(WEIGHT_FIELD)
        merged = self.compute.compute(text, requested.append(_EPOCH_FIELD))
        if relation.append_only or relation.by_path:
            return self.compute.keep(merged.reader(requested.names))
        return Rows(_consolidated(merged.table).select(requested.names))

    def only(self, requested: Collection[str]) -> None:
        """Drop the changes that no stage misses any more, after an epoch was committed."""
        for name in self.names - set(requested):
            self._drop(name)

    def _drop(self, name: str) -> None:
        self.state.arrangements.pop(name + SUFFIX, None)
        self.names.discard(name)

    def _arranged(self, name: str) -> Arranged:
        fields = [pa.field(c.name, c.type) for c in self.relations[name].schema.columns]
        schema = pa.schema([*fields, WEIGHT_FIELD, _EPOCH_FIELD])
        return Arranged(
            name + SUFFIX, schema, ranges=(EPOCH,), append_only=True, fingerprint=Fingerprint(name, "missed")
        )


_EPOCH_FIELD = pa.field(EPOCH, pa.int64(), nullable=False)
_LAST = int(np.iinfo(np.int64).max)


def _reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def _numbered(batch: pa.RecordBatch, schema: pa.Schema, epoch: int) -> pa.RecordBatch:
    number = pa.repeat(pa.scalar(epoch, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, number], names=[*batch.schema.names, EPOCH]).cast(schema)


def _consolidated(changes: pa.Table) -> pa.Table:
    """Return per `_key` the row before all changes, with -1, and the row after them, with +1."""
    codes = changes[KEY].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    weight, epoch = changes[WEIGHT].to_numpy(), changes[EPOCH].to_numpy()
    order = np.lexsort((weight, epoch, codes))
    codes, weight = codes[order], weight[order]
    ends = np.append(codes[1:] != codes[:-1], True) if len(codes) else np.zeros(0, np.bool_)
    starts = np.insert(ends[:-1], 0, True) if len(codes) else ends
    chosen = np.sort(np.concatenate([order[starts & (weight < 0)], order[ends & (weight > 0)]]))
    return changes.take(pa.array(chosen))
