"""The operators of a script's public views, with their costs at both places.

In: the views' plans down to public relations, a workload, the operators that the database supports. Out: operators for
`belvedere.optimize.choice`, and their positions. An operator that several views need occurs once; its inputs feed it
once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Placement
from belvedere.optimize.choice import CostedOperator
from belvedere.optimize.costs import (
    Coefficients,
    Sizes,
    Workload,
    computing,
    first_share,
    maintaining,
    passed_share,
    storing,
)
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.plan_properties import is_linear

Path = tuple[int, ...]


@dataclass
class Operators:
    """The operators of all public views: `found` by name, `places` per view by their path in its plan."""

    catalog: Catalog
    plans: Mapping[str, Node]
    workload: Workload
    costs: Coefficients
    sizes: Sizes
    found: dict[str, CostedOperator] = field(default_factory=dict)
    places: dict[str, dict[Path, str]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    """The nodes of the operators, by name."""
    shared: dict[Node, str] = field(default_factory=dict)

    def maintained_now(self, at_read: Mapping[str, Collection[Path]]) -> frozenset[str]:
        """Return the operators that are maintained if these views are computed at read time, except for the parts at
        these paths."""
        read: set[str] = set()
        for id_, parts in at_read.items():
            inside = {p for p in self.places[id_] if any(p[: len(part)] == part for part in parts)}
            read |= {name for path, name in self.places[id_].items() if path not in inside}
        stays = {name for i, places in self.places.items() if i not in at_read for name in places.values()}
        return frozenset(self.found.keys() - (read - stays))

    def parts(self, id_: str, maintained: Collection[str]) -> tuple[Path, ...] | None:
        """Return the topmost maintained operators of a view, or None if the whole view is maintained and stored."""
        places = self.places[id_]
        if places[()] in maintained:
            return None
        return tuple(p for p, name in places.items() if name in maintained and places[p[:-1]] not in maintained)


def operators_of(
    catalog: Catalog,
    plans: Mapping[str, Node],
    workload: Workload,
    costs: Coefficients,
    is_said: Callable[[Node], bool],
    must_be_stored: Callable[[str], bool],
) -> Operators:
    """Return the operators of the public views, whose plans are `plans` in the order of definition."""
    made = Operators(catalog, plans, workload, costs, Sizes(workload, plans))
    for id_, plan in plans.items():
        made.places[id_] = dict(_add(made, id_, plan, (), is_said))
    for id_ in plans:
        for reader, below in _edges(made, id_):
            operator = made.found[below]
            made.found[below] = replace(operator, readers=tuple(dict.fromkeys((*operator.readers, reader))))
        root = made.found[made.places[id_][()]]
        placed = catalog.hints.placed.get(id_)
        stored = must_be_stored(id_) or placed is Placement.MAINTAIN
        fixed = Placement.MAINTAIN if stored else placed or root.fixed
        made.found[root.name] = replace(root, asked=True, fixed=fixed)
    for id_ in plans:
        _charge_requests(made, id_)
    return made


def _add(
    made: Operators, id_: str, node: Node, path: Path, is_said: Callable[[Node], bool]
) -> Iterator[tuple[Path, str]]:
    """Create the operators of a plan, parents first, and yield their positions.

    Linear operators are not shared between views: they are cheap anywhere.
    """
    if isinstance(node, Scan) and path:
        return
    name = made.shared.get(node)
    if name is None:
        name = f"{len(made.found)}:{type(node).__name__}"
        pause = max(made.workload.pause, 1e-3)
        fixed = None if is_said(node) and not _is_not_there(made.catalog, node) else Placement.MAINTAIN
        maintain, store = maintaining(node, made.sizes, made.costs), storing(node, made.sizes, made.costs)
        made.found[name] = CostedOperator(
            name, maintain / pause, store / pause + made.costs.kept * made.sizes.rows(node), fixed=fixed
        )
        made.nodes[name] = node
        if not is_linear(node):
            made.shared[node] = name
    yield path, name
    for n, below in enumerate(node.inputs):
        yield from _add(made, id_, below, (*path, n), is_said)


def _below(made: Operators, id_: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the inputs of an operator: operators of the same view, or the result of another public view."""
    for n, below in enumerate(made.nodes[made.places[id_][path]].inputs):
        if not isinstance(below, Scan):
            yield id_, (*path, n)
        elif below.relation in made.plans:
            yield below.relation, ()


def _edges(made: Operators, id_: str) -> Iterator[tuple[str, str]]:
    """Yield the edges (input, reader) in a view's plan."""
    for path, name in made.places[id_].items():
        for view, place in _below(made, id_, path):
            yield name, made.places[view][place]


def _is_not_there(catalog: Catalog, node: Node) -> bool:
    """Return whether an operator reads a relation that is not stored with all of its rows."""
    for scan in (i for i in node.inputs if isinstance(i, Scan)):
        source = catalog.inputs.get(scan.relation)
        if scan.relation not in catalog.public or (source is not None and source.keep is not None):
            return True
    return isinstance(node, Scan)


def _charge_requests(made: Operators, id_: str) -> None:
    """Add the cost of requests for a view to each operator below it, if requests compute it.

    An operator that takes longer than promised is maintained.
    """
    rate, most = made.workload.requests.get(id_, 0.0), made.workload.latency.get(id_)
    todo: list[tuple[str, Path, float]] = [(id_, (), first_share(made.plans[id_], made.sizes))]
    spent = 0.0  # by the total that the request may compute, on every branch
    while todo:
        view, path, share = todo.pop(0)
        name = made.places[view][path]
        node, operator = made.nodes[name], made.found[name]
        below_share = passed_share(node, share)
        seconds = computing(node, made.sizes, made.costs, below_share)
        late = most is not None and spent + seconds > most and operator.fixed is None
        fixed = Placement.MAINTAIN if late else operator.fixed
        made.found[name] = replace(operator, read=operator.read + rate * seconds, fixed=fixed)
        if fixed is not Placement.MAINTAIN:  # the inputs of a maintained operator are maintained too
            spent += seconds
            todo += ((v, p, below_share) for v, p in _below(made, view, path))


def scaled(made: Operators) -> Operators:
    """Replace the formulas' sum by the measured seconds of epochs, for views that are maintained now."""
    found = dict(made.found)
    for id_, seconds in made.workload.seconds.items():
        names = {n for n in made.places.get(id_, {}).values() if not is_linear(made.nodes[n])}
        total = sum(found[n].maintain for n in names)
        if total > 0:
            factor = seconds / max(made.workload.pause, 1e-3) / total
            found |= {n: replace(found[n], maintain=found[n].maintain * factor) for n in names}
    return replace(made, found=found)
