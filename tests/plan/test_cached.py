"""Values that are computed once for each node do not make threads wait for each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from belvedere.plan.cached_values import cached_property


class Node:
    """A node whose schema takes until another node's is asked for, too."""

    def __init__(self, both: Barrier):
        self.both, self.asked = both, 0

    @cached_property
    def schema(self) -> str:
        """Its schema."""
        self.asked += 1
        self.both.wait(timeout=20)
        return "a"


def test_two_threads_compute_the_values_of_two_nodes_at_once() -> None:
    both = Barrier(2)
    one, other = Node(both), Node(both)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda n: n.schema, (one, other))) == ["a", "a"]
    assert (one.schema, one.asked, Node.schema.__doc__) == ("a", 1, "Its schema.")
