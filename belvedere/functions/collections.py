"""Functions of arrays and maps: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions import sqlpp_functions as wb
from belvedere.functions.function import Function, function
from belvedere.functions.spark_types import BOOLEAN, INT32, INT64, STRING, is_array
from belvedere.functions.sqlpp_functions import window_by
from belvedere.functions.type_rules import (
    all_common,
    array_of,
    element,
    entries_of,
    flattened,
    if_member,
    inserted,
    keys_of,
    map_from_entries,
    nth,
    paired,
    plain,
    sequence,
    sorted_array,
    values_of,
    widened,
    zipped,
)

COLLECTIONS: tuple[Function, ...] = (
    function("Array", "array:0+", array_of, total=True),
    function("array_repeat", "array_repeat:2", lambda args: pa.list_(args[0]) if args else None),
    function("array_union", "array_union:2", paired),
    function("ArrayAppend", "array_append:2", widened),
    function("ArrayCompact", "array_compact:1", nth(0), first=is_array),
    function("ArrayContains", "array_contains:2", if_member(BOOLEAN), window_by("ARRAY_CONTAINS:2", BOOLEAN)),
    function("ArrayDistinct", "array_distinct:1", nth(0), window_by("ARRAY_DISTINCT:1", wb.first), first=is_array),
    function("ArrayExcept", "array_except:2", paired),
    function("ArrayInsert", "array_insert:3", inserted),
    function("ArrayIntersect", "array_intersect:2", paired),
    function("ArrayMax", "array_max:1", element, first=is_array),
    function("ArrayMin", "array_min:1", element, first=is_array),
    function("ArrayPosition", "array_position:2", if_member(INT64)),
    function("ArrayPrepend", "array_prepend:2", widened),
    function("ArrayRemove", "array_remove:2", widened),
    function("arrays_overlap", "arrays_overlap:2", BOOLEAN),
    function(
        "array_size",
        "array_size:1",
        INT32,
        window_by("ARRAY_LENGTH:1", INT64, wb.LENGTH, also="ARRAY_SIZE"),
        window_by("LEN:1", INT64, wb.LENGTH),
        first=is_array,
    ),
    function("ArraySize", "size:1", INT32),
    function("ArraySlice", "slice:3", nth(0)),
    function(
        "ArraySort", "array_sort:1-2 sort_array:1-2", sorted_array, window_by("ARRAY_SORT:1", wb.first), first=is_array
    ),
    function("ArraysZip", "arrays_zip:0+", zipped),
    function("cardinality", "cardinality:1", INT32),
    function("Exists", "exists:2", BOOLEAN),
    function("Flatten", "flatten:1", flattened),
    function("forall", "forall:2", BOOLEAN),
    function("GenerateSeries", "sequence:2-3", sequence),
    function("get", "get:2", element),
    function("map_concat", "map_concat:0+", all_common),
    function("map_entries", "map_entries:1", entries_of),
    function("map_filter", "map_filter:2"),
    function("map_values", "map_values:1", values_of),
    function("map_zip_with", "map_zip_with:3"),
    function("MapContainsKey", "map_contains_key:2", BOOLEAN),
    function("MapFromEntries", "map_from_entries:1", map_from_entries),
    function("MapKeys", "map_keys:1", keys_of),
    function("sentences", "sentences:1-3", pa.list_(pa.list_(STRING)), first=plain),
    function("transform_keys", "transform_keys:2"),
    function("transform_values", "transform_values:2"),
    function("try_element_at", "try_element_at:2", element),
    function("zip_with", "zip_with:3"),
)
