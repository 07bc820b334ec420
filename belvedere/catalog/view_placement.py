"""Views that the store computes at read time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.plan.operators.nodes import Node


@dataclass(frozen=True)
class ViewPlacement:
    """Public views that are not stored, and the views and indexes stored for them. The script or `optimize` chooses
    them."""

    at_read: Mapping[str, Node] = field(default_factory=dict)
    """Plans of public views that are not stored, over stored relations. The store computes them at read time."""
    part_paths: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Paths of the stored parts in the plans of partly stored views."""
    parts: frozenset[str] = frozenset()
    """Private views stored as parts of such views, because the database cannot compute them."""
    scanning: frozenset[str] = frozenset()
    """Query templates without an index: the optimizer lets them scan."""
