"""Exports: committed changes and events on their way to sinks, each after a cursor in the store.

In: a catalog with exports, the sinks of the project file, a store. Out: after each epoch one delivery for each export
with new events. The cursor moves after the sink has accepted the delivery. After a crash in between, the same rows are
delivered again under the same epoch's name, and so replace themselves. A sink with an outlet reports its own progress,
and may be unavailable for a while. If it has lost delivered events, this is reported: the store only has later events.
`send_again` resends everything.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.subscriptions import Export
from belvedere.connectors.connector import Outgoing, SharedOutlet
from belvedere.connectors.exporting.lost_events import lost_events
from belvedere.connectors.outage_backoff import Away, is_away
from belvedere.connectors.registry import open_outlets, opens_outlets, writing_connector
from belvedere.errors import BelvedereError, fail
from belvedere.project.settings import Sink
from belvedere.rules.events import CHANGES, SEQUENCE
from belvedere.schema import is_engine_column
from belvedere.store.identity import identity_of
from belvedere.store.protocol import Reader, Store, Transaction
from belvedere.store.stage_memory import Memories

PATIENCE_SECONDS = 120.0
"""Maximum seconds that the end of a run waits for the sinks."""
Events: TypeAlias = Iterable[tuple[int, pa.Table]]
"""Chunks of events, each with the number of its export."""


@dataclass(frozen=True)
class Delivery:
    """One export and the relation whose rows it delivers in the order of `_seq`."""

    export: Export
    relation: str
    sink: Sink
    hidden: frozenset[str] = frozenset()
    """Columns of the relation that only the engine reads."""
    key: tuple[str, ...] = ()
    """Columns that identify the row of a change."""

    @property
    def cursor(self) -> str:
        """Return the name of the store's document with this export's cursor."""
        return f"export {self.relation} {self.export.sink}.{self.export.target}"

    @property
    def name(self) -> str:
        """Return the export's name in the script."""
        return f"{self.export.sink}.{self.export.target}"


@dataclass(frozen=True)
class Cursor:
    """Progress of an export: the last event that needs no delivery, the last sent event, and the number of full
    resends.

    `store` is the name by which the sink knows the store. A copy of the store has another name, under which nothing was
    sent.
    """

    done: int = 0
    sent: int = 0
    again: int = 0
    store: str = ""

    @classmethod
    def of_document(cls, text: str | None) -> Cursor:
        """Read the cursor from the store's document."""
        found = json.loads(text) if text else {}
        done, sent, again = (int(found.get(name, 0)) for name in ("seq", "sent", "again"))
        return cls(done, sent, again, str(found.get("store", "")))

    def of_store(self, name: str) -> Cursor:
        """Return the cursor for a store that sinks know by this name."""
        return self if self.store == name else replace(self, sent=0, store=name)

    def document(self, epoch: int) -> str:
        """Return the cursor's document after this epoch."""
        return json.dumps(
            {"seq": self.done, "epoch": epoch, "sent": self.sent, "again": self.again, "store": self.store}
        )


@dataclass
class _Line:
    """Deliveries of one outlet, and its status: progress not read yet, or unavailable."""

    deliveries: tuple[Delivery, ...]
    outlet: SharedOutlet
    is_sure: bool = False
    away: Away = field(default_factory=Away)


class Exports:
    """All exports of a script over one store."""

    def __init__(self, catalog: Catalog, sinks: Mapping[str, Sink], store: Store):
        self.store = store
        self.deliveries = tuple(_delivery(e, catalog, sinks) for e in catalog.exports) if sinks else ()
        self._name = identity_of(store).sinks if self.deliveries else ""
        self.cursors = {
            d.cursor: Cursor.of_document(store.document(d.cursor)).of_store(self._name) for d in self.deliveries
        }
        self._plain = [d for d in self.deliveries if not opens_outlets(d.sink.connector)]
        self._lines = [*self._open([d for d in self.deliveries if opens_outlets(d.sink.connector)])]
        self._notices: list[str] = []
        self._now: tuple[int, Memories] = (0, Memories())

    def _open(self, deliveries: Sequence[Delivery]) -> Iterator[_Line]:
        by_sink: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_sink.setdefault(delivery.sink.name, []).append(delivery)
        for own in by_sink.values():
            outgoings = [
                Outgoing(
                    d.sink, d.export.target, self._name, d.key, d.relation, self.cursors[d.cursor].again, self.store
                )
                for d in own
            ]
            for places, outlet in open_outlets(outgoings):
                yield _Line(tuple(own[n] for n in places), outlet)

    def deliver(self, epoch: int, memories: Memories) -> None:
        """Send the committed events that were not delivered yet. Called after a commit and once at the start."""
        self._now = (epoch, memories)
        for line in self._lines:
            self._go_on(line)
        for delivery in self._plain:
            self._send((delivery,), partial(self._write, delivery))

    def _last(self, delivery: Delivery) -> int:
        """Return the number of the last committed event."""
        return self._now[1].last_number(delivery.relation)

    def catch_up(self, wait: bool = False) -> tuple[str, ...]:
        """Retry sinks that were unavailable; with `wait` until they have all events. Return notices, each once.

        Raises the last error if a sink has accepted nothing for `PATIENCE_SECONDS`.
        """
        deadline, before = time.monotonic() + PATIENCE_SECONDS, dict(self.cursors)
        while late := [n.away for n in self._lines if n.away.failure is not None]:
            if not all(n.is_pausing for n in late):
                self.deliver(*self._now)
                if self.cursors != before:
                    deadline, before = time.monotonic() + PATIENCE_SECONDS, dict(self.cursors)
            elif not wait:
                break
            elif time.monotonic() > deadline:
                assert late[0].failure is not None
                raise late[0].failure
            else:
                time.sleep(0.1)
        found, self._notices = tuple(self._notices), []
        return found

    def _go_on(self, line: _Line) -> None:
        """Send an outlet's missing events, unless it is in a pause after a failure."""
        if line.away.is_pausing:
            return
        try:
            if not line.is_sure:
                self._ask(line)
            self._send(line.deliveries, line.outlet.write)
        except BelvedereError as error:
            line.is_sure = False
            if not is_away(error):
                raise
            if line.away.failure is None:
                self._notices.append(f"{error.diagnostics[0].message}; unsent events wait in the store")
            line.away.failed(error)
            return
        if line.away.failure is not None:
            self._notices.append(f'sink "{line.deliveries[0].sink.name}" accepts events again')
        line.away.answered()

    def _ask(self, line: _Line) -> None:
        """Read the progress of the outlet, and check it against the cursors.

        It may be ahead of the cursors, but not ahead of the store, nor behind the events that it was sent.
        """
        more: dict[str, Cursor] = {}
        for delivery, reached in zip(line.deliveries, line.outlet.reached(), strict=True):
            last, cursor = self._last(delivery), self.cursors[delivery.cursor]
            if getattr(line.outlet, "lasting", False) and (reached or 0) < cursor.sent:
                has = f"has them up to {reached:,}" if reached else "has none of them"
                said = f"events up to {cursor.sent:,} were sent, and it {has}"
                raise lost_events(delivery.export.sink, delivery.export.target, said)
            if reached is not None and reached > last:
                name, target = delivery.sink.name, delivery.export.target
                message = f'sink "{name}" has events of "{target}" up to {reached:,}, and the store up to {last:,}'
                hint = (
                    "the store was restored from an older backup: export to another target, or start with a new store"
                )
                raise fail("B6211", message, hint=hint)
            if reached is not None and reached > cursor.done:
                more[delivery.cursor] = replace(cursor, done=reached, sent=reached)
        if more:
            line.away.went_on()
        self._advance(more)
        line.is_sure = True

    def _send(self, deliveries: Sequence[Delivery], write: Callable[[Events], None]) -> None:
        """Pass the events that were not delivered yet to `write`, if there are any."""
        late = [(place, d) for place, d in enumerate(deliveries) if self._last(d) > self.cursors[d.cursor].done]
        sent: dict[int, int] = {}
        events = self._pending(late, sent)
        first = next(events, None)
        if first is not None:
            self.store.verify_lease()  # a run that was suspended after its commit may have been taken over
            write(chain((first,), events))
        reached = {}
        for place, d in late:
            cursor = self.cursors[d.cursor]
            reached[d.cursor] = replace(cursor, done=self._last(d), sent=sent.get(place, cursor.sent))
        self._advance(reached)

    def _pending(self, late: Iterable[tuple[int, Delivery]], sent: dict[int, int]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the undelivered events with the numbers of their exports, and record the last event numbers in
        `sent`."""
        for place, delivery in late:
            for rows in _pending(self.store, delivery, self.cursors[delivery.cursor].done, self._last(delivery)):
                sent[place] = rows[SEQUENCE][-1].as_py()
                yield place, rows

    def _write(self, delivery: Delivery, events: Events) -> None:
        connector = writing_connector(delivery.sink.connector)
        connector.write(delivery.sink, delivery.export.target, self._now[0], (rows for _, rows in events))

    def _advance(self, reached: Mapping[str, Cursor]) -> None:
        """Record the progress of exports, by the names of their cursors."""
        self.store.set_documents({name: cursor.document(self._now[0]) for name, cursor in reached.items()})
        self.cursors.update(reached)

    def forget(self, transaction: Transaction) -> None:
        """Drop the changes that every export has delivered. Events of subscriptions are still served and stay."""
        for relation in {d.relation for d in self.deliveries if d.relation.endswith(CHANGES)}:
            done = min(self.cursors[d.cursor].done for d in self.deliveries if d.relation == relation)
            if done:
                transaction.delete_range(relation, SEQUENCE, done)

    def close(self) -> None:
        """Close the sinks."""
        for line in self._lines:
            line.outlet.close()


PIECE = 10_000
"""Maximum number of events in memory."""


def _pending(store: Store, delivery: Delivery, done: int, last: int) -> Iterator[pa.Table]:
    """Yield the events after `done` up to `last`, in order and in chunks.

    Each chunk is read in its own transaction: a slow sink must not hold the store's lock.
    """
    for start in range(done, last, PIECE):
        transaction = store.begin()
        try:
            found = transaction.lookup_range(delivery.relation, SEQUENCE, start, min(start + PIECE, last)).read_all()
        finally:
            transaction.rollback()
        rows = found.sort_by(SEQUENCE)
        if rows.num_rows:
            yield rows.select([n for n in rows.schema.names if n not in delivery.hidden and not is_engine_column(n)])


@dataclass(frozen=True)
class ExportBacklog:
    """The backlog of an export: the number of the sink's last event, and the number of waiting events."""

    export: Export
    done: int
    waiting: int


def waiting_exports(catalog: Catalog, sinks: Mapping[str, Sink], reader: Reader) -> tuple[ExportBacklog, ...]:
    """Return the backlogs of all exports of a script from the store's documents, without contacting sinks.

    Raises B6110.
    """
    last = reader.last_epoch()
    memories = Memories.of(last.extra) if last is not None else Memories()
    found = []
    for delivery in (_delivery(e, catalog, sinks) for e in catalog.exports):
        done = Cursor.of_document(reader.document(delivery.cursor)).done
        found.append(ExportBacklog(delivery.export, done, max(0, memories.last_number(delivery.relation) - done)))
    return tuple(found)


def send_again(catalog: Catalog, sinks: Mapping[str, Sink], store: Store, name: str) -> tuple[str, ...]:
    """Let the next run send all of the export `sink.target` again: the present rows of a view, or the retained events.

    Return the names of the exports that receive them: for a view all exports of its changes. Raises B6110 if a sink is
    not configured, B6114 for an unknown export.
    """
    deliveries = tuple(_delivery(e, catalog, sinks) for e in catalog.exports)
    requested = [d for d in deliveries if d.name.casefold() == name.casefold()]
    if not requested:
        known = ", ".join(dict.fromkeys(d.name for d in deliveries))
        raise fail(
            "B6114",
            f"the script exports nothing to `{name}`",
            hint=f"its exports: {known}" if known else "it has no exports",
        )
    changes = {d.relation for d in requested if d.relation.endswith(CHANGES)}
    going = [d for d in deliveries if d in requested or d.relation in changes]
    last = store.last_epoch()
    memories = Memories.of(last.extra) if last is not None else Memories()
    documents = {}
    for delivery in going:
        cursor = Cursor.of_document(store.document(delivery.cursor))
        # changes get new numbers, also waiting ones; events keep theirs
        done = memories.last_number(delivery.relation) if delivery.relation in changes else 0
        documents[delivery.cursor] = Cursor(done, again=cursor.again + 1).document(0)
    store.set_documents(documents)
    store.drop([*changes])  # the next epoch rebuilds them from all rows
    return tuple(dict.fromkeys(d.name for d in going))


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
        schema = catalog.schema_of(export.relation)
        key = tuple(schema.key or ())
        shown = key if all(n in schema.names and not schema[n].hidden for n in key) else ()
        return Delivery(export, export.relation + CHANGES, sink, key=shown)
    return Delivery(export, own.id, sink, frozenset(c.name for c in own.schema if c.hidden))
