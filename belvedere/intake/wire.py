"""Requests from serving processes to the ingest service, and its answers: frames over a pair of connected sockets.

In: `Request`s in a serving process (`IngestClient`, asyncio). Out: `Reply`s of the process that runs epochs
(`IngestServer`, threads). When a socket closes, its pending requests fail; nothing is sent twice. A frame is a length,
the request's number and the content.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from belvedere.intake.entry_bytes import decode_rows, encode_rows, pack, unpack
from belvedere.intake.ingest_service import UNKNOWN, IngestService, Reply, Request, problem
from belvedere.intake.request_rows import Pushed
from belvedere.time.intake_entries import Act, Malformed, ProducerAct

FRAME = struct.Struct("<IQ")
TOGETHER = 512
"""Maximum number of requests that are written with one sync."""
IN_FLIGHT_BYTES = 32 << 20
"""Maximum bytes of requests in flight; a larger request is sent alone."""
AT_ONCE = 1_000
"""Maximum number of rows that are encoded on the event loop; more are encoded in a thread."""
ANSWER_SECONDS = 30.0
"""Maximum seconds that a serving process waits for an answer."""

GONE = Reply(
    503,
    problem(503, "B8030", "no run accepts pushes", "start `belvedere run`: `belvedere serve` only reads"),
)
STANDBY = Reply(
    503,
    problem(
        503,
        "B8038",
        "this run is on standby: another one takes pushes in",
        "send it to the run whose `/readyz` answers 200; a load balancer that asks `/readyz` does so",
    ),
)


def encode_request(request: Request) -> bytes:
    """Return a request as bytes."""
    header: dict[str, Any] = {
        "table": request.table,
        "producer": request.producer,
        "key": request.key,
        "digest": request.digest,
    }
    content = request.content
    if isinstance(content, Pushed):
        malformed = [[m.index, m.text, m.reason] for m in content.malformed]
        header |= {"places": list(content.places), "malformed": malformed, "codes": list(content.codes)}
        return pack(header, encode_rows(content.rows))
    return pack(
        header | {"act": content.act.value, "time": content.time, "column": content.column, "strict": content.strict}
    )


def decode_request(data: bytes) -> Request:
    """Read a request from the result of `encode_request`."""
    header, parts = unpack(data)
    table, producer = header["table"], header["producer"]
    content: Pushed | ProducerAct
    if "act" in header:
        act = Act(header["act"])
        content = ProducerAct(act, table, 0, producer, header["time"], header["column"], header["strict"])
    else:
        malformed = [Malformed(*m) for m in header["malformed"]]
        content = Pushed(decode_rows(parts[0]), header["places"], malformed, header["codes"])
    return Request(table, content, producer, header["key"], header["digest"])


class _Room:
    """A limit on the bytes of requests in flight; callers wait for free space."""

    def __init__(self, most: int):
        self._most, self._held, self._ended = most, 0, False
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait until `size` bytes are free, or until no other request is in flight."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._held or self._held + size <= self._most)
            self._held += size

    def give(self, size: int) -> None:
        """Release `size` bytes."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def end(self) -> None:
        """Wake all waiting callers at shutdown."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class IngestServer:
    """Serves an ingest service to other processes. `connect` returns the other end of a new connection."""

    def __init__(self, ingest_service: IngestService | None, in_flight: int = IN_FLIGHT_BYTES):
        """Start the server. Without an ingest service (standby) requests are rejected; it can be set later."""
        self.ingest_service = ingest_service
        self._requests: queue.SimpleQueue[tuple[Request, Callable[[Reply], None], int] | None] = queue.SimpleQueue()
        self._room = _Room(in_flight)
        self._sockets: list[socket.socket] = []
        self._clerk = threading.Thread(target=self._answer, name="intake", daemon=True)
        self._clerk.start()

    def connect(self) -> socket.socket:
        """Return a socket for a serving process. The server reads its own end until it is closed."""
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        threading.Thread(target=self._serve, args=(ours,), name="intake-read", daemon=True).start()
        return theirs

    def close(self) -> None:
        """Answer the requests that have arrived, and stop."""
        self._requests.put(None)
        self._clerk.join(10)
        self._room.end()
        for end in list(self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _serve(self, end: socket.socket) -> None:
        """Read a connection until its process closes it."""
        try:
            self._read(end)
        finally:
            with contextlib.suppress(ValueError):
                self._sockets.remove(end)
            end.close()

    def _read(self, end: socket.socket) -> None:
        lock = threading.Lock()
        with contextlib.suppress(OSError), end.makefile("rb") as stream:
            while len(head := stream.read(FRAME.size)) == FRAME.size:
                length, number = FRAME.unpack(head)
                self._room.take(length)
                try:
                    data = stream.read(length)
                    if len(data) < length:
                        raise EOFError
                    request = decode_request(data)
                except BaseException as error:
                    self._room.give(length)
                    if isinstance(error, EOFError | OSError):
                        return
                    raise
                self._requests.put((request, partial(_reply, end, lock, number), length))

    def _answer(self) -> None:
        """Answer batches of requests until shutdown."""
        ended = False
        while not ended:
            found = [self._requests.get()]
            with contextlib.suppress(queue.Empty):
                while len(found) < TOGETHER:
                    found.append(self._requests.get_nowait())
            together = [f for f in found if f is not None]
            ended = len(together) < len(found)
            service = self.ingest_service
            requests = [request for request, _, _ in together]
            answers = [STANDBY] * len(requests) if service is None else service.take(requests)
            for (_, reply, size), answer in zip(together, answers, strict=True):
                self._room.give(size)
                reply(answer)


def _reply(end: socket.socket, lock: threading.Lock, number: int, answer: Reply) -> None:
    data = pack({"status": answer.status, "body": answer.body, "sequence": answer.sequence})
    with lock, contextlib.suppress(OSError):  # the serving process may be gone
        end.sendall(FRAME.pack(len(data), number) + data)


class IngestClient:
    """Sends requests to an ingest service in another process. Belongs to one event loop."""

    def __init__(self, end: socket.socket | None):
        self._end = end
        self._open = end is not None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._number = 0
        self._lock = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether an ingest service may accept pushes."""
        return self._open

    async def ask(self, request: Request) -> Reply:
        """Return the ingest service's answer; 503 if there is no service."""
        many = isinstance(request.content, Pushed) and request.content.rows.num_rows > AT_ONCE
        data = await asyncio.to_thread(encode_request, request) if many else encode_request(request)
        async with self._lock:
            if self._open and self._streams is None:
                self._streams = await asyncio.open_unix_connection(sock=self._end)
                self._reader = asyncio.create_task(self._read(self._streams[0]))
        # uvloop raises if the transport is closing
        if not self._open or self._streams is None or self._streams[1].is_closing():
            return GONE
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._streams[1].write(FRAME.pack(len(data), number) + data)
            await self._streams[1].drain()
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except (OSError, TimeoutError):
            return UNKNOWN
        finally:
            self._waiting.pop(number, None)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                length, number = FRAME.unpack(await stream.readexactly(FRAME.size))
                header, _ = unpack(await stream.readexactly(length))
                if number in self._waiting and not self._waiting[number].done():
                    self._waiting[number].set_result(Reply(header["status"], header["body"], header["sequence"]))
        self._open = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(UNKNOWN)
