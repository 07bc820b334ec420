"""The greedy rule of DataSQRL 0.11, for comparison: constants, no sizes, no rates.

In: operators and their plan nodes. Out: the operators that the rule maintains. From the sources up, each operator is
placed where its constant is less: 1 in the database, a tenth of the product of its join's sides in the stream
processor. An operator that cannot be there gets the other place.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Placement
from belvedere.optimize.choice import CostedOperator
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.nodes import Aggregate, Distinct, Join, Node, Scan, SetOperation, TopK, Values
from belvedere.plan.plan_properties import is_linear

DATABASE, STREAM_SHARE = 1.0, 0.1
STREAM, RELATION, STATE, STATIC = 100.0, 20.0, 10.0, 1.0
NO_EQUALITY = 100.0


def greedy(catalog: Catalog, operators: Mapping[str, CostedOperator], nodes: Mapping[str, Node]) -> frozenset[str]:
    """Return the operators that the rule maintains, as far as fixed placements allow."""
    feeding: dict[str, list[str]] = {n: [] for n in operators}
    for name, operator in operators.items():
        for reader in operator.readers:
            feeding[reader].append(name)
    maintained: dict[str, bool] = {}

    def decide(name: str) -> bool:
        if name not in maintained:
            below = [decide(f) for f in feeding[name]]
            fixed = operators[name].fixed
            requested = STREAM_SHARE * _join_cost(catalog, nodes[name]) <= DATABASE and all(below)
            maintained[name] = requested if fixed is None else fixed is Placement.MAINTAIN
        return maintained[name]

    for name in operators:
        decide(name)
    todo = [n for n, kept in maintained.items() if kept]
    while todo:  # the inputs of a maintained operator are maintained
        for name in feeding[todo.pop()]:
            if not maintained[name]:
                maintained[name] = True
                todo.append(name)
    return frozenset(n for n, kept in maintained.items() if kept)


def _join_cost(catalog: Catalog, node: Node) -> float:
    if not isinstance(node, Join) or node.versions is not None:
        return 1.0
    pairs = equalities(node)
    cost = 1.0 if pairs else NO_EQUALITY
    for number, side in enumerate(node.inputs):
        by = {pair[number].name for pair in pairs}
        if side.schema.key is None or not side.schema.key or not by >= set(side.schema.key):
            cost *= _side_cost(catalog, side)
    return cost


def _side_cost(catalog: Catalog, node: Node) -> float:
    while is_linear(node) and len(node.inputs) == 1:
        node = node.inputs[0]
    if isinstance(node, Values):
        return STATIC
    if isinstance(node, Scan):
        source = catalog.inputs.get(node.relation)
        view = catalog.views.get(node.relation)
        if view is not None:
            return _side_cost(catalog, view.plan)
        return STREAM if source is not None and source.append_only else STATE
    return STATE if isinstance(node, Aggregate | Distinct | TopK | SetOperation) else RELATION
