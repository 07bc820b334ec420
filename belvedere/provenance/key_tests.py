"""Key values of a row as tests of its columns.

In: values from users and requests. Out: a predicate on a relation's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.errors import fail
from belvedere.functions.spark_types import type_text
from belvedere.provenance.constants import row_tests
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.schema import TIMESTAMP, Column
from belvedere.values.decimals import decimals_of
from belvedere.values.input_rows import as_instant


def key_tests(catalog: Catalog, id_: str, key: Mapping[str, Any]) -> RowPredicate:
    """Return the predicate for a row with these values by column name.

    Raises B2002 for an unknown column, B8114 if `key` is not a mapping from names to values.
    """
    if not isinstance(key, Mapping):
        hint = 'write {"column": value}; conditions are for `belvedere why`'
        raise fail("B8114", f"a key must be a dict of the key columns' values, not {key!r}", hint=hint)
    schema, name = catalog.schema_of(id_), catalog.name_of(id_)
    found: dict[str, Any] = {}
    for given, value in key.items():
        known = schema.find(given)
        if known is None:
            hint = f"it has {', '.join(c.name for c in schema.visible)}"
            raise fail("B2002", f'"{name}" has no column "{given}"', hint=hint)
        found[known.name] = typed_value(known, value)
    return RowPredicate(row_tests(found, {n: schema[n].type for n in found}))


def typed_value(known: Column, value: Any) -> Any:
    """Convert a value to the type of its column. Raises B8113 if it does not fit."""
    try:
        if isinstance(value, str) and known.type == TIMESTAMP:
            return as_instant(value)
        if isinstance(value, str) and pa.types.is_decimal(known.type):
            return decimals_of(pa.array([value]), known.type)[0].as_py()
        if isinstance(value, str) and not pa.types.is_string(known.type):
            return pa.array([value]).cast(known.type)[0].as_py()
        return pa.array([value], known.type)[0].as_py()
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:  # Arrow's errors are subclasses
        raise fail("B8113", f"`{known.name}` is {type_text(known.type)}, not {value!r}", detail=str(error)) from None
