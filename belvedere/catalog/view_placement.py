"""Which views the store computes when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.plan.operators.nodes import Node


@dataclass(frozen=True)
class ViewPlacement:
    """The public views that are not stored, and what is stored and indexed for them: as the script says, or the choice of `optimize`."""

    at_read: Mapping[str, Node] = field(default_factory=dict)
    """Public views that are not stored, each with its plan over relations that are: the store computes them when they are read."""
    part_paths: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Paths of the stored parts in the plans of views that are stored in part."""
    parts: frozenset[str] = frozenset()
    """Private views that are stored as parts of such views: what the database does not compute of them."""
    scanning: frozenset[str] = frozenset()
    """Query templates that have no index of their own: the choice lets them scan."""
