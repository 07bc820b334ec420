"""The type of every call equals the one of Spark's analyzer; each exception has a reason."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from belvedere.compiler import compile_script
from tests.depth import at_night
from tests.functions.beside_spark import NAMES, TABLE, calls_of, our_types, spark_types

OTHERWISE = {
    **dict.fromkeys(
        ("second", "minute", "hour", "day", "week", "month", "quarter", "year"), "rounds a time down, as SQRL says"
    ),
    "decode": "pairs of equal types keep them",
    "arrays_zip": "fields have numbers for names",
    "regr_avgx": "an average is of DOUBLEs",
    "regr_avgy": "an average is of DOUBLEs",
    "approx_percentile": "a text stays one",
    "percentile_approx": "a text stays one",
    **dict.fromkeys(("ceil", "ceiling", "floor"), "a text is cut as a DOUBLE by Spark"),
    "elt": "bytes are read as text",
    "nanvl": "of two FLOATs a DOUBLE",
    "pmod": "of a literal as of any INT",
    "try_subtract": "an interval of whole days is one of DAY TO SECOND",
}
"""Functions whose type differs from Spark's for some arguments, and in what."""
REFUSED = {
    **dict.fromkeys(("make_interval", "try_make_interval"), "a view has no column of months and days"),
    **dict.fromkeys(("max_by", "min_by"), "a third argument is not maintained"),
    **dict.fromkeys(("avg", "mean", "sum", "try_avg", "try_sum"), "a time is no number"),
    **dict.fromkeys(("trunc", "date_trunc"), "the unit is a constant, or bounds could not follow it"),
    **dict.fromkeys(
        ("convert_timezone", "from_utc_timestamp", "to_utc_timestamp"), "of a TIMESTAMP and a zone that there is"
    ),
    **dict.fromkeys(
        ("transform_values", "transform_keys", "zip_with", "map_zip_with", "exists", "forall"),
        "a lambda is written as one",
    ),
    **dict.fromkeys(("concat", "map_concat"), "without arguments there is nothing to join"),
    "instr": "the fourth argument is not printed for Spark",
    "try_subtract": "a view has no column of an interval",
    **dict.fromkeys(("parse_json", "try_parse_json", "to_variant_object"), "a view has no column of a VARIANT"),
    "any": "write bool_or",
}
"""Functions of which some calls are refused that Spark takes, and why."""
LEFT_TO_SPARK = frozenset(
    (
        "bitmap_count schema_of_csv schema_of_json schema_of_xml xpath xpath_boolean xpath_double xpath_float "
        "xpath_int xpath_long xpath_number xpath_short xpath_string approx_percentile arg_max arg_min argmax argmin "
        "array_append array_insert array_position array_prepend array_remove array_repeat array_sort collect date_add "
        "date_diff dateadd datediff decode flatten format_number from_utc_timestamp nth_value overlay "
        "percentile_approx pmod sequence sort_array timestampadd timestampdiff to_binary to_char to_utc_timestamp "
        "to_varchar try_add try_divide try_element_at try_mod try_multiply try_subtract week"
    ).split()
)
"""Functions of which Spark refuses calls that `check` accepts: `check --spark` and `run` tell (B3070)."""
IN_THE_DAY = slice(0, None, 60)
"""Of the calls of all functions, those of the normal run."""


@pytest.mark.spark
@pytest.mark.parametrize("part", [IN_THE_DAY, *at_night([slice(n, None, 20) for n in range(20)])], ids=str)
def test_types_are_those_of_spark(spark: Any, part: slice) -> None:
    calls = [call for name in NAMES for call in calls_of(name)][part]
    ours = {call: type_ for call, type_ in our_types(calls).items() if type_ is not None or _name(call) not in REFUSED}
    theirs = spark_types(spark, ours)
    other = {
        c: (_plain(ours[c]), _plain(t)) for c, t in theirs.items() if t is not None and _plain(t) != _plain(ours[c])
    }
    assert {c: types for c, types in other.items() if _name(c) not in OTHERWISE or types[0] is None} == {}
    assert {
        c for c, t in theirs.items() if t is None and ours[c] is not None and _name(c) not in LEFT_TO_SPARK
    } == set()


def test_every_function_of_the_table_is_known_by_its_name() -> None:
    """The parser has classes of its own for more functions with each version."""
    unknown = []
    for name in NAMES:
        for call in islice(calls_of(name), 1):
            script = f"{TABLE}V := SELECT id, {call} AS v FROM T;"
            unknown += [name for d in compile_script(script).diagnostics if d.code == "B3005"]
    assert unknown == []


def _name(call: str) -> str:
    return call.partition("(")[0]


def _plain(type_: str | None) -> str | None:
    return None if type_ is None else type_.replace(" ", "").replace("`", "")
