"""Choice of the operators that epochs maintain and that requests compute: the cheapest one, found as a minimum cut.

In: operators with the cost of each in both places, in seconds of processor time per second. Out: the operators to
maintain. Costs are additive: an operator costs `maintain` or `read`, and `store` if it is maintained and requests read
it. The inputs of a maintained operator must be maintained. The choice is therefore a project selection problem (Picard
1976), whose optimum is a minimum cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from belvedere.catalog.hints import Placement

MAINTAINED, READ = "maintained", "read"
UNITS = 10**9
"""Capacity units per second of cost: capacities are integer nanoseconds per second, so their sums are exact."""
NEVER = float("inf")
"""Capacity of an edge that no cut contains."""
HEAVIEST = 2.0**20
GAIN = 0.2
"""Minimum share of the cost that a new choice must save to replace the present one. It prevents oscillation."""


@dataclass(frozen=True)
class CostedOperator:
    """An operator of a view's plan. Costs are in seconds of processor time a second."""

    name: str
    maintain: float = 0.0
    """Cost of maintaining the operator in epochs."""
    store: float = 0.0
    """Cost of writing its changes to the database."""
    read: float = 0.0
    """Cost of computing the operator in requests."""
    readers: tuple[str, ...] = ()
    """The operators that read it."""
    asked: bool = False
    """Whether requests read its rows directly: it is the result of a public view."""
    fixed: Placement | None = None
    """Place where it must be computed.

    Operators that the database cannot express are maintained, as are those that would break a promised latency.
    """


@dataclass(frozen=True)
class Choice:
    """The maintained operators, and the cost of the choice."""

    maintained: frozenset[str]
    cost: float


def cost_of(operators: Mapping[str, CostedOperator], maintained: Collection[str]) -> float:
    """Return the cost of a choice, or infinity if a maintained operator would read one that is not maintained."""
    total = 0.0
    for name, operator in operators.items():
        if operator.fixed is not None and (operator.fixed is Placement.MAINTAIN) != (name in maintained):
            return NEVER
        if name not in maintained:
            if any(r in maintained for r in operator.readers):
                return NEVER
            total += operator.read
            continue
        total += operator.maintain
        if operator.asked or any(r not in maintained for r in operator.readers):
            total += operator.store
    return total


def cheapest(operators: Mapping[str, CostedOperator]) -> Choice:
    """Return the choice with the least cost. Raises ValueError if fixed placements contradict each other."""
    import networkx as nx  # not needed by a start without a choice

    graph = nx.DiGraph()
    graph.add_nodes_from((MAINTAINED, READ))
    for name, operator in operators.items():
        node, stored = ("operator", name), ("stored", name)
        at_read, maintained = operator.fixed is Placement.AT_READ, operator.fixed is Placement.MAINTAIN
        graph.add_edge(node, READ, capacity=NEVER if at_read else _units(operator.maintain))
        graph.add_edge(MAINTAINED, node, capacity=NEVER if maintained else _units(operator.read))
        graph.add_edge(node, stored, capacity=_units(operator.store))
        if operator.asked:
            graph.add_edge(stored, READ)
        for reader in operator.readers:
            graph.add_edge(stored, ("operator", reader))
            graph.add_edge(("operator", reader), node)
    try:
        _, (kept, _) = nx.minimum_cut(graph, MAINTAINED, READ)
    except nx.NetworkXUnbounded:
        raise ValueError("an operator that must be maintained reads one that must not be") from None
    chosen = frozenset(n for n in operators if ("operator", n) in kept)
    return Choice(chosen, cost_of(operators, chosen))


def weighed(operators: Mapping[str, CostedOperator], most: float) -> Mapping[str, CostedOperator]:
    """Weight the cost of epochs so that in the cheapest choice they take at most `most` seconds per second.

    If no choice achieves this, the maximum weight is used (a Lagrangian relaxation; the weights are powers of two).
    """
    weight, found = 1.0, operators
    while weight < HEAVIEST and epoch_seconds(operators, cheapest(found).maintained) > most:
        weight *= 2
        found = {n: replace(o, maintain=o.maintain * weight, store=o.store * weight) for n, o in operators.items()}
    return found


def epoch_seconds(operators: Mapping[str, CostedOperator], maintained: Collection[str]) -> float:
    """Return the cost of a choice in epochs, in seconds per second."""
    return sum(operators[n].maintain + operators[n].store for n in maintained)


def next_choice(operators: Mapping[str, CostedOperator], today: Collection[str]) -> Choice:
    """Return the cheapest choice for each group of connected operators if it saves more than `GAIN` of the possible
    saving; otherwise today's choice."""
    maintained: set[str] = set()
    for group in _groups(operators):
        best, cost = cheapest(group), cost_of(group, today)
        must = sum(o.maintain + o.store * o.asked for o in group.values() if o.fixed is Placement.MAINTAIN)
        stays = best.cost - must >= (1 - GAIN) * (cost - must)
        maintained |= group.keys() & set(today) if stays else best.maintained
    return Choice(frozenset(maintained), cost_of(operators, maintained))


def _groups(operators: Mapping[str, CostedOperator]) -> Iterable[dict[str, CostedOperator]]:
    import networkx as nx  # as in `cheapest`

    graph = nx.Graph()
    graph.add_nodes_from(operators)
    graph.add_edges_from((n, r) for n, o in operators.items() for r in o.readers)
    for names in nx.connected_components(graph):
        yield {n: operators[n] for n in operators if n in names}


def _units(cost: float) -> int:
    return round(cost * UNITS)
