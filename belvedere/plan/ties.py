"""Deterministic order of tied rows: by arrival, then by key, in the direction of the last sort key.

In: a schema. Out: the columns to append. 'Among equal order keys the later arrival counts as greater.'
"""

from __future__ import annotations

from belvedere.schema import UID, Schema, has_map


def tie_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns of arrival numbers and of the key that a relation has."""
    arrivals = [c.name for c in schema if c.name == UID or c.name.endswith(f".{UID}")]
    return tuple(n for n in dict.fromkeys([*arrivals, *(schema.key or ())]) if not has_map(schema[n].type))
