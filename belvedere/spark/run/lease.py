"""A run's lease on its store: its duration and renewal.

In: a store that has the lease. Out: its renewal, by a thread if the database accepts a second writing connection, else
between epochs. If a run was suspended for longer and another one has had the store, it commits nothing and ends.
"""

from __future__ import annotations

import time
from threading import Event, Thread

from belvedere.errors import BelvedereError
from belvedere.project.setting_rules import seconds_of
from belvedere.store.protocol import Store

SECONDS_ALONE = 30.0
"""Seconds of a lease that a thread renews."""
SECONDS = 600.0
"""Seconds of a lease that is renewed between epochs, longer than any epoch.

A store detects the end of a process.
"""
PARTS = 6
"""Number of renewals during the time of a lease."""
LOST = "B7007"


def lease_seconds(store: Store, setting: str | None) -> float:
    """Return the seconds of a lease on this store; `setting` is `[run] lease`."""
    return seconds_of(setting) if setting else SECONDS_ALONE if store.renews_alone else SECONDS


class LeaseRenewal:
    """Renews the lease of one opened store until it is stopped."""

    def __init__(self, store: Store, seconds: float):
        self._store, self._pause = store, seconds / PARTS
        self._renewed = time.monotonic()
        self._stopped = Event()
        self._lost: BelvedereError | None = None
        self._thread = Thread(target=self._renew_on, name="lease", daemon=True) if store.renews_alone else None
        if self._thread is not None:
            self._thread.start()

    def go_on(self) -> None:
        """Renew the lease if it is due and no thread does. Raises B7007 if the lease was lost."""
        if self._lost is not None:
            raise self._lost
        if self._thread is None and time.monotonic() - self._renewed >= self._pause:
            self._renewed = time.monotonic()
            self._store.renew()

    def stop(self) -> None:
        """Stop the renewal."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._pause)

    def _renew_on(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                self._store.renew()
            except BelvedereError as error:  # the epochs also notice an unavailable store
                if error.diagnostics[0].code == LOST:
                    self._lost = error
                    return
