"""Replication slots that no import reads any more: the server keeps its log for them until they are dropped.

In: a script's imports, the offsets of the store's last epoch. Out: notices with the statement that drops the slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.project.settings import ProjectSettings


def left_slots(catalog: Catalog, project: ProjectSettings, offsets: Mapping[str, Any]) -> tuple[str, ...]:
    """Return notices on slots that the last epoch has read and the new start does not read."""
    read = {i: o["slot"] for i, o in offsets.items() if isinstance(o, Mapping) and "slot" in o}
    staying = {_slot_of(i, catalog, project) for i in catalog.inputs}
    return tuple(
        f'no import reads the slot "{slot}" any more, but its server still keeps the log for it; '
        "drop the slot on the server:  "
        f"SELECT pg_drop_replication_slot('{slot}')"
        for slot in dict.fromkeys(read.values())
        if slot not in staying
    )


def _slot_of(id_: str, catalog: Catalog, project: ProjectSettings) -> str | None:
    table = catalog.inputs[id_]
    source = None if table.source is None else table.source.source_in(project)
    if source is None or source.connector != "postgres":
        return None
    return str(source.options.get("slot", "belvedere"))
