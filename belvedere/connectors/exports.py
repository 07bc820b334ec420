"""Exports: committed changes and events on their way to sinks, each behind a cursor in the store.

In: a catalog with exports, the sinks of the project file, a store. Out: after each epoch one delivery per export that has something
new. The cursor moves after the sink has taken the delivery; after a crash between the two the same rows go out under the same
epoch's name again, and so replace themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from belvedere.catalog import Catalog, Export
from belvedere.connectors.registry import writing_connector
from belvedere.errors import fail
from belvedere.rules.events import CHANGES, SEQUENCE
from belvedere.schema import is_engine_column
from belvedere.settings import Sink
from belvedere.store.protocol import Store, Transaction


@dataclass(frozen=True)
class Delivery:
    """One export and the relation whose rows it delivers in the order of `_seq`."""

    export: Export
    relation: str
    sink: Sink
    hidden: frozenset[str] = frozenset()
    """Columns of the relation that only the engine reads."""

    @property
    def cursor(self) -> str:
        """The name of the store's document that says how far this export has come."""
        return f"export {self.relation} {self.export.sink}.{self.export.target}"


class Exports:
    """All exports of a script over one store."""

    def __init__(self, catalog: Catalog, sinks: Mapping[str, Sink], store: Store):
        self.store = store
        self.deliveries = tuple(_delivery(e, catalog, sinks) for e in catalog.exports) if sinks else ()
        self.done = {d.cursor: self._cursor(d) for d in self.deliveries}

    def _cursor(self, delivery: Delivery) -> int:
        text = self.store.document(delivery.cursor)
        return int(json.loads(text)["seq"]) if text else 0

    def deliver(self, epoch: int, sequences: Mapping[str, int]) -> None:
        """Send what was committed and not delivered yet. Called after a commit and once at the start."""
        waiting = [d for d in self.deliveries if sequences.get(d.relation, 1) - 1 > self.done[d.cursor]]
        if not waiting:
            return
        for delivery in waiting:
            last = sequences[delivery.relation] - 1
            self._deliver(delivery, epoch, last)
            self._advance(delivery, last, epoch)

    def _deliver(self, delivery: Delivery, epoch: int, last: int) -> None:
        transaction = self.store.begin()
        try:
            pieces = _pending(transaction, delivery, self.done[delivery.cursor], last)
            first = next(pieces, None)
            if first is not None:
                target, rows = delivery.export.target, chain((first,), pieces)
                writing_connector(delivery.sink.connector).write(delivery.sink, target, epoch, rows)
        finally:
            transaction.rollback()

    def _advance(self, delivery: Delivery, sequence: int, epoch: int) -> None:
        self.store.set_document(delivery.cursor, json.dumps({"seq": sequence, "epoch": epoch}))
        self.done[delivery.cursor] = sequence

    def forget(self, transaction: Transaction) -> None:
        """Drop the changes that every export has delivered; events of subscriptions stay, as they are served."""
        for relation in {d.relation for d in self.deliveries if d.relation.endswith(CHANGES)}:
            done = min(self.done[d.cursor] for d in self.deliveries if d.relation == relation)
            if done:
                transaction.delete_range(relation, SEQUENCE, done)


PIECE = 10_000
"""So many events are in memory at once."""


def _pending(transaction: Transaction, delivery: Delivery, done: int, last: int) -> Iterator[pa.Table]:
    """The events behind `done` up to `last` as they are shown, in their order, a piece at a time."""
    for start in range(done, last, PIECE):
        rows = (
            transaction.lookup_range(delivery.relation, SEQUENCE, start, min(start + PIECE, last)).read_all().sort_by(SEQUENCE)
        )
        if rows.num_rows:
            yield rows.select([n for n in rows.schema.names if n not in delivery.hidden and not is_engine_column(n)])


def _delivery(export: Export, catalog: Catalog, sinks: Mapping[str, Sink]) -> Delivery:
    sink = next((s for n, s in sinks.items() if n.casefold() == export.sink.casefold()), None)
    if sink is None:
        raise fail(
            "B6110",
            f'sink "{export.sink}" is not configured',
            span=export.span,
            hint=f"add [sinks.{export.sink}] to belvedere.toml",
        )
    own = catalog.subscriptions.get(export.relation)
    if own is None:
        return Delivery(export, export.relation + CHANGES, sink)
    return Delivery(export, own.id, sink, frozenset(c.name for c in own.schema if c.hidden))
