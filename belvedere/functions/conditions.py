"""Functions of values of any type: conditions, NULL, hashes: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.functions import sqlpp_functions as wb
from belvedere.functions.function import Function, function, stored
from belvedere.functions.spark_types import BOOLEAN, INT32, INT64, STRING, common_type
from belvedere.functions.sqlpp_functions import window_by
from belvedere.functions.type_rules import (
    after_first,
    all_common,
    chosen_text,
    greatest,
    if_comparable,
    no_map,
    nth,
    number_or_text,
)


def _anything(type_: pa.DataType) -> bool:
    return True


CONDITIONS: tuple[Function, ...] = (
    function("Coalesce", "coalesce:1+ ifnull:2 nvl:2", all_common, window_by("COALESCE:1+", wb.unify)),
    function("Elt", "elt:2+", chosen_text),
    function("EqualNull", "equal_null:2", BOOLEAN, total=True),
    function("Greatest", "greatest:2+", greatest, window_by("GREATEST:1+", wb.unify), total=True),
    function("hash", "hash:1+", INT32, first=no_map, total=True),
    function(
        "isnotnull",
        "isnotnull:1",
        BOOLEAN,
        total=True,
        stored=stored(_anything, sqlite="({0} IS NOT NULL)", postgres="({0} IS NOT NULL)"),
    ),
    function(
        "isnull",
        "isnull:1",
        BOOLEAN,
        total=True,
        stored=stored(_anything, sqlite="({0} IS NULL)", postgres="({0} IS NULL)"),
    ),
    function("Least", "least:2+", greatest, window_by("LEAST:1+", wb.unify), total=True),
    function("Nullif", "nullif:2", if_comparable, window_by("NULL_IF:2", wb.first, also="NULLIF")),
    function("nullifzero", "nullifzero:1", nth(0), first=number_or_text),
    function("Nvl2", "nvl2:3", after_first),
    function("Typeof", "typeof:1", STRING),
    function("xxhash64", "xxhash64:1+", INT64, first=no_map, total=True),
    function("zeroifnull", "zeroifnull:1", lambda args: common_type(args[0], INT32) if args else None),
)
