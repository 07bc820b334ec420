"""Query templates that scan because an index would cost more than it saves.

In: a catalog, a workload, coefficients. Out: the saving and the cost of each such template, in seconds of processor
time per second. An index that also serves other reads exists anyway. A template keeps its index if a scan would break
its promised latency.
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
    """A template without an index of its own, with the saving and the cost of its scans."""

    name: str
    indexes: tuple[tuple[str, Columns], ...]
    """Indexes that it omits: a relation's id, columns."""
    saved: float
    cost: float

    @property
    def text(self) -> str:
        """Return a description for users."""
        indexes = ", ".join(f"{r} ({', '.join(c)})" for r, c in self.indexes)
        costs = f"maintaining it would take {self.saved:.2g}, scanning takes {self.cost:.2g} s per second"
        return f"{self.name}: no index on {indexes}: {costs}"


def scanning_templates(catalog: Catalog, workload: Workload, costs: Coefficients) -> tuple[ScanningTemplate, ...]:
    """Return the templates that should scan, those with the fewest requests first.

    A template changes only if this gains more than `GAIN`.
    """
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
