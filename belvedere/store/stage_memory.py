"""Memory of stages between epochs, in addition to their rows: a few numbers in the epoch's row.

In: the `extra` of an epoch's row. Out: one typed value for each stage, as its rule declares it (`Stage.memory`). A
number is stored under the name of the stage's output and its own suffix; a number with its default value is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

MEMORIES = "sequences"
"""Name of the numbers of all stages in the epoch row's `extra`."""
_SUFFIX = "suffix"


def remembered(suffix: str, default: int | None) -> Any:
    """Declare one number of a stage's memory, with the suffix of its stored name and its value before the first
    epoch.
    """
    return field(default=default, metadata={_SUFFIX: suffix})


@dataclass
class StageMemory:
    """The memory of one stage: empty by default.

    A rule declares fields by `remembered`, and its stage changes them in an epoch.
    """

    @classmethod
    def _numbers(cls, output: str) -> Iterator[tuple[Field[Any], str]]:
        return ((f, output + f.metadata[_SUFFIX]) for f in fields(cls))


Kind = TypeVar("Kind", bound=StageMemory)


@dataclass
class Numbered(StageMemory):
    """The memory of a stage that numbers its rows. The numbers continue when its rows are recomputed."""

    next_number: int = remembered("", 1)

    def take_numbers(self, count: int) -> range:
        """Return the next `count` numbers, and mark them as used."""
        first, self.next_number = self.next_number, self.next_number + count
        return range(first, first + count)


@dataclass
class HistoryMemory(StageMemory):
    """The first epoch in a history, and that epoch's clock in microseconds; None without a history."""

    began: int | None = remembered(" began", None)
    began_at: int | None = remembered(" began at", None)


class Memories:
    """The memory of all stages after an epoch, including those of dropped relations."""

    def __init__(self, stored: Mapping[str, int] | None = None):
        self._stored = dict(stored or {})

    @classmethod
    def of(cls, extra: Mapping[str, Any]) -> Memories:
        """Read the memories from an epoch's row."""
        return cls(extra.get(MEMORIES))

    def recall(self, output: str, kind: type[Kind]) -> Kind:
        """Return the memory of the stage of an output."""
        found = {f.name: self._stored[name] for f, name in kind._numbers(output) if name in self._stored}
        return kind(**found)

    def remember(self, output: str, memory: StageMemory) -> None:
        """Store what the stage of an output remembers from now on."""
        for number, name in memory._numbers(output):
            value = getattr(memory, number.name)
            if value == number.default:
                self._stored.pop(name, None)
            else:
                self._stored[name] = int(value)

    def last_number(self, output: str) -> int:
        """Return the number of the last row of an output that numbers its rows; 0 if there was none."""
        return self.recall(output, Numbered).next_number - 1

    def document(self) -> dict[str, int]:
        """Return the numbers in the form of an epoch's row."""
        return dict(self._stored)
