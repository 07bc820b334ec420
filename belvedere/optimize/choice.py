"""Which operators epochs maintain and which requests compute: the cheapest choice, found as a minimum cut.

In: operators with what each would cost in either place, in seconds of processor time a second. Out: the operators to maintain. Costs are
additive: an operator costs `maintain` or `read`, and `store` where it is maintained and requests read it. What a maintained operator
reads must be maintained. So the choice is a project selection problem (Picard 1976), whose optimum is a minimum cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from belvedere.catalog.hints import Placement

MAINTAINED, READ = "maintained", "read"
UNITS = 10**9
"""Capacities are whole nanoseconds a second: sums of them are exact."""
NEVER = float("inf")
"""The capacity of an edge that no cut goes through."""
HEAVIEST = 2.0**20
GAIN = 0.2
"""A choice changes where it saves more than this share of the cost, so that it does not swing."""


@dataclass(frozen=True)
class CostedOperator:
    """An operator of a view's plan. Costs are in seconds of processor time a second."""

    name: str
    maintain: float = 0.0
    """Cost of maintaining it in epochs."""
    store: float = 0.0
    """Cost of writing its changes to the database."""
    read: float = 0.0
    """Cost of computing it in requests."""
    readers: tuple[str, ...] = ()
    """The operators that read it."""
    asked: bool = False
    """Whether requests read its rows themselves: it is the result of a public view."""
    fixed: Placement | None = None
    """Where it must be computed: what the database cannot say is maintained, and so is what would break a promised latency."""


@dataclass(frozen=True)
class Choice:
    """The maintained operators, and what the choice costs."""

    maintained: frozenset[str]
    cost: float


def cost_of(operators: Mapping[str, CostedOperator], maintained: Collection[str]) -> float:
    """Return the cost of a choice; infinite if it is not valid because a maintained operator would read one that is
    not.
    """
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
    """The choice of the least cost. Raises ValueError where what is fixed contradicts itself."""
    import networkx as nx  # a start that asks for no choice does without

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
    """The operators with what epochs do made so dear that the cheapest choice has them do at most `most` seconds a second.

    Where no choice does, they are as dear as can be (a Lagrangian relaxation; the weights are powers of two).
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
    """The cheapest choice for each group of connected operators, where it saves more than `GAIN` of what can be saved; else today's."""
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
