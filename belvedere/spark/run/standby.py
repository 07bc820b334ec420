"""A run that waits while another one has the store, prepared to continue where that one ends.

In: a Spark session, a catalog, the store's URL. Out: work that needs no lease is done (Spark's classes are loaded, the
script is analyzed, the state's manifest is read), and the end of the wait. It writes nothing: the store, its state and
its journal belong to the other run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.engine.store_folders import read_state
from belvedere.errors import BelvedereError, fail
from belvedere.intake.journal_claim import read_claim
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.placement import DOCUMENT as CHOICE
from belvedere.pipeline.placement import PlacedViews, with_choice
from belvedere.spark.analysis import analyze
from belvedere.store import open_store
from belvedere.store.dialects.faults import is_transient
from belvedere.store.protocol import Store

POLL_SECONDS = 0.2
"""Seconds between two checks of the lease."""
AWAY_SECONDS = 1.0
"""Seconds between two attempts to reach an unavailable store."""
SEEN_SECONDS = 20.0
"""Seconds within which the other run's journal must appear. A run opens it soon after it has the lease."""
HELD, BUSY, NO_STATE, DAMAGED = "B7006", "B7004", "B7063", "B7061"

Taken = TypeVar("Taken")


def prepare(spark: SparkSession, catalog: Catalog, store: Store, root: Path | str | None) -> None:
    """Run the work of a run's start once, so that its code is loaded.

    Raises Spark's errors, and B7066 if the state cannot be seen.
    """
    placed = with_choice(catalog, PlacedViews.of_text(store.document(CHOICE)))
    if refused := analyze(spark, placed, maintain(placed)):
        raise BelvedereError(refused)
    spark.range(1).collect()
    _look_at_state(store, root)


def _look_at_state(store: Store, root: Path | str | None) -> None:
    """Read the manifest, and check that its files are here.

    Retry, since an epoch of the other run may delete a file.
    """
    for left in (2, 1, 0):
        try:
            with closing(store.reader()) as reader, closing(read_state(reader, store.url, root)) as state:
                missing = state.files.missing(state.manifest.files)
        except BelvedereError as error:
            code = error.diagnostics[0].code
            if code == NO_STATE:
                return
            if code != DAMAGED:
                raise
            missing = error.diagnostics[0].message
        if missing is None:
            return
        if not left:
            hint = "let [run] state name a folder that both machines mount, or an address such as s3://bucket/folder"
            raise fail("B7066", f"the state of the other run cannot be seen from here: {missing}", hint=hint)


class Standby:
    """The wait of one run for the lease on its store."""

    def __init__(self, url: str, journal: Path | None, stopped: Callable[[], bool], notify: Callable[[str], None]):
        """`journal` is the folder of the store's journal, if the script accepts pushes."""
        self._url, self._journal, self._stopped, self._notify = url, journal, stopped, notify
        self._started = time.monotonic()
        self._is_seen = journal is None

    def wait(self, take: Callable[[], Taken], check: Callable[[], None]) -> Taken | None:
        """Wait until the lease is free, and return the result of `take`, which takes it; None if the run is to end.

        `check` raises an error that ends the wait. Raises B7066 if the other run's journal is not here.
        """
        said = False
        while not self._stopped():
            try:
                with closing(open_store(self._url)) as store:
                    if not self._until_free(store, check):
                        return None
                return take()
            except BelvedereError as error:
                if error.diagnostics[0].code not in (HELD, BUSY) and not is_transient(error):
                    raise
                if is_transient(error) and not said:
                    self._notify(f"{error.diagnostics[0].message}; on standby until it is back")
                    said = True
            _wait(AWAY_SECONDS, self._stopped)
        return None

    def _until_free(self, store: Store, check: Callable[[], None]) -> bool:
        """Wait until the lease is free; return False if the run is to end before."""
        while not self._stopped():
            check()
            holder = store.holder()
            if holder is None:
                return True
            self._see_journal(holder)
            _wait(POLL_SECONDS, self._stopped)
        return False

    def _see_journal(self, holder: str) -> None:
        if self._is_seen or self._journal is None:
            return
        with contextlib.suppress(OSError):
            self._is_seen = read_claim(self._journal).owner == holder
        if not self._is_seen and time.monotonic() - self._started > SEEN_SECONDS:
            raise fail(
                "B7066",
                f'the journal of runner "{holder}" is not in {self._journal}: its pushed rows would be lost',
                hint="let both runs have the folder of the script on a file system that both machines mount",
            )


def _wait(seconds: float, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stopped() and time.monotonic() < end:
        time.sleep(0.05)
