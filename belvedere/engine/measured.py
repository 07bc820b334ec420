"""What epochs have measured of each relation: changed rows and seconds, as means of the last hundred or so.

In: the figures of an epoch, the document of the epoch before. Out: the document that the epoch's row keeps, and its values for people and
the optimizer. Rows and bytes are not here: the store and its state know them (`belvedere explain --state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DOCUMENT = "measured"
EPOCHS = 100
"""About so many epochs count."""


@dataclass(frozen=True)
class Measured:
    """Means over the last epochs that brought something. `pause` is the time from one to the next, in seconds."""

    epochs: int = 0
    pause: float = 0.0
    changed: Mapping[str, float] = field(default_factory=dict)
    """Rows that came or went in an epoch, by relation."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds that an epoch took for the stage that makes a relation."""

    def after(self, changed: Mapping[str, int], seconds: Mapping[str, float], pause: float) -> Measured:
        """With one epoch more; one in which nothing changed counts for nothing."""
        if not any(changed.values()):
            return self
        epochs = min(self.epochs + 1, EPOCHS)
        return Measured(
            epochs,
            _mean(self.pause, pause, max(1, epochs - 1)) if self.epochs else 0.0,
            {n: _mean(self.changed.get(n, 0.0), changed.get(n, 0), epochs) for n in {**self.changed, **changed}},
            {n: _mean(self.seconds.get(n, 0.0), seconds.get(n, 0.0), epochs) for n in {**self.seconds, **seconds}},
        )

    def only(self, relations: Mapping[str, Any]) -> Measured:
        """Of these relations alone: others have gone."""
        changed, seconds = ({n: v for n, v in d.items() if n in relations} for d in (self.changed, self.seconds))
        return Measured(self.epochs, self.pause, changed, seconds)

    def as_document(self) -> dict[str, Any]:
        """The values as JSON data."""
        relations = {n: [_short(self.changed.get(n, 0.0)), _short(self.seconds.get(n, 0.0))] for n in self.changed}
        return {"epochs": self.epochs, "pause": _short(self.pause), "relations": relations}

    @classmethod
    def of_document(cls, document: Mapping[str, Any] | None) -> Measured:
        """The inverse of `as_document`; nothing is known of a store that has none."""
        if not document:
            return cls()
        relations = document["relations"].items()
        changed, seconds = ({n: float(v[place]) for n, v in relations} for place in (0, 1))
        return cls(int(document["epochs"]), float(document["pause"]), changed, seconds)


def _mean(known: float, new: float, count: int) -> float:
    return known + (new - known) / count


def _short(value: float) -> float:
    """Four digits: no reader needs more, and the row is written in every epoch."""
    return float(f"{value:.4g}")
