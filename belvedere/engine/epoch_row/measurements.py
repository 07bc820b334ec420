"""Measurements of each relation by epochs, and of its requests by the API, as means of about the last hundred epochs.

In: the figures of an epoch, the API's counts, the document of the previous epoch. Out: the document that the epoch's
row keeps, and its values for people and the optimizer. Rows and bytes are not here: the store and its state have them
(`belvedere explain --state`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

DOCUMENT = "measured"
EPOCHS = 100
"""Approximate number of epochs in a mean."""
Requests = Mapping[str, tuple[float, float]]
"""Number of requests that read a relation or query template, and their total seconds."""


@dataclass(frozen=True)
class Measured:
    """Means over the last epochs with changes. `pause` is the time between them, in seconds."""

    epochs: int = 0
    pause: float = 0.0
    changed: Mapping[str, float] = field(default_factory=dict)
    """Rows inserted or deleted in an epoch, by relation."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of an epoch for the stage that computes a relation."""
    requests: Requests = field(default_factory=dict)
    """Requests between two epochs."""

    def rate(self, name: str) -> float:
        """Return requests per second."""
        return self.requests.get(name, (0.0, 0.0))[0] / self.pause if self.pause else 0.0

    def latency(self, name: str) -> float | None:
        """Return the mean seconds of a request, or None if there were none."""
        count, seconds = self.requests.get(name, (0.0, 0.0))
        return seconds / count if count else None

    def after(
        self,
        changed: Mapping[str, int],
        seconds: Mapping[str, float],
        pause: float | None,
        requests: Requests | None = None,
    ) -> Measured:
        """Return the means with one more epoch.

        An epoch without changes is ignored, and None means that a figure is not known.
        """
        if not any(changed.values()):
            return self
        epochs = min(self.epochs + 1, EPOCHS)
        later = pause if pause is not None and self.epochs else self.pause
        known = (
            self.requests
            if requests is None
            else {
                n: (_mean(a, c, epochs), _mean(b, d, epochs))
                for n in {**self.requests, **requests}
                for (a, b), (c, d) in [(self.requests.get(n, (0.0, 0.0)), requests.get(n, (0.0, 0.0)))]
            }
        )
        return Measured(
            epochs,
            _mean(self.pause, later, max(1, epochs - 1)),
            {n: _mean(self.changed.get(n, 0.0), changed.get(n, 0), epochs) for n in {**self.changed, **changed}},
            {n: _mean(self.seconds.get(n, 0.0), seconds.get(n, 0.0), epochs) for n in {**self.seconds, **seconds}},
            known,
        )

    def only(self, relations: Collection[str], endpoints: Collection[str]) -> Measured:
        """Return the measurements of only these relations and endpoints: others were dropped."""
        changed, seconds = ({n: v for n, v in d.items() if n in relations} for d in (self.changed, self.seconds))
        return Measured(
            self.epochs, self.pause, changed, seconds, {n: v for n, v in self.requests.items() if n in endpoints}
        )

    def as_document(self) -> dict[str, Any]:
        """Return the values as JSON data."""
        relations = {n: [_short(self.changed.get(n, 0.0)), _short(self.seconds.get(n, 0.0))] for n in self.changed}
        requests = {n: [_short(count), _short(seconds)] for n, (count, seconds) in self.requests.items()}
        return {"epochs": self.epochs, "pause": _short(self.pause), "relations": relations, "requests": requests}

    @classmethod
    def of_document(cls, document: Mapping[str, Any] | None) -> Measured:
        """Parse the data of `as_document`. Without a document nothing is known."""
        if not document:
            return cls()
        relations = document["relations"].items()
        changed, seconds = ({n: float(v[place]) for n, v in relations} for place in (0, 1))
        requests = {n: (float(v[0]), float(v[1])) for n, v in document.get("requests", {}).items()}
        return cls(int(document["epochs"]), float(document["pause"]), changed, seconds, requests)


class Meter:
    """Meter of the epochs of one start. `requests` returns the API's counts since its own start."""

    def __init__(self, known: Measured):
        self.known = known
        self.requests: Callable[[], Requests] = dict
        self._last: tuple[datetime, Requests] | None = None
        self._next: tuple[Measured, datetime, Requests] | None = None

    def measure(self, changed: Mapping[str, int], seconds: Mapping[str, float], clock: datetime) -> Measured:
        """Return the measurements after this epoch is committed."""
        requests = self.requests()
        if self._last is None:  # the time before is that of another start
            found = self.known.after(changed, seconds, None)
        else:
            before, counted = self._last
            new = {n: (c - counted.get(n, (0, 0))[0], s - counted.get(n, (0, 0))[1]) for n, (c, s) in requests.items()}
            found = self.known.after(
                changed, seconds, (clock - before).total_seconds(), {n: v for n, v in new.items() if v[0]}
            )
        self._next = None if found is self.known else (found, clock, requests)
        return found

    def committed(self) -> None:
        """Make the last measured epoch count, after its commit."""
        if self._next is not None:
            self.known, clock, requests = self._next
            self._last, self._next = (clock, requests), None


def _mean(known: float, new: float, count: int) -> float:
    return known + (new - known) / count


def _short(value: float) -> float:
    """Round to four digits. No reader needs more, and the row is written in every epoch."""
    return float(f"{value:.4g}")
