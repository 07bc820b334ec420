"""The ingest service: checks pushes for lateness against the present bounds, writes them to the journal, and then
answers.

In: requests of any number of clients, in order of arrival. Out: answers, and the entries for the next epoch. Requests
that arrive together are written with one sync. A request is accepted or rejected whole, and once per key. No sockets,
no Spark.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, LatePolicy, MetadataKind
from belvedere.errors import BelvedereError, Diagnostic, fail
from belvedere.intake.entry_bytes import Record, decode_record, encode_record
from belvedere.intake.journal import Journal, JournalPosition, JournalTakeover
from belvedere.intake.request_rows import Pushed, changed_column, rows_of_today
from belvedere.process.temporary_folders import FULL
from belvedere.schema import WEIGHT
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks, ahead_rows, log_points, time_text
from belvedere.time.intake_entries import AcceptedRows, Entry, ProducerAct
from belvedere.time.machine_clock import setting_text
from belvedere.time.pending_arrivals import Intake, Waiting, refused
from belvedere.values.instants import microseconds

LOG = logging.getLogger("belvedere.intake")
OFFSET = "~intake"
"""The journal's key among the sources' offsets in an epoch's row."""
KEYS_KEPT = 10_000
KEYS_FOR = timedelta(hours=24)
WAITING_BYTES = 256 << 20
"""Maximum bytes of entries that wait for an epoch; above it clients are asked to retry."""
REPORTED = 1_000
"""Maximum number of rejected rows that are reported one by one; all are counted."""
REPORTED_MADE = 100
"""Maximum number of rows whose assigned values an answer reports: answers are stored by their keys."""


@dataclass(frozen=True)
class Request:
    """One push on the input with id `table`: rows of a producer, or an act (bound, open, close) of one.

    `key` is the sender's idempotency key; `digest` distinguishes two requests of one key.
    """

    table: str
    content: Pushed | ProducerAct
    producer: str | None = None
    key: str | None = None
    digest: str = ""


@dataclass(frozen=True)
class Reply:
    """The answer to a sender: an HTTP status and a JSON object."""

    status: int
    body: Mapping[str, Any]
    sequence: int | None = field(default=None, compare=False)
    """Number of the journal's record, if the request wrote one: an epoch that has processed this number has the rows.
    """

    @classmethod
    def of_error(cls, status: int, error: Diagnostic) -> Reply:
        """Return the answer that reports a diagnostic."""
        return cls(status, problem(status, error.code, error.message, error.hint))


def problem(status: int, code: str, message: str, hint: str | None = None) -> dict[str, Any]:
    """Return an error as a JSON object (RFC 9457), with Belvedere's code and hint."""
    return {"title": message, "status": status, "code": code} | ({"hint": hint} if hint else {})


@dataclass
class _Keys:
    """Recent requests by key: (table, key) -> time (microseconds), digest, answer."""

    known: OrderedDict[tuple[str, str], tuple[int, str, Reply]] = field(default_factory=OrderedDict)

    def add(self, table: str, key: str, now: int, digest: str, answer: Reply) -> None:
        self.known[table, key] = (now, digest, answer)
        oldest = now - KEYS_FOR // timedelta(microseconds=1)
        while len(self.known) > KEYS_KEPT or next(iter(self.known.values()))[0] < oldest:
            self.known.popitem(last=False)

    def document(self, without: Container[tuple[str, str]]) -> list[Any]:
        known = (((t, k), found) for (t, k), found in self.known.items() if (t, k) not in without)
        return [[t, k, now, digest, a.status, a.body] for (t, k), (now, digest, a) in known]


class IngestService:
    """The intake of one run. Thread-safe; one thread gathers the requests and calls `take`."""

    def __init__(
        self,
        catalog: Catalog,
        directory: Path,
        clocks: Clocks,
        position: JournalPosition,
        since: datetime | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        waiting_bytes: int = WAITING_BYTES,
        ahead: timedelta | None = None,
        owner: str = "",
        before: str | None = None,
    ):
        """Open the journal and load the entries that no epoch has taken.

        `clocks`, `position` and `since` are those of the store's last epoch. A time more than `ahead` after the clock
        does not advance a bound. `owner` and `before` are as for `Journal`.

        Raises the errors of `Journal`, and B6144 for rows of an input that was removed or has other columns.
        """
        self.catalog, self._clock, self._most = catalog, now, waiting_bytes
        self.ahead = ahead
        self.intake = Intake(catalog, clocks, ahead=None if ahead is None else ahead // timedelta(microseconds=1))
        self._arrived = threading.Event()
        self._keys = _Keys()
        self._unwritten: set[tuple[str, str]] = set()
        """Keys of decided requests whose records are not yet on disk. A new segment's header does not contain them."""
        self._lock = threading.Lock()
        self._bytes = 0
        self._ahead: dict[str, int] = {}
        """Number of rows too far ahead of the clock, by input, since the start."""
        self._last_now = microseconds(since) if since is not None else 0
        snapshot = lambda: {"keys": self._keys.document(self._unwritten)}  # noqa: E731
        self.journal = Journal(directory, position, snapshot, owner, before)
        try:
            self._replay(position.sequence)
        except BaseException:
            self.journal.close()
            raise

    def take(self, requests: Sequence[Request]) -> list[Reply]:
        """Decide requests in order, write their records with one sync, and return the answers."""
        with self._lock:
            undo = self._undo(any(r.key is not None for r in requests))
            try:
                decided = [self._decide(r) for r in requests]
                records = [r for _, r in decided if r is not None]
                if records:
                    self.journal.append([encode_record(r) for r in records])
            except OSError as error:
                undo()
                failed = UNKNOWN if isinstance(error, JournalTakeover) else _not_written(error)
                return [failed if a.status < 300 else a for a, _ in decided]
            except Exception as error:
                undo()
                if len(requests) == 1:
                    LOG.exception("a push failed")
                    return [
                        Reply(500, problem(500, "B8009", f"the push failed inside the server: {type(error).__name__}"))
                    ]
            else:
                if records:
                    self._arrived.set()
                return _numbered(decided, self.journal.last)
            finally:
                self._unwritten.clear()
        return [a for r in requests for a in self.take([r])]  # one of them fails: the others do not

    def _undo(self, keyed: bool) -> Callable[[], None]:
        """Return a function that restores the present state."""
        clocks, count, size = self.intake.clocks, len(self.intake.entries), self._bytes
        known = OrderedDict(self._keys.known) if keyed else self._keys.known

        def undo() -> None:
            self.intake.clocks, self._keys.known, self._bytes = clocks, known, size
            del self.intake.entries[count:]

        return undo

    def waiting(self, now: int | None = None) -> Waiting:
        """Return the entries for the next epoch and the last record number. `now` is as for `Intake.waiting`."""
        with self._lock:
            return replace(self.intake.waiting(now), sequence=self.journal.last)

    @property
    def notices(self) -> Sequence[str]:
        """Notices on the journal's state at the start."""
        return self.journal.notices

    @property
    def has_waiting(self) -> bool:
        """Whether entries wait for an epoch."""
        return bool(self.intake.entries)

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until an entry arrives."""
        if self._arrived.wait(seconds):
            self._arrived.clear()

    def committed(self, waiting: Waiting, clocks: Clocks) -> None:
        """Remove the entries of an epoch that is committed, and apply later entries to its clocks."""
        with self._lock:
            self.intake.committed(waiting, clocks)
            self._bytes = sum(e.nbytes for e in self.intake.entries)
            self.journal.committed(waiting.sequence)

    def resume(self, last: EpochRow | None) -> None:
        """Continue from the store's last epoch, whether or not it took the last entries that `waiting` returned."""
        with self._lock:
            taken = position_in(last).sequence
            del self.intake.entries[: max(0, len(self.intake.entries) - (self.journal.last - taken))]
            self.intake.resume(Clocks.of_document(last.bounds) if last is not None else Clocks())
            self._bytes = sum(e.nbytes for e in self.intake.entries)

    def offset(self, waiting: Waiting) -> dict[str, Any]:
        """Return the journal's position for the epoch's row."""
        return {"journal": self.journal.id, "sequence": waiting.sequence}

    def close(self) -> None:
        """Close the journal."""
        with self._lock:
            self.journal.close()

    # --- deciding

    def _decide(self, request: Request) -> tuple[Reply, Record | None]:
        """Return the answer and the record to write. The decision affects the next request at once."""
        if request.key is not None and (request.table, request.key) in self._keys.known:
            return self._again(request), None
        if self._bytes > self._most:
            return BUSY, None
        table = self.catalog.inputs[request.table]
        now = self._now()
        try:
            if isinstance(request.content, Pushed):
                entry, answer = self._rows(table, request.content, request.producer, now)
            else:
                entry, answer = self._act(table, request.content, now)
        except BelvedereError as error:
            return Reply.of_error(409 if error.diagnostics[0].code == "B5022" else 422, error.diagnostics[0]), None
        self.intake.hold(entry)
        self._bytes += entry.nbytes
        if request.key is not None:
            self._keys.add(request.table, request.key, now, request.digest, answer)
            self._unwritten.add((request.table, request.key))
        reported = {"status": answer.status, "body": answer.body}
        return answer, Record(entry, request.key, request.digest, reported if request.key is not None else {})

    def _rows(self, table: Input, pushed: Pushed, producer: str | None, now: int) -> tuple[Entry, Reply]:
        taken, admission = self.intake.judge(table, pushed.rows, now, producer, pushed.malformed)
        rejects = table.late is LatePolicy.REJECT
        refusals: list[dict[str, Any]] = [
            {"index": m.index, "code": code, "reason": m.reason}
            for m, code in zip(pushed.malformed, pushed.codes, strict=True)
        ]
        for row in admission.late if rejects else ():
            reported = refused(table, replace(row, index=pushed.places[row.index]))
            refusal = {"index": pushed.places[row.index], "code": reported.code, "reason": reported.message}
            refusals.append(refusal | {"bound": time_text(row.bound)})
        refusals.sort(key=lambda r: int(r["index"]))
        dropped = [] if rejects else sorted({pushed.places[row.index] for row in admission.late})
        body: dict[str, Any] = {
            "stream": table.name,
            "rows": taken.given,
            "taken": taken.rows.num_rows,
            "dropped": 0 if rejects else taken.late_count,
            "refused": len(refusals),
            "refusals": refusals[:REPORTED],
        }
        if dropped:
            body["dropped_at"] = dropped[:REPORTED]
        if ahead := self._far_ahead(table, taken, now):
            body["ahead"] = ahead
        if table.metadata:
            late = {row.index for row in admission.late}
            places = (
                [p for n, p in enumerate(pushed.places) if n not in late]
                if len(taken.rows) < len(pushed.rows)
                else pushed.places
            )
            body |= _made(table, taken.rows, places)
        return taken, Reply(202 if refusals else 200, body)

    def _far_ahead(self, table: Input, taken: AcceptedRows, now: int) -> int:
        """Return the number of rows whose time is too far ahead to advance a bound, and log the first ones."""
        if self.ahead is None or not table.watermarks:
            return 0
        found = ahead_rows(table, taken.rows, now + self.ahead // timedelta(microseconds=1))
        before, self._ahead[table.id] = self._ahead.get(table.id, 0), self._ahead.get(table.id, 0) + len(found)
        for number in log_points(before, self._ahead[table.id]):
            text = (
                'row %d of "%s" has a time more than %s ahead of the clock: it is accepted, '
                "but moves no bound ([run] ahead)"
            )
            LOG.warning(text, number, table.name, setting_text(self.ahead))
        return len(found)

    def _act(self, table: Input, act: ProducerAct, now: int) -> tuple[Entry, Reply]:
        self._refuse_far_ahead(table, act, now)
        entry = self.intake.decide(replace(act, now=now))
        assert entry.column is not None
        bound = entry.advanced(self.intake.clocks, self.catalog).bound(table.id, entry.column)
        reported = {"stream": table.name, "column": entry.column, "bound": None if bound is None else time_text(bound)}
        return entry, Reply(200, reported)

    def _refuse_far_ahead(self, table: Input, act: ProducerAct, now: int) -> None:
        """Raise B5026 for a bound so far ahead that all rows before it would be late."""
        if act.time is None or self.ahead is None or act.time <= now + self.ahead // timedelta(microseconds=1):
            return
        most = setting_text(self.ahead)
        raise fail(
            "B5026",
            f'the bound {time_text(act.time)} of "{table.name}" is more than {most} ahead of the clock',
            hint=(
                "all rows before it would be late; if that is intended, "
                'set `ahead = "..."` under [run] in belvedere.toml'
            ),
        )

    def _again(self, request: Request) -> Reply:
        """Return the answer to a request whose key is known."""
        assert request.key is not None
        _, digest, answer = self._keys.known[request.table, request.key]
        if digest == request.digest:
            return answer
        hint = "use a new key for each request, and the same body for a repeated request"
        return Reply(422, problem(422, "B8033", f'the key "{request.key}" was already used with another request', hint))

    def _now(self) -> int:
        """Return the time of arrival. It never decreases, so rows without a rowtime keep their order."""
        self._last_now = max(self._last_now, microseconds(self._clock()))
        return self._last_now

    def _replay(self, committed: int) -> None:
        for header in self.journal.headers:
            self._remember(header.get("keys", ()))
        for number, payload in self.journal.records():
            record = decode_record(payload)
            if record.key is not None:
                answer = record.answer
                self._remember(
                    [
                        [
                            record.entry.table,
                            record.key,
                            record.entry.now,
                            record.digest,
                            answer["status"],
                            answer["body"],
                        ]
                    ]
                )
            if number > committed:
                self._take_back_in(record.entry, number)
        self._bytes = sum(e.nbytes for e in self.intake.entries)

    def _remember(self, keys: Iterable[Any]) -> None:
        for table, key, now, digest, status, body in keys:
            self._keys.add(table, key, now, digest, Reply(status, body))

    def _take_back_in(self, entry: Entry, number: int) -> None:
        if entry.table not in self.catalog.inputs:
            away = f"move the folder {self.journal.directory} away to continue without them"
            hint = f"define the input again until its rows are processed, or {away}"
            raise fail(
                "B6144",
                f'record {number} of the journal is for "{entry.table}", which the script does not define',
                hint=hint,
            )
        table = self.catalog.inputs[entry.table]
        changed = changed_column(table, entry.rows) if isinstance(entry, AcceptedRows) else None
        if changed is not None:
            hint = (
                f"run the earlier script once, or move the folder {self.journal.directory} away to continue "
                "without these rows"
            )
            message = (
                f'record {number} of the journal has rows of "{table.name}" from before its column '
                f'"{changed}" was changed'
            )
            raise fail("B6144", message, hint=hint)
        if isinstance(entry, AcceptedRows):
            late = None if entry.late is None else rows_of_today(table, entry.late)
            entry = replace(entry, rows=rows_of_today(table, entry.rows), late=late)
        self._last_now = max(self._last_now, entry.now)
        self.intake.hold(entry)


def _numbered(decided: Sequence[tuple[Reply, Record | None]], last: int) -> list[Reply]:
    """Return the answers, each with the number of its record. `last` is the number of the last record."""
    numbers = iter(range(last - sum(r is not None for _, r in decided) + 1, last + 1))
    return [a if r is None else replace(a, sequence=next(numbers)) for a, r in decided]


def _made(table: Input, rows: pa.Table, places: Sequence[int]) -> dict[str, Any]:
    """Return the values assigned to the first accepted rows, by which the sender can identify them."""
    names = [n for n, found in table.metadata.items() if found.kind is not MetadataKind.CLAIM]
    reported = rows.slice(0, REPORTED_MADE).select([*names, WEIGHT]).to_pylist()
    made = [
        {"index": p, **{n: time_text(microseconds(v)) if isinstance(v := row[n], datetime) else v for n in names}}
        for p, row in zip(places, reported, strict=False)
        if row[WEIGHT] > 0
    ]
    return {"made": made} if names and made else {}


UNKNOWN = Reply(
    503,
    problem(
        503,
        "B8034",
        "the run ended or did not answer while the request was under way: it may have been taken in",
        "send it again with the same `Idempotency-Key`: it then counts once",
    ),
)
BUSY = Reply(503, problem(503, "B8032", "epochs do not keep up with the pushed rows", "send it again in a few seconds"))


def _not_written(error: OSError) -> Reply:
    if error.errno in FULL:
        hint = "free some space and send it again; no row of the request was accepted"
        return Reply(507, problem(507, "B8031", "the disk of the push journal is full", hint))
    hint = "check that the journal's folder is writable; no row of the request was accepted"
    return Reply(503, problem(503, "B8031", "the push journal cannot be written", hint))


def position_in(last: EpochRow | None, journal: str = "") -> JournalPosition:
    """Return the journal position that a store at epoch `last` has committed.

    `journal` is the journal id from the store.
    """
    known = last.offsets.get(OFFSET, {}) if last is not None else {}
    return JournalPosition(journal or known.get("journal", ""), known.get("sequence", 0))


def open_ingest_service(
    catalog: Catalog,
    directory: Path,
    last: EpochRow | None,
    waiting_bytes: int = WAITING_BYTES,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    journal: str = "",
    ahead: timedelta | None = None,
    owner: str = "",
    before: str | None = None,
) -> IngestService:
    """Open the ingest service of a run whose store is at epoch `last`; about `waiting_bytes` of rows may wait for an
    epoch.

    `journal` is the id of the store's journal. A journal with another id is rejected, also before the first epoch. A
    pushed time more than `ahead` after the clock does not advance a bound. `owner` is the run; `before` is the previous
    run, if it did not return its lease.
    """
    clocks = Clocks.of_document(last.bounds) if last is not None else Clocks()
    since = last.clock if last is not None else None
    position = position_in(last, journal)
    return IngestService(catalog, directory, clocks, position, since, now, waiting_bytes, ahead, owner, before)


__all__ = ["OFFSET", "UNKNOWN", "IngestService", "Reply", "Request", "open_ingest_service", "problem"]
