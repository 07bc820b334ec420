"""The stored form of one type: the column's SQL type, the flat Arrow type that the driver transfers, and the
conversions both ways.

It knows no dialect; `belvedere.store.dialects.codec` returns the form of each Arrow type in a dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

Encode = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class StoredForm:
    """The stored form of one type. `encode` returns an array of the type `flat`; `decode` converts it back."""

    sql: str
    flat: pa.DataType
    encode: Encode
    decode: Encode


@dataclass(frozen=True)
class TypeNames:
    """Names of a dialect for the types that every database has."""

    integer: str
    double: str
    text: str
    blob: str


def casting(sql: str, type_: pa.DataType, *through: pa.DataType) -> StoredForm:
    """Return a form by Arrow's casts: through these types to the last of them, and back."""
    there, back = through, (*reversed(through[:-1]), type_)
    return StoredForm(sql, through[-1], lambda a: _cast(a, there), lambda a: _cast(a, back))


def _cast(values: pa.Array, types: tuple[pa.DataType, ...]) -> pa.Array:
    for type_ in types:
        values = values if values.type == type_ else values.cast(type_)
    return values


def is_text(type_: pa.DataType) -> bool:
    """Return whether the type is any of Arrow's strings."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))
