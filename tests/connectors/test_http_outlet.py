"""Requests of an HTTP sink: each event once if the receiver reports correctly, at the receiver's rate."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

from belvedere.connectors import http
from belvedere.connectors.connector import Outgoing
from belvedere.connectors.http import HttpOutlet, open_outlet, pause_of
from belvedere.connectors.outage_backoff import Away, AwayError
from belvedere.errors import BelvedereError
from belvedere.project.settings import Sink

Answer = Callable[[Any], None]


class Receiver:
    """Notes what comes, and answers as it is told; what it was not told about it takes."""

    def __init__(self) -> None:
        self.came: list[tuple[str, str, str, list[int]]] = []
        """Method, path, id, numbers of events."""
        self.answers: list[Answer] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                receiver.came.append(("GET", self.path, "", []))
                answer(200)(self)

            def do_POST(self) -> None:
                lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
                numbers = [json.loads(line)["_seq"] for line in lines]
                receiver.came.append(("POST", self.path, self.headers["Belvedere-Id"], numbers))
                (receiver.answers.pop(0) if receiver.answers else answer(200))(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def by_id(self) -> dict[str, list[int]]:
        return {id_: numbers for _, _, id_, numbers in self.came}


def answer(status: int, **headers: str) -> Answer:
    def give(handler: Any) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return give


class Store:
    """What a store keeps for outlets."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def document(self, name: str) -> str | None:
        return self.texts.get(name)

    def set_document(self, name: str, text: str) -> None:
        self.texts[name] = text


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(http, "MAX_EVENTS", 2)
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def outlet(receiver: Receiver, store: Store, again: int = 0, **options: Any) -> HttpOutlet:
    sink = Sink("hooks", "http", options={"url": receiver.url, "headers": {"Authorization": "Bearer x"}, **options})
    return open_outlet(Outgoing(sink, "T", "s", relation="T$changes", again=again, notes=store))


def write(found: HttpOutlet, last: int, pieces: int = 3) -> None:
    """All events behind what was taken, a few at a time, as they come from a store."""
    done = found.reached() or 0
    numbers = range(done + 1, last + 1)
    found.write(
        pa.table({"_seq": pa.array(numbers[n : n + pieces], pa.int64())}) for n in range(0, len(numbers), pieces)
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    store = Store()
    receiver.answers = [answer(200), answer(status, Location="http://127.0.0.1:1/new")]
    with pytest.raises(BelvedereError) as caught:
        write(outlet(receiver, store), 4)
    (reported,) = caught.value.diagnostics
    assert reported.code == "B6231"
    assert f"{status} " in reported.message
    assert reported.message.endswith("to http://127.0.0.1:1/new")
    write(outlet(receiver, store), 4)
    assert [(m, p, n) for m, p, _, n in receiver.came] == [("POST", "/hook", n) for n in ([1, 2], [3], [3], [4])]


def test_a_slow_receiver_gets_all_of_them_in_order_at_its_pace(receiver: Receiver) -> None:
    """It takes two requests, refuses one, takes two: nothing that was taken comes again."""
    store, pauses = Store(), list[float | None]()
    found = outlet(receiver, store)
    for _ in range(10):
        receiver.answers = [answer(200), answer(200), answer(429, Retry_After="7")]
        try:
            write(found, 10)
        except AwayError as error:
            pauses.append(error.seconds)
            continue
        break
    taken = [*receiver.by_id.values()]
    assert [n for numbers in taken for n in numbers] == [*range(1, 11)]
    assert len(receiver.came) == len(taken) + len(pauses), "only what was refused came twice"
    assert pauses == [7.0, 7.0, 7.0]


def test_what_was_taken_and_answered_too_late_comes_again_under_the_same_id(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events have come meanwhile; in a process of another day, too, of which only the store knows."""
    monkeypatch.setattr(http, "TIMEOUT_SECONDS", 0.2)
    store = Store()

    def late(handler: Any) -> None:
        time.sleep(0.5)
        answer(200)(handler)

    receiver.answers = [answer(200), late]
    with pytest.raises(AwayError, match="B6230"):
        write(outlet(receiver, store), 3)
    write(outlet(receiver, store), 6)
    assert [n for _, _, _, n in receiver.came] == [[1, 2], [3], [3], [4, 5], [6]]
    assert len(receiver.by_id) == 4
    write(outlet(receiver, store, again=1), 2)
    assert receiver.came[-1][2] not in list(receiver.by_id)[:-1], (
        "what is asked for again is not taken for a repetition"
    )


def all_of_them(receiver: Receiver, store: Store, last: int, seconds: float) -> list[list[int]]:
    """The requests until all was taken, each time by a process that only knows what the store does."""
    for _ in range(20):
        try:
            write(outlet(receiver, store, timeout_seconds=seconds), last, pieces=last)
        except AwayError:
            continue
        return [numbers for *_, numbers in receiver.came]
    raise AssertionError("the receiver gets no further")


def test_a_receiver_that_needs_long_for_a_request_gets_the_same_one_with_more_time_and_then_smaller_ones(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_EVENTS", 8)

    def slow(seconds: float) -> Answer:
        def give(handler: Any) -> None:
            time.sleep(seconds)
            answer(200)(handler)

        return give

    receiver.answers = [slow(0.8), slow(0.3)]
    came = all_of_them(receiver, Store(), 14, 0.2)
    assert came == [[*range(1, 9)]] * 2 + [[9, 10, 11, 12], [13, 14]], "the second was taken within twice the time"
    assert len(receiver.by_id) == 3


@pytest.mark.parametrize("status", [None, 504, 408, 413])
def test_a_receiver_that_never_takes_a_large_request_gets_smaller_ones(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    """Each event comes, in order, and in one request that was taken. Only what was certainly not taken is cut at
    once."""
    monkeypatch.setattr(http, "MAX_EVENTS", 8)
    taken: list[int] = []

    def most_three(handler: Any) -> None:
        receiver.answers.append(most_three)
        numbers = receiver.came[-1][3]
        if len(numbers) <= 3:
            taken.extend(numbers)
            answer(200)(handler)
        elif status is not None:
            answer(status)(handler)
        else:
            time.sleep(0.9)  # longer than it is waited for

    receiver.answers = [most_three]
    came = all_of_them(receiver, Store(), 10, 0.15 if status is None else 2.0)
    assert taken == [*range(1, 11)]
    whole = came.count([*range(1, 9)])
    assert whole == (1 if status == 413 else 3)


def test_one_event_that_is_too_large_is_refused(receiver: Receiver) -> None:
    receiver.answers = [answer(413), answer(413)]
    with pytest.raises(BelvedereError) as caught:
        write(outlet(receiver, Store()), 2)
    assert caught.value.diagnostics[0].code == "B6231"
    assert [n for *_, n in receiver.came] == [[1, 2], [1]]


@pytest.mark.parametrize("wrong", [0, -1, "10s", True, 1e9])
def test_a_time_that_is_none_is_refused(receiver: Receiver, wrong: object) -> None:
    with pytest.raises(BelvedereError) as caught:
        outlet(receiver, Store(), timeout_seconds=wrong)
    assert caught.value.diagnostics[0].code == "B9104"


def test_how_long_a_receiver_wants_to_be_left_alone() -> None:
    assert pause_of(None) is pause_of("soon") is None
    assert (pause_of("2"), pause_of("0"), pause_of("999999")) == (2.0, 0.0, http.MAX_PAUSE_SECONDS)
    then = pause_of(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert then is not None
    assert 25 < then <= 30
    assert pause_of("Fri, 31 Dec 1999 23:59:59 GMT") == 0.0


def test_pauses_begin_anew_after_something_was_taken() -> None:
    away, error = Away(), BelvedereError(())
    for _ in range(4):
        away.failed(error)
    away.went_on()
    away.failed(error)
    assert away._again - time.monotonic() <= 1.0
