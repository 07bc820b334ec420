"""The smallest set of indexes that serves a relation's reads.

In: per read, the columns that it compares for equality, in any order, and those that follow in a fixed order. Out:
lists of columns; each read finds its columns at the beginning of one list. A read precedes another if an index for the
other can begin with its columns. The indexes are the paths of a minimum path cover of that order, which is a maximum
matching (Dilworth 1950, Fulkerson 1956).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Columns = tuple[str, ...]
Place = tuple[str, int]


@dataclass(frozen=True, order=True)
class ReadBy:
    """The columns of a read: `equal` ones in any order, then `ordered` ones. No column is in both."""

    equal: Columns = ()
    ordered: Columns = ()

    def is_before(self, other: ReadBy) -> bool:
        """Return whether an index for the other read can begin with one for this read."""
        if self.equal == other.equal:
            return self.ordered == other.ordered[: len(self.ordered)]
        return {*self.equal, *self.ordered} <= set(other.equal)


def read_by(equal: Iterable[str], ordered: Iterable[str] = ()) -> ReadBy:
    """Return the columns of a read, each once.

    The first column of an order counts as equal, since nothing precedes it.
    """
    first = dict.fromkeys(equal)
    rest = [c for c in dict.fromkeys(ordered) if c not in first]
    if not first and rest:
        first[rest.pop(0)] = None
    return ReadBy(tuple(sorted(first)), tuple(rest))


def covering(reads: Iterable[ReadBy]) -> tuple[Columns, ...]:
    """Return the smallest set of column lists such that one begins with each read's columns."""
    requested = sorted(_with_orders({r for r in reads if r.equal}))
    places = range(len(requested))
    order = [
        (("before", a), ("after", b)) for a in places for b in places if a != b and requested[a].is_before(requested[b])
    ]
    matched = _matching(order, [("before", n) for n in places]) if order else {}
    return tuple(sorted(_path(requested, matched, n) for n in places if ("after", n) not in matched))


def _matching(order: list[tuple[Place, Place]], before: list[Place]) -> dict[Place, Place]:
    """Return a maximum matching, in both directions."""
    import networkx as nx  # loads 285 modules that most scripts do not need

    graph = nx.Graph(order)
    graph.add_nodes_from(before)
    found: dict[Place, Place] = nx.bipartite.hopcroft_karp_matching(graph, before)
    return found


def _with_orders(reads: set[ReadBy]) -> set[ReadBy]:
    """Return the reads.

    A read takes the order of another one that begins with exactly its columns, so it needs no index of its own.
    """

    def with_order(read: ReadBy) -> ReadBy:
        for other in sorted(reads):
            more = len(read.equal) - len(other.equal)
            if more > 0 and set(read.equal) == {*other.equal, *other.ordered[:more]}:
                return ReadBy(other.equal, (*other.ordered[:more], *read.ordered))
        return read

    made = set(map(with_order, reads))
    return made if made == reads else _with_orders(made)


def _path(requested: list[ReadBy], matched: dict[Place, Place], first: int) -> Columns:
    """Return the columns of the reads from the first one on, each after those of the reads before it."""
    columns: list[str] = []
    place: int | None = first
    while place is not None:
        read = requested[place]
        columns += [c for c in (*read.equal, *read.ordered) if c not in columns]
        place = matched[("before", place)][1] if ("before", place) in matched else None
    return tuple(columns)
