"""Claims of a caller's token as values of columns and parameters: METADATA FROM 'auth.claim'.

In: the claims of a verified token (JSON values), the columns or parameters that use them. Out: their values. A caller
without the claim is rejected (B8036), and so is one whose claim has another type. `belvedere.api.access.tokens`
verifies tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import InvalidOperation
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from belvedere.catalog.inputs import Input, Metadata, MetadataKind
from belvedere.errors import fail
from belvedere.values.input_rows import convert
from belvedere.values.type_names import a_type

Claims = Mapping[str, Any]
NO_ONE: Claims = MappingProxyType({})
"""Claims of a caller without a token."""
MISSING = "B8036"
"""Code of a request whose token lacks a required claim."""


def claimed_columns(table: Input, claims: Claims) -> dict[str, Any]:
    """Return the values of an input's columns that come from the caller's token. Raises B8036."""
    return {
        name: claim_value(found, table.schema[name].type, claims, f"`{table.name}.{name}`")
        for name, found in table.metadata.items()
        if found.kind is MetadataKind.CLAIM
    }


def claim_value(requested: Metadata, type_: pa.DataType, claims: Claims, what: str) -> Any:
    """Return one claim as a value of the Arrow type. Errors name it by `what`. Raises B8036."""
    found: Any = claims
    for step in requested.claim:
        found = found.get(step) if isinstance(found, Mapping) else None
    if found is None:
        hint = (
            "send `Authorization: Bearer TOKEN` with a token that has it; "
            "[api.jwt] in belvedere.toml says which tokens are accepted"
        )
        raise fail(MISSING, f"{what} needs {requested.meaning}", hint=hint)
    try:
        return convert(found, type_)
    except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException):
        raise fail(
            MISSING, f"{what} needs {requested.meaning} as {a_type(type_)}", hint="the token has another type there"
        ) from None
