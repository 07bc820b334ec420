"""Check of all checksums of a state while it is in use. It also finds damage in pieces that are not read.

In: the files, the pieces in the manifest at the start. Out: the error of the first piece with a wrong checksum. At
first it runs at full speed, so a small state is checked before its first epoch is committed. Then it leaves most of the
time to the epochs. The order differs at each start, so short runs over a large state eventually check all of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from threading import Event, Thread

from belvedere.errors import BelvedereError
from belvedere.state.files import Files
from belvedere.state.sorted_run import FileRange

FAST_SECONDS = 1.0
REST = 4
"""Seconds of rest for each second of reading."""


class ChecksumPass:
    """A pass over all pieces in its own thread, which starts at once."""

    def __init__(self, files: Files, places: Iterable[FileRange], is_named: Callable[[str], bool]):
        """`is_named` returns whether a file is still in use: merges replace files meanwhile."""
        self.files, self.places, self.is_named = files, list(places), is_named
        random.shuffle(self.places)
        self.error: BelvedereError | None = None
        self._fast_until = time.monotonic() + FAST_SECONDS
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="checksums", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for place in self.places:
            started = time.monotonic()
            try:
                self.files.check([place])
            except BelvedereError as error:
                if self.is_named(place.file):
                    self.error = error
                    return
            now = time.monotonic()
            if self._stopped.wait(REST * (now - started) if now > self._fast_until else 0):
                return

    def raise_error(self) -> None:
        """Raise the error found so far (B7061). A pass that has just begun is waited for."""
        self._thread.join(max(0.0, self._fast_until - time.monotonic()))
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Stop the pass after its present piece."""
        self._stopped.set()
        self._thread.join()
