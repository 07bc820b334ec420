"""Approximate sizes of relations, and the operators that were recomputed as a whole because of them.

In: numbers of changed rows, a function that counts a stored relation. Out: whether most of a relation changed. Counts
are cached between epochs: a table is only recounted if that could change the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MIN_CHANGED_ROWS = 1_000
"""Minimum number of changed rows for a whole recomputation to be considered."""
SHARE = 3


@dataclass
class Costs:
    """The sizes known so far; `whole` are the stages of this epoch that were recomputed whole."""

    counted: bool
    least: int = MIN_CHANGED_ROWS
    rows: dict[str, int] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)

    def has_rows(self, relation: str, least: int, count: Callable[[str], int]) -> bool:
        """Return whether a relation has at least `least` rows. A relation that once had them is not recounted."""
        if relation not in self.rows or self.rows[relation] < least:
            self.rows[relation] = count(relation)
        return self.rows[relation] >= least

    def is_most(
        self, changed: Sequence[int], relations: Sequence[str], count: Callable[[str], int], crossed: bool
    ) -> bool:
        """Return whether at least a third of all rows of the relations changed; if they are `crossed`, of all their
        pairs."""
        if not crossed and sum(changed) < self.least:
            return False
        if not crossed and sum(changed) * SHARE < sum(self.rows.get(n, 0) for n in set(relations)):
            return False
        self.rows |= {n: count(n) for n in set(relations)}
        sizes = [self.rows[n] for n in relations]
        if not crossed:
            return sum(changed) * SHARE >= sum(self.rows[n] for n in set(relations))
        touched = changed[0] * sizes[1] + changed[1] * sizes[0]
        return touched >= self.least and touched * SHARE >= sizes[0] * sizes[1]
