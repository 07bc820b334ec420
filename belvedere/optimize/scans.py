"""Which query templates scan, as an index for them would cost more than it saves.

In: a catalog, a workload, coefficients. Out: for each such template what it would save and cost, in seconds of processor time a second. An
index that serves other reads too is there anyway. A template whose promised latency a scan would break has its index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from belvedere.catalog.catalog import Catalog
from belvedere.optimize.choice import GAIN
from belvedere.optimize.costs import Coefficients, Workload
from belvedere.optimize.covering import Columns
from belvedere.optimize.indexes import read_indexes
from belvedere.plan.operators.nodes import Scan


@dataclass(frozen=True)
class ScanningTemplate:
    """A template without an index of its own: what that saves, and what its scans cost."""

    name: str
    indexes: tuple[tuple[str, Columns], ...]
    """Indexes that it omits: a relation's id, columns."""
    saved: float
    cost: float

    @property
    def text(self) -> str:
        """For people."""
        indexes = ", ".join(f"{r} ({', '.join(c)})" for r, c in self.indexes)
        costs = f"maintaining it would take {self.saved:.2g}, scanning takes {self.cost:.2g} s per second"
        return f"{self.name}: no index on {indexes}: {costs}"


def scanning_templates(catalog: Catalog, workload: Workload, costs: Coefficients) -> tuple[ScanningTemplate, ...]:
    """The templates that should scan, those that are asked most rarely first; one changes where that gains more than `GAIN`."""
    found: list[ScanningTemplate] = []
    chosen = replace(catalog, placement=replace(catalog.placement, scanning=frozenset()))
    for template in sorted(catalog.templates.values(), key=lambda t: workload.templates.get(t.name, 0.0)):
        without = replace(
            chosen, placement=replace(chosen.placement, scanning=chosen.placement.scanning | {template.name})
        )
        relations = sorted({n.relation for n in template.plan.walk() if isinstance(n, Scan)})
        lost = tuple((r, c) for r in relations for c in set(read_indexes(chosen, r)) - set(read_indexes(without, r)))
        changed = sum(workload.changed.get(r, 0.0) for r, _ in lost) / max(workload.pause, 1e-3)
        saved = costs.indexed * changed + costs.kept * sum(workload.rows.get(r, 0.0) for r, _ in lost)
        seconds = costs.read * sum(workload.rows.get(r, 0.0) for r in {r for r, _ in lost})
        cost = seconds * workload.templates.get(template.name, 0.0)
        gain = 1 - GAIN if template.name in catalog.placement.scanning else 1 + GAIN
        if lost and seconds <= workload.latency.get(template.name, float("inf")) and saved > gain * cost:
            found.append(ScanningTemplate(template.name, lost, saved, cost))
            chosen = without
    return tuple(found)
